"""Pictures as plain data, and where values stand on an axis; exporters draw them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle, pairwise
from typing import Any, TypeAlias

from attrs import field, frozen

from fredfw.errors import InputError
from fredfw.experiment.naming import as_written
from fredfw.report.cells import exposed, ordered
from fredfw.report.numbers import MANY
from fredfw.report.shown import Part
from fredfw.units import Unit, parse, render
from fredfw.workloads.labels import BUBBLE, COMPUTE

# Okabe and Ito's palette, which people with any usual colour vision can tell apart ("Color Universal Design", 2008).
_COLOURS = {COMPUTE: "#0072B2", BUBBLE: "#BBBBBB"}
_OTHER_COLOURS = ("#D55E00", "#E69F00", "#009E73", "#CC79A7", "#F0E442", "#56B4E9", "#000000", "#7F4F24", "#8A8AD6")
LINES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F4F24")
_DECADE = 10.0
_ONE_FACTOR = 1.01  # how far apart two factors may be that count as one
At: TypeAlias = tuple[str, str]  # a cell of a map: the value down and the value across, as written


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
    """What numbers along an axis are."""

    name: str
    unit: str = ""  #: s, J, B, $, or another one that is not written
    log: bool = False
    places: Mapping[str, float] = field(factory=dict)  #: by what stands there, the least first; empty: round numbers

    @classmethod
    def of_numbers(cls, name: str, values: Iterable[Any]) -> Axis | None:
        """Return the axis of a swept field; ``None`` where values are no numbers or quantities of one dimension."""
        found = {as_written(value): _number(value) for value in values}
        known = {text: one for text, one in found.items() if one is not None}
        numbers = {text: number for text, (number, _) in sorted(known.items(), key=lambda one: one[1][0])}
        places = sorted(set(numbers.values()))
        if not places or len(places) < len(found) or len({unit for _, unit in known.values()}) > 1:
            return None
        factors = [after / before for before, after in pairwise(places) if before > 0]
        geometric = len(factors) > 1 and max(factors) <= _ONE_FACTOR * min(factors)  # such as 1, 2, 4, 8
        return cls(name, log=spans(places) or (places[0] > 0 and geometric), places=numbers)

    @classmethod
    def of_any(cls, name: str, values: Iterable[Any]) -> Axis:
        """Return the axis of a swept field, likewise; what are no numbers stands in the order given."""
        every = list(values)
        texts = dict.fromkeys(map(as_written, every))
        return cls.of_numbers(name, every) or cls(name, places={text: float(at) for at, text in enumerate(texts)})

    def text(self, value: float) -> str:
        """Return ``value`` as a tick says it, with its unit."""
        if self.unit in ("s", "J", "B"):
            return render(value, Unit(self.unit))
        number = f"{value:,.3g}" if value < MANY else f"{value:,.0f}"
        return f"${number}" if self.unit == "$" else number


@frozen
class Bar:
    """One of several stacked bars."""

    name: str
    parts: Mapping[str, float]  #: seconds by cause
    note: str = ""  #: stands behind it
    strong: bool = False  #: one of the best
    fitted: bool = False  #: a number was fitted to it
    mark: float | None = None  #: where a published value is


@frozen(eq=False)
class Bars(Part):
    """One or more stacked bars, one below the other."""

    kind = "picture"

    title: str  #: what they have in common
    bars: Sequence[Bar]
    declared: Sequence[Mapping[str, str]]  #: colours of causes, by workload
    axis: Axis = Axis("time", "s")
    end: float = field()  #: of the axis

    @end.default
    def _longest(self) -> float:
        return max(max(sum(bar.parts.values()), bar.mark or 0.0) for bar in self.bars)

    @property
    def caption(self) -> str:
        """The title, and what marks mean."""
        said = {
            "diamond: published value": any(bar.mark is not None for bar in self.bars),
            "dashed: calibrated (fitted) cell": any(bar.fitted for bar in self.bars),
            "bold: best": any(bar.strong for bar in self.bars),
        }
        return "; ".join(filter(None, [self.title, *(text for text, true in said.items() if true)]))

    @property
    def legend(self) -> Sequence[tuple[str, str]]:
        """Causes and their colours."""
        return [(exposed(cause), colour) for cause, colour in colours([self]).items()]


def colours(pictures: Sequence[Bars]) -> dict[str, str]:
    """Return the colour of each cause that takes time: what a workload declares first, or one that is free."""
    declared = [one for picture in pictures for one in picture.declared]
    found = {cause for picture in pictures for bar in picture.bars for cause, seconds in bar.parts.items() if seconds}
    known = {label: colour for one in reversed(declared) for label, colour in one.items() if colour}
    spare = cycle([one for one in _OTHER_COLOURS if one not in known.values()] or _OTHER_COLOURS)
    return {cause: _COLOURS.get(cause) or known.get(cause) or next(spare) for cause in ordered(found, declared)}


@frozen
class Series:
    """One of several lines."""

    name: str  #: for the legend; may be empty
    points: Sequence[tuple[float, float]] = ()  #: places along the axis and values, in the order of places
    level: float | None = None  #: a value that holds everywhere, instead of points
    measured: Sequence[tuple[float, float]] = ()  #: what was measured of it, likewise


@frozen(eq=False)
class Curves(Part):
    """Lines over a swept field."""

    kind = "picture"

    title: str  #: what they have in common; may be empty
    across: Axis
    up: Axis
    series: Sequence[Series]
    marks: Sequence[tuple[float, float]] = ()  #: places and values that were published

    @property
    def places(self) -> list[float]:
        """Where the axis has ticks, or else where something stands."""
        found = (place for one in self.series for place, _ in (*one.points, *one.measured))
        return [*self.across.places.values()] or [*found]

    @property
    def values(self) -> list[float]:
        """What the lines go through."""
        levels = [one.level for one in self.series if one.level is not None]
        return [*(value for one in self.series for _, value in (*one.points, *one.measured)), *levels]

    @property
    def caption(self) -> str:
        """The title, and what marks mean."""
        title = " ".join(filter(None, [self.title, f"over {self.across.name}"]))
        measured = "; line: predicted, rings: measured" if any(one.measured for one in self.series) else ""
        return f"{title}{measured}{'; diamond: published value' if self.marks else ''}"

    @property
    def legend(self) -> Sequence[tuple[str, str]]:
        """Lines and their colours, where there are several."""
        found = [(one.name, line_colour(number)) for number, one in enumerate(self.series) if one.name]
        return found if len(found) > 1 else ()


def line_colour(number: int) -> str:
    """Return the colour of the line with that number."""
    return LINES[number % len(LINES)]


def coloured(names: Iterable[str]) -> dict[str, str]:
    return {name: line_colour(number) for number, name in enumerate(dict.fromkeys(names))}


@frozen(eq=False)
class HeatMap(Part):
    """A colour for each pair of values of two swept fields; less of seconds is better, and more of all else."""

    kind = "picture"

    title: str  #: what they have in common; may be empty
    down: Axis  #: the first field
    across: Axis
    axis: Axis
    values: Mapping[At, float]  #: those of cells without a result are missing
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
        """What cells without a colour mean, where there are some."""
        return "; blank: no result" if len(self.values) < len(self.down.places) * len(self.across.places) else ""

    @property
    def caption(self) -> str:
        """The title, and what shades mean."""
        return f"{self.title} {self.axis.name}; the lighter the better{self.blank}".strip()


@frozen
class Dot:
    """A point."""

    x: float
    y: float
    name: str  #: shown by a pointing device
    colour: str = LINES[0]
    strong: bool = False  #: one that others do not beat


@frozen(eq=False)
class Dots(Part):
    """One or more points, of which those that others do not beat are joined."""

    kind = "picture"

    caption: str
    across: Axis
    up: Axis
    dots: Sequence[Dot]
    legend: Sequence[tuple[str, str]] = ()
    diagonal: bool = False  #: a line where both numbers are equal


Picture: TypeAlias = Bars | Curves | HeatMap | Dots
