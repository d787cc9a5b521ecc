from __future__ import annotations

from pathlib import Path

import fredfw_topology_astra_sim_network
from fredfw import File
from fredfw.testing import TopologyTests
from fredfw_topology_astra_sim_network import AstraSimNetwork


class TestAstraSimNetwork(TopologyTests):
    plugin = fredfw_topology_astra_sim_network
    topologies = (AstraSimNetwork(File.at(Path(__file__).parent / "network.yml")),)
