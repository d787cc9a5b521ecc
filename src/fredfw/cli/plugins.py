"""The commands that look at plugins: list, show."""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING, Any

import click

from fredfw.cli.completion import names, plugin_names
from fredfw.cli.options import option, path_option
from fredfw.cli.output import Outputs, print_report
from fredfw.cli.session import plugins_of
from fredfw.errors import UnknownNameError, nearest

if TYPE_CHECKING:
    from fredfw.plugin.registry import Catalog

KINDS = (  # as the registries call them, with hyphens; importing these costs more than --help may
    *("topology", "router", "collective", "workload", "placement", "sharing-policy"),
    *("admission", "transport", "exporter", "sampler", "command"),
)


@click.group()
def plugins() -> None:
    """List and describe the installed plugins."""


@plugins.command("list")
@option("--kind", "List only plugins of this kind.", type=click.Choice(KINDS))
@option("--long is_long", "Show distribution, version and location, not the description.", is_flag=True)
@path_option("json", "Write the list as JSON; - is standard output.")
@click.pass_context
def list_(ctx: click.Context, kind: str | None, is_long: bool, json_path: str | None) -> None:
    """List all plugins: kind, name and a line of description, as wide as the terminal."""
    outputs = Outputs({"--json": json_path})
    manager = plugins_of(ctx)
    catalogs: list[Catalog[Any]] = [*manager.registries, manager.commands]
    infos = [info for one in catalogs if kind in (None, one.kind.replace(" ", "-")) for info in one.infos()]
    if json_path is not None:
        from fredfw.report import data  # which brings the models

        outputs.write({"--json": lambda: data.listed("plugins", infos)})
    from fredfw.report import layout
    from fredfw.report.plugins import plugin_origins_report, plugins_report

    for_people = sys.stdout is not None and sys.stdout.isatty()  # what a program may read is not cut
    width = layout.make_console().width if for_people else None
    outputs.show(lambda: [*(plugin_origins_report(infos) if is_long else plugins_report(infos, width=width))])


@plugins.command()
@click.argument("name", shell_complete=plugin_names)
@click.pass_context
def show(ctx: click.Context, name: str) -> None:
    """Show what the plugin NAME does and its configuration fields; all of them, if several kinds have one."""
    manager = plugins_of(ctx)
    holders = [registry for registry in manager.registries if name in registry]
    if not holders and name not in manager.commands:
        known = names(ctx)
        raise UnknownNameError(f"no plugin {name!r}{nearest(name, known)}", accepted=", ".join(known))
    from fredfw.plugin import schema
    from fredfw.report.plugins import plugin_report

    for index, registry in enumerate(holders):
        cls = registry.get(name)
        if index:
            click.echo()
        print_report([*plugin_report(registry.info(name), inspect.getdoc(cls) or "", schema.fields(cls))])
    if name in manager.commands:
        command = manager.commands.get(name)
        if holders:
            click.echo()
        click.echo(command.get_help(click.Context(command, parent=ctx.find_root(), info_name=name)))
