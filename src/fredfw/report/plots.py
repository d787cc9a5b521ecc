"""The comparison as stacked bars, as in FRED's end-to-end figure. Importing this module needs matplotlib."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from itertools import groupby

from fredfw.errors import InputError
from fredfw.experiment.results import Comparison, Row, Status
from fredfw.report.data import causes
from fredfw.simulation.timeline import BUBBLE, COMPUTE

try:
    from matplotlib import rc_context
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch, Rectangle
except ImportError as error:
    raise InputError(
        f"a plot needs matplotlib ({error})", key="--plot", accepted="pip install 'fredfw[plot]'"
    ) from error

FORMATS = ("png", "svg", "pdf")

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
_LETTERS = 5.5  # letters of a workload's name that fit in one slot
_LABEL = 0.11  # height that a speed-up over its bar needs
_HATCH = "////"


def plot_comparison(comparison: Comparison, file_format: str = "png") -> bytes:
    """Return the figure of ``comparison`` in ``file_format``, one of ``FORMATS``."""
    buffer = io.BytesIO()
    # Without dates, versions and random ids the same results give the same file.
    metadata = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[file_format]
    with rc_context({"svg.hashsalt": "fredfw"}):
        comparison_figure(comparison).savefig(buffer, format=file_format, dpi=160, metadata=metadata)
    return buffer.getvalue()


def comparison_figure(comparison: Comparison) -> Figure:
    """Return stacked bars of iteration time by cause: one group per workload, one bar per fabric, the baseline at 1.

    The speed-up stands over its bar; a diamond marks where the bar would end at the published speed-up; the bar that a
    scalar was fitted to is hatched.
    """
    groups = [list(rows) for _, rows in groupby(comparison.rows, key=lambda row: row.workload)]
    parts = [
        cause
        for cause in causes(row.breakdown for row in comparison.rows)
        if any(row.breakdown.get(cause) for row in comparison.rows)
    ]
    colours = _colours(parts)
    slots = len(comparison.rows) + _GAP * (len(groups) - 1)
    figure = Figure(figsize=(max(6.4, _SLOT * slots + 1.2), 4.8), layout="constrained")
    axes = figure.subplots()
    left, ticks, highest = 0.0, [], 1.0
    for rows in groups:
        positions = [left + index for index in range(len(rows))]
        highest = max(highest, _group(axes, rows, positions, parts, colours, comparison.baseline))
        _name(axes, rows[0].workload, positions)
        ticks += positions
        left = positions[-1] + 1 + _GAP
    axes.set_xticks(ticks, [row.fabric for row in comparison.rows], rotation=90, fontsize=9)
    axes.set_xlim(-0.8, ticks[-1] + 0.8)
    axes.set_ylim(0, 1.1 * highest)
    axes.set_ylabel(f"iteration time, {comparison.baseline} = 1")
    axes.tick_params(axis="x", length=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.yaxis.grid(visible=True, color="#DDDDDD", linewidth=0.8)
    axes.set_axisbelow(True)
    figure.suptitle(comparison.title, fontsize=12)
    _legend(figure, comparison, parts, colours)
    return figure


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
    baseline: str,
) -> float:
    """Draw the bars of one workload; return the highest."""
    one = next((row.seconds for row in rows if row.fabric == baseline), 0.0) or 1.0
    highest = 0.0
    for row, position in zip(rows, positions, strict=True):
        bottom = 0.0
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
