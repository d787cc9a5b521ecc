from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pytest

import fredfw_topology_torus
from fredfw import Fabric, Level
from fredfw.testing import TopologyTests
from fredfw_topology_torus import Torus


def torus(*dimensions: int, **fields: Any) -> Fabric:
    return Torus(dimensions=dimensions, **fields).build()


def test_the_default() -> None:
    fabric = Torus().build()
    assert fabric.name == "8x8 torus"
    assert (len(fabric.npus), len(fabric.kinds), len(fabric.sources)) == (64, 64, 256)
    assert fabric.levels == (Level(8, "ring", 750e9, 20e-9),) * 2
    assert fabric.energies == pytest.approx(0.063e-12 * 8)
    assert len(fabric.defaults.router.route(fabric, fabric.npus[:0], fabric.npus[:0])) == 0


def test_dimensions_have_their_own_links() -> None:
    fabric = torus(3, 2, link_bandwidth=["1 GB/s", "2 GB/s"], link_latency=["1 s", "10 s"])
    inner = fabric.sources // 3 == fabric.destinations // 3
    assert (int(inner.sum()), len(inner)) == (12, 18)
    np.testing.assert_array_equal(fabric.bandwidths, np.where(inner, 1e9, 2e9))
    assert fabric.levels == (Level(3, "ring", 1e9, 1.0), Level(2, "line", 2e9, 10.0))
    assert fabric.defaults.router.route(fabric, np.array([0]), np.array([5])).latencies.tolist() == [11.0]


class TestTorus(TopologyTests):
    plugin = fredfw_topology_torus
    topologies = (
        Torus(),
        Torus(dimensions=(5,)),
        Torus(dimensions=(4, 3, 2), link_bandwidth=(1e9, 2e9, 3e9), link_latency=(1e-6, 2e-6, 3e-6)),
        Torus(dimensions=(1, 6), link_latency=(0.0,)),
    )


class TestOneWayTorus(TopologyTests):
    plugin = fredfw_topology_torus
    topologies = (Torus(dimensions=(4, 4), bidirectional=False),)
    expected_failures: ClassVar[Mapping[str, str]] = {
        "capacity_is_symmetric": "rings go one way",
        "latency_is_symmetric": "back is the long way round",
    }
