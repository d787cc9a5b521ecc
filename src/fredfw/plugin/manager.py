"""Finds plugins, loads them one by one, and keeps what they register."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import os
import sys
import warnings
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from importlib.machinery import SourceFileLoader
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from fredfw import limits
from fredfw.answers import shared_names
from fredfw.errors import InputError, PluginWarning, UnknownNameError, nearest
from fredfw.files import resolved
from fredfw.plugin.calls import Calls
from fredfw.plugin.origin import CORE, LeftOut, Plugin, canonical, code_digest, release
from fredfw.plugin.registry import Catalog, Commands, PluginInfo, Registry

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from fredfw.collectives import CollectiveAlgorithm
    from fredfw.fabric import AdmissionPolicy, Router, Topology, Transport
    from fredfw.plugin.exporter import Exporter
    from fredfw.plugin.sampler import Sampler
    from fredfw.simulation.sharing import SharingPolicy
    from fredfw.workloads import Placement, Workload

__all__ = ["Commands", "LeftOut", "PluginInfo", "PluginManager", "Registry", "Switches"]

GROUP = "fredfw"  # entry points of modules whose functions implement hooks, which are imported at once


@frozen
class Switches:
    """Which installed plugins are used, and how strictly.

    A plugin is named by its distribution, or by any of its entry points; those of the core are ``core`` together.

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
        cls,
        environ: Mapping[str, str] = os.environ,
        *,
        strict: bool = False,
        trace: Callable[[str], None] | None = None,
    ) -> Switches:
        """Read ``FREDFW_DISABLE_PLUGINS`` and ``FREDFW_PLUGINS``; trace unless ``FREDFW_TRACE_HOOKS`` is empty or 0."""
        block, allow = (
            frozenset(map(str.strip, environ.get(name, "").split(","))) - {""}
            for name in ("FREDFW_DISABLE_PLUGINS", "FREDFW_PLUGINS")
        )
        traced = environ.get("FREDFW_TRACE_HOOKS", "0").strip() not in ("", "0")
        return cls(strict=strict, block=block, allow=allow or None, trace=trace if traced else None)


class PluginManager:
    """The plugins in use: one typed registry per registration hook, the commands, and the lifecycle hooks to call.

    A new manager is empty; ``PluginManager.discover()`` makes one that knows what is installed. Managers share nothing.
    """

    def __init__(self, switches: Switches = Switches()) -> None:
        self.switches = switches  #: Which plugins are used, and how strictly.
        self._calls = calls = Calls(strict=switches.strict, trace=switches.trace)
        self._files: dict[Path, str] = {}  # digests of those that are loaded
        self._owners: dict[str, Plugin | None] = {}  # by module, for all plugins that there are now
        self.hook = SimpleNamespace(
            fredfw_before_run=partial(calls.tell, "fredfw_before_run"),
            fredfw_after_run=partial(calls.tell, "fredfw_after_run"),
            fredfw_on_run_error=partial(calls.tell, "fredfw_on_run_error", fatal=False),  # it cannot hide the error
        )
        """The hooks around a run; plugins are called in the reverse order of the names of their entry points."""
        self.topologies: Registry[Topology] = Registry(calls, "topology", "topologies", "Topology")
        self.routers: Registry[Router] = Registry(calls, "router", "routers", "Router")
        self.collectives: Registry[CollectiveAlgorithm] = Registry(
            calls, "collective", "collectives", "CollectiveAlgorithm", optional=True
        )
        self.workloads: Registry[Workload] = Registry(calls, "workload", "workloads", "Workload")
        self.placements: Registry[Placement] = Registry(calls, "placement", "placements", "Placement")
        self.sharing_policies: Registry[SharingPolicy] = Registry(
            calls, "sharing policy", "sharing_policies", "SharingPolicy"
        )
        self.admissions: Registry[AdmissionPolicy] = Registry(calls, "admission", "admissions", "AdmissionPolicy")
        self.transports: Registry[Transport] = Registry(calls, "transport", "transports", "Transport")
        self.exporters: Registry[Exporter] = Registry(calls, "exporter", "exporters", "Exporter", optional=True)
        self.samplers: Registry[Sampler] = Registry(calls, "sampler", "samplers", "Sampler", optional=True)
        self.commands = Commands(calls, "command", "commands")

    @classmethod
    def discover(cls, switches: Switches | None = None) -> PluginManager:
        """Return a manager that knows the installed plugins; by default the environment sets the switches.

        What has an entry point in the group of its hook, such as ``fredfw.topologies``, is imported when it is used;
        modules in the group ``fredfw`` are imported at once. A plugin that cannot be used is left out with a
        ``PluginWarning`` (strict: ``PluginError``). One that is not installed is a warning where the switches block it,
        and an ``UnknownNameError`` where they allow it.
        """
        manager = cls(Switches.from_environment() if switches is None else switches)
        points = _installed(tuple(sys.path), tuple(map(_changed, sys.path)))
        # Sorted, so that the order of lifecycle hooks does not depend on the order of sys.path.
        groups = (GROUP, *(one.group for one in manager._catalogs))
        unknown = sorted(group for group in points if group.startswith(f"{GROUP}.") and group not in groups)
        plugins = {_plugin(point): point.group for group in (*groups, *unknown) for point in points.get(group, ())}
        off = manager._switched_off(plugins)
        for plugin, group in plugins.items():
            if plugin in off:
                manager._calls.switch_off(plugin)
            elif group in unknown:
                cause = f"has an entry point in {group!r}, which is no group of fredfw{nearest(group, groups)}"
                manager._calls.leave_out(LeftOut(plugin, cause, hook=None))
            elif plugin.hook is not None:
                manager._calls.announce(plugin)
            elif (implementation := manager._calls.imported(plugin, plugin.load)) is not None:
                manager._add(plugin, *implementation)
        if manager.switches.strict:
            for catalog in manager._catalogs:
                list(catalog)  # which imports everything
        return manager

    @property
    def registries(self) -> tuple[Registry[Any], ...]:
        """All registries of classes."""
        return tuple(one for one in vars(self).values() if isinstance(one, Registry))

    @property
    def _catalogs(self) -> tuple[Catalog[Any], ...]:
        return *self.registries, self.commands

    @property
    def slots(self) -> Mapping[str, Registry[Any]]:
        """What may fill the slots of a fabric, by the name of the slot."""
        return {
            "router": self.routers,
            "sharing": self.sharing_policies,
            "admission": self.admissions,
            "transport": self.transports,
            "placement": self.placements,
        }

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """The plugins that are installed but not used, so far as is known yet."""
        return self._calls.left_out()

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that were added with ``load_file``, without symbolic links."""
        return tuple(self._files)

    @property
    def file_digests(self) -> Mapping[Path, str]:
        """The same files with the digests of what was loaded."""
        return self._files

    @property
    def in_process(self) -> tuple[str, ...]:
        """Names of the plugins that were registered by hand and are in no file, so that no other process has them."""
        return tuple(one.name for one in self._calls.plugins if one.by_hand and one.digest is None)

    def register(self, implementation: object, name: str) -> None:
        """Add, for this manager only, a module or object with hooks; ``PluginError`` where it breaks the contract."""
        module = implementation if inspect.ismodule(implementation) else inspect.getmodule(type(implementation))
        self._add(Plugin(name, module.__name__ if module else name), implementation)

    def load_file(self, path: str | Path) -> None:
        """Add, for this manager only, the plugin in a Python file that is not installed; once, however often asked.

        ``InputError`` where there is no such file, or it has changed since; ``PluginError`` where it is broken.
        """
        accepted, given = "a Python file", str(path)
        file = resolved(path, accepted)
        if not file.exists():
            raise InputError("does not exist", file=given, accepted=accepted)
        if not file.is_file() or file.suffix != ".py":
            raise InputError("is not a Python file", file=given, accepted="a file that ends in .py")
        try:
            content = file.read_bytes()
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", file=given, accepted=accepted) from None
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        if file in self._files:
            if self._files[file] != digest:
                raise InputError("has changed since it was loaded", file=given, accepted="a new PluginManager")
            return
        # The path makes the name unique; a module must be found by name for its annotations to be resolved.
        name = f"fredfw_file_{file.stem}_{zlib.crc32(str(file).encode()):08x}"
        loader = SourceFileLoader(name, str(file))
        module_spec = importlib.util.spec_from_loader(name, loader)
        assert module_spec is not None  # as of any loader of a file
        module = importlib.util.module_from_spec(module_spec)
        sys.modules[name] = module
        plugin = Plugin(file.name, name, digest=digest)
        try:
            # What the digest is of, not what the loader might find in a cache or in the file by now.
            self._calls.imported(plugin, lambda: exec(loader.source_to_code(content, str(file)), vars(module)))
            self._add(plugin, module)
        except BaseException:
            del sys.modules[name]
            raise
        self._files[file] = digest

    def versions(self, used: Iterable[type]) -> dict[str, str]:
        """Return the version of each distribution that the classes ``used`` come from, for a result's provenance.

        A file has its name and its SHA-256, another plugin registered in process the version ``"in process"``, and a
        class from elsewhere its module with ``"no plugin"``.
        """
        found: dict[str, set[str]] = {}
        for cls in dict.fromkeys(used):  # of algorithms there are many variants
            plugin = self._owner(cls)
            if plugin is None:
                name, version = cls.__module__, "no plugin"
            else:
                name = plugin.distribution or plugin.name
                version = plugin.version or plugin.digest or "in process"
            found.setdefault(name, set()).add(version)
        return {name: ", ".join(sorted(versions)) for name, versions in sorted(found.items())}

    def code(self, used: Iterable[type]) -> dict[str, str] | None:
        """Return what decides results of the classes ``used``: versions and SHA-256 of their plugins and the core.

        What these require is in it. A plugin that is edited in place keeps its version. ``None`` where the code is not
        known: in no file, or changed since it may have been imported.
        """
        registered: dict[str, list[Plugin]] = {}
        for plugin in self._calls.plugins:
            registered.setdefault(canonical(plugin.distribution or plugin.name), []).append(plugin)
        told: dict[str, str | None] = {}
        waiting: list[Plugin | str] = [*[plugin for plugin in self._calls.plugins if plugin.is_core][:1]]
        for cls in used:
            owner = self._owner(cls)
            if owner is None:
                told[cls.__module__] = code_digest(cls.__module__)
            else:
                waiting.append(owner)
        while waiting:
            one = waiting.pop()
            if isinstance(one, str):  # what something requires
                waiting += registered.get(one, ())
                if one not in registered and one not in told:
                    told[one], required = release(one)
                    waiting += required
            elif (name := f"{one.distribution or one.name} {one.module.partition('.')[0]}") not in told:
                told[name] = one.code
                waiting += one.requirements
        known = {name: code for name, code in sorted(told.items()) if code is not None}
        return known if len(known) == len(told) else None

    def _owner(self, cls: type) -> Plugin | None:
        """Return the plugin whose module is nearest to that of ``cls``; what it uses need not be registered."""
        module = cls.__module__
        if module not in self._owners:
            best = max(self._calls.plugins, key=lambda one: shared_names(one.module, module), default=None)
            self._owners[module] = best if best is not None and shared_names(best.module, module) else None
        return self._owners[module]

    def _switched_off(self, plugins: Iterable[Plugin]) -> set[Plugin]:
        """Return which plugins the switches leave out; what is imported when it is used goes with its distribution."""
        block, allow = self.switches.block, self.switches.allow
        if not block and allow is None:
            return set()
        called: dict[Plugin, set[str]] = {}
        shared: dict[str | None, set[str]] = {}
        for plugin in plugins:
            names = {canonical(plugin.name), canonical(plugin.distribution or plugin.name)}
            called[plugin] = names if plugin.hook is None else shared.setdefault(plugin.distribution, names)
            called[plugin] |= names
        known = set(chain(*called.values()))
        for name in sorted(allow or ()):
            if canonical(name) not in known:
                message = f"no plugin {name!r} is installed{nearest(name, known)}"
                raise UnknownNameError(message, accepted=", ".join(sorted(known)))
        for name in sorted(block):
            if canonical(name) not in known:
                message = f"no plugin {name!r} is installed, so no plugin was switched off{nearest(name, known)}"
                warnings.warn(message, PluginWarning, stacklevel=3)
        blocked, allowed = (set(map(canonical, names or ())) for names in (block, allow))
        # An allow list is about what is installed beside the core.
        return {
            plugin
            for plugin, names in called.items()
            if names & blocked or (allow is not None and not plugin.is_core and not names & allowed)
        }

    def _add(self, plugin: Plugin, implementation: object) -> None:
        self._calls.add(plugin, implementation)
        self._owners.clear()
        for catalog in self._catalogs:
            catalog.forget()


@lru_cache(maxsize=1)
def _installed(_path: tuple[str, ...], _times: tuple[float, ...]) -> Mapping[str, Sequence[EntryPoint]]:
    """Return the sorted entry points of each group; they are read again when a folder of ``sys.path`` changes."""
    # 30 ms to import, of no use to a manager that is filled by hand.
    from importlib.metadata import entry_points

    every = entry_points()
    return {group: _sorted(every.select(group=group)) for group in every.groups}


def _changed(folder: str) -> float:
    try:
        return os.stat(folder or ".").st_mtime
    except OSError:
        return 0.0


def _sorted(points: Iterable[EntryPoint]) -> list[EntryPoint]:
    """Return ``points`` in order, and only one of those that name the same thing by the same name."""
    different = {(point.name, point.value): point for point in points}
    return [different[key] for key in sorted(different)]


def _plugin(point: EntryPoint) -> Plugin:
    module = point.value.partition(":")[0].strip()
    name = CORE if module.partition(".")[0] == "fredfw" else point.name
    return Plugin(name, module, point.dist, point=point)


@frozen
class Setup:
    """The ``Switches`` of a process, the plugin files that it has loaded, with their digests, and its limits."""

    switches: Switches
    files: tuple[tuple[str, str], ...]
    limits: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, plugins: PluginManager) -> Setup:
        """Return how to make a manager like ``plugins``, none of which may be registered in process."""
        if names := plugins.in_process:
            message = f"plugins that were registered in process cannot be sent to others: {', '.join(names)}"
            raise InputError(message, key="jobs", accepted="1, or plugins that are installed or in files")
        files = ((str(file), digest) for file, digest in plugins.file_digests.items())
        return cls(evolve(plugins.switches, trace=None), tuple(files), tuple(limits.current().items()))

    def manager(self) -> PluginManager:
        """Return a manager of this process; raises ``InputError`` where a file is missing, or has changed since."""
        plugins = PluginManager.discover(self.switches)
        for path, digest in self.files:
            plugins.load_file(path)
            if plugins.file_digests[Path(path)] != digest:
                raise InputError("has changed since it was loaded", file=path, accepted="the same content")
        return plugins


def given_or_installed(plugins: PluginManager | None) -> PluginManager:
    if plugins is None:
        return PluginManager.discover()
    if not isinstance(plugins, PluginManager):
        raise InputError(f"{plugins!r} is refused", key="plugins", accepted="a fredfw.PluginManager")
    return plugins
