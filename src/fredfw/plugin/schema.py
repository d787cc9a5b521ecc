"""The configuration schema of a plugin, derived from its attrs fields: for the command line, the docs and messages."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from enum import Enum
from functools import lru_cache
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import attrs
from attrs import frozen

from fredfw import units
from fredfw.answers import explain
from fredfw.errors import PluginError

UNIONS = (Union, UnionType)
_PHRASES: Mapping[Any, str] = {bool: "true or false", int: "an integer", float: "a number", str: "text"}


@frozen
class FieldInfo:
    """One configuration field, as the code that fills it and as people see it."""

    name: str  # key in a table of the experiment file, and of ``--set``
    attribute: attrs.Attribute[Any]
    hint: Any

    @property
    def accepted(self) -> str:
        """What may be given: as declared, or else by the type and the limits of its validators."""
        declared = self.attribute.metadata.get("accepted")
        if declared is not None:
            return str(declared)
        limits = list(_limits(self.attribute.validator))
        kind = phrase(self.hint)
        # What limits a plain value says what kind of value it is, too.
        return ", ".join(limits if limits and kind in _PHRASES.values() else [kind, *limits])

    @property
    def help(self) -> str:
        return str(self.attribute.metadata.get("help", ""))

    @property
    def type(self) -> str:
        return type_text(self.hint)

    @property
    def unit(self) -> str | None:
        unit = self.attribute.metadata.get("unit")
        return None if unit is None else str(unit.value)

    @property
    def required(self) -> bool:
        return self.attribute.default is attrs.NOTHING

    @property
    def default(self) -> str | None:
        """As it may be written; ``None`` for a required field. Raises ``PluginError`` where it cannot be made."""
        default: Any = self.attribute.default
        if self.required:
            return None
        if isinstance(default, attrs.Factory):  # type: ignore[arg-type]  # typed as a function, it is a class
            if default.takes_self:
                return "computed"
            try:
                default = default.factory()
            except Exception as error:  # it is code of the plugin
                message = f"the default of {self.attribute.name!r} cannot be made: {explain(error, '')}"
                raise PluginError(message) from error
        unit = self.attribute.metadata.get("unit")
        if unit is not None and default is not None:
            # As many digits as a number may have been written with.
            return default if isinstance(default, str) else units.render(default, unit, precision=12)
        return written(default)


def fields(cls: type) -> tuple[FieldInfo, ...]:
    return tuple(settings(cls).values())


def _settings(cls: Any) -> Mapping[str, FieldInfo]:
    """Return the configuration fields of an attrs class by key; raises ``PluginError`` where it is none."""
    if not attrs.has(cls):
        raise PluginError(f"{cls.__qualname__} is not an attrs class")
    try:
        hints = get_type_hints(cls)
    except Exception as error:  # as above
        told = f"the annotations of {cls.__qualname__} cannot be resolved: {explain(error, cls.__module__)}"
        raise PluginError(f"{told}; what they name must be imported at run time too") from error
    return MappingProxyType(
        {
            one.alias: FieldInfo(one.alias, one, hints.get(one.name, Any))
            for one in attrs.fields(cls)
            if one.init and one.alias is not None
        }
    )


# Annotations are compiled anew each time, which a thousand cells would wait for.
settings: Callable[[Any], Mapping[str, FieldInfo]] = lru_cache(maxsize=1024)(_settings)


def phrase(hint: Any) -> str:
    if hint in _PHRASES:
        return _PHRASES[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in UNIONS:
        return " or ".join(phrase(one) for one in arguments if one is not NoneType)
    if origin is Literal:
        return ", ".join(map(str, arguments))
    kind = origin or hint
    if not isinstance(kind, type):
        return type_text(hint)
    if issubclass(kind, Enum):
        return ", ".join(str(one.value) for one in kind)
    if issubclass(kind, tuple) and arguments and arguments[-1] is not ...:
        return f"a list of {len(arguments)}: {', '.join(phrase(one) for one in arguments)}"
    if issubclass(kind, Sequence | Set):
        return f"a list, each {phrase(arguments[0])}" if arguments else "a list"
    if issubclass(kind, Mapping):
        return f"a table, each value {phrase(arguments[1])}" if arguments else "a table"
    if is_interface(kind):
        return f"the name of a {kind.__name__.lower()}, or {{ name = ..., ... }}"
    return f"a table of {', '.join(settings(kind)) or 'nothing'}" if attrs.has(kind) else type_text(hint)


def is_interface(kind: type) -> bool:
    """Return whether it is an interface of plugins, which are chosen by their ``name``."""
    return inspect.isabstract(kind) and "name" in inspect.get_annotations(kind)


def type_text(hint: Any) -> str:
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is NoneType:
        return "None"
    if hint is ...:
        return "..."
    if origin in UNIONS:
        return " | ".join(map(type_text, arguments))
    if origin is Literal:
        return " | ".join(map(repr, arguments))
    name = str(getattr(origin or hint, "__name__", hint))
    return f"{name}[{', '.join(map(type_text, arguments))}]" if arguments else name


def _limits(validator: Any) -> Iterator[str]:
    accepted = getattr(validator, "accepted", None)
    if isinstance(accepted, str):
        yield accepted
    for part in getattr(validator, "_validators", ()):  # where attrs keeps the parts of a list of validators
        yield from _limits(part)


def written(value: Any) -> str:
    """Return a plain value as it would be written in TOML; ``none`` where it would be left out."""
    if value is None:
        return "none"
    if isinstance(value, Enum):
        return written(value.value)
    if isinstance(value, bool | str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_key(key)} = {written(one)}' for key, one in value.items())}}}"
    return f"[{', '.join(written(one) for one in value)}]" if isinstance(value, Sequence | Set) else str(value)


def _key(name: str) -> str:
    return name if re.fullmatch("[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)
