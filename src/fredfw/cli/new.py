"""The command that starts a plugin: new."""

import shlex
from pathlib import Path
from typing import Any

import click

from fredfw.cli.options import option
from fredfw.cli.session import plugins_of
from fredfw.errors import InputError, placed


@click.command(short_help="Create a package for a new plugin.")
@click.argument("kind")
@click.argument("name")
@option("--into", "Folder in which the package is created.", "DIR", default=".")
@click.pass_context
def new(ctx: click.Context, kind: str, name: str, into: str) -> None:
    """Write a package with a plugin of KIND called NAME.

    KIND is topology, router, collective, workload, placement, sharing, transport, exporter, sampler or command. The
    plugin is a small one that works, with the conformance kit as its tests where there is one; change it step by step.
    """
    from fredfw import scaffold
    from fredfw.plugin.registry import FIRST_PARTY, Catalog

    scaffold.check(kind, name)
    plugins = plugins_of(ctx)
    registered = scaffold.REGISTERED_AS.get(kind, kind)
    catalogs: tuple[Catalog[Any], ...] = (*plugins.registries, plugins.commands)
    (registry,) = (one for one in catalogs if one.kind == registered)
    if name in registry or name in FIRST_PARTY.get(kind, ()):
        origin = (registry.info(name).distribution if name in registry else None) or scaffold.distribution(kind, name)
        raise InputError(f"there is a {kind} {name!r} already, in {origin}", key="NAME", accepted="a name of its own")
    if not Path(into).is_dir():
        raise InputError("is not a folder", file=into, key="--into", accepted="an existing folder")
    folder = Path(into, scaffold.distribution(kind, name))
    contents = scaffold.render(kind, name)
    with placed(key="--into"):
        scaffold.write(contents, folder)
    lines = [
        *(f"{folder}: the {kind} {name!r}", *(f"  {path}" for path in contents)),
        *("Next:", f"  cd {shlex.quote(str(folder))}"),
        *('  python -m pip install --editable ".[test]"', "  python -m pytest"),
        "First, where no index has fredfw, in a checkout of it:",
        "  python -m pip wheel --no-deps -w wheels . ./engine ./plugins/*/*",
        "  export PIP_FIND_LINKS=$PWD/wheels",
    ]
    click.echo("\n".join(lines))
