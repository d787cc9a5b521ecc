from __future__ import annotations

import fredfw_topology_hyperx
from fredfw.testing import TopologyTests
from fredfw_topology_hyperx import HyperX


class TestHyperX(TopologyTests):
    plugin = fredfw_topology_hyperx
    topologies = (
        HyperX(),
        HyperX(dimensions=(5,), link_latency=(0.0,)),
        HyperX(dimensions=(2, 3, 4), link_bandwidth=(1e9, 2e9, 3e9), link_latency=(1e-6, 2e-6, 3e-6)),
    )
