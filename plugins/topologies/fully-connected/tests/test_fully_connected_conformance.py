from __future__ import annotations

import fredfw_topology_fully_connected
from fredfw.testing import TopologyTests
from fredfw_topology_fully_connected import FullyConnected


class TestFullyConnected(TopologyTests):
    plugin = fredfw_topology_fully_connected
    topologies = (FullyConnected(), FullyConnected(npus=1), FullyConnected(npus=33, link_bandwidth=1e9))
