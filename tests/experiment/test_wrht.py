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
    return {
        "Ring": [(2 * (nodes - 1), 1 / nodes)],
        "H-Ring": [(2 * 3, 1 / 4), (2 * (nodes // 4 - 1), 1 / nodes)],
        "BT": [(2 * math.ceil(math.log2(nodes)), 1.0)],
        "WRHT": [(wrht_steps(nodes), 1.0)],
    }[algorithm]


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
