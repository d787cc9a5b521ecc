"""What pictures of a comparison show: stacked bars, lines over a swept field, maps of two, points of two metrics."""

from collections.abc import Collection, Iterable, Sequence
from itertools import chain, groupby
from typing import Any

from attrs import evolve

from fredfw.errors import InputError
from fredfw.experiment.file.spec import SavingSpec
from fredfw.experiment.metrics import METRICS, Metric, pareto, scores
from fredfw.experiment.naming import as_written, fill, unfilled
from fredfw.experiment.results import Row, Saving, Status
from fredfw.report.cells import TIME, Group, best_cells, groups, measure, settings
from fredfw.report.comparison import saving_name
from fredfw.report.pictures import At, Axis, Bar, Bars, Curves, Dot, Dots, HeatMap, Picture, Series, coloured, spans
from fredfw.report.runs import result_name
from fredfw.units import Unit, render

_FEW = 3  # values that are worth a line, and points that are worth a picture
_GRID = 4  # values of each of two fields that are worth a map
_MOST_SERIES = 8
_MOST_BARS = 40
_TIME = "iteration time"
_FRONTS = (("cost", "time"), ("npu-seconds", "samples/s"))
_Best = Collection[tuple[str, str]]


def charts(rows: Sequence[Row]) -> list[Picture]:
    """Return what to draw of ``rows``: maps of two numeric fields, lines over one, or else bars.

    Bars end in the speed-up, with a mark at the published time. A single line over less than a decade is bars, too.
    """
    best = best_cells(rows)
    return [chart for group in groups(rows) for chart in _charts(group, best)]


def time_bars(title: str, rows: Sequence[Row], names: Sequence[str], best: _Best, *, end: float | None = None) -> Bars:
    by = measure(rows)
    bars = [
        Bar(name, row.breakdown, _note(row, by), _is_in(best, row), row.status is Status.CALIBRATED, _published(row))
        for name, row in zip(names, rows, strict=True)
    ]
    return Bars(title, bars, [row.colours for row in rows], Axis(_TIME, "s"), end or _longest(rows))


def _is_in(best: _Best, row: Row) -> bool:
    return (row.workload, row.fabric) in best


def trade_offs(rows: Sequence[Row]) -> list[Dots]:
    """Return points by two metrics that are both known and differ; those that none beats in both are joined."""
    found = []
    for names in _FRONTS:
        chosen = [METRICS[name] for name in names]
        for group in groups(rows):
            known = [row for row in group.rows if all(one.of(row) is not None for one in chosen)]
            if len(known) < _FEW or any(len({one.of(row) for row in known}) < 2 for one in chosen):
                continue
            front = pareto(scores(known, chosen, "--report"))
            colours = coloured(row.fabric_template for row in known)
            across, up = (metric_axis(one, [_value(row, one) for row in known]) for one in chosen)
            dots = []
            for number, row in enumerate(known):
                x, y = (_value(row, one) for one in chosen)
                name = f"{result_name(row)}: {across.text(x)}, {up.text(y)}"
                dots.append(Dot(x, y, name, colours[row.fabric_template], number in front))
            caption = f"{title_of(group)}: {up.name} over {across.name}".removeprefix(": ")
            caption += "; joined: no other cell beats these in both" if len(front) > 1 else ""
            found.append(Dots(caption, across, up, dots, list(colours.items()) if len(colours) > 1 else ()))
    return found


def metric_axis(one: Metric, values: Iterable[float]) -> Axis:
    return Axis(one.name, one.unit, spans(values))


def _value(row: Row, by: Metric) -> float:
    return by.of(row) or 0.0


def _value_axis(by: Metric, values: Iterable[float]) -> Axis:
    axis = metric_axis(by, values)
    return evolve(axis, name=_TIME) if by is TIME else axis


def _published(row: Row) -> float | None:
    if row.reference_speedup is None or row.speedup is None:
        return None
    return row.seconds * row.speedup / row.reference_speedup


def _note(row: Row, by: Metric) -> str:
    if by is not TIME:
        return f"{_value(row, by):.3g} {by.name}"
    return render(row.seconds, Unit.SECONDS, 4) if row.speedup is None else f"{row.speedup:.2f}x"


def title_of(group: Group) -> str:
    title = unfilled(group.name)
    return "" if set(title.split()) <= set(group.fields) else title  # names of fields say nothing new


def _charts(group: Group, best: _Best) -> Sequence[Picture]:
    rows = group.rows
    title = title_of(group)
    maps = _maps(title, rows, best)
    if maps:
        return maps
    numeric = _numeric(rows, "workload") or _numeric(rows, "fabric")
    if numeric:
        field = max(numeric, key=lambda one: len(one.places))  # with most values
        curves = _curves(title, field, rows)
        lines = sum(one.level is None for one in curves.series)
        if lines > 1 or spans([row.seconds for row in rows]):
            fabrics = list(dict.fromkeys(row.fabric for row in rows))
            if lines <= _MOST_SERIES or len(fabrics) == 1 or field.name not in rows[0].workload_settings:
                return [curves]
            of = [[row for row in rows if row.fabric == fabric] for fabric in fabrics]
            return [_curves(part[0].fabric, field, part, fabrics=False) for part in of]
    if len({row.fabric for row in rows}) == 1:
        names = [", ".join(map(as_written, row.workload_settings.values())) or row.fabric for row in rows]
        swept = f"by {' and '.join(group.fields)}" if group.fields else ""
        return _bars(f"{title} {swept}".strip(), rows, names, best)
    parts = [list(members) for _, members in groupby(rows, key=lambda row: row.workload)]
    # One axis for all of a sweep, unless that would make bars too short to be read.
    ends = list(map(_longest, parts))
    end = None if spans(ends) else max(ends)
    found = (_bars(part[0].workload, part, [row.fabric for row in part], best, end) for part in parts)
    return list(chain.from_iterable(found))


def check_maps(savings: Iterable[Saving | SavingSpec]) -> None:
    if all(len(saving.by) != 2 for saving in savings):
        accepted = "[[savings]] with by = [...] of two swept fields"
        raise InputError("there is no saving by two fields to draw", key="--map", accepted=accepted)


def saving_maps(savings: Iterable[Saving]) -> list[HeatMap]:
    """Return a map of each of ``savings`` that goes by two fields: the first one down, the second one across."""
    maps = []
    for saving in (one for one in savings if len(one.by) == 2):
        down, across = (Axis.of_any(name, (group.at[name] for group in saving.groups)) for name in saving.by)
        places = ((as_written(group.at[down.name]), as_written(group.at[across.name])) for group in saving.groups)
        values = dict(zip(places, (group.saving for group in saving.groups), strict=True))
        maps.append(HeatMap(saving_name(saving), down, across, Axis("time saved"), values))
    return maps


def _settings(row: Row) -> dict[str, Any]:
    return {**row.fabric_settings, **row.workload_settings}


def _numeric(rows: Sequence[Row], kind: str) -> list[Axis]:
    found = [settings(row, kind) for row in rows]
    names = dict.fromkeys(chain.from_iterable(found))
    axes = (Axis.of_numbers(name, [one[name] for one in found if name in one]) for name in names)
    return [one for one in axes if one is not None and len(one.places) >= _FEW]


def _maps(title: str, rows: Sequence[Row], best: _Best) -> list[HeatMap]:
    """Return a map for each value of all else, where two fields have many values each and each pair of them a row."""
    numeric = {one.name: one for kind in ("fabric", "workload") for one in _numeric(rows, kind)}
    long = {name: one for name, one in numeric.items() if len(one.places) >= _GRID}
    if len(long) != 2:
        return []
    order = dict.fromkeys(name for row in rows for name in (*row.workload_settings, *row.fabric_settings))
    down, across = (long[name] for name in order if name in long)
    parts: dict[str, dict[At, Row]] = {}
    for row in rows:
        found = _settings(row)
        if not long.keys() <= found.keys():
            return []
        others = [f"{key} {as_written(value)}" for key, value in found.items() if key not in long]
        others += [row.fabric if not row.fabric_settings else unfilled(row.fabric_template)]
        at = as_written(found[down.name]), as_written(found[across.name])
        parts.setdefault(", ".join(filter(None, others)), {})[at] = row
    if sum(map(len, parts.values())) < len(rows):
        return []
    by = measure(rows)
    maps = []
    for rest, cells in parts.items():
        name = " on ".join(filter(None, [title, rest if len(parts) > 1 else ""]))
        values = {at: _value(row, by) for at, row in cells.items()}
        strong = frozenset(at for at, row in cells.items() if _is_in(best, row))
        maps.append(HeatMap(name, down, across, _value_axis(by, values.values()), values, strong))
    return maps


def _bars(title: str, rows: Sequence[Row], names: Sequence[str], best: _Best, end: float | None = None) -> list[Bars]:
    end = end or _longest(rows)
    places = [slice(start, start + _MOST_BARS) for start in range(0, len(rows), _MOST_BARS)]
    return [time_bars(title, rows[place], names[place], best, end=end) for place in places]


def _curves(title: str, across: Axis, rows: Sequence[Row], *, fabrics: bool = True) -> Curves:
    field = across.name
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
    drawn = [*chain.from_iterable(series.values()), *others.values()]
    by = measure(drawn)

    def place(row: Row) -> float:
        return across.places[as_written(_settings(row)[field])]

    lines = [Series(name, sorted((place(row), _value(row, by)) for row in one)) for name, one in series.items()]
    lines += [Series(name, level=_value(row, by)) for name, row in others.items()]
    known = [(place(row), _published(row)) for row in chain.from_iterable(series.values()) if by is TIME]
    marks = [(at, value) for at, value in known if value is not None]
    return Curves(title, across, _value_axis(by, (_value(row, by) for row in drawn)), lines, marks)


def _longest(rows: Sequence[Row]) -> float:
    return max(max(row.seconds, _published(row) or 0.0) for row in rows)
