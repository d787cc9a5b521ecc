import fredfw_topology_hyperx
from fredfw import Level
from fredfw.testing import TopologyTests
from fredfw_topology_hyperx import HyperX


def test_the_default() -> None:
    fabric = HyperX().build()
    assert (fabric.name, len(fabric.npus), len(fabric.sources)) == ("4x4 HyperX", 16, 96)
    assert fabric.levels == (Level(4, "fully-connected", 750e9, 20e-9),) * 2


class TestHyperX(TopologyTests):
    plugin = fredfw_topology_hyperx
    topologies = (
        HyperX(),
        HyperX(dimensions=(5,), link_latency=(0.0,)),
        HyperX(dimensions=(2, 3, 4), link_bandwidth=(1e9, 2e9, 3e9), link_latency=(1e-6, 2e-6, 3e-6)),
    )
