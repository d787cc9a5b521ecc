import re
from itertools import product

import numpy as np
import pytest

import fredfw_exporter_html
from fredfw.drawing import (
    Axis,
    Bar,
    Bars,
    Curves,
    Dot,
    Dots,
    Heading,
    HeatMap,
    Line,
    Page,
    Section,
    Series,
    Span,
    Table,
)
from fredfw.testing import ExporterTests
from fredfw_exporter_html import HtmlExporter, svg
from fredfw_exporter_html.page import rendered


class TestHtmlExporter(ExporterTests):
    plugin = fredfw_exporter_html
    exporters = (HtmlExporter(), HtmlExporter(command="fredfw run a.toml"))


def test_a_page_has_the_parts_of_a_report_and_what_cells_have_in_common_once() -> None:
    rows: list[tuple[str | Span, ...]] = [("a", Span("1.5", "bold good"), "", ""), ("b", "-", "", "no")]
    report = [
        Heading((Span("Title"), Span(" (dim)", "dim"))),
        Line("one line"),
        Line(),
        Line("first"),
        Line("second"),
        Table(("name", "the\nvalue", "", "reason"), rows, right=(1,)),
    ]
    page = rendered(Page("", (), [Section("name", "", report)]))
    for part in (
        '<h3>Title<span class="dim"> (dim)</span></h3>\n<p>one line</p>\n<ul>\n<li>first</li>\n<li>second</li>\n</ul>',
        '<th scope="col">name</th><th scope="col" class="number">the value</th>',
        '<th scope="row">a</th><td class="number"><span class="bold good">1.5</span></td><td></td><td></td>',
        '<th scope="row">b</th><td colspan="3">no</td>',  # beside what it is of, where nothing else is said
    ):
        assert part in page


@pytest.mark.parametrize(
    ("low", "high", "log", "expected"),
    [
        (0.0, 10.0, False, [0, 2, 4, 6, 8, 10]),
        (0.0, 0.07, False, [0, 0.02, 0.04, 0.06]),
        (3.0, 3.0, False, [3]),
        (1.0, 100.0, True, [1, 2, 5, 10, 20, 50, 100]),
        (1e-9, 1.0, True, [1e-9, 1e-7, 1e-5, 1e-3, 1e-1]),
        (3.0, 4.0, True, [3, 4]),
    ],
)
def test_ticks_are_round(low: float, high: float, *, log: bool, expected: list[float]) -> None:
    assert svg._ticks(low, high, log=log) == pytest.approx(expected)


def test_pictures_are_to_scale() -> None:
    bars = [Bar("a", {"x": 1.0, "y": 3.0}), Bar("b", {"x": 2.0})]
    text = svg.drawn(Bars("", bars, [{"x": "#111111", "y": "#222222"}]))
    widths = [float(one) for one in re.findall(r'<rect [^>]*width="([\d.]+)"', text)]
    assert widths[1] == pytest.approx(3 * widths[0], abs=0.02)
    assert widths[2] == pytest.approx(2 * widths[0], abs=0.02)
    axis = Axis("s", log=True)
    dots = [Dot(1.0, 1.0, "a"), Dot(100.0, 100.0, "b"), Dot(10.0, 1.0, "c")]
    text = svg.drawn(Dots("", axis, axis, dots, diagonal=True))
    places = np.array([[float(x), float(y)] for x, y in re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', text)])
    ends = " ".join(rf'{one}="([\d.]+)"' for one in ("x1", "y1", "x2", "y2"))
    (diagonal,) = re.findall(f'<line {ends} stroke-width="1" stroke-dash', text)
    assert [float(one) for one in diagonal] == pytest.approx([*places[0], *places[1]], abs=0.02)
    four = {str(place): float(place) for place in range(4)}
    times = {(down, across): place for (down, across), place in zip(product(four, four), range(1, 17), strict=True)}
    picture = HeatMap("", Axis("down", places=four), Axis("across", places=four), Axis("time", "s"), times)
    assert svg.drawn(picture).count("<rect") == 16
    # Rings where it was measured, on the line where it equals the prediction.
    curves = Curves("", axis, axis, [Series("a", [(1.0, 1.0), (100.0, 100.0)], measured=[(10.0, 10.0)])])
    ((x, y),) = re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)" r="3.2" fill="none"', svg.drawn(curves))
    (line,) = re.findall(r'points="([\d.]+),([\d.]+) ([\d.]+),([\d.]+)"', svg.drawn(curves))
    corners = np.array(line, dtype=float).reshape(2, 2)
    assert [float(x), float(y)] == pytest.approx(corners.mean(axis=0), abs=0.02)
