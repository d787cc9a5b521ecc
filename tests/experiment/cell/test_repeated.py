"""Experiments in which NPUs are slow and computations vary, over several runs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from experiments import FRAMEWORK, compare, refused

from fredfw.experiment.results import Row, Spread

RING = {"topology": {"name": "switch", "npus": 4}}
VARIED = {"runs": 3, "seed": 4, "jitter": {"distribution": "lognormal", "deviation": 0.1}}


def content(varied: dict[str, Any] | None, **fabric: Any) -> dict[str, Any]:
    tables: dict[str, Any] = {"fabrics": {"a": {**RING, **fabric}}, "workloads": {"w": {"workload": {"name": "cnn"}}}}
    return tables if varied is None else {**tables, "variation": varied}


def row_of(varied: dict[str, Any] | None, store: Path | None = None, **fabric: Any) -> Row:
    (row,) = compare(content(varied, **fabric), store=store, strict=True).rows
    return row


def test_rows_have_the_spread_of_their_runs_from_a_store_too(tmp_path: Path) -> None:
    store = tmp_path / "store"
    row, again = row_of(VARIED, store), row_of(VARIED, store)
    assert row.spread is not None
    assert (row.spread.runs, row.spread.mean) == (3, row.seconds)
    (merged,) = FRAMEWORK.merge(content(VARIED), [store]).rows
    assert merged.spread == again.spread == row.spread


def test_runs_that_differ_by_rounding_alone_have_no_error() -> None:
    time = 1.2345e-3
    assert Spread.of([time, math.nextafter(time, 1.0), time]).standard_error == 0.0
    # Two runs: half of what is between them.
    assert Spread.of([1.0, 1.0 + 1e-9]).standard_error == pytest.approx(0.5e-9, rel=1e-6)


def test_a_fabric_may_vary_as_nothing_else_does() -> None:
    still = row_of(VARIED, variation={"runs": 1})
    assert still.spread is None
    assert still.seconds == row_of(None).seconds


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
    with refused(key):
        row_of(variation)


@pytest.mark.slow
def test_the_experiment_that_ships_shows_what_a_straggler_costs() -> None:
    comparison = FRAMEWORK.compare(Path(__file__).parents[3] / "experiments" / "variation.toml")
    seconds = {row.fabric: row.seconds for row in comparison.rows}
    # One of 16 NPUs is 1.5 times as slow, and all others wait for it.
    assert seconds["switch"] == pytest.approx(1.5 * seconds["steady"], rel=0.02)
