"""Finds plugins, loads them one by one, and keeps what they register."""

from __future__ import annotations

import importlib.util
import inspect
import os
import sys
import warnings
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import pluggy
from attrs import frozen

from fredfw.collectives import CollectiveAlgorithm
from fredfw.errors import InputError, PluginError, PluginWarning, UnknownNameError, nearest
from fredfw.fabric import Router, Topology
from fredfw.plugin import spec
from fredfw.plugin.exporter import Exporter
from fredfw.plugin.registry import Commands, LeftOut, Plugin, PluginInfo, Registry, canonical
from fredfw.simulation.sharing import SharingPolicy
from fredfw.workloads import Placement, Workload

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from fredfw.experiment.results import RunResult
    from fredfw.experiment.spec import Experiment

__all__ = ["Commands", "LifecycleHooks", "PluginInfo", "PluginManager", "Registry", "Switches"]

GROUP = "fredfw"
# An allow list is about what is installed beside the core.
_CORE = "fredfw.defaults"


@frozen
class Switches:
    """Which installed plugins are used, and how strictly.

    Plugins are named by their entry point or by their distribution.

    Args:
        strict: Whether a plugin that cannot be used is an error at once, not a warning.
        block: Plugins not to load.
        allow: The only plugins to load beside the core's own; ``None`` for all.
        trace: Gets a text for every call of a hook and its result.
    """

    strict: bool = False
    block: frozenset[str] = frozenset()
    allow: frozenset[str] | None = None
    trace: Callable[[str], None] | None = None

    @classmethod
    def from_environment(
        cls, environ: Mapping[str, str] = os.environ, *, trace: Callable[[str], None] | None = None
    ) -> Switches:
        """Read the environment, the only place that does.

        ``FREDFW_DISABLE_PLUGINS`` is the block list and ``FREDFW_PLUGINS`` the allow list, with commas between names;
        ``FREDFW_TRACE_HOOKS`` turns the trace on.

        Args:
            environ: Variables.
            trace: Used if ``FREDFW_TRACE_HOOKS`` is neither empty nor 0.
        """
        allow = _names(environ.get("FREDFW_PLUGINS", ""))
        traced = environ.get("FREDFW_TRACE_HOOKS", "0").strip() not in ("", "0")
        return cls(
            block=_names(environ.get("FREDFW_DISABLE_PLUGINS", "")),
            allow=allow or None,
            trace=trace if traced else None,
        )


def _names(text: str) -> frozenset[str]:
    return frozenset(name for part in text.split(",") if (name := part.strip()))


class LifecycleHooks(Protocol):
    """The hooks that are called around a run, as ``fredfw.plugin.spec`` describes them."""

    def fredfw_before_run(self, *, experiment: Experiment) -> object:
        """Call the hook of all plugins."""

    def fredfw_after_run(self, *, result: RunResult) -> object:
        """Call the hook of all plugins."""

    def fredfw_on_run_error(self, *, experiment: Experiment, error: Exception) -> object:
        """Call the hook of all plugins."""


class PluginManager:
    """The plugins in use: one typed registry per registration hook, the commands, and the lifecycle hooks to call.

    A new manager is empty; ``PluginManager.discover()`` makes one that has loaded what is installed. Managers share
    nothing.

    Args:
        switches: Which plugins are used, and how strictly.
    """

    def __init__(self, switches: Switches = Switches()) -> None:
        self._switches = switches
        self._pluggy = pluggy.PluginManager("fredfw")
        self._pluggy.add_hookspecs(spec)
        trace = switches.trace
        if trace is not None:
            self._pluggy.trace.root.setwriter(lambda text: trace(text.rstrip("\n")))
            self._pluggy.enable_tracing()
        self._plugins: dict[int, Plugin] = {}  # by identity of the module or object
        self._left_out: list[LeftOut] = []
        self.topologies: Registry[Topology] = self._registry("topology", Topology, "fredfw_topologies")
        self.routers: Registry[Router] = self._registry("router", Router, "fredfw_routers")
        self.collectives: Registry[CollectiveAlgorithm] = self._registry(
            "collective", CollectiveAlgorithm, "fredfw_collectives"
        )
        self.workloads: Registry[Workload] = self._registry("workload", Workload, "fredfw_workloads")
        self.placements: Registry[Placement] = self._registry("placement", Placement, "fredfw_placements")
        self.sharing_policies: Registry[SharingPolicy] = self._registry(
            "sharing policy", SharingPolicy, "fredfw_sharing_policies"
        )
        self.exporters: Registry[Exporter] = self._registry("exporter", Exporter, "fredfw_exporters")
        self.commands = Commands(
            "command",
            offers=lambda: self._offers("fredfw_commands", _is_command, "click commands"),
            left_out=lambda: self._left_out_of("fredfw_commands"),
        )

    @classmethod
    def discover(cls, switches: Switches | None = None) -> PluginManager:
        """Return a manager that has loaded the installed plugins; by default the environment sets the switches.

        A plugin that cannot be used is left out with a ``PluginWarning``; another tells of a plugin that the switches
        block, but that is not installed.

        Raises:
            PluginError: A plugin cannot be used, and the switches are strict.
            UnknownNameError: The switches allow a plugin that is not installed.
        """
        # 30 ms to import, of no use to a manager that is filled by hand.
        from importlib.metadata import entry_points

        manager = cls(Switches.from_environment() if switches is None else switches)
        # Sorted, so that the order of lifecycle hooks does not depend on the order of sys.path.
        points = sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value))
        manager._check_switches(points)
        for point in points:
            manager._load(point)
        return manager

    @property
    def hook(self) -> LifecycleHooks:
        """The hooks around a run; plugins are called in the reverse order of the names of their entry points."""
        return cast(LifecycleHooks, self._pluggy.hook)

    @property
    def registries(self) -> tuple[Registry[Any], ...]:
        """All registries of classes."""
        return (
            self.topologies,
            self.routers,
            self.collectives,
            self.workloads,
            self.placements,
            self.sharing_policies,
            self.exporters,
        )

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """The plugins that are installed but not used, so far as is known yet."""
        return tuple(self._left_out)

    def register(self, implementation: object, name: str) -> None:
        """Add a module or object whose functions implement hooks, for this manager only.

        Raises:
            PluginError: It breaks the contract.
        """
        module = implementation if inspect.ismodule(implementation) else inspect.getmodule(type(implementation))
        self._add(Plugin(name, module.__name__ if module else name), implementation)

    def load_file(self, path: str | Path) -> None:
        """Add the plugin in a Python file that is not installed, for this manager only.

        Raises:
            InputError: There is no such file.
            PluginError: It cannot be imported, or breaks the contract.
        """
        file = Path(path).resolve()
        if not file.is_file() or file.suffix != ".py":
            raise InputError("is no Python file", file=str(path), accepted="a file that ends in .py")
        # The path makes the name unique; a module must be found by name for its annotations to be resolved.
        name = f"fredfw_file_{file.stem}_{zlib.crc32(str(file).encode()):08x}"
        module_spec = importlib.util.spec_from_file_location(name, file)
        if module_spec is None or module_spec.loader is None:
            raise InputError("cannot be imported", file=str(path), accepted="a Python file")
        module = importlib.util.module_from_spec(module_spec)
        sys.modules[name] = module
        try:
            module_spec.loader.exec_module(module)
            self.register(module, file.name)
        except PluginError:
            del sys.modules[name]
            raise
        except (Exception, SystemExit) as error:
            del sys.modules[name]
            raise PluginError(f"plugin {str(path)!r} cannot be imported: {_brief(error)}") from error

    def versions(self, used: Iterable[type]) -> dict[str, str]:
        """Return the version of each distribution that the classes ``used`` come from, for a result's provenance.

        What is merely installed beside them is not in it. A plugin registered in process is named with the version
        ``"in process"``, a class from elsewhere by its module with ``"no plugin"``.
        """
        found = {}
        for cls in used:
            plugin = self._owner(cls)
            if plugin is None:
                found[cls.__module__] = "no plugin"
            else:
                found[plugin.distribution or plugin.name] = plugin.version or "in process"
        return dict(sorted(found.items()))

    def _owner(self, cls: type) -> Plugin | None:
        """Return the plugin whose module is nearest to that of ``cls``; what it uses need not be registered."""

        def shared(plugin: Plugin) -> int:
            pairs = zip(plugin.module.split("."), cls.__module__.split("."), strict=False)
            return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))

        best = max(self._plugins.values(), key=shared, default=None)
        return best if best is not None and shared(best) else None

    def _registry(self, kind: str, interface: type, hook: str) -> Registry[Any]:
        return Registry(
            kind,
            interface,
            offers=lambda: self._offers(hook, _is_class, "classes"),
            left_out=lambda: self._left_out_of(hook),
        )

    def _left_out_of(self, hook: str) -> list[LeftOut]:
        return [one for one in self._left_out if one.hook in (None, hook)]

    def _offers(self, hook: str, fits: Callable[[object], bool], wanted: str) -> list[tuple[Plugin, Any]]:
        """Ask the plugins what they register one by one, to know whose is whose."""
        self._left_out = [one for one in self._left_out if one.hook != hook]
        owners = [one.plugin for one in getattr(self._pluggy.hook, hook).get_hookimpls()]
        offered: list[tuple[Plugin, Any]] = []
        for owner in owners:
            plugin = self._plugins[id(owner)]
            call = self._pluggy.subset_hook_caller(hook, [other for other in owners if other is not owner])
            try:
                answers = call()
            except Exception as error:  # whatever a plugin raises must not stop the others
                self._leave_out(plugin, f"fails in {hook}: {_brief(error)}", error, hook)
                continue
            for answer in answers:
                if isinstance(answer, Sequence) and all(map(fits, answer)):
                    offered.extend((plugin, one) for one in answer)
                else:
                    self._leave_out(plugin, f"returns {answer!r} from {hook}, not a sequence of {wanted}", None, hook)
        return offered

    def _check_switches(self, points: Sequence[EntryPoint]) -> None:
        allow, block = self._switches.allow or frozenset(), self._switches.block
        known = {name for point in points for name in _called(point)} if allow or block else set()
        for name in sorted(allow):
            if canonical(name) not in known:
                raise UnknownNameError(
                    f"no plugin {name!r} is installed{nearest(name, known)}", accepted=", ".join(sorted(known))
                )
        for name in sorted(block):
            if canonical(name) not in known:
                message = f"no plugin {name!r} is installed, so none is switched off{nearest(name, known)}"
                warnings.warn(message, PluginWarning, stacklevel=3)

    def _load(self, point: EntryPoint) -> None:
        plugin = Plugin(point.name, point.value.partition(":")[0].strip(), point.dist)
        if self._is_switched_off(point):
            self._left_out.append(LeftOut(plugin, "is switched off", broken=False))
            return
        try:
            implementation = point.load()
        except (Exception, SystemExit) as error:
            self._leave_out(plugin, f"cannot be imported: {_brief(error)}", error)
            return
        try:
            self._add(plugin, implementation)
        except PluginError as error:
            self._leave_out(plugin, str(error).removeprefix(f"{plugin} "), error)

    def _is_switched_off(self, point: EntryPoint) -> bool:
        switches = self._switches
        if switches.block and _called(point) & set(map(canonical, switches.block)):
            return True
        if switches.allow is None or point.value == _CORE:
            return False
        return not _called(point) & set(map(canonical, switches.allow))

    def _leave_out(self, plugin: Plugin, cause: str, error: BaseException | None, hook: str | None = None) -> None:
        """Warn about a plugin that was found; one that was given by hand, or any in strict mode, is an error."""
        left_out = LeftOut(plugin, cause, hook=hook)
        if self._switches.strict or plugin.package is None:
            raise PluginError(str(left_out)) from error
        self._left_out.append(left_out)
        warnings.warn(f"{left_out}; it is left out", PluginWarning, stacklevel=2)

    def _add(self, plugin: Plugin, implementation: object) -> None:
        self._check_hooks(plugin, implementation)
        try:
            self._pluggy.register(implementation)
        except (ValueError, pluggy.PluginValidationError) as error:
            # Registered already, or a hook with parameters that the specification does not have; some versions of
            # pluggy leave half of such a plugin behind.
            if isinstance(error, pluggy.PluginValidationError) and self._pluggy.is_registered(implementation):
                self._pluggy.unregister(implementation)
            raise PluginError(f"{plugin} cannot be registered: {_brief(error)}") from error
        self._plugins[id(implementation)] = plugin
        for registry in self.registries:
            registry.forget()
        self.commands.forget()

    def _check_hooks(self, plugin: Plugin, implementation: object) -> None:
        """Raise ``PluginError`` for what pluggy would pass over in silence, or stumble over later."""
        if type(implementation).__hash__ is None:
            raise PluginError(f"{plugin} cannot be hashed, so it cannot be told from others")
        hooks = [name for name in vars(spec) if name.startswith("fredfw_")]
        implemented = []
        for name in dir(implementation):
            options = self._pluggy.parse_hookimpl_opts(implementation, name)
            if options is None:
                if name in hooks:
                    raise PluginError(f"{plugin} defines {name} without @hookimpl")
            elif name not in hooks:
                raise PluginError(f"{plugin} implements {name}, which is no hook{nearest(name, hooks)}")
            elif options["specname"] or options["wrapper"] or options["hookwrapper"]:
                raise PluginError(f"{plugin} implements {name} under another name or as a wrapper")
            else:
                implemented.append(name)
        if not implemented:
            raise PluginError(f"{plugin} implements no hook; a function that does is decorated with @hookimpl")


def _is_class(one: object) -> bool:
    return isinstance(one, type)


def _is_command(one: object) -> bool:
    import click  # whoever made a command has imported it already

    return isinstance(one, click.Command)


def _called(point: EntryPoint) -> set[str]:
    """Return the names that a switch may give a plugin."""
    return {canonical(point.name), canonical(point.dist.name)} if point.dist else {canonical(point.name)}


def _brief(error: BaseException) -> str:
    """Return an error in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
