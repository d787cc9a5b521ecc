"""Plugins from plain tables and back: checked against their attrs fields, with messages that name the key."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from datetime import date, time
from enum import Enum
from itertools import chain
from numbers import Integral, Real
from operator import index
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin

import attrs
import numpy as np
from attrs import frozen

from fredfw.answers import FAILURES, explain, whose
from fredfw.errors import FredfwError, InputError, PluginError, UnknownNameError, nearest
from fredfw.files import File, Files
from fredfw.plugin import schema
from fredfw.tables import as_table, check_keys
from fredfw.units import LEAST, MOST, Unit, render

if TYPE_CHECKING:
    from fredfw.plugin.registry import Registry

T = TypeVar("T")

Registries = Callable[[], "Sequence[Registry[Any]]"]
"""Returns the registries in which plugins are looked up that a field of another plugin names."""

_SUGGESTED = {  # units for a number that has none; bytes need none, as in nccl-tests
    Unit.SECONDS: ("ns", "us"),
    Unit.BYTES_PER_SECOND: ("GB/s", "Gbps"),
    Unit.FLOPS: ("TFLOP/s",),
    Unit.JOULES: ("mJ",),
    Unit.JOULES_PER_BYTE: ("pJ/B", "pJ/bit"),
}
_USUAL = (1e-3, 1e6)  # others are probably in the SI unit already
_LARGEST = 2**63 - 1  # what the indices of arrays can hold, on every platform


def build(
    cls: type[T],
    mapping: Mapping[str, Any],
    *,
    key_prefix: str = "",
    registries: Registries = tuple,
    folder: Path | None = None,
) -> T:
    """Return an instance of an attrs class, configured by a table; ``PluginError`` where the class cannot be.

    Values have the types of the fields; only an integral float may be an integer, and a list a tuple or a set. A field
    with a converter gets its value as it is. Tables fill fields whose type is an attrs class. A field whose type is an
    interface of plugins, such as ``Topology``, takes what ``choose`` takes, of the ``registries``. Files are relative
    to ``folder``, by default the working directory. Messages name ``key_prefix``, the path of the table.
    """
    with _placed(key_prefix):
        return _Reader(registries, folder).build(cls, mapping)


def choose(
    value: object,
    registry: Registry[T],
    *,
    key_prefix: str = "",
    registries: Registries = tuple,
    folder: Path | None = None,
) -> T:
    """Return the configured plugin that ``value`` names: its name, or a table of its name and its fields."""
    with _placed(key_prefix):
        return _Reader(registries, folder).choose(value, registry)


def from_text(cls: type[T], texts: Mapping[str, str], *, key_prefix: str = "", registries: Registries = tuple) -> T:
    """Return an instance of an attrs class, configured by texts such as those of ``--set key=value``."""
    settings = schema.settings(cls)
    values = {key: _read(text, settings[key].hint if key in settings else Any) for key, text in texts.items()}
    with _placed(key_prefix):
        check_units(cls, values)
        configured = _Reader(registries, None).build(cls, values)
        check_units(cls, values, configured)  # once more, for what it holds
    return configured


def parts(plugins: Iterable[Any]) -> Iterator[Any]:
    for plugin in plugins:
        yield plugin
        for one in attrs.fields(type(plugin)):
            value = getattr(plugin, one.name)
            for inner in value if isinstance(value, list | tuple) else [value]:
                if attrs.has(type(inner)) and isinstance(getattr(type(inner), "name", None), str):
                    yield from parts([inner])


def files(plugins: Iterable[Any]) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for one in chain.from_iterable(attrs.astuple(plugin, recurse=False) for plugin in plugins):
        if isinstance(one, File | Files):
            found[repr(one)] = {"path": _plain(one), "sha256": one.digest}
    return list(found.values())


def check_units(cls: type, values: Mapping[str, Any], configured: Any = None) -> None:
    """Make sure that numbers that were typed have units, for 450 may mean GB/s or Gbps; 0 and bytes need none."""
    settings = schema.settings(cls)
    for key, value in values.items():
        unit = settings[key].attribute.metadata.get("unit") if key in settings else None
        for one in value if isinstance(value, list) else [value]:
            if unit not in _SUGGESTED or isinstance(one, bool) or not isinstance(one, int | float):
                continue
            if LEAST <= one <= MOST:  # the field itself refuses others
                likely = _USUAL[0] <= one < _USUAL[1]
                forms = " or ".join(f"{one:g}{suffix}" for suffix in _SUGGESTED[unit]) if likely else render(one, unit)
                raise InputError(f"{one!r} has no unit", key=key, accepted=f"a number with its unit, such as {forms}")
        inner = getattr(configured, key, None)
        if isinstance(value, Mapping) and attrs.has(type(inner)):
            with _placed(key):
                check_units(type(inner), value, inner)


def unstructure(instance: Any) -> dict[str, Any]:
    """Return the configuration of an attrs instance as JSON-ready plain data, of which ``build`` makes an equal one."""
    plain = {}
    for one in attrs.fields(type(instance)):
        if one.init and one.alias is not None:
            try:
                plain[one.alias] = _plain(getattr(instance, one.name))
            except TypeError as error:
                raise PluginError(f"field {one.name!r} of {type(instance).__qualname__} {error}") from None
    return plain


@frozen
class _Reader:
    """Reads values; they may name plugins in ``registries``, and files relative to ``folder``."""

    registries: Registries
    folder: Path | None

    def choose(self, value: object, registry: Registry[T]) -> T:
        options = dict(value) if isinstance(value, Mapping) else {"name": value}
        name = options.pop("name", None)
        if not isinstance(name, str):
            raise InputError(f"{value!r} does not name a plugin", accepted="a name, or { name = ..., ... }")
        return self.build(registry.get(name), options)

    def build(self, cls: type[T], mapping: Any) -> T:
        settings = schema.settings(cls)
        check_keys(as_table(mapping, "", accepted=f"a table of {', '.join(settings) or 'no keys'}"), settings, "")
        for key, setting in settings.items():
            if setting.required and key not in mapping:
                raise InputError("is missing", key=key, accepted=setting.accepted)
        arguments = {key: self._value(value, settings[key]) for key, value in mapping.items()}
        try:
            return cls(**arguments)
        except FredfwError:
            raise
        except (TypeError, ValueError) as error:  # from validators and converters that are not ours
            reason = str(error.args[0]) if error.args else type(error).__name__
            culprit = _culprit(reason, settings, arguments)
            if culprit is None:
                raise InputError(reason) from error
            message = f"{arguments[culprit]!r} is refused: {reason}"
            raise InputError(message, key=culprit, accepted=settings[culprit].accepted) from error
        except FAILURES as error:  # from what cannot mean the value
            reason = explain(error, cls.__module__)
            raise PluginError(f"{whose(cls)}: {cls.__qualname__} cannot be made of {arguments!r}: {reason}") from error

    def _value(self, value: Any, setting: schema.FieldInfo) -> Any:
        try:
            located = setting.attribute.metadata.get("located")
            if located is not None and value is not None:
                return located(value, self.folder)
            return value if setting.attribute.converter is not None else self._convert(value, setting.hint)
        except InputError as error:
            # It is about the whole value, and the field says more about that than the type.
            if error.key is None and not isinstance(error, UnknownNameError):
                error.accepted = setting.accepted
            error.at(key=setting.name)
            raise

    def _convert(self, value: Any, hint: Any) -> Any:
        origin, arguments = get_origin(hint), get_args(hint)
        if hint in (Any, object):
            return value
        if origin in schema.UNIONS:
            return self._convert_union(value, hint)
        if origin is Literal:
            if value in arguments:
                return value
            raise _unknown(value, hint, arguments)
        if hint is bool and isinstance(value, bool):
            return value
        if hint in (int, float):
            return _convert_number(value, hint)
        kind = origin or hint
        if not isinstance(kind, type):
            return value
        if issubclass(kind, Enum) and not isinstance(value, kind):
            for one in kind:
                if one.value == value:
                    return one
            raise _unknown(value, hint, [one.value for one in kind])
        if attrs.has(kind) and not isinstance(value, kind):
            return self.build(kind, value)
        if schema.is_interface(kind) and isinstance(value, str | Mapping):
            registry = next((one for one in self.registries() if one.interface is kind), None)
            if registry is not None:
                return self.choose(value, registry)
        if issubclass(kind, Sequence | Set) and kind is not str and isinstance(value, list | tuple | Set):
            return self._convert_items(value, hint)
        if issubclass(kind, Mapping) and isinstance(value, Mapping):
            return {key: self._inside(str(key), one, arguments[1] if arguments else Any) for key, one in value.items()}
        if isinstance(value, kind) and not isinstance(value, bool):
            return value
        raise _mismatch(value, hint)

    def _convert_union(self, value: Any, hint: Any) -> Any:
        members = get_args(hint)
        if value is None and NoneType in members:
            return None
        if type(value) in members:
            return self._convert(value, type(value))
        candidates = [one for one in members if one is not NoneType]
        if len(candidates) == 1:
            return self._convert(value, candidates[0])
        for one in candidates:
            try:
                return self._convert(value, one)
            except InputError:
                continue
        raise _mismatch(value, hint)

    def _convert_items(self, value: Any, hint: Any) -> Any:
        kind, arguments = get_origin(hint) or hint, get_args(hint)
        if kind is tuple and arguments and arguments[-1] is not ...:
            if len(value) != len(arguments):
                raise _mismatch(value, hint)
            inner = arguments
        else:
            inner = (arguments[0] if arguments else Any,) * len(value)
        items = (self._inside(f"[{position}]", one, inner[position]) for position, one in enumerate(value))
        if kind in (list, set):
            return kind(items)
        return frozenset(items) if issubclass(kind, Set) else tuple(items)

    def _inside(self, place: str, value: Any, hint: Any) -> Any:
        with _placed(place):
            return self._convert(value, hint)


def _culprit(reason: str, settings: Mapping[str, schema.FieldInfo], arguments: Mapping[str, Any]) -> str | None:
    for key, value in arguments.items():
        attribute = settings[key].attribute
        converter: Any = attribute.converter
        if f"'{attribute.name}' must" in reason:  # how the validators of attrs begin
            return key
        # One that takes more than a value is ours, and names its key itself.
        if converter is not None and not isinstance(converter, attrs.Converter):
            try:
                converter(value)
            except (TypeError, ValueError):
                return key
    return None


def _convert_number(value: Any, kind: type) -> int | float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise _mismatch(value, kind)
    if kind is int and isinstance(value, Integral):
        return _checked(index(value), value)
    try:
        number = float(value)
    except OverflowError:  # an integer beyond the largest float
        number = math.inf
    if not math.isfinite(number):
        raise InputError(f"{value!r} is not finite", accepted=schema.phrase(kind))
    if kind is float:
        return number
    if number.is_integer():
        return _checked(int(number), value)
    raise _mismatch(value, kind)


def _checked(number: int, value: Any) -> int:
    if abs(number) > _LARGEST:
        shown = repr(value) if isinstance(value, float) or abs(number) < 10**30 else "the number"
        raise InputError(f"{shown} is too large, more than 2^63 - 1", accepted=f"an integer of at most {_LARGEST}")
    return number


@contextmanager
def _placed(key: str) -> Iterator[None]:
    """Add ``key`` to the place of an error, unless that is about what is in a file: it has a place in there."""
    try:
        yield
    except InputError as error:
        if not error.file:
            error.at(key=key)
        raise


def _mismatch(value: Any, hint: Any) -> InputError:
    expected = schema.phrase(hint)
    return InputError(f"{value!r} is not {expected}", accepted=expected)


def _unknown(value: Any, hint: Any, known: Sequence[Any]) -> InputError:
    hint_text = nearest(value, map(str, known)) if isinstance(value, str) else ""
    return InputError(f"{value!r} is not known{hint_text}", accepted=schema.phrase(hint))


def from_toml(text: str) -> Any:
    """Return a TOML value, or else the text; ``8, 8`` is a list, and items of one need no quotes, ``[8 GB/s]``."""
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):  # more than TOMLDecodeError: integers of many digits, deep nesting
        return _list_without_quotes(text)
    # A date, or a second line smuggled in, is text that merely looks like TOML.
    return text if len(parsed) > 1 or isinstance(parsed["value"], date | time) else parsed["value"]


def _list_without_quotes(text: str) -> Any:
    stripped = text.strip()
    inside = stripped[1:-1] if stripped[:1] == "[" and stripped[-1:] == "]" else ""
    if inside.strip() and not set(inside) & set("[]{}'\"\n"):  # nested lists and quotes are TOML's business
        return _items(inside)
    if "," in text:
        values = _items(text)
        if all(isinstance(one, int | float) for one in values):
            return values
    return text


def _items(text: str) -> list[Any]:
    return [from_toml(part.strip()) for part in text.removesuffix(",").split(",")]


def _read(text: str, hint: Any) -> Any:
    value = from_toml(text)
    members = get_args(hint) if get_origin(hint) in schema.UNIONS else (hint,)
    if not isinstance(value, str):
        return text if all(map(_is_text, members)) else value
    kinds = [get_origin(one) or one for one in members]
    listed = any(isinstance(kind, type) and issubclass(kind, Sequence | Set) and kind is not str for kind in kinds)
    return _items(text) if listed and "," in value and value == text else value


def _is_text(hint: Any) -> bool:
    if get_origin(hint) is Literal:
        return all(isinstance(choice, str) for choice in get_args(hint))
    return hint in (File, Files, NoneType) or (isinstance(hint, type) and issubclass(hint, str))


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return _plain(value.value)
    if isinstance(value, File):
        return value.path
    if isinstance(value, Files):
        return list(value.paths)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, Set):
        return sorted(map(_plain, value))
    if isinstance(value, Sequence):
        return [_plain(one) for one in value]
    if attrs.has(type(value)):
        name = getattr(type(value), "name", None)
        # What is selected by a name is a plugin; a field called name is no text of the class.
        if isinstance(name, str):
            # A table inside of a table leaves out what is not given: TOML cannot say none.
            return {"name": name, **{key: one for key, one in unstructure(value).items() if one is not None}}
        return unstructure(value)
    raise TypeError(f"holds {value!r}, which is not plain data")
