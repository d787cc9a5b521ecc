"""Tables that fit the terminal: one that is too wide is printed as several, one below the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from rich.box import Box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

from fredfw.terminal import printable

_PIPE_WIDTH = 100
_GAP = 2  # from one column to the next
_BOX = Box("    \n    \n -- \n    \n    \n    \n    \n    \n", ascii=True)  # only a line below the header
_KEYS_SHARE = 0.45  # of the width: more than this the key columns do not take where there is not room for all


class _SafeConsole(Console):
    """Prints control characters in titles, names and notes as escapes, so that they cannot control the terminal."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


def make_console(*, stderr: bool = False) -> Console:
    """Return a console that prints names as they are; 100 columns wide where it is not a terminal."""
    console = _SafeConsole(stderr=stderr, markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = _PIPE_WIDTH
    return console


def show(console: Console, parts: Iterable[RenderableType]) -> None:
    """Print ``parts``; a number that is wider than the console goes on beyond its end, so that none is ever cut."""
    for part in parts:
        console.print(part, crop=False)


class StackedTable(Table):
    """A table whose numbers are never cut or wrapped.

    Where it is too wide for a terminal, it is printed as several tables, one below the other. Each begins with the
    first ``keys`` columns, which say what a row is, and leaves out rows that have nothing else in it; the keys and
    other text may take several lines then. Where there is no terminal, every row stays on one line, so that other
    programs can read it.
    """

    def __init__(self, *, keys: int = 1) -> None:
        super().__init__(box=_BOX, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold", show_edge=False)
        self.keys = keys

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        widths = [_width(column) for column in self.columns]
        needed = sum(widths) + _GAP * (len(widths) - 1)
        if any(not column.no_wrap for column in self.columns) or needed <= options.max_width:
            yield from _stripped(console, super().__rich_console__(console, options))
            return
        if not console.is_terminal:
            yield from _stripped(console, super().__rich_console__(console, options.update(max_width=needed)))
            return
        room = max(4, int(options.max_width * _KEYS_SHARE) // max(self.keys, 1))
        columns = [self._fitted(index, room, options.max_width) for index in range(len(widths))]
        widths = [min(width, column.max_width or width) for width, column in zip(widths, columns, strict=True)]
        for number, chosen in enumerate(_parts(widths, self.keys, options.max_width)):
            if number:
                yield Text()
            needed = sum(widths[index] + _GAP for index in chosen) - _GAP
            part = self._part([columns[index] for index in chosen], chosen)
            yield from console.render(part, options.update(max_width=max(needed, options.max_width)))

    def _fitted(self, index: int, room: int, width: int) -> Column:
        """Return column ``index`` without its cells; text takes several lines where it is wider than its place."""
        column = self.columns[index].copy()
        if index < self.keys or column.justify == "left":
            most = room if index < self.keys else max(room, width - self.keys * (room + _GAP))
            return replace(column, no_wrap=False, overflow="fold", width=None, max_width=most)
        return column

    def _part(self, columns: Sequence[Column], chosen: Sequence[int]) -> Table:
        part = Table(box=_BOX, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold", show_edge=False)
        part.columns = [replace(column, _index=place, _cells=[]) for place, column in enumerate(columns)]
        cells = [list(self.columns[index].cells) for index in chosen]
        for row, values in zip(self.rows, zip(*cells, strict=True), strict=True):
            if len(columns) == self.keys or any(map(str, values[self.keys :])):
                part.add_row(*values, style=row.style)
        return part


def plain_table(*header: str, right: Sequence[int] = (), keys: int = 1) -> StackedTable:
    """Return an empty table with the columns ``header``; those with the numbers ``right`` hold numbers."""
    table = StackedTable(keys=keys)
    for column, name in enumerate(header):
        table.add_column(name, no_wrap=True, justify="right" if column in right else "left")
    return table


def _stripped(console: Console, parts: RenderResult) -> Iterator[Segment]:
    """Yield the lines of a table without the blanks at their end, which would take lines of their own if wrapped."""
    segments = [one for part in parts for one in ([part] if isinstance(part, Segment) else console.render(part))]
    for line in Segment.split_lines(segments):
        while line and not line[-1].text.strip():
            line.pop()
        if line:
            yield from line[:-1]
            yield Segment(line[-1].text.rstrip(), line[-1].style)
        yield Segment.line()


def _width(column: Column) -> int:
    """Return how wide ``column`` is where there is room."""
    cells = [column.header, *column.cells]
    texts = (cell if isinstance(cell, Text) else Text(str(cell)) for cell in cells)
    return max(column.width or 0, *(line.cell_len for text in texts for line in text.split("\n", allow_blank=True)))


def _parts(widths: Sequence[int], keys: int, most: int) -> list[list[int]]:
    """Return the columns of each part: the first ``keys``, and as many others as there is room for, at least one."""
    first = list(range(keys))
    start = sum(widths[index] + _GAP for index in first)
    parts: list[list[int]] = []
    end = 0
    for index in range(keys, len(widths)):
        if parts and end + _GAP + widths[index] <= most:
            parts[-1].append(index)
            end += _GAP + widths[index]
        else:
            parts.append([*first, index])
            end = start + widths[index]
    return parts or [first]
