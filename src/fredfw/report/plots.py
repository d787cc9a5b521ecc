"""The comparison as pictures, legible at the width of a paper's column. Importing this module needs matplotlib.

Times are absolute: every panel has an axis in a unit of its own. A sweep over a numeric field is drawn as lines over
that field; all else is drawn as stacked bars, which say where the time goes.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import cycle, groupby
from typing import Any, Protocol

from attrs import frozen

from fredfw.experiment.naming import as_written, fill, unfilled
from fredfw.experiment.results import Comparison, Row, Status
from fredfw.report.data import RowGroup, best_cells, causes_with_time, rate_of, row_groups, uneven_rate
from fredfw.report.pictures import FONTS, SMALL, TITLE, TITLE_LETTERS, Scale, drawn, importing, scale_of
from fredfw.units import Unit, render
from fredfw.workloads.labels import BUBBLE, COMPUTE

with importing("--plot"):
    from matplotlib import rc_context
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch, Rectangle
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

# Okabe and Ito's palette, which people with any usual colour vision can tell apart ("Color Universal Design", 2008).
_COLOURS = {
    COMPUTE: "#0072B2",
    BUBBLE: "#BBBBBB",
}
_OTHER_COLOURS = ("#D55E00", "#E69F00", "#009E73", "#CC79A7", "#F0E442", "#56B4E9", "#000000", "#7F4F24", "#8A8AD6")
_LINES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F4F24")
_MARKERS = "os^Dv<>P"
_DASHES = ("-", "--", ":", "-.")
_HATCH = "////"
_DIAMOND: dict[str, Any] = {
    "linestyle": "",
    "marker": "D",
    "color": "white",
    "markeredgecolor": "black",
    "markersize": 3.5,
    "markeredgewidth": 0.7,
    "zorder": 5,
}
_TIME_UNITS = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))

# Inches.
_WIDTH = 3.5  # of a column
_MOST_HEIGHT = 9.0
_BAR = 0.16  # from bar to bar
_LINE = 0.14  # of text
_MARGIN = 0.06
_AXIS = 0.36  # the numbers and the name of an axis
_CURVES = 1.65

# Letters in a line.
_PANEL_LETTERS = 50
_NAME = 24
_LEGEND_LETTERS = 64

_FEW = 3  # values that are worth a line
_MOST_SERIES = 8
_MOST_BARS = 40
_MOST_TICKS = 6
_DECADE = 10.0
_FEW_DECADES = 1000.0


def plot_comparison(comparison: Comparison, file_format: str = "png") -> bytes:
    """Return the figure of ``comparison`` as a file of ``file_format``; see ``fredfw.report.pictures``."""
    return drawn(comparison_figure(comparison), file_format)


def comparison_figure(comparison: Comparison) -> Figure:
    """Return one panel per workload, or per sweep of one, with absolute times.

    A workload is drawn as stacked bars of iteration time by cause, one per fabric. The speed-up stands at the end of
    its bar, in bold print where the time is the best. A diamond marks where the bar would end at the published
    speed-up. The bar that a scalar was fitted to is hatched.

    A sweep over a field with three or more numeric values is drawn as lines over that field, one per fabric and per
    value of the other swept fields. A single line whose times span less than a decade is drawn as bars instead.

    Where rows train different amounts, lines show samples per second (or tokens, where samples differ in length), and
    so do the labels of bars.
    """
    panels = [panel for group in row_groups(comparison.rows) for panel in _panels(group)]
    with rc_context(FONTS):
        legend = _Legend.of(panels)
        stacks = _stacked([*panels, legend] if legend.handles else panels)
        height = max(sum(panel.height for panel in stack) for stack in stacks)
        title = textwrap.fill(comparison.title, TITLE_LETTERS * len(stacks))
        height += _LINE * (title.count("\n") + 1) + 2 * _MARGIN
        figure = Figure(figsize=(_WIDTH * len(stacks), height))
        figure.suptitle(title, fontsize=TITLE, y=1 - _MARGIN / height, va="top")
        look = _Look(best_cells(comparison.rows), legend.colours)
        for column, stack in enumerate(stacks):
            _draw(figure, column, stack, look)
    return figure


def _draw(figure: Figure, column: int, stack: Sequence[_Panel], look: _Look) -> None:
    """Draw ``stack`` from the bottom up.

    The places are counted, not left to a layout engine: those differ in the last digits from one time to the next.
    """
    width, height = figure.get_size_inches()
    bottom = float(height) - _LINE * (figure.get_suptitle().count("\n") + 1) - 2 * _MARGIN
    drawn_panels = []
    for panel in stack:
        bottom -= panel.height
        axes = figure.add_axes((0, 0, 1, 1))
        box = (bottom + panel.below, panel.height - panel.above - panel.below)
        axes.set_position((0.5, box[0] / height, 0.5, box[1] / height))
        panel.draw(axes, look)
        drawn_panels.append((axes, box))
    # As far to the right as the longest of the names needs it.
    boxes = [(axes.bbox.x0, axes.yaxis.get_tightbbox(None)) for axes, _ in drawn_panels if axes.axison]
    left = _MARGIN + max((round((end - box.x0) / figure.dpi, 2) for end, box in boxes if box is not None), default=0.0)
    for axes, (start, size) in drawn_panels:
        begin = left if axes.axison else _MARGIN
        axes.set_position(
            ((column * _WIDTH + begin) / width, start / height, (_WIDTH - begin - _MARGIN) / width, size / height)
        )


def _stacked(panels: Sequence[_Panel]) -> list[list[_Panel]]:
    """Return the panels of each column of the figure, none much higher than a page."""
    heights = [panel.height for panel in panels]
    count = math.ceil(sum(heights) / _MOST_HEIGHT)
    most = max([sum(heights) / count, *heights])
    columns: list[list[_Panel]] = [[]]
    for panel in panels:
        used = sum(one.height for one in columns[-1])
        if columns[-1] and used + panel.height > most + _LINE and (len(columns) < count or used > _MOST_HEIGHT):
            columns.append([])
        columns[-1].append(panel)
    return columns


@frozen(eq=False)
class _Look:
    """What all panels have in common.

    Args:
        best: Cells by workload and fabric.
        colours: By cause.
    """

    best: Collection[tuple[str, str]]
    colours: Mapping[str, str]


class _Panel(Protocol):
    @property
    def height(self) -> float:
        """Inches, in all."""

    @property
    def above(self) -> float:
        """Inches that the title needs."""

    @property
    def below(self) -> float:
        """Inches that the axis and the legend need."""

    def draw(self, axes: Axes, look: _Look) -> None:
        """Draw into ``axes``."""


def _panels(group: RowGroup) -> Sequence[_Bars | _Curves]:
    rows = group.rows
    title = unfilled(group.name)
    title = "" if set(title.split()) <= set(group.fields) else title  # names of fields say nothing new
    field = _numeric(rows)
    if field is not None:
        name, scale = field
        curves = _Curves.of(title, name, scale, rows)
        if len(curves.series) > 1 or _spans([row.seconds for row in rows]):
            fabrics = list(dict.fromkeys(row.fabric for row in rows))
            if len(curves.series) <= _MOST_SERIES or len(fabrics) == 1 or name not in rows[0].workload_settings:
                return [curves]
            of = [[row for row in rows if row.fabric == fabric] for fabric in fabrics]
            return [_Curves.of(part[0].fabric, name, scale, part, fabrics=False) for part in of]
    if len({row.fabric for row in rows}) == 1:
        names = [", ".join(map(as_written, row.workload_settings.values())) or row.fabric for row in rows]
        swept = f"by {' and '.join(group.fields)}" if group.fields else ""
        return _Bars.of(f"{title} {swept}".strip(), rows, names)
    parts = [list(members) for _, members in groupby(rows, key=lambda row: row.workload)]
    # One axis for all of a sweep, unless that would make bars too short to be read.
    longest = list(map(_longest, parts))
    one = None if _spans(longest) else max(longest)
    return [
        bars for part in parts for bars in _Bars.of(part[0].workload, part, [row.fabric for row in part], longest=one)
    ]


def _numeric(rows: Sequence[Row]) -> tuple[str, Scale] | None:
    """Return the swept field that is drawn along the axis: of the workload or else of the fabric, with most values."""
    for settings in ([row.workload_settings for row in rows], [row.fabric_settings for row in rows]):
        found = []
        for name in dict.fromkeys(name for one in settings for name in one):
            scale = scale_of([one[name] for one in settings if name in one])
            if scale is not None and len(scale.numbers) >= _FEW:
                found.append((name, scale))
        if found:
            return max(found, key=lambda one: len(one[1].numbers))
    return None


def _spans(values: Iterable[float], factor: float = _DECADE) -> bool:
    """Return whether the largest of ``values`` is ``factor`` times the least, so that they need a logarithmic axis."""
    found = list(values)
    return min(found) > 0 and max(found) >= factor * min(found)


def _time_unit(seconds: float) -> tuple[str, float]:
    return next((one for one in _TIME_UNITS if seconds >= one[1]), _TIME_UNITS[-1])


@frozen(eq=False)
class _Bars:
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

    @classmethod
    def of(cls, title: str, rows: Sequence[Row], names: Sequence[str], *, longest: float | None = None) -> list[_Bars]:
        """Return the panels for ``rows``: several with the same axis, where there are too many."""
        end = longest or _longest(rows)
        return [
            cls(title, rows[start : start + _MOST_BARS], names[start : start + _MOST_BARS], end)
            for start in range(0, len(rows), _MOST_BARS)
        ]

    @property
    def labels(self) -> list[str]:
        return [textwrap.fill(name, _NAME, break_long_words=True) for name in self.names]

    @property
    def height(self) -> float:
        lines = max(label.count("\n") + 1 for label in self.labels)
        return max(_BAR, _LINE * lines) * len(self.rows) + self.above + self.below

    @property
    def above(self) -> float:
        return _title_height(self.title)

    @property
    def below(self) -> float:
        return _AXIS

    def draw(self, axes: Axes, look: _Look) -> None:
        unit, one = _time_unit(self.longest)
        rate = uneven_rate(self.rows)
        for place, row in enumerate(self.rows):
            left = 0.0
            for cause, colour in look.colours.items():
                width = row.breakdown.get(cause, 0.0) / one
                if width:
                    axes.barh(place, width, 0.76, left, color=colour, edgecolor="white", linewidth=0.3)
                left += width
            if row.status is Status.CALIBRATED:
                outline = Rectangle(
                    (0, place - 0.38), left, 0.76, fill=False, edgecolor="#222222", hatch=_HATCH, lw=0.6
                )
                axes.add_patch(outline)
            end, published = left, _published(row)
            if published is not None:
                axes.plot(published / one, place, **_DIAMOND)
                end = max(end, published / one)
            axes.annotate(
                _told(row) if rate is None else f"{rate_of(row, rate):.3g} {rate}",
                (end, place),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
                fontsize=SMALL,
                fontweight="bold" if (row.workload, row.fabric) in look.best else "normal",
            )
        axes.set_yticks(range(len(self.rows)), self.labels)
        axes.set_ylim(len(self.rows) - 0.4, -0.6)
        axes.set_xlim(0, (1.16 if rate is None else 1.4) * self.longest / one)
        axes.set_xlabel(f"iteration time ({unit})", labelpad=1)
        axes.set_title(textwrap.fill(self.title, _PANEL_LETTERS), loc="left", fontweight="bold")
        axes.tick_params(axis="y", length=0)
        _plain(axes, axes.xaxis)


@frozen(eq=False)
class _Curves:
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

    @classmethod
    def of(cls, title: str, field: str, scale: Scale, rows: Sequence[Row], *, fabrics: bool = True) -> _Curves:
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
        return cls(title, field, scale, series, others)

    @property
    def height(self) -> float:
        return _CURVES + self.above + self.below

    @property
    def above(self) -> float:
        return _title_height(self.title)

    @property
    def below(self) -> float:
        return _AXIS + _LINE * math.ceil(len(self._names) / self._columns)

    @property
    def _names(self) -> list[str]:
        names = [name for name in [*self.series, *self.others] if name]
        return names if len(names) > 1 else []

    @property
    def _columns(self) -> int:
        return max(1, min(4, _LEGEND_LETTERS // (max(map(len, self._names), default=0) + 5)))

    def draw(self, axes: Axes, look: _Look) -> None:
        del look  # of bars
        rows = [*(row for members in self.series.values() for row in members), *self.others.values()]
        rate = uneven_rate(rows)
        shown = {id(row): row.seconds if rate is None else rate_of(row, rate) for row in rows}
        log = _spans(shown.values())
        unit, one = ("", 1.0) if log or rate is not None else _time_unit(max(shown.values()))
        for index, (name, members) in enumerate(self.series.items()):
            places = [self._place(row) for row in members]
            order = sorted(range(len(members)), key=places.__getitem__)
            axes.plot(
                [places[at] for at in order],
                [shown[id(members[at])] / one for at in order],
                color=_LINES[index % len(_LINES)],
                marker=_MARKERS[index % len(_MARKERS)],
                linestyle=_DASHES[index // len(_LINES) % len(_DASHES)],
                markersize=3,
                linewidth=1.1,
                label=name,
            )
        for index, (name, row) in enumerate(self.others.items()):
            axes.axhline(
                shown[id(row)] / one, color="#555555", linewidth=1.0, linestyle=_DASHES[1 + index % 3], label=name
            )
        for members in self.series.values():
            for row in members:
                published = _published(row)
                if published is not None and rate is None:
                    axes.plot(self._place(row), published / one, **_DIAMOND)
        name, number = (f"iteration time{f' ({unit})' if unit else ''}", _seconds) if rate is None else (rate, _number)
        self._axes(axes, name, number, log=log)
        if self._names:
            axes.legend(
                loc="upper center",
                bbox_to_anchor=(0.45, -_AXIS / _CURVES),
                ncols=self._columns,
                frameon=False,
                fontsize=SMALL,
                columnspacing=1.2,
                handlelength=1.8,
                borderaxespad=0,
            )

    def _place(self, row: Row) -> float:
        settings = {**row.fabric_settings, **row.workload_settings}
        return self.scale.numbers[as_written(settings[self.field])]

    def _axes(self, axes: Axes, name: str, number: Callable[[float], str], *, log: bool) -> None:
        if self.scale.log:
            axes.set_xscale("log")
        step = math.ceil(len(self.scale.numbers) / _MOST_TICKS)
        ticks = sorted((place, text) for text, place in self.scale.numbers.items())[::step]
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xticks([place for place, _ in ticks], [text for _, text in ticks])
        axes.set_xlabel(self.field, labelpad=1)
        if log:
            axes.set_yscale("log")
            if not _spans(axes.get_ylim(), _FEW_DECADES):
                axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
            axes.yaxis.set_minor_formatter(NullFormatter())
        else:
            axes.set_ylim(bottom=0)
        axes.set_ylabel(name)
        if self.title:
            axes.set_title(textwrap.fill(self.title, _PANEL_LETTERS), loc="left", fontweight="bold")
        _plain(axes, axes.xaxis, axes.yaxis)


@frozen(eq=False)
class _Legend:
    """What the colours and marks of all panels mean.

    Args:
        handles: One per entry.
        colours: By cause.
    """

    handles: Sequence[Patch | Line2D]
    colours: Mapping[str, str]

    @classmethod
    def of(cls, panels: Sequence[_Bars | _Curves]) -> _Legend:
        bars = [row for panel in panels if isinstance(panel, _Bars) for row in panel.rows]
        lines = [row for panel in panels if isinstance(panel, _Curves) for one in panel.series.values() for row in one]
        colours = _colours(bars)
        handles: list[Patch | Line2D] = [
            Patch(color=colour, label=cause if cause in (COMPUTE, BUBBLE) else f"exposed {cause}")
            for cause, colour in colours.items()
        ]
        if any(row.status is Status.CALIBRATED for row in bars):
            handles.append(
                Patch(facecolor="white", edgecolor="#222222", hatch=_HATCH, label="calibrated (fitted) cell")
            )
        if any(_published(row) is not None for row in [*bars, *lines]):
            handles.append(Line2D([], [], label="published value", **_DIAMOND))
        return cls(handles, colours)

    @property
    def _columns(self) -> int:
        longest = max(len(str(handle.get_label())) for handle in self.handles)
        return max(1, min(4, _LEGEND_LETTERS // (longest + 5)))

    @property
    def height(self) -> float:
        return _LINE * math.ceil(len(self.handles) / self._columns) + _MARGIN

    @property
    def above(self) -> float:
        return 0.0

    @property
    def below(self) -> float:
        return 0.0

    def draw(self, axes: Axes, look: _Look) -> None:
        del look
        axes.set_axis_off()
        axes.legend(
            handles=self.handles,
            loc="center",
            ncols=self._columns,
            frameon=False,
            fontsize=SMALL,
            columnspacing=1.2,
            handlelength=1.4,
            borderaxespad=0,
        )


def _title_height(title: str) -> float:
    return _LINE * len(textwrap.wrap(title, _PANEL_LETTERS)) + 2 * _MARGIN


def _told(row: Row) -> str:
    """Return the speed-up, if there is one."""
    return "" if row.speedup is None else f"{row.speedup:.2f}x"


def _published(row: Row) -> float | None:
    """Return the seconds at the published speed-up, if there is one."""
    if row.reference_speedup is None or row.speedup is None:
        return None
    return row.seconds * row.speedup / row.reference_speedup


def _seconds(value: float) -> str:
    return render(value, Unit.SECONDS)


def _number(value: float) -> str:
    return f"{value:,.6g}"


def _longest(rows: Sequence[Row]) -> float:
    return max(max(row.seconds, _published(row) or 0.0) for row in rows)


def _colours(rows: Sequence[Row]) -> dict[str, str]:
    """Return the colour of each cause that takes time in ``rows``: what a workload declares, or one that is free."""
    declared = {label: colour for row in reversed(rows) for label, colour in row.colours.items() if colour}
    colours: dict[str, str] = {}
    spare = cycle([one for one in _OTHER_COLOURS if one not in declared.values()] or _OTHER_COLOURS)
    for cause in causes_with_time(rows):
        colours[cause] = _COLOURS.get(cause) or declared.get(cause) or next(spare)
    return colours


def _plain(axes: Axes, *gridded: Axis) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    for axis in gridded:
        axis.grid(visible=True, color="#DDDDDD", linewidth=0.5)
    axes.set_axisbelow(True)
