"""What one call of the command line has in common: the options before the command's name, and the plugins."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import click
from attrs import define

from fredfw.cli.output import configure_logging, log
from fredfw.errors import placed
from fredfw.terminal import printable

if TYPE_CHECKING:
    from fredfw.framework import Framework
    from fredfw.plugin.manager import PluginManager


@define
class Session:
    """One call of the command line, with what its options were given."""

    log_level: str = "warning"
    log_format: str = "console"
    plugin_files: tuple[str, ...] = ()
    strict_plugins: bool = False
    trust_plugins: bool = False
    limit_texts: tuple[str, ...] = ()
    exact_limit: int | None = None

    @cached_property
    def plugins(self) -> PluginManager:
        """All plugins: discovered at the first use, as many commands and their help need none."""
        from fredfw.plugin.manager import PluginManager, Switches

        switches = Switches.from_environment(
            strict=self.strict_plugins, trace=lambda call: click.echo(printable(call), err=True)
        )
        plugins = PluginManager.discover(switches)
        for file in self.plugin_files:
            with placed(key="--plugin"):
                plugins.load_file(file)
        return plugins


def session(ctx: click.Context) -> Session:
    """Return the session that the command of ``ctx`` belongs to."""
    return ctx.find_root().ensure_object(Session)


def open_framework(ctx: click.Context) -> Framework:
    """Return the framework with all plugins of this call; logging is configured from here on.

    Args:
        ctx: Of the command that asks, see ``click.pass_context``.

    Raises:
        InputError: A plugin is named, in an option or the environment, that does not exist.
        PluginError: A plugin given with ``--plugin`` cannot be used, or any with ``--strict-plugins``.
    """
    from fredfw.framework import Framework

    this = session(ctx)
    configure_logging(this.log_level, this.log_format)
    return Framework(this.plugins, trust_plugins=this.trust_plugins, log=log)
