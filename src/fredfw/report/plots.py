"""The comparison as pictures, legible at the width of a paper's column. Importing this module needs matplotlib.

Times are absolute: every panel has an axis in a unit of its own. ``charts`` says what is drawn.
"""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import frozen
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.axis import Axis as Ruler
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from fredfw.experiment.results import Comparison
from fredfw.report.charts import charts
from fredfw.report.numbers import TIME_UNITS
from fredfw.report.pictures import (
    LINES,
    Axis,
    Bars,
    Curves,
    HeatMap,
    Picture,
    colours as colours_of,
    line_colour,
    spans,
)
from fredfw.workloads.labels import OWN

# Points: as small as the small print of a paper at the width of its column, not smaller.
SMALL, TITLE = 6.5, 8
FONTS: dict[Any, Any] = {"font.size": 7, "axes.titlesize": 7, "axes.linewidth": 0.6, "hatch.linewidth": 0.5}
TITLE_LETTERS = 52  # in a line of a column's width
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
_LEGEND: dict[str, Any] = {"frameon": False, "fontsize": SMALL, "columnspacing": 1.2, "borderaxespad": 0}

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
_SHORT = 7  # letters of what stands behind a bar


def drawn(figure: Figure, file_format: str) -> bytes:
    """Return ``figure`` in ``file_format``, one of ``pictures.FORMATS``."""
    buffer = io.BytesIO()
    # Without dates, versions and random ids the same results give the same file.
    metadata = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[file_format]
    with rc_context({"svg.hashsalt": "fredfw", **FONTS}):
        figure.savefig(buffer, format=file_format, dpi=200, metadata=metadata)
    return buffer.getvalue()


def plot_comparison(comparison: Comparison, file_format: str = "png") -> bytes:
    """Return the figure of ``comparison`` as a file of ``file_format``; see ``drawn``."""
    return drawn(comparison_figure(comparison), file_format)


def comparison_figure(comparison: Comparison) -> Figure:
    """Return one panel per picture of ``charts``, in columns, with a legend of what colours and marks mean.

    What stands behind the best bars and in the best cells of maps is in bold print. A diamond marks a published value,
    and the bar that a scalar was fitted to is hatched.
    """
    pictures = charts(comparison.rows)
    bars = [one for one in pictures if isinstance(one, Bars)]
    known = colours_of(bars)
    panels = [_panel(one, known) for one in pictures]
    with rc_context(FONTS):
        handles = _handles(bars, known, marked=any(one.marks for one in pictures if isinstance(one, Curves)))
        stacks = _stacked([*panels, _legend(handles)] if handles else panels)
        height = max(sum(panel.height for panel in stack) for stack in stacks)
        title = textwrap.fill(comparison.title, TITLE_LETTERS * len(stacks))
        height += _LINE * (title.count("\n") + 1) + 2 * _MARGIN
        figure = Figure(figsize=(_WIDTH * len(stacks), height))
        figure.suptitle(title, fontsize=TITLE, y=1 - _MARGIN / height, va="top")
        for column, stack in enumerate(stacks):
            _draw(figure, column, stack)
    return figure


def _draw(figure: Figure, column: int, stack: Sequence[_Panel]) -> None:
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
        panel.draw(axes)
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
class _Panel:
    """A part of the figure.

    Args:
        height: Inches, in all.
        above: Inches that the title needs.
        below: Inches that the axis and the legend need.
        draw: Draws into axes.
    """

    height: float
    above: float
    below: float
    draw: Callable[[Axes], None]


def _panel(picture: Picture, colours: Mapping[str, str]) -> _Panel:
    if isinstance(picture, Bars):
        return _bars(picture, colours)
    if isinstance(picture, Curves):
        return _curves(picture)
    if isinstance(picture, HeatMap):
        return _heat(picture)
    raise TypeError(f"a figure has no {type(picture).__name__}")


def _scaled(axis: Axis, longest: float) -> tuple[str, float]:
    """Return the name of ``axis`` with the unit of its numbers, and that unit."""
    if axis.log or axis.unit != "s":
        return axis.name, 1.0
    name, unit = next((one for one in TIME_UNITS if longest >= one[1]), TIME_UNITS[-1])
    return f"{axis.name} ({name})", unit


def _bars(picture: Bars, colours: Mapping[str, str]) -> _Panel:
    bars = picture.bars
    labels = [textwrap.fill(bar.name, _NAME, break_long_words=True) for bar in bars]
    lines = max(label.count("\n") + 1 for label in labels)
    above = _title_height(picture.title)

    def draw(axes: Axes) -> None:
        name, one = _scaled(picture.axis, picture.end)
        for place, bar in enumerate(bars):
            end = 0.0
            for cause, colour in colours.items():
                width = bar.parts.get(cause, 0.0) / one
                if width:
                    axes.barh(place, width, 0.76, end, color=colour, edgecolor="white", linewidth=0.3)
                end += width
            if bar.fitted:
                look: dict[str, Any] = {"fill": False, "edgecolor": "#222222", "hatch": _HATCH, "lw": 0.6}
                axes.add_patch(Rectangle((0, place - 0.38), end, 0.76, **look))
            if bar.mark is not None:
                axes.plot(bar.mark / one, place, **_DIAMOND)
                end = max(end, bar.mark / one)
            axes.annotate(
                bar.note,
                (end, place),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
                fontsize=SMALL,
                fontweight="bold" if bar.strong else "normal",
            )
        axes.set_yticks(range(len(bars)), labels)
        axes.set_ylim(len(bars) - 0.4, -0.6)
        short = all(len(bar.note) <= _SHORT for bar in bars)
        axes.set_xlim(0, (1.16 if short else 1.4) * picture.end / one)
        axes.set_xlabel(name, labelpad=1)
        axes.set_title(textwrap.fill(picture.title, _PANEL_LETTERS), loc="left", fontweight="bold")
        axes.tick_params(axis="y", length=0)
        _plain(axes, axes.xaxis)

    return _Panel(max(_BAR, _LINE * lines) * len(bars) + above + _AXIS, above, _AXIS, draw)


def _curves(picture: Curves) -> _Panel:
    names = [one.name for one in picture.series if one.name]
    names = names if len(names) > 1 else []
    columns = _columns(names)
    above = _title_height(picture.title)
    below = _AXIS + _LINE * math.ceil(len(names) / columns)

    def draw(axes: Axes) -> None:
        name, one = _scaled(picture.up, max(picture.values))
        lines = [series for series in picture.series if series.level is None]
        for index, series in enumerate(lines):
            axes.plot(
                [place for place, _ in series.points],
                [value / one for _, value in series.points],
                color=line_colour(index),
                marker=_MARKERS[index % len(_MARKERS)],
                linestyle=_DASHES[index // len(LINES) % len(_DASHES)],
                markersize=3,
                linewidth=1.1,
                label=series.name,
            )
        for index, series in enumerate(picture.series[len(lines) :]):
            look: dict[str, Any] = {"color": "#555555", "linewidth": 1.0, "linestyle": _DASHES[1 + index % 3]}
            axes.axhline((series.level or 0.0) / one, label=series.name, **look)
        for place, value in picture.marks:
            axes.plot(place, value / one, **_DIAMOND)
        _rulers(axes, picture, name)
        if names:
            below_axis = (0.45, -_AXIS / _CURVES)
            axes.legend(loc="upper center", bbox_to_anchor=below_axis, ncols=columns, handlelength=1.8, **_LEGEND)

    return _Panel(_CURVES + above + below, above, below, draw)


def _rulers(axes: Axes, picture: Curves, name: str) -> None:
    """Draw both axes of lines, the one that goes up with ``name``."""
    across, up = picture.across, picture.up
    if across.log:
        axes.set_xscale("log")
    ticks = sorted(across.ticks.items())[:: math.ceil(len(across.ticks) / _MOST_TICKS)]
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks([place for place, _ in ticks], [text for _, text in ticks])
    axes.set_xlabel(across.name, labelpad=1)
    if up.log:
        axes.set_yscale("log")
        if not spans(axes.get_ylim(), _FEW_DECADES):
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: up.text(value)))
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(bottom=0)
    axes.set_ylabel(name)
    if picture.title:
        axes.set_title(textwrap.fill(picture.title, _PANEL_LETTERS), loc="left", fontweight="bold")
    _plain(axes, axes.xaxis, axes.yaxis)


def _heat(picture: HeatMap) -> _Panel:
    rows, columns, values = picture.rows, picture.columns, picture.values
    above = _title_height(picture.title) + _LINE

    def draw(axes: Axes) -> None:
        name, one = _scaled(picture.axis, max(values.values()))
        each = picture.axis.unit == "s" and picture.axis.log
        field = np.full((len(rows), len(columns)), np.nan)
        for at, shade in picture.shades.items():
            place = rows.index(at[0]), columns.index(at[1])
            field[place] = shade
            axes.text(
                place[1],
                place[0],
                picture.axis.text(values[at]) if each else f"{values[at] / one:.3g}",
                ha="center",
                va="center",
                fontsize=SMALL,
                color="white" if shade < _DARK else "black",
                fontweight="bold" if at in picture.best else "normal",
            )
        axes.imshow(np.ma.masked_invalid(field), cmap="cividis", vmin=0, vmax=1, aspect="auto")
        axes.set_xticks(range(len(columns)), columns)
        axes.set_yticks(range(len(rows)), rows)
        axes.set_xlabel(picture.across, labelpad=1)
        axes.set_ylabel(picture.down)
        axes.tick_params(length=0)
        title = filter(None, [textwrap.fill(picture.title, _PANEL_LETTERS), f"{name}{picture.blank}"])
        axes.set_title("\n".join(title), loc="left", fontweight="bold")

    return _Panel(_SQUARE * len(rows) + above + _AXIS, above, _AXIS, draw)


def _handles(bars: Sequence[Bars], colours: Mapping[str, str], *, marked: bool) -> list[Patch | Line2D]:
    """Return what the colours and marks of all panels mean; ``marked``: whether lines have marks."""
    every = [bar for one in bars for bar in one.bars]
    handles: list[Patch | Line2D] = [
        Patch(color=colour, label=cause if cause in OWN else f"exposed {cause}") for cause, colour in colours.items()
    ]
    if any(bar.fitted for bar in every):
        handles.append(Patch(facecolor="white", edgecolor="#222222", hatch=_HATCH, label="calibrated (fitted) cell"))
    if marked or any(bar.mark is not None for bar in every):
        handles.append(Line2D([], [], label="published value", **_DIAMOND))
    return handles


def _legend(handles: Sequence[Patch | Line2D]) -> _Panel:
    columns = _columns([str(handle.get_label()) for handle in handles])

    def draw(axes: Axes) -> None:
        axes.set_axis_off()
        axes.legend(handles=handles, loc="center", ncols=columns, handlelength=1.4, **_LEGEND)

    return _Panel(_LINE * math.ceil(len(handles) / columns) + _MARGIN, 0.0, 0.0, draw)


def _columns(names: Sequence[str]) -> int:
    """Return how many columns the legend of ``names`` has."""
    return max(1, min(4, _LEGEND_LETTERS // (max(map(len, names), default=0) + 5)))


def _title_height(title: str) -> float:
    return _LINE * len(textwrap.wrap(title, _PANEL_LETTERS)) + 2 * _MARGIN


def _plain(axes: Axes, *gridded: Ruler) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    for axis in gridded:
        axis.grid(visible=True, color="#DDDDDD", linewidth=0.5)
    axes.set_axisbelow(True)
