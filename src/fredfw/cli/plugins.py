"""The commands that look at plugins: list, show."""

from __future__ import annotations

import inspect
from itertools import chain

import click

from fredfw.cli.commands import open_framework
from fredfw.cli.output import print_report
from fredfw.errors import UnknownNameError, nearest


@click.group()
def plugins() -> None:
    """What is installed."""


@plugins.command("list")
@click.pass_context
def list_(ctx: click.Context) -> None:
    """List all plugins: kind, name, distribution, version and location."""
    registries = open_framework(ctx).plugins.registries
    from fredfw.report.tables import plugins_report

    print_report(plugins_report(chain.from_iterable(registry.infos() for registry in registries)))


@plugins.command()
@click.argument("name")
@click.pass_context
def show(ctx: click.Context, name: str) -> None:
    """Show what the plugin NAME does and its configuration fields; all of them, if several kinds have one."""
    registries = open_framework(ctx).plugins.registries
    holders = [registry for registry in registries if name in registry]
    if not holders:
        known = sorted(set(chain.from_iterable(registry.names() for registry in registries)))
        raise UnknownNameError(f"no plugin {name!r}{nearest(name, known)}", accepted=", ".join(known))
    from fredfw.plugin import schema
    from fredfw.report.tables import plugin_report

    for index, registry in enumerate(holders):
        cls = registry.get(name)
        if index:
            click.echo()
        print_report(plugin_report(registry.info(name), inspect.getdoc(cls) or "", schema.fields(cls)))
