"""How another process gets the same plugins: plain data that can be sent to it."""

from __future__ import annotations

from pathlib import Path

from attrs import field, frozen

from fredfw import limits
from fredfw.errors import InputError
from fredfw.plugin.manager import PluginManager, Switches


@frozen
class Setup:
    """The ``Switches`` of a process, the plugin files that it has loaded, with their digests, and its limits."""

    strict: bool = False
    block: tuple[str, ...] = ()
    allow: tuple[str, ...] | None = None
    files: tuple[tuple[str, str], ...] = ()
    limits: tuple[tuple[str, int], ...] = field(factory=tuple)

    @classmethod
    def of(cls, plugins: PluginManager) -> Setup:
        """Return how to make a manager like ``plugins``, none of which may be registered in process."""
        if plugins.in_process:
            raise InputError(
                f"plugins that were registered in process cannot be sent to others: {', '.join(plugins.in_process)}",
                key="jobs",
                accepted="1, or plugins that are installed or in files",
            )
        switches = plugins.switches
        return cls(
            strict=switches.strict,
            block=tuple(sorted(switches.block)),
            allow=None if switches.allow is None else tuple(sorted(switches.allow)),
            files=tuple((str(file), digest) for file, digest in plugins.file_digests.items()),
            limits=tuple(limits.current().items()),
        )

    def manager(self) -> PluginManager:
        """Return a manager of this process; raises ``InputError`` where a file is missing, or has changed since."""
        allow = None if self.allow is None else frozenset(self.allow)
        plugins = PluginManager.discover(Switches(strict=self.strict, block=frozenset(self.block), allow=allow))
        for path, digest in self.files:
            plugins.load_file(path)
            if plugins.file_digests[Path(path)] != digest:
                raise InputError("has changed since it was loaded", file=path, accepted="the same content")
        return plugins
