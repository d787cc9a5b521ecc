from __future__ import annotations

from itertools import permutations

import numpy as np
from hypothesis import given, strategies as st

import fredfw_topology_fully_connected
from fredfw import Level
from fredfw.testing import TopologyTests
from fredfw_topology_fully_connected import FullyConnected


def test_the_default() -> None:
    fabric = FullyConnected().build()
    assert fabric.name == "5 NPUs, fully connected"
    assert np.bincount(fabric.sources, fabric.bandwidths).tolist() == [3e12] * 5
    assert fabric.levels == (Level(5, "fully-connected", 750e9, 20e-9),)


@given(st.integers(1, 12))
def test_there_is_a_link_from_each_to_each(npus: int) -> None:
    fabric = FullyConnected(npus=npus).build()
    pairs = list(permutations(range(npus), 2))
    assert list(zip(fabric.sources.tolist(), fabric.destinations.tolist(), strict=True)) == pairs
    sources, destinations = np.array(pairs, dtype=np.intp).reshape(-1, 2).T
    routes = fabric.defaults.router.route(fabric, sources, destinations)
    assert routes.links.tolist() == list(range(len(pairs)))
    assert set(routes.latencies.tolist()) <= {20e-9}


class TestFullyConnected(TopologyTests):
    plugin = fredfw_topology_fully_connected
    topologies = (FullyConnected(), FullyConnected(npus=1), FullyConnected(npus=33, link_bandwidth=1e9))
