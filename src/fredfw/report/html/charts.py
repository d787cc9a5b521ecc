"""The pictures of a page: what ``fredfw.report.charts`` says, drawn as SVG."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from fredfw.experiment.metrics import Metric
from fredfw.experiment.results import Row, Status
from fredfw.report import charts
from fredfw.report.charts import Bars, Chart, Curves, HeatMap
from fredfw.report.data import best_cells, rate_of, uneven_rate
from fredfw.report.html import svg
from fredfw.report.html.svg import Axis, Bar, Dot, Line
from fredfw.report.shown import Figure
from fredfw.units import Unit, render
from fredfw.workloads.labels import OWN

_UNITS = {"s": Unit.SECONDS, "J": Unit.JOULES, "B": Unit.BYTES}


def figures(rows: Sequence[Row]) -> list[Figure]:
    """Return the pictures of ``rows``."""
    best = best_cells(rows)
    return [_figure(chart, best) for chart in charts.charts(rows)] if rows else []


def breakdowns(title: str, rows: Sequence[Row], names: Sequence[str]) -> Figure:
    """Return where the time of ``rows`` goes, as stacked bars."""
    ends = [max(row.seconds, charts.published(row) or 0.0) for row in rows]
    return _bars(Bars(title, rows, names, max(ends)), best_cells(rows))


def time_bars(title: str, found: Sequence[Bar], colours: Mapping[str, str], *, more: str = "") -> Figure:
    """Return bars whose lengths are seconds."""
    end = max((max(sum(bar.parts.values()), bar.mark or 0.0) for bar in found), default=0.0)
    legend = tuple((name if name in OWN else f"exposed {name}", colour) for name, colour in colours.items())
    caption = "; ".join(filter(None, [title, more]))
    return Figure(svg.bars(found, colours, Axis("time", _seconds), end or 1.0), caption, legend)


def trade_off(title: str, rows: Sequence[Row], across: Metric, up: Metric, front: Collection[int]) -> Figure:
    """Return a point for each of ``rows`` by two metrics; those with the numbers ``front`` are joined."""
    fabrics = list(dict.fromkeys(row.fabric_template for row in rows))
    points = []
    for number, row in enumerate(rows):
        x, y = across.of(row), up.of(row)
        assert x is not None  # rows that lack a metric are not drawn
        assert y is not None
        name = f"{row.workload} on {row.fabric}: {metric_axis(across).text(x)}, {metric_axis(up).text(y)}"
        colour = svg.colour_of(fabrics.index(row.fabric_template))
        points.append(Dot(x, y, name, colour, strong=number in front))
    axes = [
        metric_axis(one, log=svg.needs_log(values))
        for one, values in ((across, [dot.x for dot in points]), (up, [dot.y for dot in points]))
    ]
    legend = tuple((name, svg.colour_of(number)) for number, name in enumerate(fabrics)) if len(fabrics) > 1 else ()
    return Figure(
        svg.dots(points, *axes),
        f"{title}: {up.name} over {across.name}; joined: no other cell beats these in both",
        legend,
    )


def metric_axis(one: Metric, *, log: bool = False) -> Axis:
    """Return the axis of a metric."""
    if one.unit == "$":
        return Axis(one.name, lambda value: f"${_number(value)}", log)
    unit = _UNITS.get(one.unit)
    return Axis(one.name, _number if unit is None else lambda value: render(value, unit, 3), log)


def _figure(chart: Chart, best: Collection[tuple[str, str]]) -> Figure:
    if isinstance(chart, Bars):
        return _bars(chart, best)
    return _curves(chart) if isinstance(chart, Curves) else _heat(chart)


def _bars(chart: Bars, best: Collection[tuple[str, str]]) -> Figure:
    rate = uneven_rate(chart.rows)
    found = [
        Bar(
            name,
            row.breakdown,
            _note(row, rate),
            (row.workload, row.fabric) in best,
            row.status is Status.CALIBRATED,
            charts.published(row),
        )
        for name, row in zip(chart.names, chart.rows, strict=True)
    ]
    said = [
        *(["diamond: published value"] if any(bar.mark is not None for bar in found) else []),
        *(["dashed: calibrated (fitted) cell"] if any(bar.fitted for bar in found) else []),
        *(["bold: best"] if any(bar.strong for bar in found) else []),
    ]
    return time_bars(chart.title, found, charts.colours(chart.rows), more="; ".join(said))


def _note(row: Row, rate: str | None) -> str:
    if rate is not None:
        return f"{rate_of(row, rate):.3g} {rate}"
    return render(row.seconds, Unit.SECONDS, 4) if row.speedup is None else f"{row.speedup:.2f}x"


def _curves(chart: Curves) -> Figure:
    values = [chart.value(row) for row in chart.rows]
    up = Axis("iteration time", _seconds) if chart.rate is None else Axis(chart.rate, _number)
    up = Axis(up.name, up.text, svg.needs_log(values))
    found = [
        *(
            Line(name, [(chart.place(row), chart.value(row)) for row in members])
            for name, members in chart.series.items()
        ),
        *(Line(name, level=chart.value(row)) for name, row in chart.others.items()),
    ]
    marks = [
        (chart.place(row), value)
        for members in chart.series.values()
        for row in members
        if chart.rate is None and (value := charts.published(row)) is not None
    ]
    legend = tuple((line.name, svg.colour_of(number)) for number, line in enumerate(found) if line.name)
    title = " ".join(filter(None, [chart.title, f"over {chart.field}"]))
    return Figure(
        svg.lines(found, Axis.of(chart.field, chart.scale), up, marks),
        "; ".join([title, *(["diamond: published value"] if marks else [])]),
        legend if len(legend) > 1 else (),
    )


def _heat(chart: HeatMap) -> Figure:
    text: Callable[[float], str] = _seconds if chart.rate is None else _number
    shades, values = chart.shades, chart.values
    cells = {at: (text(values[at]), shade) for at, shade in shades.items()}
    what = "iteration time" if chart.rate is None else chart.rate
    blank = "; blank: no result" if len(cells) < len(chart.rows) * len(chart.columns) else ""
    title = " ".join(filter(None, [chart.title, f"{what}; the lighter the better{blank}"]))
    return Figure(svg.heat((chart.down, chart.rows), (chart.across, chart.columns), cells), title)


def _seconds(value: float) -> str:
    return render(value, Unit.SECONDS, 3)


def _number(value: float) -> str:
    return f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"
