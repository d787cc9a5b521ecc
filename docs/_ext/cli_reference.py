"""Fills the reference of the command line: all commands with their options, as ``--help`` has them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from fredfw import PluginManager
from fredfw.cli import main
from fredfw.plugin.manager import Switches

if TYPE_CHECKING:  # the tests read this module without Sphinx
    from sphinx.application import Sphinx

PAGE = "reference/cli"
PLACE = "<!-- every command, from docs/_ext/cli_reference.py -->"


def reference() -> str:
    """Return the commands of the core and of the first-party plugins as Markdown, a section each."""
    # Strict: a plugin that is left out would be missing here without anybody noticing.
    plugins = PluginManager.discover(Switches(strict=True))
    root = click.Context(main, info_name="fredfw", **main.context_settings)
    sections = [_section(root), *(part for one in plugins.commands for part in _sections(one, root))]
    return "\n".join(sections)


def _sections(command: click.Command, parent: click.Context) -> Iterator[str]:
    context = click.Context(command, info_name=command.name, parent=parent)
    yield _section(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            yield from _sections(command.commands[name], context)


def _section(context: click.Context) -> str:
    command = context.command
    lines = [f"## {context.command_path}", "", "```text", command.get_usage(context).removeprefix("Usage: "), "```", ""]
    lines += [inspect.cleandoc(command.help or ""), "", "| option | meaning |", "|---|---|"]
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and record[1]:  # the usage has the arguments, of which there is nothing to say
            names, meaning = (text.replace("|", "\\|").replace("\n", " ") for text in record)
            lines.append(f"| `{names}` | {meaning} |")
    return "\n".join([*lines, ""])


def _fill(_app: Sphinx, name: str, source: list[str]) -> None:
    if name == PAGE:
        source[0] = source[0].replace(PLACE, reference())


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("source-read", _fill)
    return {"parallel_read_safe": True}
