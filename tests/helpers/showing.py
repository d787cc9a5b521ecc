"""What a reader sees of a report on a console."""

import io
import re
from collections.abc import Iterable, Sequence
from typing import Any

from attrs import evolve
from rich.console import Console, RenderableType

from fredfw.experiment.naming import fill
from fredfw.experiment.results import Row
from fredfw.report import layout


def printed(report: Iterable[RenderableType], width: int = 100, *, terminal: bool = False) -> str:
    file = io.StringIO()
    options: dict[str, Any] = {"force_terminal": terminal, "color_system": None}
    layout.show(Console(file=file, width=width, markup=False, highlight=False, **options), report)
    return re.sub(r"\x1b\[[\d;]*m", "", file.getvalue())


def of(row: Row, template: str, **settings: object) -> Row:
    """Return ``row`` with a workload of the sweep ``template``."""
    return evolve(row, workload=fill(template, settings), workload_template=template, workload_settings=settings)


def on(row: Row, template: str, **settings: object) -> Row:
    """Return ``row`` on a fabric of the sweep ``template``."""
    return evolve(row, fabric=fill(template, settings), fabric_template=template, fabric_settings=settings)


def cells(text: str) -> list[list[str]]:
    return [re.split(r"\s{2,}", line.strip()) for line in text.splitlines()]


def starts(rows: Sequence[Sequence[str]], length: int) -> list[list[str]]:
    return [list(row[:length]) for row in rows]
