"""Pictures as a figure of matplotlib, legible at the width of a paper's column.

Times are absolute: every panel has an axis in a unit of its own.
"""

import io
import math
import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from attrs import frozen
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.axis import Axis as Ruler
from matplotlib.contour import ContourSet
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from fredfw.drawing import (
    LINES,
    Axis,
    Bars,
    Curves,
    Dots,
    HeatMap,
    Picture,
    colours,
    exposed,
    line_colour,
    spans,
    unit_for,
)
from fredfw.typing import FloatArray

# Points: as small as the small print of a paper at the width of its column, not smaller.
SMALL, TITLE = 6.5, 8
FONTS: dict[Any, Any] = {"font.size": 7, "axes.titlesize": 7, "axes.linewidth": 0.6, "hatch.linewidth": 0.5}
FONTS["text.parse_math"] = False  # a name may have dollars
TITLE_LETTERS = 52  # in a line of a column's width
_MARKERS = "os^Dv<>P"
_WEIGHTS = {False: "normal", True: "bold"}  # of text, by whether it is one of the best
_DASHES = ("-", "--", ":", "-.")
_FITTED: dict[str, Any] = {"edgecolor": "#222222", "hatch": "////"}
_DIAMOND: dict[str, Any] = {
    "linestyle": "",
    "marker": "D",
    "color": "white",
    "markeredgecolor": "black",
    "markersize": 3.5,
    "markeredgewidth": 0.7,
    "zorder": 5,
}
_RING: dict[str, Any] = {
    "linestyle": "",
    "marker": "o",
    "markersize": 2.4,
    "markerfacecolor": "none",
    "markeredgewidth": 0.5,
}
_DOTS = {False: 7.0, True: 16.0}  # square points, by whether others do not beat it
_CENTRED: dict[str, Any] = {"ha": "center", "va": "center"}
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

# Of maps of savings.
_CELL = (0.37, 0.22)  # inches, wide enough for a share such as -123 %
_FRAME = (0.8, 0.95)  # inches around the cells
_NUMBERS = 14  # columns of a map that has its shares written in it
_NEARLY_ALL = 0.995  # more than this is not rounded to 100 %
_BLUE_IS_SAVED = "RdBu_r"
# Colours are for log2(T_of / T_over), in which twice as fast is as far from 0 as twice as slow.
_OCTAVES = 3.0
_DARK_OCTAVES = 1.7
_TICKS = (0.875, 0.75, 0.5, 0.0, -1.0, -3.0, -7.0)  # shares at whole octaves


@frozen(eq=False)
class _Panel:
    """A part of the figure; lengths are inches."""

    size: float  # of the axes, from the bottom to the top
    below: float  # that the numbers and the legend need
    draw: Callable[[Axes], None]
    title: str | None = None

    @property
    def above(self) -> float:
        return 0.0 if self.title is None else _LINE * len(self.title.splitlines()) + 2 * _MARGIN

    @property
    def height(self) -> float:
        return self.size + self.above + self.below


def drawn(figure: Figure, file_format: str) -> bytes:
    buffer = io.BytesIO()
    # Without dates, versions and random ids the same results give the same file.
    metadata = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[file_format]
    with rc_context({"svg.hashsalt": "fredfw", **FONTS}):
        figure.savefig(buffer, format=file_format, dpi=200, metadata=metadata)
    return buffer.getvalue()


def figure_of(title: str, pictures: Sequence[Picture]) -> Figure:
    known = colours([one for one in pictures if isinstance(one, Bars)])
    with rc_context(FONTS):
        panels: dict[type, Callable[[Any], _Panel]] = {
            Bars: partial(_bars, known),
            Curves: _curves,
            HeatMap: _heat,
            Dots: _dots,
        }
        stacks = _stacked([*(panels[type(one)](one) for one in pictures), *_legend(pictures, known)])
        height = max(sum(panel.height for panel in stack) for stack in stacks)
        title = textwrap.fill(title, TITLE_LETTERS * len(stacks))
        height += _LINE * (title.count("\n") + 1) + 2 * _MARGIN
        figure = Figure(figsize=(_WIDTH * len(stacks), height))
        figure.suptitle(title, fontsize=TITLE, y=1 - _MARGIN / height, va="top")
        for column, stack in enumerate(stacks):
            _draw(figure, column, stack)
    return figure


def _draw(figure: Figure, column: int, stack: Sequence[_Panel]) -> None:
    # Places are counted, not left to a layout engine: those differ in the last digits from one time to the next.
    width, height = figure.get_size_inches()
    bottom = float(height) - _LINE * (figure.get_suptitle().count("\n") + 1) - 2 * _MARGIN
    drawn_panels = []
    for panel in stack:
        bottom -= panel.height
        axes = figure.add_axes((0, 0, 1, 1))
        box = (bottom + panel.below, panel.height - panel.above - panel.below)
        axes.set_position((0.5, box[0] / height, 0.5, box[1] / height))
        panel.draw(axes)
        axes.set_title(panel.title or "", loc="left", fontweight="bold")
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


def _scaled(axis: Axis, longest: float) -> tuple[str, float]:
    if axis.log or axis.unit != "s":
        return axis.name, 1.0
    name, unit = unit_for(longest)
    return f"{axis.name} ({name})", unit


def _bars(colours: Mapping[str, str], picture: Bars) -> _Panel:
    bars = picture.bars
    labels = [textwrap.fill(bar.name, _NAME, break_long_words=True) for bar in bars]
    lines = max(label.count("\n") + 1 for label in labels)

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
                axes.add_patch(Rectangle((0, place - 0.38), end, 0.76, fill=False, lw=0.6, **_FITTED))
            if bar.mark is not None:
                axes.plot(bar.mark / one, place, **_DIAMOND)
                end = max(end, bar.mark / one)
            look: dict[str, Any] = {"va": "center", "fontsize": SMALL, "fontweight": _WEIGHTS[bar.strong]}
            axes.annotate(bar.note, (end, place), xytext=(4, 0), textcoords="offset points", **look)
        axes.set_yticks(range(len(bars)), labels)
        axes.set_ylim(len(bars) - 0.4, -0.6)
        short = all(len(bar.note) <= _SHORT for bar in bars)
        axes.set_xlim(0, (1.16 if short else 1.4) * picture.end / one)
        axes.set_xlabel(name, labelpad=1)
        axes.tick_params(axis="y", length=0)
        _plain(axes, axes.xaxis)

    return _Panel(max(_BAR, _LINE * lines) * len(bars), _AXIS, draw, _wrapped(picture.title))


def _curves(picture: Curves) -> _Panel:
    names = [name for name, _ in picture.legend]
    columns = _columns(names)
    below = _AXIS + _LINE * math.ceil(len(names) / columns)

    def draw(axes: Axes) -> None:
        name, one = _scaled(picture.up, max(picture.values))
        lines = [series for series in picture.series if series.level is None]
        for index, series in enumerate(lines):
            places, heights = [place for place, _ in series.points], [value / one for _, value in series.points]
            dashes = _DASHES[index // len(LINES) % len(_DASHES)]
            look: dict[str, Any] = {"marker": _MARKERS[index % len(_MARKERS)], "markersize": 3, "linewidth": 1.1}
            rings = [(place, value / one) for place, value in series.measured]
            if rings:
                axes.plot(*zip(*rings, strict=True), color=line_colour(index), **_RING)
                look["marker"] = ""
            axes.plot(places, heights, color=line_colour(index), linestyle=dashes, label=series.name, **look)
        for index, series in enumerate(picture.series[len(lines) :]):
            look = {"color": "#555555", "linewidth": 1.0, "linestyle": _DASHES[1 + index % 3]}
            axes.axhline((series.level or 0.0) / one, label=series.name, **look)
        for place, value in picture.marks:
            axes.plot(place, value / one, **_DIAMOND)
        _rulers(axes, picture, name)
        if names:
            below_axis = (0.45, -_AXIS / _CURVES)
            axes.legend(loc="upper center", bbox_to_anchor=below_axis, ncols=columns, handlelength=1.8, **_LEGEND)

    return _Panel(_CURVES, below, draw, _wrapped(picture.title))


def _rulers(axes: Axes, picture: Curves | Dots, name: str) -> None:
    across, up = picture.across, picture.up
    if across.log:
        axes.set_xscale("log")
    axes.xaxis.set_minor_locator(NullLocator())
    if across.places:
        ticks = dict([*across.places.items()][:: math.ceil(len(across.places) / _MOST_TICKS)])
        axes.set_xticks([*ticks.values()], [*ticks])
    else:
        if across.log:
            axes.xaxis.set_major_locator(LogLocator(numticks=_MOST_TICKS))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: across.text(value)))
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
    _plain(axes, axes.xaxis, axes.yaxis)


def _dots(picture: Dots) -> _Panel:
    columns = _columns([name for name, _ in picture.legend])
    below = _AXIS + _LINE * math.ceil(len(picture.legend) / columns)

    def draw(axes: Axes) -> None:
        name, one = _scaled(picture.up, max(dot.y for dot in picture.dots))
        places = [(dot.x, dot.y / one) for dot in picture.dots]
        if picture.diagonal:
            numbers = [number for place in places for number in place]
            axes.plot(*[[min(numbers), max(numbers)]] * 2, color="black", linewidth=0.8, linestyle="--")
        front = sorted(place for place, dot in zip(places, picture.dots, strict=True) if dot.strong)
        if front:
            axes.plot(*zip(*front, strict=True), color="black", linewidth=0.8, linestyle="--")
        sizes = [_DOTS[dot.strong] for dot in picture.dots]
        across, up = zip(*places, strict=True)
        axes.scatter(across, up, s=sizes, c=[dot.colour for dot in picture.dots], linewidths=0)
        _rulers(axes, picture, name)
        handles = [
            Line2D([], [], linestyle="", marker="o", markersize=3, color=ink, label=text)
            for text, ink in picture.legend
        ]
        if handles:
            below_axis = (0.45, -_AXIS / _CURVES)
            axes.legend(handles=handles, loc="upper center", bbox_to_anchor=below_axis, ncols=columns, **_LEGEND)

    return _Panel(_CURVES, below, draw, _wrapped(picture.caption))


def _heat(picture: HeatMap) -> _Panel:
    rows, columns, values = list(picture.down.places), list(picture.across.places), picture.values
    name, one = _scaled(picture.axis, max(values.values()))

    def draw(axes: Axes) -> None:
        each = picture.axis.unit == "s" and picture.axis.log
        field = np.full((len(rows), len(columns)), np.nan)
        for at, shade in picture.shades.items():
            place = rows.index(at[0]), columns.index(at[1])
            field[place] = shade
            text = picture.axis.text(values[at]) if each else f"{values[at] / one:.3g}"
            look: dict[str, Any] = {"fontsize": SMALL, "fontweight": _WEIGHTS[at in picture.best]}
            axes.text(place[1], place[0], text, color="white" if shade < _DARK else "black", **_CENTRED, **look)
        axes.imshow(np.ma.masked_invalid(field), cmap="cividis", vmin=0, vmax=1, aspect="auto")
        axes.set_xticks(range(len(columns)), columns)
        axes.set_yticks(range(len(rows)), rows)
        axes.set_xlabel(picture.across.name, labelpad=1)
        axes.set_ylabel(picture.down.name)
        axes.tick_params(length=0)

    title = f"{_wrapped(picture.title)}\n{name}{picture.blank}".strip()
    return _Panel(_SQUARE * len(rows), _AXIS, draw, title)


def _legend(pictures: Sequence[Picture], colours: Mapping[str, str]) -> list[_Panel]:
    bars = [bar for one in pictures if isinstance(one, Bars) for bar in one.bars]
    curves = [one for one in pictures if isinstance(one, Curves)]
    marked = any(one.marks for one in curves)
    handles: list[Patch | Line2D] = [Patch(color=colour, label=exposed(cause)) for cause, colour in colours.items()]
    if any(bar.fitted for bar in bars):
        handles.append(Patch(facecolor="white", label="calibrated (fitted) cell", **_FITTED))
    if marked or any(bar.mark is not None for bar in bars):
        handles.append(Line2D([], [], label="published value", **_DIAMOND))
    if any(series.measured for one in curves for series in one.series):
        handles += [Line2D([], [], color="black", label="predicted")]
        handles += [Line2D([], [], color="black", label="measured", **_RING)]
    columns = _columns([str(handle.get_label()) for handle in handles])

    def draw(axes: Axes) -> None:
        axes.set_axis_off()
        axes.legend(handles=handles, loc="center", ncols=columns, handlelength=1.4, **_LEGEND)

    height = _LINE * math.ceil(len(handles) / columns) + _MARGIN
    return [_Panel(height, 0.0, draw)] if handles else []


def _columns(names: Sequence[str]) -> int:
    return max(1, min(4, _LEGEND_LETTERS // (max(map(len, names), default=0) + 5)))


def _wrapped(title: str) -> str:
    return textwrap.fill(title, _PANEL_LETTERS)


def _plain(axes: Axes, *gridded: Ruler) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    for axis in gridded:
        axis.grid(visible=True, color="#DDDDDD", linewidth=0.5)
    axes.set_axisbelow(True)


def maps_figure(title: str, maps: Sequence[HeatMap]) -> Figure:
    """One panel per saving that goes by two fields: the first one up, the second one right."""
    columns = 1 if len(maps) <= 2 else 2  # two stand one below the other, in one column of a paper
    rows = math.ceil(len(maps) / columns)
    width = max(_WIDTH, _CELL[0] * max(len(one.across.places) for one in maps) + _FRAME[0])
    height = max(1.1, _CELL[1] * max(len(one.down.places) for one in maps)) + _FRAME[1]
    with rc_context(FONTS):
        figure = Figure(figsize=(width * columns, height * rows + 1.0), layout="constrained")
        panels: list[Axes] = list(figure.subplots(rows, columns, squeeze=False).flat)
        colours = [_contours(axes, one) for axes, one in zip(panels, maps, strict=False)][-1]
        for axes in panels[len(maps) :]:
            axes.set_axis_off()
        ticks = [math.log2(1 - share) for share in _TICKS]
        bar = figure.colorbar(colours, ax=panels, ticks=ticks, location="bottom", aspect=40)
        bar.ax.set_xticklabels([f"{share:.1%}".replace(".0%", "%") for share in _TICKS])
        bar.ax.invert_xaxis()
        bar.set_label("time saved (below 0: more is needed)")
        if any(_breaks_even(one.values.values()) for one in maps):
            text = "break-even, interpolated between the values written"
            line = Line2D([], [], color="black", linewidth=1.5, label=text)
            figure.legend(handles=[line], loc="outside lower center", frameon=False, fontsize=SMALL)
        figure.suptitle(textwrap.fill(title, TITLE_LETTERS * columns), fontsize=TITLE)
    return figure


def _widened(places: Iterable[float]) -> FloatArray:
    """Return ``places`` between the ends of their axis, half the way to a next value outside."""
    centres = np.array([*places])
    first, last = np.diff(centres)[[0, -1]] / 2 if len(centres) > 1 else (0.5, 0.5)
    return np.array([centres[0] - first, *centres, centres[-1] + last])


def _breaks_even(shares: Collection[float]) -> bool:
    return min(shares) < 0 < max(shares)


def _contours(axes: Axes, picture: HeatMap) -> ContourSet:
    down, across = (
        {text: math.log10(place) if axis.log else place for text, place in axis.places.items()}
        for axis in (picture.down, picture.across)
    )
    shares = np.array([[picture.values.get((row, column), math.nan) for column in across] for row in down])
    # The outermost values go on to the ends, so that there is room for their numbers.
    x, y = _widened(across.values()), _widened(down.values())
    octaves = np.log2(np.maximum(1 - shares, 2.0 ** (-2 * _OCTAVES)))
    field = np.ma.masked_invalid(np.pad(octaves, 1, mode="edge"))
    levels = np.linspace(-_OCTAVES, _OCTAVES, 61)
    colours = axes.contourf(x, y, field, levels=levels, cmap=_BLUE_IS_SAVED, extend="both")
    if _breaks_even(picture.values.values()):
        axes.contour(x, y, field, levels=[0.0], colors="black", linewidths=1.5)
    if len(across) <= _NUMBERS:
        for (y_place, x_place), octave, share in zip(
            product(down.values(), across.values()), octaves.flat, shares.flat, strict=True
        ):
            if not math.isnan(share):
                dark = abs(octave) > _DARK_OCTAVES
                text = f"{share:.0%}" if share < _NEARLY_ALL else f"{share:.1%}"
                look: dict[str, Any] = {"fontsize": SMALL - 0.5, "color": "white" if dark else "black", **_CENTRED}
                edge = [] if dark else [withStroke(linewidth=1.5, foreground="white")]
                axes.text(x_place, y_place, text, path_effects=edge, **look)
    axes.set_xticks([*across.values()], [*across], rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks([*down.values()], [*down])
    axes.set_ylabel(picture.down.name)
    axes.set_xlabel(picture.across.name)
    axes.set_title(_wrapped(picture.title))
    return colours
