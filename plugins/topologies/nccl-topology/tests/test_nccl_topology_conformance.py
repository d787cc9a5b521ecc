from __future__ import annotations

from pathlib import Path

import fredfw_topology_nccl_topology
from fredfw import File
from fredfw.testing import TopologyTests
from fredfw_topology_nccl_topology import NcclTopology


class TestNcclTopology(TopologyTests):
    plugin = fredfw_topology_nccl_topology
    topologies = (NcclTopology(File.at(Path(__file__).parent / "server.xml"), pcie_latency=1e-7),)
