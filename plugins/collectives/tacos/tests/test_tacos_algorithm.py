from typing import Any

import networkx as nx
import numpy as np
import pytest

import fredfw_collective_tacos
from fredfw import CollectiveRequest, Fabric, Framework, GroupView, Pattern
from fredfw.simulation import lower_bound
from fredfw.testing import CollectiveTests
from fredfw_collective_tacos import Tacos
from fredfw_collective_tacos.synthesis import Ways, best, in_link_bound

FRAMEWORK = Framework()
GIB, MIB = 2**30, 2**20


def grid(*sizes: int, rate: float, latency: float, closed: bool = False) -> Fabric:
    graph = nx.convert_node_labels_to_integers(nx.grid_graph(sizes, periodic=closed)).to_directed()
    sources, destinations = np.array(graph.edges).T
    return Fabric("grid", np.zeros(len(graph)), sources, destinations, rate, latency, 0.0)


def mixed() -> Fabric:
    """A mesh of 3 x 4 with rows four times as fast as columns, and latencies the other way round."""
    fabric = FRAMEWORK.topology("torus", dimensions=[3, 4], link_bandwidth=[4e9, 1e9], link_latency=["2 us", "1 us"])
    return fabric.build()


@pytest.mark.parametrize(
    ("sizes", "closed", "rate", "latency", "buffer", "chunks", "microseconds"),
    [
        ((5, 5), False, 50, 0.5, 1024, 1, 9606.0),
        pytest.param((10, 10), False, 100, 1.0, 1024, 2, 5049.0, marks=pytest.mark.slow),
        pytest.param((7, 12), False, 100, 1.0, 4096, 3, 19966.27, marks=pytest.mark.slow),
        ((3, 3, 3), False, 50, 0.5, 1024, 1, 6671.17),
        pytest.param((3, 4, 5), False, 50, 0.5, 2048, 2, 13353.33, marks=pytest.mark.slow),
        ((3, 3, 3), True, 50, 0.5, 1024, 1, 3706.20),
        pytest.param((3, 4, 5), True, 50, 0.5, 2048, 2, 6676.67, marks=pytest.mark.slow),
        ((4, 2, 3), True, 50, 0.5, 3072, 3, 11673.67),
    ],
)
def test_it_is_as_fast_as_the_code_of_the_authors(
    sizes: tuple[int, ...], closed: bool, rate: float, latency: float, buffer: int, chunks: int, microseconds: float
) -> None:
    # Their regression values, the best of 20 seeds: GiB/s, microseconds, and MiB of the whole buffer.
    fabric = grid(*sizes, rate=rate * GIB, latency=latency * 1e-6, closed=closed)
    result = FRAMEWORK.simulate_collective(
        fabric, "all-gather", size=buffer * MIB, algorithm="tacos", chunks=chunks, seeds=20, fidelity="compressed"
    )
    # All links keep in step, as there; exactly, they need not.
    assert result.duration * 1e6 == pytest.approx(microseconds, rel=1e-5)


@pytest.mark.parametrize("pattern", sorted(Tacos.patterns))
def test_the_simulated_time_is_the_synthesised_one_with_different_links(pattern: Pattern) -> None:
    fabric = mixed()
    view = fabric.view()
    assert view.links is not None
    ways = Ways.of(view.links)
    seconds = ways.seconds(1e9 / 12 / 2)
    gather, scatter = (best(one, 2, seconds, 3, apart=one is not ways).seconds for one in (ways, ways.reversed))
    wanted = {Pattern.ALL_GATHER: gather, Pattern.REDUCE_SCATTER: scatter, Pattern.ALL_REDUCE: gather + scatter}
    result = FRAMEWORK.simulate_collective(fabric, pattern, size=1e9, algorithm="tacos", chunks=2, seeds=3)
    assert gather >= in_link_bound(ways, 2, seconds)
    assert result.duration == pytest.approx(wanted[pattern], rel=1e-9)
    bound = lower_bound(fabric, CollectiveRequest(pattern, 12, 1e9), np.arange(12)).seconds
    assert result.duration >= bound


def test_switches_are_passed_one_chunk_at_a_time() -> None:
    # Eight NPUs around a switch: 7 chunks into each, one after the other, if all are busy all the time.
    fabric = FRAMEWORK.topology("switch", npus=8, link_bandwidth=1e9, link_latency=0.0).build()
    duration = FRAMEWORK.simulate_collective(fabric, "all-gather", size=8e9, algorithm="tacos", seeds=20).duration
    assert 7.0 <= duration <= 9.0


def test_seeds_differ_and_more_are_no_worse() -> None:
    call: dict[str, Any] = {"size": 1e9, "algorithm": "tacos", "fidelity": "compressed"}
    found = [FRAMEWORK.simulate_collective(mixed(), "all-gather", seeds=seeds, **call) for seeds in (1, 5, 20)]
    times = [one.duration for one in found]
    assert times == sorted(times, reverse=True)
    assert found[0].schedule.key != found[2].schedule.key


def test_it_says_why_it_cannot() -> None:
    def refusal(view: GroupView, effort: str = "any") -> str:
        return str(Tacos(effort=effort).refusal(CollectiveRequest(Pattern.ALL_GATHER, view.size, 1.0), view))

    assert "not joined among themselves" in refusal(grid(4, 5, rate=1.0, latency=0.0).view([0, 2]))
    line = Fabric("line", np.zeros(3), [0, 1], [1, 2], 1.0, 0.0, 0.0)
    assert "not joined among themselves" in refusal(line.view())
    assert "groups of up to 64" in refusal(grid(9, 9, rate=1.0, latency=0.0).view(), "small")
    switch = FRAMEWORK.topology("switch", npus=4).build()
    assert "over switches for up to 16 that fill no levels" in refusal(switch.view(), "small")
    assert refusal(mixed().view(), "small") == "None"


class TestTacos(CollectiveTests):
    plugin = fredfw_collective_tacos
    algorithms = (Tacos(seeds=2),)
    ranks = (1, 2, 3, 4, 5, 6, 8, 9)
