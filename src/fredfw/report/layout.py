"""What is shown, on a terminal; a table that is too wide is printed as several, one below the other."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from attrs import field, frozen
from rich.box import Box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.table import Table as RichTable
from rich.text import Text

from fredfw.report.shown import Heading, Line, Part, Spans, Table, spans, text_of
from fredfw.terminal import printable

_PIPE_WIDTH = 100
_GAP = 2  # from one column to the next
_BOX = Box("    \n    \n -- \n    \n    \n    \n    \n    \n", ascii=True)  # only a line below the header
_KEYS_SHARE = 0.45  # of the width: more than this the key columns do not take where there is not room for all
_COLOURS = {"good": "green", "warn": "yellow", "ref": "cyan"}


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
    parts = list(parts)
    least: dict[str, int] = {}
    for part in parts:
        if isinstance(part, Table) and part.alike:
            for title, width in zip(part.header, _widths(part), strict=True):
                least[title] = max(width, least.get(title, 0))
    for part in parts:
        console.print(_Stacked(part, least) if isinstance(part, Table) and part.alike else part, crop=False)


def drawn(part: Part) -> RenderableType:
    if isinstance(part, Table):
        return _Stacked(part)
    if isinstance(part, Heading):
        return _text(part.spans, "bold")
    if isinstance(part, Line):
        return _text(part.spans)
    raise TypeError(f"a terminal shows no {part.kind}")


def _text(said: Spans, style: str = "") -> Text:
    parts = ((one.text, " ".join(_COLOURS.get(word, word) for word in one.style.split()) or style) for one in said)
    return Text.assemble(*parts)


@frozen(eq=False)
class _Stacked:
    """A table whose numbers are never cut or wrapped.

    Where it is too wide for a terminal, it is several, each with the columns that say what a row is, without rows that
    have nothing else in it. Elsewhere a row stays on one line, for other programs. Prose takes several.
    """

    table: Table
    least: Mapping[str, int] = field(factory=dict)  # letters of columns, by title

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table, most = self.table, options.max_width
        every = range(len(table.header))
        own = zip(table.header, _widths(table), strict=True)
        widths = [max(width, self.least.get(title, 0)) for title, width in own]
        needed = _needed(widths)
        if table.folded or needed <= most or not console.is_terminal:
            options = options if table.folded else options.update(max_width=max(needed, most))
            yield from _stripped(console.render(self._part(every, {}), options))
            return
        room = max(4, int(most * _KEYS_SHARE) // max(table.keys, 1))
        # Text takes several lines where it is wider than its place.
        places = dict.fromkeys(every[: table.keys], room)
        places |= dict.fromkeys(set(every[table.keys :]) - table.right, max(room, most - table.keys * (room + _GAP)))
        widths = [min(width, places.get(column, width)) for column, width in enumerate(widths)]
        for number, chosen in enumerate(_parts(widths, table.keys, most)):
            if number:
                yield Text()
            needed = _needed(widths[column] for column in chosen)
            yield from console.render(self._part(chosen, places), options.update(max_width=max(needed, most)))

    def _part(self, chosen: Sequence[int], places: dict[int, int]) -> RichTable:
        """Return the columns ``chosen``, some of which have ``places`` of so many letters."""
        table = self.table
        folded = {*places, *table.folded}
        part = RichTable(box=_BOX, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold", show_edge=False)
        for column in chosen:
            part.add_column(
                table.header[column],
                justify="right" if column in table.right else "left",
                no_wrap=column not in folded,
                overflow="fold" if column in folded else "ellipsis",
                width=None if column in places else self.least.get(table.header[column]),
                max_width=places.get(column),
            )
        for row in table.rows:
            if not places or len(chosen) == table.keys or any(row[column] for column in chosen[table.keys :]):
                part.add_row(*(_text(row[column]) for column in chosen))
        return part


def _widths(table: Table) -> list[int]:
    columns = zip(*([text_of(cell) for cell in row] for row in [map(spans, table.header), *table.rows]), strict=True)
    return [max(Text(line).cell_len for text in column for line in text.split("\n")) for column in columns]


def _stripped(segments: Iterable[Segment]) -> Iterator[Segment]:
    """Yield the lines of a table without the blanks at their end, which would take lines of their own if wrapped."""
    for line in Segment.split_lines(segments):
        while line and not line[-1].text.strip():
            line.pop()
        if line:
            yield from line[:-1]
            yield Segment(line[-1].text.rstrip(), line[-1].style)
        yield Segment.line()


def _parts(widths: Sequence[int], keys: int, most: int) -> list[list[int]]:
    """Return the columns of each part: the first ``keys``, and as many others as there is room for, at least one."""
    parts = [[*range(keys)]]
    for index in range(keys, len(widths)):
        wider = [*parts[-1], index]
        if len(wider) == keys + 1 or _needed(widths[column] for column in wider) <= most:
            parts[-1] = wider
        else:
            parts.append([*range(keys), index])
    return parts


def _needed(widths: Iterable[int]) -> int:
    return sum(width + _GAP for width in widths) - _GAP
