"""What is checked of every plugin: its name, its documentation, its configuration and its registration."""

from __future__ import annotations

import inspect
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Generic, TypeVar

from attrs import frozen

from fredfw.plugin import configure, schema
from fredfw.plugin.manager import PluginManager, Registry
from fredfw.testing.conformance import ConformanceError, describe

S = TypeVar("S")

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@frozen(eq=False, kw_only=True)
class Case(Generic[S]):
    """A configured instance, and the module (or object) whose hooks register its class, if that is to be checked."""

    subject: S
    plugin: object = None

    def __str__(self) -> str:
        return describe(self.subject)

    def keeps_the_contract(self) -> None:
        """The class can be registered: it has what its interface asks for, with the parameters of its calls."""
        cls = type(self.subject)
        for registry in PluginManager().registries:
            wrong = registry.wrong(cls) if isinstance(self.subject, registry.interface) else None
            if wrong is not None:
                raise ConformanceError(f"{cls.__qualname__} {wrong}")

    def name_is_valid(self) -> None:
        """The class has a name of small letters, digits and hyphens."""
        name = getattr(type(self.subject), "name", None)
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ConformanceError(
                f"{type(self.subject).__qualname__}.name is {name!r}; give the class a variable name: ClassVar[str] of "
                "small letters and digits, with hyphens between words, such as 'fat-tree'"
            )

    def is_documented(self) -> None:
        """The class has a docstring and every field a help text: what ``fredfw plugins show`` prints."""
        cls = type(self.subject)
        missing = []
        if not inspect.cleandoc(cls.__doc__ or ""):
            missing.append(f"{cls.__qualname__} has no docstring; its first line is what lists and helps show")
        silent = [one.name for one in schema.fields(cls) if not one.help.strip()]
        if silent:
            missing.append(
                f"the fields {', '.join(silent)} do not say what they mean; declare them with help=..., as in "
                "units.option(4, help='NPUs in a row')"
            )
        if missing:
            raise ConformanceError("; and ".join(missing))

    def configuration_round_trips(self) -> None:
        """The configuration can be written as TOML, and gives an equal instance when it is read."""
        cls, plain = type(self.subject), configure.unstructure(self.subject)
        settings = schema.settings(cls)
        text = ""
        for key, value in plain.items():
            if value is not None:
                text += f"{json.dumps(key)} = {_toml(value)}\n"
            elif settings[key].attribute.default is not None:
                raise ConformanceError(f"field {key!r} is None, which TOML cannot say, and None is not its default")
        again = configure.build(cls, tomllib.loads(text), registries=installed)
        compares = "__eq__" in vars(cls)
        if configure.unstructure(again) != plain or (compares and again != self.subject):
            raise ConformanceError(
                f"written as TOML and read again, {self} is {describe(again)}; converters must accept what they "
                "return, and fields must be annotated with the type they hold (a tuple is written as a list)"
            )

    def is_registered(self) -> None:
        """An entry point names the class, or else the plugin implements known hooks only and one of them returns it."""
        if self.plugin is None:
            return
        cls = type(self.subject)
        called = str(getattr(cls, "name", ""))
        if any(called in registry and registry.get(called) is cls for registry in installed()):
            return
        manager = PluginManager()
        manager.register(self.plugin, getattr(self.plugin, "__name__", type(self.plugin).__name__))
        if not any(cls in registry for registry in map(tuple, manager.registries)):
            raise ConformanceError(
                f"no hook of the plugin returns {cls.__qualname__}; for example: @hookimpl def fredfw_topologies(): "
                "return [MyTopology]"
            )


@cache
def installed() -> tuple[Registry[Any], ...]:
    """Return the registries of the installed plugins."""
    return PluginManager.discover().registries


def twin(subject: S) -> S:
    """Return an equal instance, made from the configuration."""
    return configure.build(type(subject), configure.unstructure(subject), registries=installed)


def _toml(value: Any) -> str:
    if isinstance(value, bool | str):
        return json.dumps(value)  # the escapes of JSON are those of TOML
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(one)}" for key, one in value.items()) + "}"
    if isinstance(value, Sequence):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return repr(value)
