"""A validation as a picture: predicted over measured times, busbw over size. Importing this needs matplotlib."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import cycle
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fredfw.report.pictures import LINES
from fredfw.report.plots import FONTS, SMALL, TITLE
from fredfw.validation.points import CollectivePoint, Part, pattern_of
from fredfw.validation.results import Prediction, Validation, grouped
from fredfw.validation.tables import PATTERNS

_COLOURS = (*LINES, "#999999")
_MARKER: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 2.2}
_PANEL = 3.0  # inches
_ACROSS = 3


def validation_figure(validation: Validation) -> Figure:
    """Return predicted over measured times of all points, and a panel of bus bandwidth over size for each system."""
    by_system = grouped(validation.predictions, lambda one: one.point.system.title)
    timed = {
        title: chosen
        for title, listed in by_system.items()
        if (chosen := [one for one in listed if isinstance(one.point, CollectivePoint)])
    }
    count = 1 + len(timed)
    across = min(count, _ACROSS)
    down = math.ceil(count / across)
    with rc_context(FONTS):
        figure = Figure(figsize=(_PANEL * across, _PANEL * down), layout="constrained")
        axes: list[Axes] = list(figure.subplots(down, across, squeeze=False).flat)
        _against(axes[0], by_system)
        for panel, (title, listed) in zip(axes[1:], timed.items(), strict=False):
            _busbw(panel, title, listed)
        for panel in axes[count:]:
            panel.set_axis_off()
        figure.suptitle(f"Measured and predicted times, transport {validation.transport}", fontsize=TITLE)
    return figure


def _against(axes: Axes, by_system: dict[str, list[Prediction]]) -> None:
    every = [one for listed in by_system.values() for one in listed]
    times = [seconds for one in every for seconds in (one.point.seconds, one.seconds) if seconds > 0]
    ends = min(times) / 2, max(times) * 2
    axes.plot(ends, ends, color="black", linewidth=0.8, label="equal")
    for colour, (title, listed) in zip(cycle(_COLOURS), by_system.items(), strict=False):
        for fitted in (False, True):
            chosen = [(one.point.seconds, one.seconds) for one in listed if (one.part is Part.FITTED) is fitted]
            name, face = (f"{title}, fitted", "none") if fitted else (title, colour)
            how = {**_MARKER, "markeredgewidth": 0.4, "color": colour, "markerfacecolor": face, "label": name}
            if chosen:
                axes.plot(*zip(*chosen, strict=True), **how)
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends, xlabel="measured (s)", ylabel="predicted (s)")
    axes.set_title("all points")
    axes.legend(loc="upper left", fontsize=SMALL, frameon=False)


def _busbw(axes: Axes, title: str, listed: Sequence[Prediction]) -> None:
    ranks = max(one.point.ranks for one in listed)
    drawn = [(point, one.seconds) for one in listed if isinstance(point := one.point, CollectivePoint)]
    for pattern, points in grouped((one for one in drawn if one[0].ranks == ranks), lambda one: one[0].pattern).items():
        colour = _COLOURS[PATTERNS.index(pattern) % len(_COLOURS)]
        factor = pattern_of(pattern).bus_factor(ranks)
        measured = [(point.size, factor * point.size / point.seconds / 1e9) for point, _ in points]
        axes.plot(*zip(*measured, strict=True), **_MARKER, color=colour)
        predicted = sorted({point.size: factor * point.size / seconds / 1e9 for point, seconds in points}.items())
        axes.plot(*zip(*predicted, strict=True), color=colour, linewidth=0.9, label=pattern)
    axes.set(xscale="log", yscale="log", xlabel="size (bytes)", ylabel="busbw (GB/s)")
    axes.set_title(f"{title}, {ranks} ranks")
    kinds = [
        Line2D([], [], **_MARKER, color="black", label="measured"),
        Line2D([], [], color="black", linewidth=0.9, label="predicted"),
    ]
    axes.legend(handles=[*kinds, *axes.get_legend_handles_labels()[0]], fontsize=SMALL, frameon=False)
