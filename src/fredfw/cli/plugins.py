"""The commands that look at plugins: list, show."""

from __future__ import annotations

import inspect
from itertools import chain

import click

from fredfw.cli.output import print_report
from fredfw.cli.session import open_framework
from fredfw.errors import UnknownNameError, nearest


@click.group()
def plugins() -> None:
    """What is installed."""


@plugins.command("list")
@click.pass_context
def list_(ctx: click.Context) -> None:
    """List all plugins: kind, name, distribution, version and location."""
    manager = open_framework(ctx).plugins
    from fredfw.report.tables import plugins_report

    print_report(
        plugins_report(chain(*(registry.infos() for registry in manager.registries), manager.commands.infos()))
    )


@plugins.command()
@click.argument("name")
@click.pass_context
def show(ctx: click.Context, name: str) -> None:
    """Show what the plugin NAME does and its configuration fields; all of them, if several kinds have one."""
    manager = open_framework(ctx).plugins
    holders = [registry for registry in manager.registries if name in registry]
    if not holders and name not in manager.commands:
        known = sorted(set(chain(*(registry.names() for registry in manager.registries), manager.commands.names())))
        raise UnknownNameError(f"no plugin {name!r}{nearest(name, known)}", accepted=", ".join(known))
    from fredfw.plugin import schema
    from fredfw.report.tables import plugin_report

    for index, registry in enumerate(holders):
        cls = registry.get(name)
        if index:
            click.echo()
        print_report(plugin_report(registry.info(name), inspect.getdoc(cls) or "", schema.fields(cls)))
    if name in manager.commands:
        command = manager.commands.get(name)
        if holders:
            click.echo()
        click.echo(command.get_help(click.Context(command, parent=ctx.find_root(), info_name=name)))
