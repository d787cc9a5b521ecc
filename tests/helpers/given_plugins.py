"""Plugins that are installed or given by hand, and what is said of those that are broken."""

import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

import pytest
from attrs import frozen

from fredfw.errors import PluginError, PluginWarning, UnknownNameError
from fredfw.fabric import Fabric, Topology
from fredfw.plugin import hookimpl
from fredfw.plugin.manager import PluginManager, Switches
from fredfw.plugin.registry import Catalog

T = TypeVar("T")


class Install(Protocol):
    """See the fixture ``install``."""

    def __call__(self, name: str, source: str, *, entry: str = "", point: str = "", points: str = "") -> Path: ...


TOPOLOGY = """
from typing import ClassVar
from attrs import frozen
from fredfw.fabric import Fabric, Topology
from fredfw.plugin import hookimpl

@frozen
class {cls}(Topology):
    name: ClassVar[str] = "{name}"
    def build(self) -> Fabric:
        raise NotImplementedError

@hookimpl
def fredfw_topologies():
    return [{cls}]
"""


def topology(name: str, cls: str = "Acme") -> str:
    """The source of a plugin that registers one topology."""
    return TOPOLOGY.format(name=name, cls=cls)


@frozen
class Loop(Topology):
    name: ClassVar[str] = "loop"

    def build(self) -> Fabric:
        raise NotImplementedError


def only(*names: str, **more: Any) -> Switches:
    """Switches that hide whatever else is installed where the tests run."""
    return Switches(allow=frozenset(names), **more)


def discover(*names: str, **more: Any) -> PluginManager:
    """A manager of the core's own plugins and some others."""
    return PluginManager.discover(only(*names, **more))


def plugin(**functions: Callable[..., object]) -> types.ModuleType:
    module = types.ModuleType("plugin")
    vars(module).update({name: hookimpl(function) for name, function in functions.items()})
    return module


def given(**functions: Callable[..., object]) -> PluginManager:
    """A manager of a plugin that was given by hand, with these hooks."""
    manager = PluginManager()
    manager.register(plugin(**functions), "mine")
    return manager


def warned(call: Callable[[], T]) -> tuple[T, str]:
    """What a call returns, and its only warning."""
    with pytest.warns(PluginWarning) as caught:
        found = call()
    (warning,) = caught
    return found, str(warning.message)


def unknown(catalog: Catalog[Any], name: str) -> str:
    """What is said of a name that no plugin is blamed for."""
    with pytest.raises(UnknownNameError) as error:
        catalog.get(name)
    assert not isinstance(error.value, PluginError)
    return str(error.value)
