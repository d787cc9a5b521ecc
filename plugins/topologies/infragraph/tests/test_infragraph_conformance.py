from __future__ import annotations

from pathlib import Path

import fredfw_topology_infragraph
from fredfw import File
from fredfw.testing import TopologyTests
from fredfw_topology_infragraph import InfraGraph


class TestInfraGraph(TopologyTests):
    plugin = fredfw_topology_infragraph
    topologies = (InfraGraph(File.at(Path(__file__).parent / "cluster.yaml"), bandwidth=450e9),)
