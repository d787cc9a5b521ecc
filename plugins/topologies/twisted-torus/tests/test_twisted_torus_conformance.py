from __future__ import annotations

import fredfw_topology_twisted_torus
from fredfw.testing import TopologyTests
from fredfw_topology_twisted_torus import TwistedTorus


class TestTwistedTorus(TopologyTests):
    plugin = fredfw_topology_twisted_torus
    topologies = (
        TwistedTorus(),
        TwistedTorus(dimensions=(4, 2)),
        TwistedTorus(dimensions=(3, 6), link_bandwidth=1e9, link_latency=1e-6),
    )
