from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import fredfw_topology_torus
from fredfw.testing import TopologyTests
from fredfw_topology_torus import Torus


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
