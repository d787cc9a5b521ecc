from __future__ import annotations

from pathlib import Path

import fredfw_topology_simai
from fredfw import File
from fredfw.testing import TopologyTests
from fredfw_topology_simai import Simai


class TestSimai(TopologyTests):
    plugin = fredfw_topology_simai
    topologies = (Simai(File.at(Path(__file__).parent / "topology.txt")),)
