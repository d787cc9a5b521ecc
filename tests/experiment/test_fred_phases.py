"""The phase table of FRED's paper, from the file a user runs."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from fredfw import Framework
from fredfw.experiment.results import Comparison

FILE = Path(__file__).resolve().parents[2] / "experiments" / "fred-phases.toml"
FABRICS = ("mesh", "FRED-A", "FRED-B", "FRED-C", "FRED-D")
# Communication time relative to the mesh: FRED (ISCA 2025).
PAPER = {
    "MP(2)": (1, 0.25, 0.25, 0.25, 0.25),
    "DP(5)": (1, 2.0, 1.25, 0.25, 0.15625),
    "PP(2)": (1, 0.25, 0.25, 0.25, 0.25),
}
# Simulated: the paper's 0.81 for FRED-A is the sum of its bandwidths.
ALL_NPUS = (1, 0.874, 0.526, 0.500, 0.263)


def relative(comparison: Comparison, workload: str) -> list[float]:
    rows = {(row.workload, row.fabric): row for row in comparison.rows}
    return [rows[workload, fabric].seconds / rows[workload, "mesh"].seconds for fabric in FABRICS]


@pytest.fixture(scope="module")
def framework() -> Framework:
    return Framework()


@pytest.fixture(scope="module")
def comparison(framework: Framework) -> Comparison:
    return framework.compare(framework.load_experiment(FILE))


def test_it_is_the_papers_table(comparison: Comparison) -> None:
    found = {name: [round(one, 3) for one in relative(comparison, name)] for name in (*PAPER, "MP(20)")}
    assert found == {name: [round(one, 3) for one in row] for name, row in {**PAPER, "MP(20)": ALL_NPUS}.items()}


def test_phases_are_exact_without_latency(framework: Framework) -> None:
    content: dict[str, Any] = tomllib.loads(FILE.read_text("utf-8"))
    for fabric in content["fabrics"].values():
        fabric["topology"]["link_latency"] = 0
    found = framework.compare(framework.load_experiment(content))
    for name, row in PAPER.items():
        assert relative(found, name) == pytest.approx(row, rel=1e-12)


def test_references_are_the_inverse_of_the_papers_times(comparison: Comparison) -> None:
    papers = {**PAPER, "MP(20)": (1, 0.81, 0.53, 0.50, 0.26)}
    for row in comparison.rows:
        time = papers[row.workload][FABRICS.index(row.fabric)]
        expected = None if row.fabric == "mesh" else pytest.approx(1 / time, rel=1e-4)
        assert row.reference_speedup == expected
