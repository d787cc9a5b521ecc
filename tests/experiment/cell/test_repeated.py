"""Experiments in which NPUs are slow and computations vary, over several runs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from fredfw import Framework
from fredfw.errors import InputError
from fredfw.experiment.results import Spread

RING = {"topology": {"name": "switch", "npus": 4}}
VARIED = {"runs": 3, "seed": 4, "jitter": {"distribution": "lognormal", "deviation": 0.1}}


def content(varied: dict[str, Any] | None, **fabric: Any) -> dict[str, Any]:
    tables: dict[str, Any] = {"fabrics": {"a": {**RING, **fabric}}, "workloads": {"w": {"workload": {"name": "cnn"}}}}
    return tables if varied is None else {**tables, "variation": varied}


def test_rows_have_the_spread_of_their_runs_from_a_store_too(tmp_path: Path) -> None:
    framework = Framework()
    matrix = framework.load_experiment(content(VARIED))
    (row,) = framework.compare(matrix, store=tmp_path / "store").rows
    assert row.spread is not None
    assert (row.spread.runs, row.spread.mean) == (3, row.seconds)
    (again,) = framework.compare(matrix, store=tmp_path / "store").rows
    assert again.spread == row.spread
    (merged,) = framework.merge(content(VARIED), [tmp_path / "store"]).rows
    assert merged.spread == row.spread


def test_runs_that_differ_by_rounding_alone_have_no_error() -> None:
    time = 1.2345e-3
    assert Spread.of([time, math.nextafter(time, 1.0), time]).standard_error == 0.0
    # Two runs: half of what is between them.
    assert Spread.of([1.0, 1.0 + 1e-9]).standard_error == pytest.approx(0.5e-9, rel=1e-6)


def test_a_fabric_may_vary_as_nothing_else_does() -> None:
    framework = Framework()
    (still,) = framework.compare(framework.load_experiment(content(VARIED, variation={"runs": 1}))).rows
    (plain,) = framework.compare(framework.load_experiment(content(None))).rows
    assert still.spread is None
    assert still.seconds == plain.seconds


def test_one_straggler_slows_all_computation() -> None:
    framework = Framework()
    slow = {"stragglers": {"npus": [1], "factor": 2.0}}
    (row,) = framework.compare(framework.load_experiment(content(slow))).rows
    (plain,) = framework.compare(framework.load_experiment(content(None))).rows
    parts = plain.breakdown
    assert row.breakdown["compute"] == pytest.approx(parts["compute"] * 5 / 4)
    assert plain.seconds < row.seconds <= 2 * plain.seconds


@pytest.mark.parametrize(
    ("variation", "key"),
    [
        ({"runs": 0}, "variation.runs"),
        ({"jitter": {"distribution": "cauchy", "deviation": 0.1}}, "variation.jitter.distribution"),
        ({"jitter": {"distribution": "uniform", "deviation": 0.9}}, "variation.jitter.deviation"),
        ({"stragglers": {"share": 0.1}}, "variation.stragglers[0].factor"),
        ({"stragglers": [{"factor": 2.0, "npus": [4]}]}, "variation.stragglers[0].npus"),
        ({"speed": 1}, "variation.speed"),
    ],
)
def test_what_cannot_vary_is_refused_with_its_key(variation: dict[str, Any], key: str) -> None:
    framework = Framework()
    with pytest.raises(InputError) as caught:
        framework.compare(framework.load_experiment(content(variation)), strict=True)
    assert caught.value.key == key


@pytest.mark.slow
def test_the_experiment_that_ships_shows_what_a_straggler_costs() -> None:
    comparison = Framework().compare(Path(__file__).parents[3] / "experiments" / "variation.toml")
    seconds = {row.fabric: row.seconds for row in comparison.rows}
    # One of 16 NPUs is 1.5 times as slow, and all others wait for it.
    assert seconds["switch"] == pytest.approx(1.5 * seconds["steady"], rel=0.02)
