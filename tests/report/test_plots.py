from __future__ import annotations

import sys

import numpy as np
import pytest
from attrs import evolve
from matplotlib.patches import Rectangle

from fredfw.errors import InputError
from fredfw.experiment.results import Comparison
from fredfw.report import plots


def test_bars_are_iteration_times_over_the_baseline(comparison: Comparison) -> None:
    (axes,) = plots.comparison_figure(comparison).axes
    tops: dict[float, float] = {}
    for bars in axes.containers:
        for bar in bars:
            middle = round(bar.get_x() + bar.get_width() / 2, 6)
            tops[middle] = max(tops.get(middle, 0.0), bar.get_y() + bar.get_height())
    expected = [row.seconds / 0.02 for row in comparison.rows]
    assert [tops[middle] for middle in sorted(tops)] == pytest.approx(expected)
    assert [label.get_text() for label in axes.get_xticklabels()] == [row.fabric for row in comparison.rows]


def test_speedups_published_values_and_calibrated_cells_are_marked(comparison: Comparison) -> None:
    figure = plots.comparison_figure(comparison)
    (axes,) = figure.axes
    texts = [text.get_text() for text in axes.texts]
    assert [text for text in texts if text.endswith("x")] == ["1.00x", "1.25x", "2.50x", "1.00x", "1.25x"]
    assert {"net", "other"} <= set(texts)
    assert [float(np.ravel(line.get_ydata())[0]) for line in axes.lines] == pytest.approx([1 / 1.25, 1 / 2.5, 1 / 1.25])
    hatched = [patch for patch in axes.patches if isinstance(patch, Rectangle) and patch.get_hatch()]
    assert len(hatched) == 1
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == [
        "compute",
        "bubble",
        "exposed mp",
        "exposed dp",
        "exposed zeta",
        "calibrated (fitted) cell",
        "published value",
    ]


def test_no_text_overlaps_another(comparison: Comparison) -> None:
    rows = tuple(evolve(row, workload=f"{row.workload}, a name that is much longer") for row in comparison.rows)
    figure = plots.comparison_figure(evolve(comparison, rows=rows))
    figure.draw_without_rendering()
    (axes,) = figure.axes
    texts = [*axes.texts, *axes.get_xticklabels(), *figure.legends[0].get_texts(), axes.yaxis.label]
    boxes = [text.get_window_extent() for text in texts]
    for index, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:index]), texts[index]


def test_many_bars_take_several_lines(comparison: Comparison) -> None:
    one = comparison.rows[0]
    rows = tuple(evolve(one, workload=net, fabric=f"f {number}") for net in ("a", "b", "c") for number in range(70))
    figure = plots.comparison_figure(evolve(comparison, rows=rows))
    fabrics = [[label.get_text() for label in axes.get_xticklabels()] for axes in figure.axes]
    assert [name for line in fabrics for name in line] == [row.fabric for row in rows]
    assert max(map(len, fabrics)) <= 48
    assert len({axes.get_ylim() for axes in figure.axes}) == 1
    # Every line says which workloads it has.
    assert [{text.get_text() for text in axes.texts} & {"a", "b", "c"} for axes in figure.axes] == [
        {"a"},
        {"a"},
        {"b"},
        {"b"},
        {"c"},
        {"c"},
    ]
    # Short groups share one.
    few = tuple(row for row in rows if row.fabric in ("f 0", "f 1"))
    assert len(plots.comparison_figure(evolve(comparison, rows=few)).axes) == 1


def test_bars_over_baselines_of_their_own(comparison: Comparison) -> None:
    first, second, *_ = comparison.rows
    rows = (first, evolve(second, baseline="another", seconds=0.016, speedup=2.0))
    (axes,) = plots.comparison_figure(evolve(comparison, rows=rows)).axes
    assert axes.get_ylabel() == "iteration time, its baseline = 1"
    tops = {
        round(bar.get_x() + bar.get_width() / 2): bar.get_y() + bar.get_height()
        for bars in axes.containers
        for bar in bars
    }
    assert tops == {0: pytest.approx(1.0), 1: pytest.approx(0.5)}


@pytest.mark.parametrize(("kind", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_formats(comparison: Comparison, kind: str, start: bytes) -> None:
    picture = plots.plot_comparison(comparison, kind)
    assert picture.startswith(start)
    assert plots.plot_comparison(comparison, kind) == picture


def test_without_matplotlib_the_message_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.axes", None)
    monkeypatch.delitem(sys.modules, "fredfw.report.plots")
    with pytest.raises(InputError, match=r"pip install 'fredfw\[plot\]'"):
        __import__("fredfw.report.plots")
