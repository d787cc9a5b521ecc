"""What the commands of one call of the command line have in common: the plugins, and the framework."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fredfw.cli.output import configure_logging, log
from fredfw.errors import placed
from fredfw.terminal import printable

if TYPE_CHECKING:
    from fredfw.framework import Framework
    from fredfw.plugin.manager import PluginManager

_PLUGINS = f"{__name__}.plugins"


def plugins_of(ctx: click.Context) -> PluginManager:
    """Return all plugins: discovered at the first use, as many commands and their help need none."""
    if _PLUGINS not in ctx.meta:
        from fredfw.plugin.manager import PluginManager, Switches

        given = ctx.find_root().params
        strict = given.get("strict_plugins", False)
        switches = Switches.from_environment(strict=strict, trace=lambda call: click.echo(printable(call), err=True))
        plugins = PluginManager.discover(switches)
        for file in given.get("plugin_files", ()):
            with placed(key="--plugin"):
                plugins.load_file(file)
        ctx.meta[_PLUGINS] = plugins
    found: PluginManager = ctx.meta[_PLUGINS]
    return found


def open_framework(ctx: click.Context) -> Framework:
    """Return the framework with all plugins of this call, see ``click.pass_context``; configures logging.

    Raises ``InputError`` where an option or the environment names a plugin that does not exist, and ``PluginError``
    where one of ``--plugin`` cannot be used, or any with ``--strict-plugins``.
    """
    from fredfw.framework import Framework

    given = ctx.find_root().params
    configure_logging(given.get("log_level", "warning"), given.get("log_format", "console"))
    return Framework(plugins_of(ctx), trust_plugins=given.get("trust_plugins", False), log=log)
