"""The comparison as stacked bars, as in FRED's end-to-end figure. Importing this module needs matplotlib."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import groupby

from fredfw.experiment.results import Comparison, Row, Status
from fredfw.report.data import causes
from fredfw.report.pictures import drawn, importing
from fredfw.simulation.timeline import BUBBLE, COMPUTE

with importing("--plot"):
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch, Rectangle

# Okabe and Ito's palette, which people with any usual colour vision can tell apart ("Color Universal Design", 2008).
_COLOURS = {
    COMPUTE: "#0072B2",
    BUBBLE: "#BBBBBB",
    "load": "#F0E442",
    "mp": "#D55E00",
    "dp": "#E69F00",
    "pp": "#009E73",
    "stream": "#CC79A7",
}
_OTHER_COLOURS = ("#56B4E9", "#000000", "#7F4F24", "#8A8AD6")
_BAR = 0.78
_GAP = 0.9
_SLOT = 0.46  # inches from bar to bar, wide enough for a speed-up of five letters
_LINE = 48  # slots in one line
_LETTERS = 5.5  # letters of a workload's name that fit in one slot
_LABEL = 0.11  # height that a speed-up over its bar needs
_HATCH = "////"


def plot_comparison(comparison: Comparison, file_format: str = "png") -> bytes:
    """Return the figure of ``comparison`` as a file of ``file_format``; see ``fredfw.report.pictures``."""
    return drawn(comparison_figure(comparison), file_format)


def comparison_figure(comparison: Comparison) -> Figure:
    """Return stacked bars of iteration time by cause: one group per workload, one bar per fabric, the baseline at 1.

    Many bars take several lines.

    The speed-up stands over its bar; a diamond marks where the bar would end at the published speed-up; the bar that a
    scalar was fitted to is hatched.
    """
    lines = _lines(comparison.rows)
    parts = [
        cause
        for cause in causes(row.breakdown for row in comparison.rows)
        if any(row.breakdown.get(cause) for row in comparison.rows)
    ]
    colours = _colours(parts)
    slots = max(map(_slots, lines))
    figure = Figure(figsize=(max(6.4, _SLOT * slots + 1.2), 4.8 * len(lines)), layout="constrained")
    panels: list[Axes] = list(figure.subplots(len(lines), squeeze=False)[:, 0])
    highest = max(
        1.0, *(_line(axes, groups, slots, parts, colours) for axes, groups in zip(panels, lines, strict=True))
    )
    baselines = {row.baseline for row in comparison.rows}
    one = baselines.pop() if len(baselines) == 1 else "its baseline"
    for axes in panels:
        axes.set_ylim(0, 1.1 * highest)
        axes.set_ylabel(f"iteration time, {one} = 1")
    figure.suptitle(comparison.title, fontsize=12)
    _legend(figure, comparison, parts, colours)
    return figure


def _lines(rows: Sequence[Row]) -> list[list[list[Row]]]:
    """Return the bars of each workload, in as many lines as they need; a workload with too many bars is cut."""
    lines: list[list[list[Row]]] = []
    for _, group in groupby(rows, key=lambda row: row.workload):
        bars = list(group)
        for start in range(0, len(bars), _LINE):
            part = bars[start : start + _LINE]
            if lines and _slots([*lines[-1], part]) <= _LINE:
                lines[-1].append(part)
            else:
                lines.append([part])
    return lines


def _slots(groups: Sequence[Sequence[Row]]) -> float:
    return sum(map(len, groups)) + _GAP * (len(groups) - 1)


def _line(
    axes: Axes, groups: Sequence[Sequence[Row]], slots: float, parts: Sequence[str], colours: dict[str, str]
) -> float:
    """Draw the bars of ``groups`` beside each other; return the highest."""
    left, ticks, highest = 0.0, [], 0.0
    for rows in groups:
        positions = [left + index for index in range(len(rows))]
        highest = max(highest, _group(axes, rows, positions, parts, colours))
        _name(axes, rows[0].workload, positions)
        ticks += positions
        left = positions[-1] + 1 + _GAP
    axes.set_xticks(ticks, [row.fabric for rows in groups for row in rows], rotation=90, fontsize=9)
    axes.set_xlim(-0.8, slots - 0.2)
    axes.tick_params(axis="x", length=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.yaxis.grid(visible=True, color="#DDDDDD", linewidth=0.8)
    axes.set_axisbelow(True)
    return highest


def _colours(parts: Sequence[str]) -> dict[str, str]:
    others = [cause for cause in parts if cause not in _COLOURS]
    spare = {cause: _OTHER_COLOURS[index % len(_OTHER_COLOURS)] for index, cause in enumerate(others)}
    return {cause: _COLOURS.get(cause) or spare[cause] for cause in parts}


def _group(
    axes: Axes,
    rows: Sequence[Row],
    positions: Sequence[float],
    parts: Sequence[str],
    colours: dict[str, str],
) -> float:
    """Draw the bars of one workload; return the highest."""
    highest = 0.0
    for row, position in zip(rows, positions, strict=True):
        bottom, one = 0.0, row.seconds * row.speedup  # what the baseline takes
        for cause in parts:
            height = row.breakdown.get(cause, 0.0) / one
            axes.bar(position, height, _BAR, bottom, color=colours[cause], edgecolor="white", linewidth=0.4)
            bottom += height
        if row.status is Status.CALIBRATED:
            outline = Rectangle(
                (position - _BAR / 2, 0), _BAR, bottom, fill=False, edgecolor="#222222", linewidth=1.0, hatch=_HATCH
            )
            axes.add_patch(outline)
        top = bottom
        if row.reference_speedup is not None:
            published = 1 / row.reference_speedup
            axes.plot(position, published, "D", color="white", markeredgecolor="black", markersize=5, zorder=5)
            highest = max(highest, published)
            # The speed-up stands on the bar, or on the diamond where that would cover it.
            if bottom < published < bottom + _LABEL:
                top = published
        axes.annotate(
            f"{row.speedup:.2f}x",
            (position, top),
            xytext=(0, 5),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=8,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8},
        )
        highest = max(highest, top)
    return highest


def _name(axes: Axes, workload: str, positions: Sequence[float]) -> None:
    wrapped = textwrap.fill(workload, max(10, int(_LETTERS * (len(positions) + _GAP / 2))))
    middle = (positions[0] + positions[-1]) / 2
    axes.text(middle, 1.02, wrapped, transform=axes.get_xaxis_transform(), ha="center", va="bottom", fontsize=10)


def _legend(figure: Figure, comparison: Comparison, parts: Sequence[str], colours: dict[str, str]) -> None:
    names = [cause if cause in (COMPUTE, BUBBLE) else f"exposed {cause}" for cause in parts]
    handles: list[Patch | Line2D] = [
        Patch(color=colours[cause], label=name) for cause, name in zip(parts, names, strict=True)
    ]
    if any(row.status is Status.CALIBRATED for row in comparison.rows):
        handles.append(Patch(facecolor="white", edgecolor="#222222", hatch=_HATCH, label="calibrated (fitted) cell"))
    if any(row.reference_speedup is not None for row in comparison.rows):
        marker = Line2D([], [], linestyle="", marker="D", color="white", markeredgecolor="black", markersize=5)
        marker.set_label("published value")
        handles.append(marker)
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 5), frameon=False, fontsize=9)
