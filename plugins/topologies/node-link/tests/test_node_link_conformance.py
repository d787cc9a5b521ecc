from __future__ import annotations

from pathlib import Path

import fredfw_topology_node_link
from fredfw import File
from fredfw.testing import TopologyTests
from fredfw_topology_node_link import NodeLink


class TestNodeLink(TopologyTests):
    plugin = fredfw_topology_node_link
    topologies = (NodeLink(File.at(Path(__file__).parent / "machine.json")),)
