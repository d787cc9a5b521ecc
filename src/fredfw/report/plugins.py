"""Plugins for people. Listing them imports no model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from fredfw.report.shown import GAP, Heading, Line, Part, Said, Span, Table

if TYPE_CHECKING:
    from fredfw.plugin.registry import PluginInfo
    from fredfw.plugin.schema import FieldInfo

_FEW_LETTERS = 12


def plugins_report(infos: Iterable[PluginInfo], *, width: int | None = None) -> list[Part]:
    rows = [(info.kind, info.name, info.description) for info in infos]
    # Two blanks follow each column; a description keeps a few letters however narrow the terminal is.
    taken = sum(max((len(row[column]) for row in rows), default=0) + 2 for column in (0, 1))
    if width is not None:
        room = max(width - taken, _FEW_LETTERS)
        cut = room - len("...")
        rows = [(kind, name, text if len(text) <= room else f"{text[:cut].rstrip()}...") for kind, name, text in rows]
    return [Table(("kind", "name", "description"), rows)]


def plugin_origins_report(infos: Iterable[PluginInfo]) -> list[Part]:
    rows = ((one.kind, one.name, one.distribution or "-", one.version or "-", one.location or "-") for one in infos)
    return [Table(("kind", "name", "distribution", "version", "location"), rows)]


def plugin_report(info: PluginInfo, docstring: str, fields: Sequence[FieldInfo]) -> list[Part]:
    origin = f"{info.distribution} {info.version}" if info.distribution else "registered in process"
    title = Heading((Span(f"{info.kind} {info.name}"), Span(f"  ({origin})", "dim")))
    report: list[Part] = [title, GAP, Line(_reflowed(docstring)), GAP]
    if not fields:
        return [*report, Line("It has no configuration fields.")]
    rows: list[tuple[Said, ...]] = []
    for one in fields:
        default = Span("required", "bold") if one.default is None else Span(one.default)
        accepted = "" if one.unit else f"({one.accepted})"  # which a unit already says
        rows.append((one.name, one.type, one.unit or "-", default, f"{one.help} {accepted}".strip()))
    return [*report, Table(("field", "type", "unit", "default", "meaning"), rows, folded=(4,))]


def _reflowed(docstring: str) -> str:
    """Return ``docstring`` with each paragraph on one line, to be wrapped anew; what is indented stays as it is."""
    paragraphs = docstring.split("\n\n")
    return "\n\n".join(one if "\n " in one or one.startswith(" ") else one.replace("\n", " ") for one in paragraphs)
