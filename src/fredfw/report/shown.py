"""What is shown, as plain data: lines of text, headings, tables, pictures, and pages of them.

Text is plain: what has a meaning in a medium is escaped where that is drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from attrs import field, frozen

if TYPE_CHECKING:
    from rich.console import RenderableType


@frozen
class Span:
    """Text in one style, which says nothing that the text does not say."""

    text: str
    style: str = ""  #: words with blanks between them: bold, italic, dim, and of colours good, warn, ref


Spans: TypeAlias = tuple[Span, ...]
Said: TypeAlias = str | Span | Iterable[Span]  # what becomes spans; those without text are left out


def spans(said: Said) -> Spans:
    found = (Span(said),) if isinstance(said, str) else (said,) if isinstance(said, Span) else said
    return tuple(one for one in found if one.text)


def text_of(said: Spans) -> str:
    """Return the text alone."""
    return "".join(one.text for one in said)


class Part:
    """Something that is shown; rich draws it, too."""

    @property
    def kind(self) -> str:
        """Its class in small letters, or ``picture``."""
        return type(self).__name__.lower()

    def __rich__(self) -> RenderableType:
        from fredfw.report.layout import drawn

        return drawn(self)


@frozen
class Line(Part):
    """A line of text; one without any is a gap."""

    spans: Spans = field(converter=spans, default=())


@frozen
class Heading(Part):
    """Stands over what follows."""

    spans: Spans = field(converter=spans)


GAP = Line()


def _numbers(numbers: Iterable[int]) -> frozenset[int]:
    return frozenset(numbers)


def _cells(rows: Iterable[Iterable[Said]]) -> tuple[tuple[Spans, ...], ...]:
    return tuple(tuple(map(spans, row)) for row in rows)


@frozen
class Table(Part):
    """A table, with a title over each column."""

    header: Sequence[str]
    rows: tuple[tuple[Spans, ...], ...] = field(converter=_cells)
    right: frozenset[int] = field(converter=_numbers, default=(), kw_only=True)  #: the columns that hold numbers
    keys: int = field(default=1, kw_only=True)  #: how many of the first columns say what a row is
    folded: frozenset[int] = field(converter=_numbers, default=(), kw_only=True)  #: prose, which may take several lines
    alike: bool = field(default=False, kw_only=True)  #: as wide as columns of the same title in other such tables


@frozen
class Code(Part):
    """Text that is written as it is, such as a command."""

    text: str


@frozen
class Details(Part):
    """What a reader may open."""

    summary: str
    parts: Sequence[Part]


@frozen
class Section:
    """A part of a page: the name of its anchor, its title, and what it holds."""

    name: str
    title: str
    parts: Sequence[Part]


def _filled(sections: Iterable[Section]) -> tuple[Section, ...]:
    return tuple(one for one in sections if one.parts)


@frozen
class Page:
    """A report: the question, what was compared in a sentence or two, and the sections that hold something."""

    title: str
    lead: Sequence[str]
    sections: tuple[Section, ...] = field(converter=_filled)


def notes_of(notes: Iterable[str]) -> list[Part]:
    return [Line(Span(f"note: {note}", "warn")) for note in notes]
