from collections.abc import Iterable
from itertools import product

import numpy as np
import pytest
from attrs import evolve
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.contour import ContourSet
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from showing import of, on

from fredfw import Work
from fredfw.drawing import pictures_of
from fredfw.errors import InputError
from fredfw.experiment.results import Comparison, Row, Saving, SavingGroup, Status, Throughput
from fredfw.report import charts
from fredfw.report.pictures import Axis, Bars, Curves, HeatMap, colours
from fredfw_exporter_picture import PictureExporter, figures
from fredfw_exporter_picture.figures import FONTS


def figure_of(rows: Iterable[Row]) -> Figure:
    return figures.figure_of(*pictures_of(Comparison("Rows", "mesh", tuple(rows))))


def panels(rows: Iterable[Row]) -> list[Axes]:
    """Return the panels with an axis, without the legend."""
    return [axes for axes in figure_of(rows).axes if axes.get_xlabel()]


def ends(axes: Axes) -> list[float]:
    """Return where each bar ends, from the top down."""
    found: dict[int, float] = {}
    for bars in axes.containers:
        for bar in bars:
            place = round(bar.get_y() + bar.get_height() / 2)
            found[place] = max(found.get(place, 0.0), bar.get_x() + bar.get_width())
    return [found[place] for place in sorted(found)]


def names(axes: Axes) -> list[str]:
    return [label.get_text() for label in axes.get_yticklabels()]


def swept(**fields: tuple[object, ...]) -> list[Row]:
    """Return the rows of a sweep on two fabrics; the second is twice as fast, every row ten times slower."""
    rows = []
    for index, values in enumerate(product(*fields.values())):
        for fabric, factor in (("mesh", 1.0), ("tree", 0.5)):
            seconds = 1e-6 * 10**index * factor
            row = Row("", fabric, "mesh", seconds, 1 / factor, None, None, Status.SIMULATED, {"dp": seconds}, npus=4)
            template = " ".join(f"{{{name}}}" for name in fields)
            rows.append(of(row, template, **dict(zip(fields, values, strict=True))))
    return rows


def on_mesh(**fields: tuple[object, ...]) -> list[Row]:
    return [row for row in swept(**fields) if row.fabric == "mesh"]


def texts(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def test_bars_are_times_with_what_is_known_of_them_in_declared_colours(comparison: Comparison) -> None:
    first, second = panels(comparison.rows)
    assert [axes.get_xlabel() for axes in (first, second)] == ["iteration time (ms)"] * 2
    assert [axes.get_title(loc="left") for axes in (first, second)] == ["net", "other"]
    assert (names(first), names(second)) == (["mesh", "C", "D"], ["mesh", "C"])
    assert ends(first) == pytest.approx([20, 16, 8])
    assert ends(second) == pytest.approx([20, 16])
    first, _ = panels(evolve(row, speedup=None) for row in comparison.rows)
    assert texts(first) == ["20 ms", "16 ms", "8 ms"]
    figure = figure_of(comparison.rows)
    first, second = (axes for axes in figure.axes if axes.get_xlabel())
    assert texts(first) == ["1.00x", "1.25x", "2.50x"]
    assert [text.get_fontweight() for text in first.texts] == ["normal", "normal", "bold"]
    # 20 ms over 1.25 and 2.5.
    diamonds = [float(np.ravel(line.get_xdata())[0]) for axes in (first, second) for line in axes.lines]
    assert diamonds == pytest.approx([16, 8, 16])
    hatched = [patch for patch in first.patches if isinstance(patch, Rectangle) and patch.get_hatch()]
    assert len(hatched) == 1
    (legend,) = (legend for axes in figure.axes if (legend := axes.get_legend()))
    causes = ["compute", "bubble", "exposed mp", "exposed dp", "exposed zeta"]
    assert [text.get_text() for text in legend.get_texts()] == [*causes, "calibrated (fitted) cell", "published value"]
    declared = {"dp": "#E69F00", "mp": "", "absent": "#000000"}
    rows = [evolve(row, colours=declared) for row in comparison.rows]
    found = colours([one for one in charts.charts(rows) if isinstance(one, Bars)])
    assert (found["compute"], found["dp"]) == ("#0072B2", "#E69F00")
    assert len(set(found.values())) == len(found)
    assert "absent" not in found


def test_no_text_overlaps_another_at_the_width_of_a_column(comparison: Comparison) -> None:
    rows = tuple(evolve(row, workload=f"{row.workload}, a name that is much longer") for row in comparison.rows)
    figure = figure_of(rows)
    assert figure.get_figwidth() == 3.5
    with rc_context(FONTS):
        figure.draw_without_rendering()
    framed = [axes for axes in figure.axes if axes.get_xlabel()]
    texts = [text for axes in framed for text in [*axes.texts, *axes.get_yticklabels(), *axes.get_xticklabels()]]
    texts += [axes.xaxis.label for axes in framed]
    texts += [text for axes in figure.axes if (legend := axes.get_legend()) for text in legend.get_texts()]
    boxes = [text.get_window_extent() for text in texts if text.get_text()]
    for index, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:index]), texts[index]
    assert min(float(text.get_fontsize()) for text in texts) >= 6.5


def test_many_bars_take_several_panels_and_columns(comparison: Comparison) -> None:
    one = comparison.rows[0]
    rows = tuple(evolve(one, workload=net, fabric=f"f {number}") for net in ("a", "b") for number in range(50))
    rows = tuple(evolve(row, workload_template=row.workload) for row in rows)
    figure = figure_of(rows)
    found = [axes for axes in figure.axes if axes.get_xlabel()]
    assert [name for axes in found for name in names(axes)] == [row.fabric for row in rows]
    assert [axes.get_title(loc="left") for axes in found] == ["a", "a", "b", "b"]
    assert len({axes.get_xlim() for axes in found}) == 1
    assert figure.get_figwidth() > 3.5
    assert figure.get_figheight() < 14


def test_a_numeric_sweep_is_lines_with_published_values_beside_them() -> None:
    (axes,) = panels(swept(size=("1 kB", "1 MB", "64 MB", "1 GB")))
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("size", "iteration time")
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1 kB", "1 MB", "64 MB", "1 GB"]
    lines = {line.get_label(): line for line in axes.lines}
    assert list(lines) == ["mesh", "tree"]
    assert np.ravel(lines["mesh"].get_xdata()).tolist() == pytest.approx([1e3, 1e6, 64e6, 1e9])
    assert np.ravel(lines["tree"].get_ydata()).tolist() == pytest.approx([0.5e-6, 5e-6, 50e-6, 500e-6])
    assert axes.yaxis.get_major_formatter()(1e-5) == "10 us"
    (axes,) = panels(evolve(row, seconds=0.002 + 0.001 * index) for index, row in enumerate(swept(mp=(1, 2, 4))))
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "linear")
    assert axes.get_ylabel() == "iteration time (ms)"
    assert axes.get_ylim()[0] == 0
    rows = swept(size=("1 kB", "1 MB", "1 GB"))
    rows[1] = evolve(rows[1], reference_speedup=4.0)
    (axes,) = panels(rows)
    (diamond,) = (line for line in axes.lines if line.get_marker() == "D")
    assert np.ravel(diamond.get_xydata()).tolist() == pytest.approx([1e3, 0.25e-6])


def test_other_fields_are_lines_or_panels_and_fabrics_beside_a_sweep_lines() -> None:
    (axes,) = panels(row for row in swept(mp=(1, 2, 4), pp=(1, 2)) if row.fabric == "mesh")
    assert axes.get_xlabel() == "mp"
    assert [line.get_label() for line in axes.lines] == ["pp 1", "pp 2"]
    assert axes.get_title(loc="left") == ""
    found = panels(evolve(row, seconds=1e-3) for row in swept(mp=(1, 2, 4, 8, 16), vp=(1, 2, 4), how=("a", "b")))
    assert [axes.get_title(loc="left") for axes in found] == ["mesh", "tree"]
    assert [len(axes.lines) for axes in found] == [6, 6]
    found = panels(evolve(row, seconds=1e-3 + 1e-4 * index) for index, row in enumerate(swept(layout=("near", "far"))))
    assert [axes.get_title(loc="left") for axes in found] == ["near", "far"]
    assert len({axes.get_xlim() for axes in found}) == 1
    first = swept(layout=("near",))[0]
    rates = enumerate(("1 GB/s", "10 GB/s", "100 GB/s"), 1)
    meshes = (evolve(on(first, "mesh {rate}", rate=rate), seconds=10.0**-index) for index, rate in rates)
    (axes,) = panels([on(first, "tree"), *meshes])
    assert axes.get_xlabel() == "rate"
    assert [line.get_label() for line in axes.lines] == ["mesh", "tree"]


def test_one_line_within_a_decade_is_bars_that_say_what_they_are_compared_with() -> None:
    rows = tuple(
        evolve(row, seconds=4e-3 / index, speedup=float(index), baseline_workload="16")
        for index, row in enumerate((row for row in swept(microbatches=(16, 32, 64)) if row.fabric == "mesh"), 1)
    )
    (axes,) = panels(rows)
    assert axes.get_title(loc="left") == "by microbatches"
    assert names(axes) == ["16", "32", "64"]
    assert texts(axes) == ["1.00x", "2.00x", "3.00x"]


def training(rows: list[Row], samples: list[float]) -> tuple[Row, ...]:
    return tuple(
        evolve(row, work=work, throughput=Throughput.of(work, row.seconds, npus=4, peak=1e12, compute_scale=1.0))
        for row, work in zip(rows, map(Work, samples), strict=True)
    )


def test_lines_and_bars_show_samples_per_second_where_rows_train_different_amounts() -> None:
    rows = on_mesh(mp=(1, 2, 4))  # 1, 10 and 100 us
    (axes,) = panels(training(rows, [16, 8, 4]))
    assert axes.get_ylabel() == "samples/s"
    assert axes.yaxis.get_major_formatter()(1e7) == "10,000,000"
    assert list(map(float, np.asarray(axes.lines[0].get_ydata()))) == pytest.approx([16e6, 0.8e6, 0.04e6])
    (axes,) = panels(training(rows, [16, 16, 16]))
    assert axes.get_ylabel() == "iteration time"
    rows = on_mesh(mp=(1, 2))
    (axes,) = panels(training(rows, [16, 8]))
    assert texts(axes) == ["1.6e+07 samples/s", "8e+05 samples/s"]


def test_trade_offs_are_points_of_both_pairs_of_metrics_for_each_workload() -> None:
    rows = training(on_mesh(mp=(1, 2, 4)), [16, 8, 4])
    rows = tuple(evolve(row, cost=cost) for row, cost in zip(rows, (3.0, 2.0, 2.5), strict=True))
    found = charts.trade_offs([*rows, *(evolve(row, workload_template="{pp}") for row in rows)])
    names = [(one.across.name, one.up.name) for one in found]
    assert names == [("cost", "time")] * 2 + [("npu-seconds", "samples/s")] * 2
    assert [dot.strong for dot in found[0].dots] == [True, True, False]


def test_two_long_fields_are_a_map_for_each_fabric() -> None:
    rows = [row for row in swept(mp=(1, 2, 4, 8), pp=(8, 2, 4, 1)) if row.workload != "8 8"]
    found = panels(rows)
    titles = [f"{fabric}\niteration time; blank: no result" for fabric in ("mesh", "tree")]
    assert [axes.get_title(loc="left") for axes in found] == titles
    (first, _) = found
    assert (first.get_xlabel(), first.get_ylabel()) == ("pp", "mp")
    assert [label.get_text() for label in first.get_xticklabels()] == ["1", "2", "4", "8"]
    # The fourth row of each mp has pp = 1; rows take 10 times as long from one to the next, from 1 us.
    texts = {text.get_position(): text.get_text() for text in first.texts}
    assert texts[0, 0] == "1 ms"
    assert (3, 3) not in texts
    assert len(texts) == 15


def test_a_map_may_be_over_a_field_of_each_and_its_shades_say_how_good_a_cell_is() -> None:
    first = swept(size=("1 kB",))[0]
    places = product(("1 B", "1 kB", "1 MB", "1 GB"), (4, 8, 16, 32))
    rows = [on(of(first, "{size}", size=size), "ring {npus}", npus=npus) for size, npus in places]
    (chart,) = charts.charts(rows)
    assert isinstance(chart, HeatMap)
    assert (chart.title, chart.down.name, chart.across.name) == ("", "size", "npus")
    assert set(chart.shades.values()) == {1.0}
    assert len(charts.charts(rows[:-4])) == 1
    assert isinstance(charts.charts(rows[:-4])[0], Curves)
    rows = on_mesh(mp=(1, 2, 4, 8), pp=(1, 2, 4, 8))
    (chart,) = charts.charts(rows)
    assert isinstance(chart, HeatMap)
    # 16 times, each ten times the one before: equal steps of the logarithm.
    assert list(chart.shades.values()) == pytest.approx([1 - step / 15 for step in range(16)])
    (chart,) = charts.charts(training(rows, [10.0 ** (2 * step) for step in range(16)]))
    assert isinstance(chart, HeatMap)
    assert chart.axis.name == "samples/s"
    assert list(chart.shades.values()) == pytest.approx([step / 15 for step in range(16)])


def grid(shares: dict[tuple[object, object], float]) -> Saving:
    groups = tuple(SavingGroup({"a": a, "b": b}, share, share, share, 1) for (a, b), share in shares.items())
    return Saving("grid", "x", "y", ("net",), None, ("a", "b"), groups)


def maps_of(comparison: Comparison) -> Figure:
    title, pictures = pictures_of(comparison, savings=True)
    return figures.maps_figure(title, [one for one in pictures if isinstance(one, HeatMap)])


def break_even(comparison: Comparison, saving: Saving) -> list[tuple[float, float]]:
    axes, *_ = maps_of(evolve(comparison, savings=(saving,))).axes
    lines = [one for one in axes.collections if isinstance(one, ContourSet) and not one.filled]
    return [(float(x), float(y)) for line in lines for path in line.get_paths() for x, y in np.asarray(path.vertices)]


def test_each_map_has_a_panel_with_its_values_as_written_and_without_any_that_is_told(
    comparison: Comparison, savings: tuple[Saving, ...]
) -> None:
    drawn = evolve(comparison, savings=savings)
    figure = maps_of(drawn)
    axes, _colours = figure.axes
    assert (axes.get_title(), axes.get_xlabel(), axes.get_ylabel()) == ("map", "rate", "nodes")
    assert [label.get_text() for label in axes.get_xticklabels()] == ["40 Gbps", "400 Gbps", "4 Tbps"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["2", "64"]
    # Both span a decade or more: 40 Gbit/s are 5e9 B/s.
    assert list(axes.get_xticks()) == pytest.approx([np.log10(5e9), np.log10(5e10), np.log10(5e11)])
    assert list(axes.get_yticks()) == pytest.approx([np.log10(2), np.log10(64)])
    texts = {(round(x, 3), round(y, 3)): text.get_text() for text in axes.texts for x, y in [text.get_position()]}
    assert texts[round(float(np.log10(5e10)), 3), round(float(np.log10(64)), 3)] == "-100%"
    assert sorted(texts.values()) == ["-100%", "-50%", "25%", "50%", "88%"]
    (*_, one) = drawn.savings
    figure = maps_of(evolve(drawn, savings=(one, evolve(one, name="second", part="dp"), one)))
    assert [axes.get_title() for axes in figure.axes][:4] == ["map", "second (exposed dp)", "map", ""]
    for none in ((), drawn.savings[:2]):
        with pytest.raises(InputError, match="--map: there is no saving by two fields"):
            maps_of(evolve(drawn, savings=none))


def test_the_break_even_is_where_nothing_is_saved_and_extremes_can_be_drawn(comparison: Comparison) -> None:
    # Twice the time at 1, half of it at 4, for whatever a: halfway between the two on the axis of b, everywhere.
    points = break_even(comparison, grid({(a, b): share for a in (1, 2) for b, share in ((1, -1.0), (4, 0.5))}))
    assert {round(x, 9) for x, _ in points} == {2.5}
    # From one end of the other axis to the other.
    assert (min(y for _, y in points), max(y for _, y in points)) == (0.5, 2.5)
    points = break_even(comparison, grid({(1, b): share for b, share in (("1 MB", -1.0), ("100 MB", 0.5))}))
    assert {round(x, 9) for x, _ in points} == {7.0}  # between decades, at 10 MB
    for share in (0.5, -0.5):
        assert break_even(comparison, grid({(a, b): share for a in (1, 2) for b in (1, 2)})) == []
    saving = grid({(1, 1): 1.0, (1, 2): -1e6, (2, 1): 0.0, (2, 2): 0.5})
    assert PictureExporter(maps=True).export(evolve(comparison, savings=(saving,))).startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("values", "places", "log"),
    [
        ((1024, 2048, 4096), (1024, 2048, 4096), True),
        ((1, 2, 3), (1, 2, 3), False),
        ((16, 4, 64), (4, 16, 64), True),
        (("1 kB", "1 MB"), (1e3, 1e6), True),
        ((0, 100), (0, 100), False),
        # No numbers, or not of one kind.
        (("linear", "snake"), (0, 1), False),
        (("1 MB", "1 MB/s"), (0, 1), False),
        ((1, "1 MB"), (0, 1), False),
        ((True, False), (0, 1), False),
        (("1 GB", "1000 MB"), (0, 1), False),
    ],
)
def test_places(values: tuple[object, ...], places: tuple[float, ...], *, log: bool) -> None:
    axis = Axis.of_any("field", values)
    assert list(axis.places.values()) == pytest.approx(places)
    assert axis.log == log
