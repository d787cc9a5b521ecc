"""Plugins for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.text import Text

from fredfw.report.layout import plain_table

if TYPE_CHECKING:
    from fredfw.plugin.registry import PluginInfo
    from fredfw.plugin.schema import FieldInfo

_FEW_LETTERS = 12


def plugins_report(infos: Iterable[PluginInfo], *, width: int | None = None) -> list[RenderableType]:
    """Return a table of plugins, one per row: kind, name and a description, which is cut to fit ``width`` columns."""
    rows = [(info.kind, info.name, info.description) for info in infos]
    table = plain_table("kind", "name", "description")
    # Two blanks follow each column; a description keeps a few letters however narrow the terminal is.
    taken = sum(max((len(row[column]) for row in rows), default=0) + 2 for column in (0, 1))
    room = None if width is None else max(width - taken, _FEW_LETTERS)
    for kind, name, description in rows:
        cut = room is not None and len(description) > room
        table.add_row(kind, name, f"{description[: room - 3].rstrip()}..." if room and cut else description)
    return [table]


def plugin_origins_report(infos: Iterable[PluginInfo]) -> list[RenderableType]:
    """Return a table of plugins with the distribution that each comes from, its version and the file."""
    table = plain_table("kind", "name", "distribution", "version", "location")
    for info in infos:
        table.add_row(info.kind, info.name, info.distribution or "-", info.version or "-", info.location or "-")
    return [table]


def plugin_report(info: PluginInfo, docstring: str, fields: Sequence[FieldInfo]) -> list[RenderableType]:
    """Return where one plugin comes from, what its docstring says, and a table of its configuration fields."""
    origin = f"{info.distribution} {info.version}" if info.distribution else "registered in process"
    report: list[RenderableType] = [
        Text(f"{info.kind} {info.name}", style="bold").append(f"  ({origin})", style="not bold dim"),
        Text(),
        Text(_reflowed(docstring)),
        Text(),
    ]
    if not fields:
        return [*report, Text("It has no configuration fields.")]
    table = plain_table("field", "type", "unit", "default")
    table.add_column("meaning", overflow="fold")
    for one in fields:
        default = Text("required", style="bold") if one.default is None else Text(one.default)
        # A unit already says what is accepted.
        accepted = "" if one.unit else f"({one.accepted})"
        table.add_row(one.name, one.type, one.unit or "-", default, f"{one.help} {accepted}".strip())
    return [*report, table]


def _reflowed(docstring: str) -> str:
    """Return ``docstring`` with each paragraph on one line, to be wrapped anew; what is indented stays as it is."""
    paragraphs = docstring.split("\n\n")
    return "\n\n".join(one if "\n " in one or one.startswith(" ") else one.replace("\n", " ") for one in paragraphs)
