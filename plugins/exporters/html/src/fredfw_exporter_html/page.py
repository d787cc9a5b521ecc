"""A page as one HTML file."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib import resources
from itertools import groupby

from jinja2 import Environment, FunctionLoader, Template, select_autoescape

from fredfw.drawing import Line, Page, Part, Spans, Table, text_of
from fredfw_exporter_html import svg

_LONG = 48  # letters
# Those of ISO/IEC 6429, without line feed and tab.
_CONTROLS = {number: "\ufffd" for number in (*range(32), *range(127, 160)) if chr(number) not in "\n\t"}


def rendered(page: Page) -> str:
    """Return the file: it needs no other one, and holds no script. Equal pages give equal text."""
    return _template().render(page=page).strip() + "\n"


def _visible(value: object) -> object:
    """Return text with marks in place of control characters, which no name needs."""
    return value.translate(_CONTROLS) if type(value) is str else value


def _grouped(parts: Iterable[Part]) -> Iterator[tuple[str, Sequence[Part]]]:
    """Yield parts with their kind; lines that follow each other are one list, which a gap ends."""
    for kind, found in groupby(parts, lambda one: one.kind if one != Line() else ""):
        if kind == "line":
            yield kind, list(found)
        elif kind:
            yield from ((kind, [one]) for one in found)


def _joined(row: tuple[Spans, ...], table: Table) -> tuple[Spans, ...]:
    """Return ``row``; where only its last cell says something, that one comes after the keys, so that it is seen."""
    keys = table.keys
    between = set(map(text_of, row[keys:-1]))
    return (*row[:keys], row[-1]) if row[-1] and between <= {"", "-"} and len(row) > keys + 2 else row


@cache
def _template() -> Template:
    folder = resources.files(__package__) / "templates"
    environment = Environment(
        loader=FunctionLoader(lambda name: (folder / name).read_text(encoding="utf-8")),
        autoescape=select_autoescape(default=True),
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests["long"] = lambda cell: len(text_of(cell)) > _LONG
    environment.filters |= {"grouped": _grouped, "joined": _joined, "svg": svg.drawn, "ink": svg.ink}
    return environment.get_template("page.html")
