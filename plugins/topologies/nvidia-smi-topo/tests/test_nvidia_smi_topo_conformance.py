from __future__ import annotations

from pathlib import Path

import fredfw_topology_nvidia_smi_topo
from fredfw import File
from fredfw.testing import TopologyTests
from fredfw_topology_nvidia_smi_topo import NvidiaSmiTopo


class TestNvidiaSmiTopo(TopologyTests):
    plugin = fredfw_topology_nvidia_smi_topo
    topologies = (
        NvidiaSmiTopo(File.at(Path(__file__).parent / "topo.txt")),
        NvidiaSmiTopo(File.at(Path(__file__).parent / "topo.txt"), nvswitch=False, pcie_latency=1e-7),
    )
