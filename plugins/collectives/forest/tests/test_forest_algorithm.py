import math
from typing import Any

import numpy as np
import pytest

import fredfw_collective_forest
from fredfw import CollectiveRequest, Fabric, Framework, NodeKind, Pattern
from fredfw.simulation import lower_bound
from fredfw.testing import CollectiveTests
from fredfw_collective_forest import Forest

S = 1e9
FRAMEWORK = Framework()


def mesh(rows: int, columns: int, latency: str = "0 s") -> Fabric:
    return FRAMEWORK.topology("mesh2d", rows=rows, columns=columns, link_latency=latency).build()


def seconds(fabric: Fabric, size: float = S, **options: Any) -> float:
    return FRAMEWORK.simulate_collective(fabric, "all-reduce", size=size, algorithm="forest", **options).duration


def network(npus: int, links: list[tuple[int, int, float]], switches: int = 0) -> Fabric:
    kinds = [NodeKind.NPU] * npus + [NodeKind.SWITCH] * switches
    sources, destinations, bandwidths = zip(*links, strict=True)
    return Fabric("network", kinds, sources, destinations, bandwidths, 0.0, 0.0)


@pytest.mark.parametrize(
    ("name", "fields", "edges", "beyond"),
    [
        ("mesh2d", {"rows": 4, "columns": 5}, 31, 0.50),
        pytest.param("mesh2d", {"rows": 4, "columns": 4}, 24, 0.50, marks=pytest.mark.slow),
        ("torus", {"dimensions": [4, 4]}, 32, 0.50),
        ("fully-connected", {"npus": 8}, 28, 0.50),
        pytest.param("mesh2d", {"rows": 8, "columns": 8}, 112, 0.63, marks=pytest.mark.slow),
        pytest.param("torus", {"dimensions": [4, 4, 4]}, 192, 2.21, marks=pytest.mark.slow),
        pytest.param("torus", {"dimensions": [8, 8]}, 128, 2.41, marks=pytest.mark.slow),
        pytest.param("mesh2d", {"rows": 16, "columns": 16}, 480, 5.92, marks=pytest.mark.slow),
    ],
)
def test_it_comes_as_close_to_the_bound_as_the_readme_says(
    name: str, fields: dict[str, Any], edges: int, beyond: float
) -> None:
    fabric = FRAMEWORK.topology(name, link_bandwidth="1 GB/s", link_latency=0, **fields).build()
    ranks = len(fabric.npus)
    least = S * (ranks - 1) / (edges * 1e9)
    trees = Forest(pieces=1).plan(CollectiveRequest(Pattern.ALL_REDUCE, ranks, S), fabric.view()).chunks
    # Trees use a link so often on average, and some link a whole number of times. The bound is that all are used alike.
    uses = trees * (ranks - 1) / edges
    idle = math.ceil(uses) / uses
    assert idle <= 1.05
    # Filling p pieces takes f / p of the time that all links are busy; p is f / 0.005, or 4,096.
    fill = 1024 * (seconds(fabric, pieces=1024, fidelity="compressed") / least - idle)
    expected = idle + max(0.005 * idle, fill / 4096)
    assert seconds(fabric, fidelity="compressed") == pytest.approx(least * expected, rel=2e-5)
    # Exactly, some pieces need not wait for the others.
    assert least < seconds(fabric) <= least * expected * (1 + 1e-9)
    assert 100 * (expected - 1) == pytest.approx(beyond, abs=0.005)


def test_pieces_are_the_best_with_latency() -> None:
    fabric = mesh(4, 5, "20 ns")
    chosen = seconds(fabric)
    pieces = Forest().plan(CollectiveRequest(Pattern.ALL_REDUCE, 20, S), fabric.view()).chunks // 31
    for other in (pieces // 2, pieces * 9 // 10, pieces * 11 // 10, pieces * 2):
        assert chosen <= seconds(fabric, pieces=other)
    assert chosen < 846.1e-6


@pytest.mark.sampled
@pytest.mark.parametrize("pattern", [Pattern.ALL_GATHER, Pattern.REDUCE_SCATTER, Pattern.BROADCAST, Pattern.REDUCE])
@pytest.mark.parametrize(
    ("topology", "fields"),
    [
        ("mesh2d", {"rows": 4, "columns": 5}),
        ("torus", {"dimensions": [3, 4]}),
        ("torus", {"dimensions": [5], "bidirectional": False}),
        ("switch", {"npus": 8}),
        ("fully-connected", {"npus": 6}),
    ],
)
def test_out_trees_reach_the_thinnest_cut(pattern: Pattern, topology: str, fields: dict[str, Any]) -> None:
    fabric = FRAMEWORK.topology(topology, link_latency=0.0, **fields).build()
    npus = np.arange(len(fabric.npus))
    bound = lower_bound(fabric, CollectiveRequest(pattern, len(npus), S), npus).seconds
    duration = FRAMEWORK.simulate_collective(fabric, pattern, size=S, algorithm="forest", pieces=500).duration
    assert bound * (1 - 1e-9) <= duration <= bound * 1.02


def test_links_of_different_bandwidth_are_used_in_proportion_and_a_part_of_a_fabric_its_own() -> None:
    # A triangle of 1, 2 and 3 GB/s: 6 GB/s over two edges of a tree each, so that 3 GB/s of trees fit.
    fabric = network(3, [(0, 1, 1e9), (1, 0, 1e9), (1, 2, 2e9), (2, 1, 2e9), (2, 0, 3e9), (0, 2, 3e9)])
    assert seconds(fabric) == pytest.approx(1 / 3, rel=0.01)
    bound = lower_bound(fabric, CollectiveRequest(Pattern.ALL_REDUCE, 3, S), np.arange(3)).seconds
    assert seconds(fabric) >= bound
    time = FRAMEWORK.simulate_collective(mesh(4, 5), "all-reduce", group=[0, 1, 5, 6], size=S, algorithm="forest")
    # A ring of four: 3 / 4 of the bandwidth of a link.
    assert time.duration == pytest.approx(S * 2 * 3 / 4 / (2 * 750e9), rel=0.01)


def test_it_says_why_it_cannot() -> None:
    def refusal(fabric: Fabric, *group: int) -> str | None:
        return Forest().refusal(CollectiveRequest(Pattern.ALL_REDUCE, len(group), S), fabric.view(group))

    assert "not joined among themselves" in str(refusal(mesh(4, 5), 0, 2, 4))
    assert "by links both ways" in str(refusal(network(3, [(0, 1, 1.0), (1, 2, 1.0), (2, 0, 1.0)]), 0, 1, 2))
    uneven = network(2, [(0, 2, 1.0), (2, 0, 1.0), (1, 2, 2.0), (2, 1, 1.0)], switches=1)
    assert "not the same both ways" in str(refusal(uneven, 0, 1))
    switch = FRAMEWORK.topology("switch", npus=17).build()
    assert "groups of up to 16 with switches" in str(refusal(switch, *range(17)))


class TestForest(CollectiveTests):
    plugin = fredfw_collective_forest
    algorithms = (Forest(), Forest(pieces=3))
    ranks = (1, 2, 3, 4, 5, 6, 8)
