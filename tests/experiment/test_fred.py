"""The published comparison and phases of FRED, from the files a user runs: the table of targets, and the paper."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
from experiments import FRAMEWORK

from fredfw import Experiment
from fredfw.experiment.results import Comparison, Status

FOLDER = Path(__file__).resolve().parents[2] / "experiments"
WORKLOADS = ("ResNet-152", "Transformer-17B", "GPT-3", "Transformer-1T")
# The command of the README runs the cells of the comparison in the default tests.
slow = pytest.mark.slow


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    return FRAMEWORK.load_experiment(FOLDER / "fred-isca25.toml")


@pytest.fixture(scope="module")
def comparison(experiment: Experiment) -> Comparison:
    return FRAMEWORK.compare(experiment)


def speedup(comparison: Comparison, workload: str, fabric: str) -> float:
    return next(row.speedup or 0.0 for row in comparison.rows if (row.workload, row.fabric) == (workload, fabric))


@slow
def test_the_matrix_and_the_figures_that_are_published(comparison: Comparison) -> None:
    assert comparison.baseline == "mesh"
    workloads = list(dict.fromkeys(row.workload for row in comparison.rows))
    assert workloads == ["ResNet-152", "Transformer-17B", "GPT-3", "GPT-3-needed", "Transformer-1T"]
    assert len(comparison.rows) == 25
    # README.md and docs/model.md.
    found = [round(speedup(comparison, "Transformer-17B", f"FRED-{variant}"), 3) for variant in "ABCD"]
    assert found == [1.356, 1.488, 1.75, 1.817]
    found = [round(speedup(comparison, "ResNet-152", f"FRED-{variant}"), 3) for variant in "ABCD"]
    assert found == [1.049, 1.383, 1.41, 1.75]
    assert round(speedup(comparison, "GPT-3-needed", "FRED-D"), 2) == 1.22


@slow
@pytest.mark.parametrize("workload", WORKLOADS)
def test_column_c_is_calibrated_d_predicted_and_a_and_b_slower(comparison: Comparison, workload: str) -> None:
    rows = {one.fabric: one for one in comparison.rows if one.workload == workload}
    for fabric in ("FRED-A", "FRED-B"):
        assert 1.0 < speedup(comparison, workload, fabric) < speedup(comparison, workload, "FRED-C")
    # The time of Transformer-17B on the mesh jumps with the compute time; on FRED-D it is 2.8 % off.
    jumps = workload == "Transformer-17B"
    for fabric, status, off in (
        ("FRED-C", Status.CALIBRATED, 1e-4 if jumps else 1e-6),
        ("FRED-D", Status.PREDICTED, 0.03 if jumps else 0.02),
    ):
        assert rows[fabric].status is status
        assert rows[fabric].speedup == pytest.approx(rows[fabric].reference_speedup, rel=off)


@slow
def test_bytes_and_routing_are_the_published_ones(experiment: Experiment, comparison: Comparison) -> None:
    # In the network every NPU sends its gradients up once and receives them once: 60,192,808 parameters of 2 bytes.
    result = FRAMEWORK.run(experiment, workload="ResNet-152", fabric="FRED-D")
    up_and_down = 2 * (20 + 5) * 60_192_808 * 2
    assert result.bytes_by_cause["dp"] == pytest.approx(up_and_down, rel=1e-12)
    # 0.063 pJ/bit on every link but those of the controllers, whose energy is not the wafer's.
    assert result.energy >= up_and_down * 8 * 0.063e-12
    # Three middle switches and FRED's placement are enough, so that its switches change nothing that was published.
    assert all(row.figures == {} and not any("conflict" in note for note in row.notes) for row in comparison.rows)
    result = FRAMEWORK.run(experiment, workload="Transformer-17B", fabric="FRED-D")
    assert [result.statistics[name] for name in ("waits", "splits", "decompositions")] == [0, 0, 0]


FABRICS = ("mesh", "FRED-A", "FRED-B", "FRED-C", "FRED-D")
# Communication time relative to the mesh: FRED (ISCA 2025).
PAPER = {
    "MP(2)": (1, 0.25, 0.25, 0.25, 0.25),
    "DP(5)": (1, 2.0, 1.25, 0.25, 0.15625),
    "PP(2)": (1, 0.25, 0.25, 0.25, 0.25),
}
# Simulated: the paper's 0.81 for FRED-A is the sum of its bandwidths.
ALL_NPUS = (1, 0.874, 0.526, 0.500, 0.263)


def phases(latency: dict[str, Any]) -> Comparison:
    """Return the comparison of the phases, with another latency of links if one is given."""
    content: dict[str, Any] = tomllib.loads((FOLDER / "fred-phases.toml").read_text("utf-8"))
    for fabric in content["fabrics"].values():
        fabric["topology"] |= latency
    return FRAMEWORK.compare(FRAMEWORK.load_experiment(content))


def relative(comparison: Comparison, workload: str) -> list[float]:
    rows = {(row.workload, row.fabric): row for row in comparison.rows}
    return [rows[workload, fabric].seconds / rows[workload, "mesh"].seconds for fabric in FABRICS]


def test_phases_are_the_papers_table_and_exact_without_latency() -> None:
    comparison = phases({})
    for name, row in {**PAPER, "MP(20)": ALL_NPUS}.items():
        assert [round(one, 3) for one in relative(comparison, name)] == [round(one, 3) for one in row]
    papers = {**PAPER, "MP(20)": (1, 0.81, 0.53, 0.50, 0.26)}
    for one in comparison.rows:
        inverse = pytest.approx(1 / papers[one.workload][FABRICS.index(one.fabric)], rel=1e-4)
        assert one.reference_speedup == (None if one.fabric == "mesh" else inverse)
    found = phases({"link_latency": 0})
    for name, row in PAPER.items():
        assert relative(found, name) == pytest.approx(row, rel=1e-12)
