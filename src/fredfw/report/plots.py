"""The comparison as pictures, legible at the width of a paper's column. Importing this module needs matplotlib.

Times are absolute: every panel has an axis in a unit of its own. ``fredfw.report.charts`` says what is drawn.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from attrs import astuple, frozen

from fredfw.experiment.results import Comparison, Row, Status
from fredfw.report.charts import LINES, Bars, Chart, Curves, HeatMap, charts, colours as colours_of, published, spans
from fredfw.report.data import best_cells, rate_of, uneven_rate
from fredfw.report.pictures import FONTS, SMALL, TITLE, TITLE_LETTERS, drawn, importing
from fredfw.units import Unit, render
from fredfw.workloads.labels import OWN

with importing("--plot"):
    from matplotlib import rc_context
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch, Rectangle
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

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
_SQUARE = 0.22

# Letters in a line.
_PANEL_LETTERS = 50
_NAME = 24
_LEGEND_LETTERS = 64

_MOST_TICKS = 6
_DARK = 0.5  # a shade that needs white letters
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
    value of the other swept fields. A single line whose times span less than a decade is drawn as bars instead. Two
    fields with four or more such values each are drawn as a map of colours, one per fabric.

    Where rows train different amounts, lines show samples per second (or tokens, where samples differ in length), and
    so do the labels of bars.
    """
    panels = [_panel(chart) for chart in charts(comparison.rows)]
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


def _panel(chart: Chart) -> _Bars | _Curves | _HeatMap:
    kinds: dict[type, type[Any]] = {Bars: _Bars, Curves: _Curves, HeatMap: _HeatMap}
    panel: _Bars | _Curves | _HeatMap = kinds[type(chart)](*astuple(chart, recurse=False))
    return panel


def _time_unit(seconds: float) -> tuple[str, float]:
    return next((one for one in _TIME_UNITS if seconds >= one[1]), _TIME_UNITS[-1])


@frozen(eq=False)
class _Bars(Bars):
    """Draws them."""

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
            end, reported = left, published(row)
            if reported is not None:
                axes.plot(reported / one, place, **_DIAMOND)
                end = max(end, reported / one)
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
class _Curves(Curves):
    """Draws them."""

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
        rate = self.rate
        shown = {id(row): self.value(row) for row in self.rows}
        log = spans(shown.values())
        unit, one = ("", 1.0) if log or rate is not None else _time_unit(max(shown.values()))
        for index, (name, members) in enumerate(self.series.items()):
            places = [self.place(row) for row in members]
            order = sorted(range(len(members)), key=places.__getitem__)
            axes.plot(
                [places[at] for at in order],
                [shown[id(members[at])] / one for at in order],
                color=LINES[index % len(LINES)],
                marker=_MARKERS[index % len(_MARKERS)],
                linestyle=_DASHES[index // len(LINES) % len(_DASHES)],
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
                reported = published(row)
                if reported is not None and rate is None:
                    axes.plot(self.place(row), reported / one, **_DIAMOND)
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
            if not spans(axes.get_ylim(), _FEW_DECADES):
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
class _HeatMap(HeatMap):
    """Draws it."""

    @property
    def height(self) -> float:
        return _SQUARE * len(self.rows) + self.above + self.below

    @property
    def above(self) -> float:
        return _title_height(self.title) + _LINE

    @property
    def below(self) -> float:
        return _AXIS

    def draw(self, axes: Axes, look: _Look) -> None:
        values, shades = self.values, self.shades
        each = self.rate is None and spans(values.values())
        unit, one = ("", 1.0) if each or self.rate is not None else _time_unit(max(values.values()))
        field = np.full((len(self.rows), len(self.columns)), np.nan)
        for (down, across), shade in shades.items():
            at = self.rows.index(down), self.columns.index(across)
            field[at] = shade
            row = self.cells[down, across]
            axes.text(
                at[1],
                at[0],
                render(values[down, across], Unit.SECONDS, 3) if each else f"{values[down, across] / one:.3g}",
                ha="center",
                va="center",
                fontsize=SMALL,
                color="white" if shade < _DARK else "black",
                fontweight="bold" if (row.workload, row.fabric) in look.best else "normal",
            )
        axes.imshow(np.ma.masked_invalid(field), cmap="cividis", vmin=0, vmax=1, aspect="auto")
        axes.set_xticks(range(len(self.columns)), self.columns)
        axes.set_yticks(range(len(self.rows)), self.rows)
        axes.set_xlabel(self.across, labelpad=1)
        axes.set_ylabel(self.down)
        axes.tick_params(length=0)
        said = f"iteration time{f' ({unit})' if unit else ''}" if self.rate is None else self.rate
        blank = "; blank: no result" if len(values) < field.size else ""
        title = textwrap.fill(self.title, _PANEL_LETTERS)
        axes.set_title("\n".join(filter(None, [title, f"{said}{blank}"])), loc="left", fontweight="bold")


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
    def of(cls, panels: Sequence[_Bars | _Curves | _HeatMap]) -> _Legend:
        bars = [row for panel in panels if isinstance(panel, _Bars) for row in panel.rows]
        lines = [row for panel in panels if isinstance(panel, _Curves) for one in panel.series.values() for row in one]
        colours = colours_of(bars)
        handles: list[Patch | Line2D] = [
            Patch(color=colour, label=cause if cause in OWN else f"exposed {cause}")
            for cause, colour in colours.items()
        ]
        if any(row.status is Status.CALIBRATED for row in bars):
            handles.append(
                Patch(facecolor="white", edgecolor="#222222", hatch=_HATCH, label="calibrated (fitted) cell")
            )
        if any(published(row) is not None for row in [*bars, *lines]):
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


def _seconds(value: float) -> str:
    return render(value, Unit.SECONDS)


def _number(value: float) -> str:
    return f"{value:,.6g}"


def _plain(axes: Axes, *gridded: Axis) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    for axis in gridded:
        axis.grid(visible=True, color="#DDDDDD", linewidth=0.5)
    axes.set_axisbelow(True)
