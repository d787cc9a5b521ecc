from __future__ import annotations

import numpy as np

import fredfw_topology_hyperx
from fredfw import Level
from fredfw.testing import TopologyTests
from fredfw_topology_hyperx import HyperX


def test_the_default() -> None:
    fabric = HyperX().build()
    assert (fabric.name, len(fabric.npus), len(fabric.sources)) == ("4x4 HyperX", 16, 96)
    assert fabric.levels == (Level(4, "fully-connected", 750e9, 20e-9),) * 2


def test_dimensions_have_their_own_links() -> None:
    fabric = HyperX(dimensions=(2, 3), link_bandwidth=("1 GB/s", "2 GB/s"), link_latency=("1 s", "10 s")).build()  # type: ignore[arg-type]  # converted from text
    assert fabric.levels == (Level(2, "fully-connected", 1e9, 1.0), Level(3, "fully-connected", 2e9, 10.0))
    route = fabric.defaults.router.route(fabric, np.array([0]), np.array([5]))
    assert fabric.sources[route.links].tolist() == [0, 1]
    assert route.latencies.tolist() == [11.0]


class TestHyperX(TopologyTests):
    plugin = fredfw_topology_hyperx
    topologies = (
        HyperX(),
        HyperX(dimensions=(5,), link_latency=(0.0,)),
        HyperX(dimensions=(2, 3, 4), link_bandwidth=(1e9, 2e9, 3e9), link_latency=(1e-6, 2e-6, 3e-6)),
    )
