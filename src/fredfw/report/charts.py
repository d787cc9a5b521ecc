"""What pictures of a comparison show, whatever draws them: stacked bars, lines over a swept field, or maps of two."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle, groupby
from typing import Any, TypeAlias

from attrs import frozen

from fredfw.experiment.naming import as_written, fill, unfilled
from fredfw.experiment.results import Row
from fredfw.report.data import RowGroup, causes_with_time, rate_of, row_groups, uneven_rate
from fredfw.report.pictures import Scale, scale_of
from fredfw.workloads.labels import BUBBLE, COMPUTE

# Okabe and Ito's palette, which people with any usual colour vision can tell apart ("Color Universal Design", 2008).
_COLOURS = {
    COMPUTE: "#0072B2",
    BUBBLE: "#BBBBBB",
}
_OTHER_COLOURS = ("#D55E00", "#E69F00", "#009E73", "#CC79A7", "#F0E442", "#56B4E9", "#000000", "#7F4F24", "#8A8AD6")
LINES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F4F24")
"""Of lines."""

_FEW = 3  # values that are worth a line
_GRID = 4  # values of each of two fields that are worth a map
_MOST_SERIES = 8
_MOST_BARS = 40
_DECADE = 10.0


@frozen(eq=False)
class Bars:
    """Stacked bars, one below the other.

    Args:
        title: What they have in common.
        rows: One per bar.
        names: Of the bars.
        longest: Seconds at the end of the axis.
    """

    title: str
    rows: Sequence[Row]
    names: Sequence[str]
    longest: float


@frozen(eq=False)
class Curves:
    """Lines over a swept field.

    Args:
        title: What they have in common; may be empty.
        field: Name of the swept field.
        scale: Its values.
        series: Rows of each line, by name.
        others: Rows of fabrics that are not swept, by name.
    """

    title: str
    field: str
    scale: Scale
    series: Mapping[str, Sequence[Row]]
    others: Mapping[str, Row]

    @property
    def rows(self) -> list[Row]:
        """All of them."""
        return [*(row for members in self.series.values() for row in members), *self.others.values()]

    @property
    def rate(self) -> str | None:
        """What is drawn instead of time where rows train different amounts; see ``uneven_rate``."""
        return uneven_rate(self.rows)

    def value(self, row: Row) -> float:
        """Return what is drawn of ``row``: seconds, or its rate."""
        return row.seconds if self.rate is None else rate_of(row, self.rate)

    def place(self, row: Row) -> float:
        """Return where ``row`` stands along the axis."""
        return self.scale.numbers[as_written(_settings(row)[self.field])]


@frozen(eq=False)
class HeatMap:
    """A colour for each pair of values of two swept fields.

    Args:
        title: What they have in common; may be empty.
        down: Name of the first field.
        across: Name of the second one.
        rows: The values of the first as written, from the least.
        columns: Those of the second one.
        cells: Rows by both values; those of cells without a result are missing.
        rate: What is shown instead of time where rows train different amounts; see ``uneven_rate``.
    """

    title: str
    down: str
    across: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: Mapping[tuple[str, str], Row]
    rate: str | None

    @property
    def values(self) -> dict[tuple[str, str], float]:
        """Seconds, or the rate, by both values."""
        return {at: row.seconds if self.rate is None else rate_of(row, self.rate) for at, row in self.cells.items()}

    @property
    def shades(self) -> dict[tuple[str, str], float]:
        """How good each one is, from 0 to 1: by the logarithm, where the values span a decade."""
        values = self.values
        log = spans(values.values())
        places = {at: math.log(value) if log else value for at, value in values.items()}
        low, high = min(places.values()), max(places.values())
        shares = {at: (place - low) / (high - low) if high > low else 1.0 for at, place in places.items()}
        return shares if self.rate is not None or high == low else {at: 1.0 - share for at, share in shares.items()}


Chart: TypeAlias = Bars | Curves | HeatMap


def charts(rows: Sequence[Row]) -> list[Chart]:
    """Return what to draw of ``rows``: maps of two numeric fields, lines over one, or else bars."""
    return [chart for group in row_groups(rows) for chart in _charts(group)]


def spans(values: Iterable[float], factor: float = _DECADE) -> bool:
    """Return whether the largest of ``values`` is ``factor`` times the least, so that they need a logarithmic axis."""
    found = list(values)
    return min(found) > 0 and max(found) >= factor * min(found)


def published(row: Row) -> float | None:
    """Return the seconds at the published speed-up, if there is one."""
    if row.reference_speedup is None or row.speedup is None:
        return None
    return row.seconds * row.speedup / row.reference_speedup


def colours(rows: Sequence[Row]) -> dict[str, str]:
    """Return the colour of each cause that takes time in ``rows``: what a workload declares, or one that is free."""
    return cause_colours(causes_with_time(rows), [row.colours for row in rows])


def cause_colours(causes: Iterable[str], declared: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return the colour of each of ``causes``, of those that workloads have ``declared`` the first one."""
    known = {label: colour for one in reversed(declared) for label, colour in one.items() if colour}
    spare = cycle([one for one in _OTHER_COLOURS if one not in known.values()] or _OTHER_COLOURS)
    return {cause: _COLOURS.get(cause) or known.get(cause) or next(spare) for cause in causes}


def _charts(group: RowGroup) -> Sequence[Chart]:
    rows = group.rows
    title = unfilled(group.name)
    title = "" if set(title.split()) <= set(group.fields) else title  # names of fields say nothing new
    maps = _maps(title, rows)
    if maps:
        return maps
    field = _most(_numeric(rows, "workload") or _numeric(rows, "fabric"))
    if field is not None:
        name, scale = field
        curves = _curves(title, name, scale, rows)
        if len(curves.series) > 1 or spans([row.seconds for row in rows]):
            fabrics = list(dict.fromkeys(row.fabric for row in rows))
            if len(curves.series) <= _MOST_SERIES or len(fabrics) == 1 or name not in rows[0].workload_settings:
                return [curves]
            of = [[row for row in rows if row.fabric == fabric] for fabric in fabrics]
            return [_curves(part[0].fabric, name, scale, part, fabrics=False) for part in of]
    if len({row.fabric for row in rows}) == 1:
        names = [", ".join(map(as_written, row.workload_settings.values())) or row.fabric for row in rows]
        swept = f"by {' and '.join(group.fields)}" if group.fields else ""
        return _bars(f"{title} {swept}".strip(), rows, names)
    parts = [list(members) for _, members in groupby(rows, key=lambda row: row.workload)]
    # One axis for all of a sweep, unless that would make bars too short to be read.
    ends = list(map(_longest, parts))
    one = None if spans(ends) else max(ends)
    return [bars for part in parts for bars in _bars(part[0].workload, part, [row.fabric for row in part], longest=one)]


def _settings(row: Row) -> dict[str, Any]:
    return {**row.fabric_settings, **row.workload_settings}


def _numeric(rows: Sequence[Row], kind: str) -> dict[str, Scale]:
    """Return the swept fields of workloads or fabrics that have a few values on one scale."""
    settings = [getattr(row, f"{kind}_settings") for row in rows]
    scales = {
        name: scale_of([one[name] for one in settings if name in one])
        for name in dict.fromkeys(name for one in settings for name in one)
    }
    return {name: one for name, one in scales.items() if one is not None and len(one.numbers) >= _FEW}


def _most(fields: Mapping[str, Scale]) -> tuple[str, Scale] | None:
    """Return the field with most values."""
    return max(fields.items(), key=lambda one: len(one[1].numbers)) if fields else None


def _maps(title: str, rows: Sequence[Row]) -> list[HeatMap]:
    """Return a map for each value of all else, where two fields have many values each and each pair of them a row."""
    scales = {**_numeric(rows, "fabric"), **_numeric(rows, "workload")}
    long = [name for name, scale in scales.items() if len(scale.numbers) >= _GRID]
    if len(long) != 2:
        return []
    down, across = sorted(long, key=list(dict.fromkeys(name for row in rows for name in _names(row))).index)
    parts: dict[str, dict[tuple[str, str], Row]] = {}
    for row in rows:
        found = _settings(row)
        if down not in found or across not in found:
            return []
        rest = [f"{key} {as_written(value)}" for key, value in found.items() if key not in long]
        rest += [row.fabric if not row.fabric_settings else unfilled(row.fabric_template)]
        parts.setdefault(", ".join(filter(None, rest)), {})[as_written(found[down]), as_written(found[across])] = row
    if sum(map(len, parts.values())) < len(rows):
        return []
    lines, columns = (
        tuple(sorted(scales[name].numbers, key=scales[name].numbers.__getitem__)) for name in (down, across)
    )
    rate = uneven_rate(rows)
    titles = {rest: " on ".join(filter(None, [title, rest if len(parts) > 1 else ""])) for rest in parts}
    return [HeatMap(titles[rest], down, across, lines, columns, cells, rate) for rest, cells in parts.items()]


def _names(row: Row) -> list[str]:
    return [*row.workload_settings, *row.fabric_settings]


def _bars(title: str, rows: Sequence[Row], names: Sequence[str], *, longest: float | None = None) -> list[Bars]:
    """Return the charts of ``rows``: several with the same axis, where there are too many."""
    end = longest or _longest(rows)
    return [
        Bars(title, rows[start : start + _MOST_BARS], names[start : start + _MOST_BARS], end)
        for start in range(0, len(rows), _MOST_BARS)
    ]


def _curves(title: str, field: str, scale: Scale, rows: Sequence[Row], *, fabrics: bool = True) -> Curves:
    series: dict[str, list[Row]] = {}
    others: dict[str, Row] = {}
    several = fabrics and len({row.fabric for row in rows}) > 1
    vary = [
        key
        for key in rows[0].workload_settings
        if key != field and len({as_written(row.workload_settings[key]) for row in rows}) > 1
    ]
    for row in rows:
        names = [f"{key} {as_written(row.workload_settings[key])}" for key in vary]
        if field in row.workload_settings:
            names += [row.fabric] if several else []
        else:
            rest = {key: value for key, value in row.fabric_settings.items() if key != field}
            names.append(unfilled(fill(row.fabric_template, rest)))
        name = ", ".join(names)
        if field in row.workload_settings or field in row.fabric_settings:
            series.setdefault(name, []).append(row)
        else:
            others[name] = row
    return Curves(title, field, scale, series, others)


def _longest(rows: Sequence[Row]) -> float:
    return max(max(row.seconds, published(row) or 0.0) for row in rows)
