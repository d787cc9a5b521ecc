"""How another process gets the same plugins: plain data that can be sent to it."""

from __future__ import annotations

from pathlib import Path

from attrs import evolve, frozen

from fredfw import limits
from fredfw.errors import InputError
from fredfw.plugin.manager import PluginManager, Switches


@frozen
class Setup:
    """The ``Switches`` of a process, the plugin files that it has loaded, with their digests, and its limits."""

    switches: Switches
    files: tuple[tuple[str, str], ...]
    limits: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, plugins: PluginManager) -> Setup:
        """Return how to make a manager like ``plugins``, none of which may be registered in process."""
        if plugins.in_process:
            raise InputError(
                f"plugins that were registered in process cannot be sent to others: {', '.join(plugins.in_process)}",
                key="jobs",
                accepted="1, or plugins that are installed or in files",
            )
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
