import numpy as np

import fredfw_exporter_picture
from fredfw.drawing import Axis, Curves, Dot, Dots, Series
from fredfw.testing import ExporterTests
from fredfw_exporter_picture import PictureExporter, figures


class TestPictureExporter(ExporterTests):
    plugin = fredfw_exporter_picture
    exporters = tuple(PictureExporter(format=one) for one in ("png", "svg", "pdf"))


def test_points_that_none_beats_are_joined_and_equal_numbers_are_a_line() -> None:
    axis = Axis("time", "s", log=True)
    dots = [Dot(1e-6, 4e-6, "a", strong=True), Dot(2e-6, 1e-6, "b", strong=True), Dot(3e-6, 5e-6, "c")]
    legend = [("ours", "#000000"), ("theirs", "#D55E00")]
    (axes,) = figures.figure_of("", [Dots("all", axis, axis, dots, legend, diagonal=True)]).axes
    diagonal, front = (np.asarray(line.get_xydata()).tolist() for line in axes.lines)
    assert diagonal == [[1e-6, 1e-6], [5e-6, 5e-6]]
    assert front == [[1e-6, 4e-6], [2e-6, 1e-6]]
    assert [np.asarray(one.get_offsets()).tolist() for one in axes.collections] == [[[dot.x, dot.y] for dot in dots]]
    shown = axes.get_legend()
    assert shown is not None
    assert [text.get_text() for text in shown.get_texts()] == ["ours", "theirs"]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")


def test_what_was_measured_is_rings_beside_its_line() -> None:
    series = [Series("all-reduce", [(1e3, 1.0), (1e6, 4.0)], measured=[(1e3, 2.0), (1e6, 5.0)])]
    axes, _ = figures.figure_of("", [Curves("", Axis("size", "B", log=True), Axis("busbw", log=True), series)]).axes
    rings, line = axes.lines
    assert (rings.get_linestyle(), rings.get_color()) == ("None", line.get_color())
    assert np.asarray(rings.get_xydata()).tolist() == [[1e3, 2.0], [1e6, 5.0]]
    assert axes.xaxis.get_major_formatter()(1e6) == "1 MB"
