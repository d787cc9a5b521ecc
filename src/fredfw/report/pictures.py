"""Pictures as plain data: stacked bars, lines, maps of colours and points; and where values stand on an axis.

``html.svg`` draws them in a page, ``plots`` in a file of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import cycle, pairwise
from typing import Any, ClassVar, TypeAlias

from attrs import field, frozen

from fredfw.errors import InputError
from fredfw.experiment.naming import as_written
from fredfw.report.data import ordered
from fredfw.report.shown import Part
from fredfw.units import Unit, parse, render
from fredfw.workloads.labels import BUBBLE, COMPUTE, OWN

FORMATS = ("png", "svg", "pdf")

# Okabe and Ito's palette, which people with any usual colour vision can tell apart ("Color Universal Design", 2008).
_COLOURS = {COMPUTE: "#0072B2", BUBBLE: "#BBBBBB"}
_OTHER_COLOURS = ("#D55E00", "#E69F00", "#009E73", "#CC79A7", "#F0E442", "#56B4E9", "#000000", "#7F4F24", "#8A8AD6")
LINES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F4F24")
"""Of lines."""
_DECADE = 10.0
_ONE_FACTOR = 1.01  # how far apart two factors may be that count as one
_UNITS = {"s": Unit.SECONDS, "J": Unit.JOULES, "B": Unit.BYTES}
_MANY = 1000  # from here on there are no decimals
PICTURE = "picture"
At: TypeAlias = tuple[str, str]
"""A cell of a map: the value down and the value across, as written."""


@frozen(eq=False)
class Scale:
    """Where the values of a swept field stand on an axis.

    Args:
        numbers: By the value as written: numbers, or quantities in the SI unit of one dimension.
        log: Whether they are all positive, and span a decade or more or grow by one factor, such as 1, 2, 4, 8.
    """

    numbers: dict[str, float]
    log: bool


def scale_of(values: Iterable[Any]) -> Scale | None:
    """Return the scale of ``values``; ``None`` where they are not all numbers, or all quantities of one dimension."""
    found = {as_written(value): _number(value) for value in values}
    known = [one for one in found.values() if one is not None]
    numbers = {text: one[0] for text, one in found.items() if one is not None}
    if not known or len(known) < len(found) or len({unit for _, unit in known}) > 1:
        return None
    if len(set(numbers.values())) < len(numbers):
        return None
    places = sorted(numbers.values())
    return Scale(numbers, places[0] > 0 and (places[-1] >= _DECADE * places[0] or _geometric(places)))


def _geometric(places: Sequence[float]) -> bool:
    factors = [after / before for before, after in pairwise(places)]
    return len(factors) > 1 and max(factors) <= _ONE_FACTOR * min(factors)


def _number(value: Any) -> tuple[float, Unit | None] | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value), None
    if isinstance(value, str):
        for unit in Unit:
            try:
                return parse(value, unit), unit
            except InputError:
                continue
    return None


def spans(values: Iterable[float], factor: float = _DECADE) -> bool:
    """Return whether the largest of ``values`` is ``factor`` times the least, so that they need a logarithmic axis."""
    found = list(values)
    return bool(found) and min(found) > 0 and max(found) >= factor * min(found)


@frozen
class Axis:
    """What numbers along an axis are.

    Args:
        name: Of the numbers.
        unit: ``s``, ``J``, ``B``, ``$``, or another one that is not written.
        log: Whether it is logarithmic.
        ticks: Texts by place, where these are known; otherwise they are round numbers.
    """

    name: str
    unit: str = ""
    log: bool = False
    ticks: Mapping[float, str] = field(factory=dict)

    @classmethod
    def of(cls, name: str, scale: Scale) -> Axis:
        """Return the axis of a swept field."""
        return cls(name, log=scale.log, ticks={place: text for text, place in scale.numbers.items()})

    def text(self, value: float) -> str:
        """Return a number with its unit."""
        if self.unit in _UNITS:
            return render(value, _UNITS[self.unit])
        number = f"{value:,.3g}" if value < _MANY else f"{value:,.0f}"
        return f"${number}" if self.unit == "$" else number


@frozen
class Bar:
    """One of several stacked bars.

    Args:
        name: Stands before it.
        parts: Seconds by cause.
        note: Stands behind it.
        strong: Whether it is one of the best.
        fitted: Whether a number was fitted to it.
        mark: Where a published value is.
    """

    name: str
    parts: Mapping[str, float]
    note: str = ""
    strong: bool = False
    fitted: bool = False
    mark: float | None = None


@frozen(eq=False)
class Bars(Part):
    """Stacked bars, one below the other.

    Args:
        title: What they have in common.
        bars: One or more.
        declared: Colours of causes, by workload.
        axis: What their lengths are.
        end: Seconds at the end of the axis; by default of the longest.
    """

    kind: ClassVar[str] = PICTURE

    title: str
    bars: Sequence[Bar]
    declared: Sequence[Mapping[str, str]]
    axis: Axis = Axis("time", "s")
    end: float = field()

    @end.default
    def _longest(self) -> float:
        return max(max(sum(bar.parts.values()), bar.mark or 0.0) for bar in self.bars)

    @property
    def caption(self) -> str:
        """What it shows."""
        said = {
            "diamond: published value": any(bar.mark is not None for bar in self.bars),
            "dashed: calibrated (fitted) cell": any(bar.fitted for bar in self.bars),
            "bold: best": any(bar.strong for bar in self.bars),
        }
        return "; ".join(filter(None, [self.title, *(text for text, true in said.items() if true)]))

    @property
    def legend(self) -> Sequence[tuple[str, str]]:
        """Names of colours: (name, colour)."""
        return [(name if name in OWN else f"exposed {name}", colour) for name, colour in colours([self]).items()]


def colours(pictures: Sequence[Bars]) -> dict[str, str]:
    """Return the colour of each cause that takes time: what a workload declares first, or one that is free."""
    declared = [one for picture in pictures for one in picture.declared]
    found = {cause for picture in pictures for bar in picture.bars for cause, seconds in bar.parts.items() if seconds}
    known = {label: colour for one in reversed(declared) for label, colour in one.items() if colour}
    spare = cycle([one for one in _OTHER_COLOURS if one not in known.values()] or _OTHER_COLOURS)
    return {cause: _COLOURS.get(cause) or known.get(cause) or next(spare) for cause in ordered(found, declared)}


@frozen
class Series:
    """One of several lines.

    Args:
        name: For the legend; may be empty.
        points: Places along the axis and values, in the order of places.
        level: A value that holds everywhere, instead of points.
    """

    name: str
    points: Sequence[tuple[float, float]] = ()
    level: float | None = None


@frozen(eq=False)
class Curves(Part):
    """Lines over a swept field.

    Args:
        title: What they have in common; may be empty.
        across: The field.
        up: What is shown of each value.
        series: The lines.
        marks: Places and values that were published.
    """

    kind: ClassVar[str] = PICTURE

    title: str
    across: Axis
    up: Axis
    series: Sequence[Series]
    marks: Sequence[tuple[float, float]] = ()

    @property
    def values(self) -> list[float]:
        """All that lines go through."""
        levels = [one.level for one in self.series if one.level is not None]
        return [*(value for one in self.series for _, value in one.points), *levels]

    @property
    def caption(self) -> str:
        """What it shows."""
        title = " ".join(filter(None, [self.title, f"over {self.across.name}"]))
        return f"{title}; diamond: published value" if self.marks else title

    @property
    def legend(self) -> Sequence[tuple[str, str]]:
        """Names of colours: (name, colour)."""
        found = [(one.name, line_colour(number)) for number, one in enumerate(self.series) if one.name]
        return found if len(found) > 1 else ()


def line_colour(number: int) -> str:
    """Return the colour of a line."""
    return LINES[number % len(LINES)]


@frozen(eq=False)
class HeatMap(Part):
    """A colour for each pair of values of two swept fields.

    Args:
        title: What they have in common; may be empty.
        down: Name of the first field.
        across: Name of the second one.
        rows: The values of the first as written, from the least.
        columns: Those of the second one.
        axis: What is shown of each pair; less of seconds is better, and more of all else.
        values: Numbers by both values; those of cells without a result are missing.
        best: Where the best are.
    """

    kind: ClassVar[str] = PICTURE

    title: str
    down: str
    across: str
    rows: Sequence[str]
    columns: Sequence[str]
    axis: Axis
    values: Mapping[At, float]
    best: frozenset[At] = frozenset()

    @property
    def shades(self) -> dict[At, float]:
        """How good each one is, from 0 to 1: by the logarithm, where the values span a decade."""
        log = spans(self.values.values())
        places = {at: math.log(value) if log else value for at, value in self.values.items()}
        low, high = min(places.values()), max(places.values())
        shares = {at: (place - low) / (high - low) if high > low else 1.0 for at, place in places.items()}
        return {at: 1.0 - share for at, share in shares.items()} if self.axis.unit == "s" and high > low else shares

    @property
    def blank(self) -> str:
        """What blank cells are, where there are some."""
        return "; blank: no result" if len(self.values) < len(self.rows) * len(self.columns) else ""

    @property
    def caption(self) -> str:
        """What it shows."""
        return f"{self.title} {self.axis.name}; the lighter the better{self.blank}".strip()


@frozen
class Dot:
    """A point.

    Args:
        x: Place.
        y: Value.
        name: Shown by a pointing device.
        colour: Of it.
        strong: Whether it is one that others do not beat.
    """

    x: float
    y: float
    name: str
    colour: str = LINES[0]
    strong: bool = False


@frozen(eq=False)
class Dots(Part):
    """Points, of which those that others do not beat are joined.

    Args:
        caption: What they show.
        across: Of their places.
        up: Of their values.
        dots: One or more.
        legend: Names of their colours.
        diagonal: Whether there is a line where both numbers are equal.
    """

    kind: ClassVar[str] = PICTURE

    caption: str
    across: Axis
    up: Axis
    dots: Sequence[Dot]
    legend: Sequence[tuple[str, str]] = ()
    diagonal: bool = False


Picture: TypeAlias = Bars | Curves | HeatMap | Dots


@contextmanager
def importing(option: str, what: str = "a picture", package: str = "matplotlib", extra: str = "plot") -> Iterator[None]:
    """Turn a missing ``package`` into an ``InputError`` that says how to get it.

    Args:
        option: Key of the error.
        what: Needs it.
        package: What may be missing.
        extra: Of fredfw, that has it.
    """
    try:
        yield
    except ImportError as error:
        raise InputError(
            f"{what} needs {package} ({error})", key=option, accepted=f"pip install 'fredfw[{extra}]'"
        ) from error
