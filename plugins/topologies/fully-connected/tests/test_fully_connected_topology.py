from itertools import permutations

import numpy as np

import fredfw_topology_fully_connected
from fredfw import Level
from fredfw.testing import TopologyTests
from fredfw_topology_fully_connected import FullyConnected


def test_the_default() -> None:
    fabric = FullyConnected().build()
    assert fabric.name == "5 NPUs, fully connected"
    assert list(zip(fabric.sources.tolist(), fabric.destinations.tolist(), strict=True)) == list(
        permutations(range(5), 2)
    )
    assert np.bincount(fabric.sources, fabric.bandwidths).tolist() == [3e12] * 5
    assert fabric.levels == (Level(5, "fully-connected", 750e9, 20e-9),)


class TestFullyConnected(TopologyTests):
    plugin = fredfw_topology_fully_connected
    topologies = (FullyConnected(), FullyConnected(npus=1), FullyConnected(npus=33, link_bandwidth=1e9))
