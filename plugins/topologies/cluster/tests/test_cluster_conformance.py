from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import fredfw_topology_cluster
from fredfw.testing import TopologyTests
from fredfw_topology_cluster import Cluster
from fredfw_topology_switch import Switch
from fredfw_topology_torus import Torus


class TestCluster(TopologyTests):
    plugin = fredfw_topology_cluster
    topologies = (
        Cluster(preset="dgx-a100", nodes=4, nics=4, pcie=24e9, pcie_npus=4, pcie_latency=1e-6),
        Cluster(nodes=32, node=Switch(npus=2), network="rail-only", radix=6, oversubscription=2.0),
        Cluster(preset="hgx-b200", nodes=3, nics=16, network="fat-tree", routing="ecmp"),
        Cluster(preset="gb200-nvl72", nodes=2),
        Cluster(preset="dgx-a100", nodes=5, nics=4, pcie=24e9, sharp=True),
        Cluster(nodes=9, radix=8, node=Switch(npus=2), network="rail-only", sharp=True),
        Cluster(preset="mi300x", nodes=7, network="rail-only", nics=4, radix=8, oversubscription=3.0),
        Cluster(preset="tpu-v4", nodes=9, node=Torus((2, 3)), nics=2, radix=8, pcie=10e9),
        Cluster(preset="trainium2", nodes=5, node=Cluster(nodes=2, nics=2), nics=1),
    )


class TestEcmp(TopologyTests):
    plugin = fredfw_topology_cluster
    topologies = (Cluster(nodes=20, radix=16, routing="ecmp"),)
    expected_failures: ClassVar[Mapping[str, str]] = {
        "levels_are_as_fast_as_they_say": "they promise an even share of the links up; ECMP puts two flows on one link"
    }
