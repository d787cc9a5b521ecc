"""What a page is made of. Text is plain: escaping is left to the template."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import ClassVar, TypeAlias

from attrs import field, frozen
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

_LONG = 48  # letters
_COLOURS = {"green": "good", "yellow": "warn", "cyan": "ref"}


@frozen
class Span:
    """Text in one style.

    Args:
        text: What it says.
        style: Classes of the page's style sheet, with blanks between them.
    """

    text: str
    style: str = ""


Spans: TypeAlias = tuple[Span, ...]


@frozen
class Heading:
    """Stands over what follows in a section."""

    kind: ClassVar[str] = "heading"

    spans: Spans


@frozen
class Paragraph:
    """A line of text."""

    kind: ClassVar[str] = "paragraph"

    spans: Spans


@frozen
class Items:
    """A list of lines."""

    kind: ClassVar[str] = "items"

    items: tuple[Spans, ...]


@frozen
class Grid:
    """A table.

    Args:
        header: What stands over each column.
        rows: Cells; the last one of a row that has fewer than there are columns takes the place of the others.
        right: Whether each column holds numbers.
        keys: How many of the first columns say what a row is.
    """

    kind: ClassVar[str] = "grid"

    header: tuple[str, ...]
    rows: tuple[tuple[Spans, ...], ...]
    right: tuple[bool, ...]
    keys: int = 1


@frozen
class Figure:
    """A picture.

    Args:
        svg: An SVG element, as text that is escaped already.
        caption: What it shows.
        legend: Names of colours: (name, colour).
    """

    kind: ClassVar[str] = "figure"

    svg: str
    caption: str
    legend: tuple[tuple[str, str], ...] = ()


@frozen
class Code:
    """Text that is written as it is, such as a command."""

    kind: ClassVar[str] = "code"

    text: str


@frozen
class Details:
    """What a reader may open."""

    kind: ClassVar[str] = "details"

    summary: str
    blocks: tuple[Block, ...]


Block: TypeAlias = Heading | Paragraph | Items | Grid | Figure | Code | Details


@frozen
class Section:
    """A part of a page.

    Args:
        name: Of its anchor.
        title: Its heading.
        blocks: What it holds; a section without any is left out.
    """

    name: str
    title: str
    blocks: tuple[Block, ...]


def _filled(sections: Iterable[Section]) -> tuple[Section, ...]:
    return tuple(one for one in sections if one.blocks)


@frozen
class Page:
    """A report.

    Args:
        title: The question.
        lead: What was compared, in a sentence or two.
        sections: In their order.
    """

    title: str
    lead: tuple[str, ...]
    sections: tuple[Section, ...] = field(converter=_filled)


def is_long(spans: Spans) -> bool:
    """Return whether a cell of a table is better on several lines."""
    return sum(len(span.text) for span in spans) > _LONG


def plain(text: str) -> Spans:
    """Return ``text`` without a style."""
    return (Span(text),)


def grid(header: Sequence[str], rows: Iterable[Sequence[str]], *, right: Iterable[int] = (), keys: int = 1) -> Grid:
    """Return a table of plain text; the columns with the numbers ``right`` hold numbers."""
    numbers = set(right)
    found = tuple(tuple(map(plain, row)) for row in rows)
    return Grid(tuple(header), found, tuple(index in numbers for index in range(len(header))), keys)


def blocks_of(report: Iterable[RenderableType]) -> list[Block]:
    """Return what ``report``, which is made for a terminal, says: tables, headings (bold lines) and other lines."""
    console = Console(file=io.StringIO(), color_system="standard", force_terminal=True, width=200)
    found: list[Block] = []
    lines: list[Spans] = []

    def flush() -> None:
        if lines:
            found.append(Paragraph(lines[0]) if len(lines) == 1 else Items(tuple(lines)))
            lines.clear()

    for part in report:
        if isinstance(part, Table):
            flush()
            found.append(_grid(part, console))
        elif isinstance(part, Text) and part.plain.strip():
            spans = _spans(part, console)
            if spans[0].style == "bold":
                flush()
                found.append(Heading(spans))
            else:
                lines.append(spans)
        else:
            flush()
    flush()
    return found


def _grid(table: Table, console: Console) -> Grid:
    keys = getattr(table, "keys", 1)
    columns = [[_cell(cell, console) for cell in column.cells] for column in table.columns]
    return Grid(
        header=tuple(" ".join(str(column.header).split()) for column in table.columns),
        rows=tuple(_joined(row, keys) for row in zip(*columns, strict=True)),
        right=tuple(column.justify == "right" for column in table.columns),
        keys=keys,
    )


def _joined(row: tuple[Spans, ...], keys: int) -> tuple[Spans, ...]:
    """Return ``row``; where only its last cell says something, that one comes after the keys, so that it is seen."""
    between = {span.text for cell in row[keys:-1] for span in cell}
    return (*row[:keys], row[-1]) if row[-1] and between <= {"-"} and len(row) > keys + 2 else row


def _cell(cell: RenderableType, console: Console) -> Spans:
    return _spans(cell if isinstance(cell, Text) else Text(str(cell)), console)


def _spans(text: Text, console: Console) -> Spans:
    found = []
    for segment in text.render(console):
        style = segment.style or console.get_style(text.style)  # text in one style alone has it not in its segments
        names = [name for name in ("bold", "italic", "dim") if getattr(style, name)]
        names += [_COLOURS[style.color.name]] if style.color is not None and style.color.name in _COLOURS else []
        if segment.text:
            found.append(Span(segment.text, " ".join(names)))
    return tuple(found)
