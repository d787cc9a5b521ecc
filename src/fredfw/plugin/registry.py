"""What the plugins registered through one hook, by name: classes of one interface, or commands."""

from __future__ import annotations

import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import attrs
from attrs import frozen

from fredfw.errors import BrokenPluginError, PluginError, UnknownNameError, nearest

if TYPE_CHECKING:
    from importlib.metadata import Distribution

    import click

T = TypeVar("T")
V = TypeVar("V")

# Names that first-party plugins register. The distribution that registers one is called after its kind and name.
FIRST_PARTY = {
    "topology": ("fat-tree", "fred", "fully-connected", "mesh2d", "optical-ring", "switch", "torus"),
    "collective": (
        "bruck",
        "h-ring",
        "hierarchical",
        "in-network",
        "recursive-halving-doubling",
        "ring",
        "torus-ring",
        "tree",
        "wrht",
    ),
    "workload": ("cnn", "microbenchmark", "transformer"),
}


@frozen(eq=False)
class Plugin:
    """A module or object that implements hooks, and where it comes from.

    Args:
        name: Of its entry point, or the one it was registered under.
        module: Dotted name of the module it is, or is defined in.
        package: The installed distribution it belongs to; ``None`` if it was registered in process.
    """

    name: str
    module: str
    package: Distribution | None = None

    # Looked up once: each look-up reads all of the distribution's metadata, which takes a millisecond.
    @cached_property
    def distribution(self) -> str | None:
        """Name of its distribution."""
        return None if self.package is None else self.package.name

    @cached_property
    def version(self) -> str | None:
        """Version of its distribution."""
        return None if self.package is None else self.package.version

    def __str__(self) -> str:
        origin = "registered in process" if self.package is None else f"{self.distribution} {self.version}"
        return f"plugin {self.name!r} ({origin})"


@frozen
class LeftOut:
    """A plugin that is installed but not used, or not for one hook.

    Args:
        plugin: Which.
        cause: Why, as the end of a sentence that starts with the plugin.
        broken: Whether it was to be used.
        hook: The only hook that is affected; ``None`` for all.
    """

    plugin: Plugin
    cause: str
    broken: bool = True
    hook: str | None = None

    def __str__(self) -> str:
        return f"{self.plugin} {self.cause}"


@frozen
class PluginInfo:
    """A registered class or command, as people see it.

    Args:
        kind: Its interface in words, for example ``sharing policy``; ``command`` for a command.
        name: What it is selected by.
        distribution: Installed distribution that registered it, or ``None``.
        version: Of that distribution, or ``None``.
        location: File it is defined in, or ``None``. Differs between machines, so it belongs in no result.
    """

    kind: str
    name: str
    distribution: str | None
    version: str | None
    location: str | None


class Catalog(ABC, Generic[V]):
    """What is registered of one kind; iterating yields it in the order of the names.

    What plugins offer is asked for at the first look-up and checked then.

    Args:
        kind: The kind in words.
        offers: Returns what the plugins offer now.
        left_out: Returns the plugins that might have offered more.
    """

    def __init__(
        self, kind: str, offers: Callable[[], Iterable[tuple[Plugin, Any]]], left_out: Callable[[], Iterable[LeftOut]]
    ) -> None:
        self.kind = kind
        self._offers = offers
        self._left_out = left_out
        self._known: dict[str, tuple[Plugin, V]] | None = None

    @abstractmethod
    def _check(self, plugin: Plugin, one: Any) -> str:
        """Return the name of what is offered; raises ``PluginError`` if it breaks the contract."""

    @abstractmethod
    def _module(self, one: V) -> str | None:
        """Return the name of the module that defines it."""

    def __iter__(self) -> Iterator[V]:
        return (one for _, one in self._entries().values())

    def __len__(self) -> int:
        return len(self._entries())

    def __contains__(self, name: object) -> bool:
        return name in self._entries()

    def names(self) -> tuple[str, ...]:
        """Return all names, sorted."""
        return tuple(self._entries())

    def get(self, name: str) -> V:
        """Return what is registered as ``name``.

        Raises:
            UnknownNameError: There is none; gives the nearest known name, and the distribution that would provide it if
                that is known. It is a ``BrokenPluginError`` where a plugin that might provide it was left out.
            PluginError: What a plugin registered breaks the contract.
        """
        return self._look_up(name)[1]

    def info(self, name: str) -> PluginInfo:
        """Return where that which is registered as ``name`` comes from; raises as ``get`` does."""
        plugin, one = self._look_up(name)
        location = getattr(sys.modules.get(self._module(one) or plugin.module), "__file__", None)
        return PluginInfo(self.kind, name, plugin.distribution, plugin.version, location)

    def infos(self) -> tuple[PluginInfo, ...]:
        """Return ``info`` of all names."""
        return tuple(map(self.info, self.names()))

    def forget(self) -> None:
        """Ask the plugins again at the next look-up."""
        self._known = None

    def _look_up(self, name: str) -> tuple[Plugin, V]:
        entries = self._entries()
        if name in entries:
            return entries[name]
        message = f"no {self.kind} {name!r}{nearest(name, entries)}"
        known = ", ".join(entries)
        provider = f"fredfw-{self.kind}-{name}" if name in FIRST_PARTY.get(self.kind, ()) else None
        suspects = [one for one in self._left_out() if self._may_provide(one, name, provider)]
        for one in suspects:
            message += f"; {one}"
        if any(one.broken for one in suspects):
            raise BrokenPluginError(message, accepted=known)
        if provider is not None and not suspects:
            message += f"; the distribution {provider} would provide it, which is not installed"
        raise UnknownNameError(message, accepted=known)

    @staticmethod
    def _may_provide(left_out: LeftOut, name: str, provider: str | None) -> bool:
        plugin = left_out.plugin
        if plugin.name == name:
            return True
        if provider is None:  # it could come from any plugin that was to be used
            return left_out.broken
        return plugin.distribution is not None and canonical(plugin.distribution) == provider

    def _entries(self) -> dict[str, tuple[Plugin, V]]:
        if self._known is None:
            found: dict[str, tuple[Plugin, V]] = {}
            for plugin, one in self._offers():
                name = self._check(plugin, one)
                if name in found:
                    other, _ = found[name]
                    raise PluginError(
                        f"{other} and {plugin} both register the {self.kind} {name!r}; one of them must be switched off"
                    )
                found[name] = plugin, one
            self._known = dict(sorted(found.items()))
        return self._known


class Registry(Catalog[type[T]]):
    """The classes of one interface that are registered.

    Args:
        kind: The interface in words.
        interface: Base class of all that may be registered.
        offers: Returns the classes that the plugins offer now.
        left_out: Returns the plugins that might have offered more.
    """

    def __init__(
        self,
        kind: str,
        interface: type[T],
        offers: Callable[[], Iterable[tuple[Plugin, type]]],
        left_out: Callable[[], Iterable[LeftOut]],
    ) -> None:
        super().__init__(kind, offers, left_out)
        self._interface = interface

    def _check(self, plugin: Plugin, one: type) -> str:
        def wrong(what: str) -> PluginError:
            return PluginError(f"{plugin}: {one.__qualname__}, registered as {self.kind}, {what}")

        if not issubclass(one, self._interface):
            raise wrong(f"is no subclass of {self._interface.__name__}")
        if undefined := sorted(getattr(one, "__abstractmethods__", ())):
            raise wrong(f"does not define {', '.join(undefined)}")
        if not attrs.has(one):
            raise wrong("is no attrs class")
        name = getattr(one, "name", None)
        if not isinstance(name, str) or not name:
            raise wrong("has no name (a class variable, text)")
        return name

    def _module(self, one: type[T]) -> str:
        return one.__module__


class Commands(Catalog["click.Command"]):
    """The commands of the command line that are registered, those of the core among them."""

    def _check(self, plugin: Plugin, one: click.Command) -> str:
        if not one.name:
            raise PluginError(f"{plugin}: {one!r}, registered as {self.kind}, has no name")
        return one.name

    def _module(self, one: click.Command) -> str | None:
        module: str | None = getattr(one.callback, "__module__", None)
        return module


def canonical(name: str) -> str:
    """Return the normal form of a distribution's name (PyPA specification "Names and normalization")."""
    return re.sub(r"[-_.]+", "-", name).lower()
