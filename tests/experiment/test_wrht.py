"""The comparison of WRHT, against the closed forms of its parts and what they say together."""

import math
from pathlib import Path

import numpy as np
import pytest
from experiments import FRAMEWORK, PEAK

from fredfw.experiment.results import Comparison

FILE = Path(__file__).resolve().parents[2] / "experiments" / "wrht.toml"
RATES = {"40 Gbps": 5e9, "160 Gbps": 20e9, "320 Gbps": 40e9, "640 Gbps": 80e9, "2560 Gbps": 320e9}
NODES = (1024, 2048, 3072, 4096)
NETWORKS = ("AlexNet", "VGG-16", "ResNet-50", "GoogLeNet")
SETUP = 25e-6


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    fabrics = [f"{one} {nodes} {rate}" for one in ("WRHT", "Ring", "H-Ring", "BT") for nodes in NODES for rate in RATES]
    kept = [f"{name}-kept {nodes} 40 Gbps" for name in ("WRHT", "Ring") for nodes in NODES]
    return FRAMEWORK.compare(FRAMEWORK.load_experiment(FILE, fabrics=fabrics + kept))


def exposed(comparison: Comparison) -> dict[tuple[str, str], float]:
    return {(row.fabric, row.workload): row.breakdown["dp"] for row in comparison.rows}


def parameters(network: str) -> int:
    experiment = FRAMEWORK.load_experiment(FILE, workloads=[network], fabrics=["Ring 1024 40 Gbps"])
    count = experiment.workload(network).workload.parameters  # type: ignore[attr-defined]  # a Cnn
    assert isinstance(count, int)
    return count


def wrht_steps(nodes: int, wavelengths: int = 64) -> int:
    """WRHT (Dai et al., ICPP 2023): 2 ceil(log_m N), one less where those left exchange all-to-all in one step."""
    group = 2 * wavelengths + 1
    left, steps = nodes, 0
    while left > 1:
        if math.ceil(left**2 / 8) <= wavelengths:
            return 2 * steps + 1
        left, steps = math.ceil(left / group), steps + 1
    return 2 * steps


def steps_and_share(algorithm: str, nodes: int) -> list[tuple[int, float]]:
    """Steps of an algorithm, and the share of the vector that each moves."""
    match algorithm:
        case "Ring":
            return [(2 * (nodes - 1), 1 / nodes)]
        case "H-Ring":
            return [(2 * 3, 1 / 4), (2 * (nodes // 4 - 1), 1 / nodes)]
        case "BT":
            return [(2 * math.ceil(math.log2(nodes)), 1.0)]
        case _:
            return [(wrht_steps(nodes), 1.0)]


@pytest.mark.slow
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("algorithm", ["Ring", "H-Ring", "BT", "WRHT"])
def test_every_cell_takes_the_time_of_its_steps(comparison: Comparison, algorithm: str, network: str) -> None:
    measured, size = exposed(comparison), 4 * parameters(network)
    for nodes in NODES:
        for rate, bandwidth in RATES.items():
            parts = steps_and_share(algorithm, nodes)
            expected = sum(steps * (share * size / bandwidth + SETUP) for steps, share in parts)
            assert measured[f"{algorithm} {nodes} {rate}", network] == pytest.approx(expected, rel=1e-9)


@pytest.mark.slow
def test_circuits_kept_are_paid_once_and_no_rate_meets_all_claims(comparison: Comparison) -> None:
    measured = exposed(comparison)
    for network in NETWORKS:
        size = 4 * parameters(network)
        for nodes in NODES:
            ring = 2 * (nodes - 1) * size / nodes / 5e9 + SETUP
            assert measured[f"Ring-kept {nodes} 40 Gbps", network] == pytest.approx(ring, rel=1e-9)
            # Every step of WRHT has circuits of its own.
            published = measured[f"WRHT {nodes} 40 Gbps", network]
            assert measured[f"WRHT-kept {nodes} 40 Gbps", network] == pytest.approx(published, rel=1e-9)
    claims = {saving.name: saving.claims[0].between for saving in comparison.savings if saving.claims}
    assert claims["WRHT over BT"] == ()
    assert set(claims["WRHT over Ring"]).isdisjoint(claims["WRHT over H-Ring"])
    # Every step of WRHT gets its wavelengths.
    for row in comparison.rows:
        if row.fabric.startswith("WRHT"):
            assert row.figures["largest link load"] <= row.figures["wavelengths used"] <= 64
            assert row.figures["sub-steps added by splitting"] == 0
            assert row.notes == (PEAK,)


@pytest.mark.parametrize(("nodes", "barriers"), [(1024, 0.296), (4096, 0.795)])
def test_the_electrical_ring_runs_rank_by_rank(nodes: int, barriers: float) -> None:
    """Each rank's bytes drain one after the other; the last waits for the worst hops in a row, once round and more."""
    fabric = f"E-Ring {nodes}"
    experiment = FRAMEWORK.load_experiment(FILE, fabrics=[fabric], workloads=["GoogLeNet"])
    result = FRAMEWORK.run(experiment)
    assert result.provenance["fidelity"] == "exact"
    built = result.fabric
    hops = built.defaults.router.route(built, built.npus, np.roll(built.npus, -1)).latencies
    steps = 2 * (nodes - 1)
    sums = np.concatenate([[0.0], np.cumsum(np.tile(hops, 3))])
    worst = (sums[steps:] - sums[:-steps]).max()
    expected = steps * 4 * parameters("GoogLeNet") / nodes / 5e9 + float(worst)
    assert result.breakdown["dp"] == pytest.approx(expected, rel=1e-9)
    compressed = FRAMEWORK.run(experiment, fidelity="compressed")
    assert compressed.breakdown["dp"] / expected - 1 == pytest.approx(barriers, abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("over", "expected"),
    # The facts' table of mean savings, from the closed forms with rounded parameter counts (6.8 M for GoogLeNet).
    [
        ("Ring", {"40 Gbps": 0.368, "320 Gbps": 0.842, "2560 Gbps": 0.976}),
        ("H-Ring", {"40 Gbps": -0.079, "320 Gbps": 0.570, "2560 Gbps": 0.911}),
        ("BT", {"40 Gbps": 0.845, "320 Gbps": 0.845, "2560 Gbps": 0.845}),
    ],
)
def test_mean_savings_are_closed_forms(comparison: Comparison, over: str, expected: dict[str, float]) -> None:
    saving = next(one for one in comparison.savings if one.name == f"WRHT over {over}")
    means = {str(group.at["line_rate"]): group.saving for group in saving.groups}
    assert {rate: means[rate] for rate in expected} == pytest.approx(expected, abs=0.01)


def test_our_own_closed_forms_are_not_called_published() -> None:
    experiment = FRAMEWORK.load_experiment(FILE)
    sources = {(bool(one.at), one.source) for saving in experiment.savings for one in saving.references}
    assert sources == {(False, "WRHT, abstract of arXiv 2207.10982"), (True, "our own closed form, not published")}


@pytest.mark.parametrize(
    ("nodes", "wavelengths", "steps"),
    [(1024, 4, 7), (1024, 16, 4), (1024, 64, 3), (1024, 256, 3), (4096, 64, 4), (4096, 256, 3)],
)
def test_wrht_takes_the_steps_of_the_facts(nodes: int, wavelengths: int, steps: int) -> None:
    assert wrht_steps(nodes, wavelengths) == steps
    fabric = FRAMEWORK.topology("optical-ring", npus=nodes, wavelengths=wavelengths, line_rate="5 GB/s").build()
    result = FRAMEWORK.simulate_collective(fabric, "all-reduce", size=1e6, algorithm="wrht")
    assert result.steps == steps
    assert result.duration == pytest.approx(steps * (SETUP + 1e6 / 5e9), rel=1e-9)
    assert result.figures["wavelengths used"] <= wavelengths
    assert result.figures["sub-steps added by splitting"] == 0
