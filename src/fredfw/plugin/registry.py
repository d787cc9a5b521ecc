"""What the plugins registered through one hook, by name: classes of one interface, or commands."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import attrs
from attrs import frozen

from fredfw.answers import FAILURES, brief, explain, introduce, module_file
from fredfw.errors import BrokenPluginError, PluginError, UnknownNameError, nearest
from fredfw.plugin import schema
from fredfw.plugin.calls import Calls
from fredfw.plugin.contract import class_violations, mismatch
from fredfw.plugin.origin import LeftOut, Plugin, canonical
from fredfw.terminal import quoted

if TYPE_CHECKING:
    import click

T = TypeVar("T")
V = TypeVar("V")

FIRST_PARTY = {  # names that first-party plugins register, each in a distribution that is called after kind and name
    kind: tuple(names.split())
    for kind, names in {
        "topology": (
            "astra-sim-network cluster dragonfly-plus fat-tree fred fully-connected hyperx infragraph mesh2d "
            "multi-dimensional nccl-topology node-link nvidia-smi-topo optical-ring simai switch torus "
            "twisted-torus"
        ),
        "collective": (
            "bruck forest h-ring hierarchical in-network msccl recursive-halving-doubling ring swing tacos themis "
            "torus-ring tree wrht"
        ),
        "transport": "alpha-beta measured nccl",
        "command": "comet libra trace",
        "exporter": "astra-sim-network html node-link picture",
        "sampler": "optuna",
        "sharing": "roce",
        "workload": "astra-sim-text background chakra cnn dlrm gnmt kineto microbenchmark repurpose transformer",
    }.items()
}


@frozen
class PluginInfo:
    """A registered class or command, as people see it."""

    kind: str  # its interface in words, for example "sharing policy", or "command"
    name: str
    distribution: str | None  # that registered it, where it is installed
    version: str | None
    location: str | None  # file it is defined in, which differs between machines, so it belongs in no result
    description: str = ""


class Catalog(ABC, Generic[V]):
    """What is registered of one kind; iterating yields it in the order of the names.

    What ``hook`` registers is checked at the first look-up, what has an entry point when it is used. What breaks the
    contract is left out alone, and so is a name that several plugins register, lest their order matter.
    """

    wanted: ClassVar[str]  # what a hook returns a sequence of, in words
    elsewhere: ClassVar[str] = ""  # where an unknown name may be defined, as a sentence

    def __init__(self, calls: Calls, kind: str, plural: str) -> None:
        self.kind = kind
        self.hook = f"fredfw_{plural}"
        self.group = f"fredfw.{plural}"  #: Of the entry points.
        self._calls = calls
        self._known: dict[str, tuple[Plugin, V | None]] | None = None  # nothing where it is not imported yet

    @abstractmethod
    def _fits(self, one: object) -> bool:
        """Return whether it is one of ``wanted``."""

    def wrong(self, one: Any) -> str | None:
        """Return how one that fits breaks the contract, as the end of a sentence, or ``None``."""
        return None

    @abstractmethod
    def _summary(self, one: V) -> str:
        """Return what it is, in a line."""

    def __iter__(self) -> Iterator[V]:
        return (one[1] for one in map(self._imported, self.names()) if one is not None)

    def __len__(self) -> int:
        return len(self._entries())

    def __contains__(self, name: object) -> bool:
        return name in self._entries()

    def names(self) -> tuple[str, ...]:
        return tuple(self._entries())

    def get(self, name: str) -> V:
        """Return what is registered as ``name``.

        A broken one that was given by hand, or in strict mode, is a ``PluginError``. Where there is none,
        ``UnknownNameError`` gives the nearest name, or the distribution that would provide it; a ``BrokenPluginError``
        where a plugin that might provide it was left out.
        """
        return self._look_up(name)[1]

    def info(self, name: str) -> PluginInfo:
        """Return where what is registered as ``name`` comes from; raises as ``get`` does."""
        plugin, one = self._entries().get(name) or self._look_up(name)
        if one is None or plugin.hook is not None:
            location, description = plugin.location, plugin.description
        else:
            location = _file(one) or module_file(plugin.module)
            description = self._summary(one)
        return PluginInfo(self.kind, name, plugin.distribution, plugin.version, location, description)

    def infos(self) -> tuple[PluginInfo, ...]:
        return tuple(map(self.info, self.names()))

    def forget(self) -> None:
        self._known = None

    def _look_up(self, name: str) -> tuple[Plugin, V]:
        if not isinstance(name, str):
            raise UnknownNameError(f"{name!r} is not the name of a {self.kind}", accepted=self._listed())
        found = self._imported(name)
        if found is not None:
            return found
        entries, known = self._entries(), self._listed()
        message = f"no {self.kind} {name!r}{nearest(name, entries)}"
        provider = f"fredfw-{self.kind}-{name}" if name in FIRST_PARTY.get(self.kind, ()) else None
        suspects = [one for one in self._calls.left_out(self.hook) if self._may_provide(one, name, provider)]
        message += "".join(f"; {one}" for one in suspects)
        if any(one.broken for one in suspects):
            raise BrokenPluginError(message, accepted=known)
        if provider is not None and not suspects:
            message += f"; the distribution {provider} would provide it, which is not installed"
        elif provider is None and self.elsewhere:
            message += f"{'' if message.endswith('?') else '.'} {self.elsewhere}"
        raise UnknownNameError(message, accepted=known)

    def _listed(self) -> str:
        return ", ".join(map(quoted, self._entries())) or "none is installed"

    @staticmethod
    def _may_provide(left_out: LeftOut, name: str, provider: str | None) -> bool:
        if left_out.name is not None:
            return left_out.name == name
        plugin = left_out.plugin
        if plugin.name == name:
            return True
        if provider is None:  # it could come from any plugin that was to be used
            return left_out.broken
        return plugin.distribution is not None and canonical(plugin.distribution) == provider

    def _imported(self, name: str) -> tuple[Plugin, V] | None:
        """Return what is registered as ``name`` and whose it is, or ``None``; what cannot be used is left out."""
        entries = self._entries()
        if name not in entries:
            return None
        plugin, one = entries[name]
        if one is not None:
            return plugin, one
        found = self._calls.imported(plugin, plugin.load)
        wrong = None if found is None else self._unfit(name, found[0], plugin)
        if wrong is not None:
            self._leave_out(plugin, wrong, name)
        if found is None or wrong is not None:
            del entries[name]
            return None
        if isinstance(found[0], type):
            introduce(found[0], plugin)
        entries[name] = plugin, found[0]
        return plugin, found[0]

    def _unfit(self, name: str, one: Any, plugin: Plugin) -> str | None:
        other = mismatch(one, plugin.module) or mismatch(one, plugin.module.partition(".")[0])
        if other is not None:
            return other
        if not self._fits(one):
            return f"has {brief(one)} as the {self.kind} {name!r}, which is not one of {self.wanted}"
        wrong = self.wrong(one)
        if wrong is None and getattr(one, "name", None) != name:
            wrong = f"has the name {getattr(one, 'name', None)!r}, not {name!r} as its entry point says"
        return None if wrong is None else f"registers the {self.kind} {self._described(one, plugin)}, which {wrong}"

    def _entries(self) -> dict[str, tuple[Plugin, V | None]]:
        if self._known is None:
            offered: dict[str, list[tuple[Plugin, V | None]]] = {}
            for plugin in self._calls.announced(self.hook):
                offered.setdefault(str(plugin.registered), []).append((plugin, None))
            for plugin, one in self._calls.ask(self.hook, self._fits, self.wanted):
                stated = getattr(one, "name", None)
                name = stated if isinstance(stated, str) and stated else None
                wrong = "has no name that is text" if name is None else self.wrong(one)
                if wrong is None and name is not None:
                    if isinstance(one, type):
                        introduce(one, plugin)
                    offered.setdefault(name, []).append((plugin, one))
                else:
                    cause = f"registers the {self.kind} {self._described(one, plugin)}, which {wrong}"
                    self._leave_out(plugin, cause, name)
            kept = {name: self._only(name, rivals) for name, rivals in sorted(offered.items())}
            self._known = {name: one for name, one in kept.items() if one is not None}
        return self._known

    def _described(self, one: V, plugin: Plugin) -> str:
        text = getattr(one, "__qualname__", repr(one))
        file = _file(one)
        return text if file in (None, plugin.location) else f"{text} ({file})"

    def _only(self, name: str, rivals: list[tuple[Plugin, V | None]]) -> tuple[Plugin, V | None] | None:
        """Return the only one of that name, or the core's; leave out all others.

        What a distribution registers through a hook, too, as for older releases, is one.
        """
        hooked = {plugin.distribution for plugin, one in rivals if one is not None and not plugin.by_hand}
        rivals = [rival for rival in rivals if rival[1] is not None or rival[0].distribution not in hooked]
        own = next((one for one in rivals if one[0].is_core), None)
        # One plugin may be there twice. One that was given by hand makes it an error, so it is the one to blame.
        plugins = sorted(dict.fromkeys(plugin for plugin, _ in rivals), key=lambda one: (not one.by_hand, one.name))
        if own is not None:
            for plugin in plugins:
                if plugin is not own[0]:
                    cause = f"registers the {self.kind} {name!r}, a name that {own[0]} has registered"
                    self._leave_out(plugin, cause, name)
            return own
        if len(rivals) == 1:
            return rivals[0]
        first, *others = plugins
        if others:
            both = "both" if len(others) == 1 else "all"
            cause = f"and {' and '.join(map(str, others))} {both} register the {self.kind} {name!r}"
            cause += f", of which all but one must be switched off{_switches(plugins)}"
        else:
            classes = " and ".join(self._described(one, first) for _, one in rivals if one is not None)
            cause = f"registers the {self.kind} {name!r} more than once: {classes}"
        self._leave_out(first, cause, name)
        return None

    def _leave_out(self, plugin: Plugin, cause: str, name: str | None) -> None:
        self._calls.leave_out(LeftOut(plugin, cause, hook=self.hook, name=name))


class Registry(Catalog[type[T]]):
    """The classes of one ``interface`` that are registered; where ``optional``, all their fields have defaults."""

    wanted = "classes"
    elsewhere = "If a file defines it, use fredfw --plugin FILE"

    def __init__(self, calls: Calls, kind: str, plural: str, interface: str, *, optional: bool = False) -> None:
        super().__init__(calls, kind, plural)
        self._interface = interface
        self._optional = optional

    @property
    def interface(self) -> type[T]:
        """Base class of all that may be registered."""
        found: type[T] = getattr(import_module("fredfw"), self._interface)
        return found

    def _fits(self, one: object) -> bool:
        return isinstance(one, type)

    def wrong(self, one: type) -> str | None:
        if not issubclass(one, self.interface):
            return f"is not a subclass of {self.interface.__name__}"
        if undefined := sorted(getattr(one, "__abstractmethods__", ())):
            return f"does not define {', '.join(undefined)}"
        if violations := "; it ".join(class_violations(one, self.interface)):
            return violations
        if not attrs.has(one):
            return "is not an attrs class"
        try:
            schema.settings(one)
        except PluginError as error:
            return f"cannot be configured: {error}"
        if self._optional:
            try:
                one()
            except FAILURES as error:
                return f"cannot be made with its defaults: {explain(error, one.__module__)}"
        return None

    def _summary(self, one: type[T]) -> str:
        # Its own docstring: that of the interface it derives from says nothing about it.
        return inspect.cleandoc(one.__doc__ or "").partition("\n")[0]


class Commands(Catalog["click.Command"]):
    """The commands of the command line that are registered, those of the core among them."""

    wanted = "click commands"

    def hidden(self, name: str) -> bool:
        """Return whether help does not list the command ``name``, as far as is known before it is imported."""
        _, command = self._entries()[name]
        return command is not None and command.hidden

    def _fits(self, one: object) -> bool:
        import click  # costs nothing here: the code that made the command has imported it

        return isinstance(one, click.Command)

    def _summary(self, one: click.Command) -> str:
        return one.get_short_help_str(limit=200)


def _file(one: Any) -> str | None:
    return module_file(getattr(one if isinstance(one, type) else one.callback, "__module__", None))


def _switches(plugins: Sequence[Plugin]) -> str:
    installed = [one.distribution for one in plugins if one.distribution is not None]
    ways = [f"FREDFW_DISABLE_PLUGINS={' or '.join(installed)}"] if installed else []
    ways += [f"drop {one.name} from `plugins` and --plugin" for one in plugins if one.digest is not None]
    return f": {', or '.join(ways)}" if ways else ""
