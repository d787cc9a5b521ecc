from __future__ import annotations

import numpy as np
import pytest
from attrs import evolve
from matplotlib.axes import Axes
from matplotlib.contour import ContourSet

from fredfw.errors import InputError
from fredfw.experiment.results import Comparison, Saving, SavingGroup
from fredfw.report import plots


@pytest.fixture
def drawn(comparison: Comparison, savings: tuple[Saving, ...]) -> Comparison:
    return evolve(comparison, savings=savings)


def grid(shares: dict[tuple[object, object], float]) -> Saving:
    groups = tuple(SavingGroup({"a": a, "b": b}, share, share, share, 1) for (a, b), share in shares.items())
    return Saving("grid", "x", "y", ("net",), None, ("a", "b"), groups)


def panel(comparison: Comparison, saving: Saving) -> Axes:
    axes, *_ = plots.maps_figure(evolve(comparison, savings=(saving,))).axes
    return axes


def break_even(comparison: Comparison, saving: Saving) -> list[tuple[float, float]]:
    """Return the points of the line where nothing is saved."""
    axes = panel(comparison, saving)
    lines = [one for one in axes.collections if isinstance(one, ContourSet) and not one.filled]
    return [(float(x), float(y)) for line in lines for path in line.get_paths() for x, y in np.asarray(path.vertices)]


def test_a_panel_per_map_with_its_values_as_written(drawn: Comparison) -> None:
    figure = plots.maps_figure(drawn)
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


def test_two_maps_are_two_panels(drawn: Comparison) -> None:
    (*_, one) = drawn.savings
    figure = plots.maps_figure(evolve(drawn, savings=(one, evolve(one, name="second", part="dp"), one, one)))
    titles = [axes.get_title() for axes in figure.axes if axes.get_title()]
    assert titles == ["map", "second (exposed dp)", "map", "map"]


def test_the_break_even_is_where_nothing_is_saved(comparison: Comparison) -> None:
    # Twice the time at 1, half of it at 4, for whatever a: halfway between the two on the axis of b, everywhere.
    points = break_even(comparison, grid({(a, b): share for a in (1, 2) for b, share in ((1, -1.0), (4, 0.5))}))
    assert {round(x, 9) for x, _ in points} == {2.5}
    # From one end of the other axis to the other.
    assert (min(y for _, y in points), max(y for _, y in points)) == (0.5, 2.5)
    points = break_even(comparison, grid({(1, b): share for b, share in (("1 MB", -1.0), ("100 MB", 0.5))}))
    assert {round(x, 9) for x, _ in points} == {7.0}  # between decades, at 10 MB


@pytest.mark.parametrize("sign", [1, -1])
def test_no_break_even_where_there_is_none(comparison: Comparison, sign: int) -> None:
    assert break_even(comparison, grid({(a, b): sign * 0.5 for a in (1, 2) for b in (1, 2)})) == []


@pytest.mark.parametrize(
    ("values", "places"),
    [
        ((1024, 2048, 4096), (np.log10(1024), np.log10(2048), np.log10(4096))),
        ((1, 2, 3), (1.0, 2.0, 3.0)),
        ((4, 16, 64), (np.log10(4), np.log10(16), np.log10(64))),
        (("1 kB", "1 MB"), (3.0, 6.0)),
        (("1 MB", "2 MB"), (1e6, 2e6)),
        ((0, 100), (0.0, 100.0)),
        # No numbers, or not of one kind.
        (("linear", "snake"), (0.0, 1.0)),
        (("1 MB", "1 MB/s"), (0.0, 1.0)),
        ((1, "1 MB"), (0.0, 1.0)),
        ((True, False), (0.0, 1.0)),
        (([2, 2], [4]), (0.0, 1.0)),
        (("1 GB", "1000 MB"), (0.0, 1.0)),
    ],
)
def test_places(values: tuple[object, ...], places: tuple[float, ...]) -> None:
    assert plots.placed(values).places.tolist() == pytest.approx(places)


def test_values_stand_in_order_however_they_are_written(comparison: Comparison) -> None:
    saving = grid({(a, b): 0.1 * b + a for a in (0,) for b in (3, 1, 2)})
    axes = panel(comparison, saving)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "2", "3"]
    assert [text.get_text() for text in axes.texts] == ["10%", "20%", "30%"]


def test_extremes_can_be_drawn(comparison: Comparison) -> None:
    saving = grid({(1, 1): 1.0, (1, 2): -1e6, (2, 1): 0.0, (2, 2): 0.5})
    assert plots.drawn(plots.maps_figure(evolve(comparison, savings=(saving,))), "png").startswith(b"\x89PNG")


@pytest.mark.parametrize(("kind", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_formats(drawn: Comparison, kind: str, start: bytes) -> None:
    first, second = (plots.drawn(plots.maps_figure(drawn), kind) for _ in range(2))
    assert first.startswith(start)
    assert second == first


def test_nothing_to_draw_is_told(comparison: Comparison, savings: tuple[Saving, ...]) -> None:
    for none in ((), savings[:2]):
        with pytest.raises(InputError, match="--map: there is no saving by two fields"):
            plots.maps_figure(evolve(comparison, savings=none))
