"""Savings by two fields as heat maps, with the line where nothing is saved. Importing this module needs matplotlib."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from attrs import frozen
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.contour import ContourSet
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke

from fredfw.errors import InputError
from fredfw.experiment.file.spec import SavingSpec
from fredfw.experiment.naming import as_written
from fredfw.experiment.results import Comparison, Saving
from fredfw.report.comparison import saving_name
from fredfw.report.pictures import scale_of
from fredfw.report.plots import FONTS, SMALL, TITLE, TITLE_LETTERS, drawn
from fredfw.typing import FloatArray

_FIELDS = 2
_FEW = 2  # panels that stand one below the other, in one column of a paper
_COLUMNS = 2  # panels beside each other where there are more
_WIDTH = 3.5  # inches, of a panel
_CELL = (0.37, 0.22)  # inches, wide enough for a share such as -123 %
_FRAME = (0.8, 0.95)  # inches around the cells
_LETTERS = 50  # in a line of a panel's title
_NUMBERS = 14  # columns of a map that has its shares written in it
_NEARLY_ALL = 0.995  # more than this is not rounded to 100 %
_BLUE_IS_SAVED = "RdBu_r"
# Colours are for log2(T_of / T_over), in which twice as fast is as far from 0 as twice as slow.
_OCTAVES = 3.0
_DARK = 1.7
_TICKS = (0.875, 0.75, 0.5, 0.0, -1.0, -3.0, -7.0)  # shares at whole octaves


def plot_maps(comparison: Comparison, file_format: str = "png") -> bytes:
    """Return the figure of the maps of ``comparison`` as a file of ``file_format``; see ``plots.drawn``."""
    return drawn(maps_figure(comparison), file_format)


def maps_figure(comparison: Comparison) -> Figure:
    """Return one panel per saving that goes by two fields: the first one up, the second one to the right.

    Raises:
        InputError: There is no such saving.
    """
    check_maps(comparison.savings)
    maps = [_Map.of(saving) for saving in comparison.savings if len(saving.by) == _FIELDS]
    columns = 1 if len(maps) <= _FEW else _COLUMNS
    rows = math.ceil(len(maps) / columns)
    width = max(_WIDTH, _CELL[0] * max(len(one.texts[1]) for one in maps) + _FRAME[0])
    height = max(1.1, _CELL[1] * max(len(one.texts[0]) for one in maps)) + _FRAME[1]
    with rc_context(FONTS):
        figure = Figure(figsize=(width * columns, height * rows + 1.0), layout="constrained")
        panels: list[Axes] = list(figure.subplots(rows, columns, squeeze=False).flat)
        colours = [_draw(axes, one) for axes, one in zip(panels, maps, strict=False)][-1]
        for axes in panels[len(maps) :]:
            axes.set_axis_off()
        ticks = [math.log2(1 - share) for share in _TICKS]
        bar = figure.colorbar(colours, ax=panels, ticks=ticks, location="bottom", aspect=40)
        bar.ax.set_xticklabels([f"{share:.1%}".replace(".0%", "%") for share in _TICKS])
        bar.ax.invert_xaxis()
        bar.set_label("time saved (below 0: more is needed)")
        line = Line2D([], [], color="black", linewidth=1.5, label="break-even, interpolated between the values written")
        figure.legend(handles=[line], loc="outside lower center", frameon=False, fontsize=SMALL)
        figure.suptitle(textwrap.fill(comparison.title, TITLE_LETTERS * columns), fontsize=TITLE)
    return figure


def check_maps(savings: Iterable[Saving | SavingSpec]) -> None:
    """Make sure that there is something to draw; raises ``InputError`` if none of ``savings`` goes by two fields."""
    if all(len(saving.by) != _FIELDS for saving in savings):
        accepted = "[[savings]] with by = [...] of two swept fields"
        raise InputError("there is no saving by two fields to draw", key="--map", accepted=accepted)


@frozen(eq=False)
class _Map:
    """A saving as a picture has it.

    Args:
        saving: What is drawn.
        texts: The values of its first and of its second field as written, by position.
        centres: Where those are drawn.
        shares: ``(first, second)``; NaN where there is none.
    """

    saving: Saving
    texts: tuple[list[str], list[str]]
    centres: tuple[FloatArray, FloatArray]
    shares: FloatArray

    @classmethod
    def of(cls, saving: Saving) -> _Map:
        (down, y), (across, x) = (_ordered(group.at[name] for group in saving.groups) for name in saving.by)
        shares = np.full((len(down), len(across)), np.nan)
        for group in saving.groups:
            row, column = (as_written(group.at[name]) for name in saving.by)
            shares[down.index(row), across.index(column)] = group.saving
        return cls(saving, (down, across), (y, x), shares)


def _ordered(values: Iterable[Any]) -> tuple[list[str], FloatArray]:
    """Return ``values`` as written, by position, and their places."""
    unique = {as_written(value): value for value in values}
    places = dict(zip(unique, _places(list(unique.values())), strict=True))
    return sorted(unique, key=places.__getitem__), np.array(sorted(places.values()))


def _widened(centres: FloatArray) -> FloatArray:
    """Return ``centres`` between the ends of their axis, half the way to a next value outside."""
    first, last = np.diff(centres)[[0, -1]] / 2 if len(centres) > 1 else (0.5, 0.5)
    return np.array([centres[0] - first, *centres, centres[-1] + last])


def _places(values: Sequence[Any]) -> list[float]:
    """Return where ``values`` stand on an axis.

    Numbers, and quantities of one unit, stand at their value, or at its logarithm where they span a decade or grow by
    one factor; all else stands in the order given.
    """
    scale = scale_of(values)
    if scale is None:
        return [float(index) for index in range(len(values))]
    numbers = [scale.numbers[as_written(value)] for value in values]
    return [math.log10(number) for number in numbers] if scale.log else numbers


def _draw(axes: Axes, one: _Map) -> ContourSet:
    # The outermost values go on to the ends, so that there is room for their numbers.
    rows, columns = one.centres
    x, y = _widened(columns), _widened(rows)
    octaves = np.log2(np.maximum(1 - one.shares, 2.0 ** (-2 * _OCTAVES)))
    field = np.ma.masked_invalid(np.pad(octaves, 1, mode="edge"))
    levels = np.linspace(-_OCTAVES, _OCTAVES, 61)
    colours = axes.contourf(x, y, field, levels=levels, cmap=_BLUE_IS_SAVED, extend="both")
    if field.min() < 0 < field.max():
        axes.contour(x, y, field, levels=[0.0], colors="black", linewidths=1.5)
    if len(columns) <= _NUMBERS:
        for (row, column), share in np.ndenumerate(one.shares):
            if not math.isnan(share):
                dark = abs(octaves[row, column]) > _DARK
                axes.text(
                    float(columns[column]),
                    float(rows[row]),
                    f"{share:.0%}" if share < _NEARLY_ALL else f"{share:.1%}",
                    ha="center",
                    va="center",
                    fontsize=SMALL - 0.5,
                    color="white" if dark else "black",
                    path_effects=[] if dark else [withStroke(linewidth=1.5, foreground="white")],
                )
    axes.set_xticks(columns, one.texts[1], rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(rows, one.texts[0])
    axes.set_ylabel(one.saving.by[0])
    axes.set_xlabel(one.saving.by[1])
    axes.set_title(textwrap.fill(saving_name(one.saving), _LETTERS))
    return colours
