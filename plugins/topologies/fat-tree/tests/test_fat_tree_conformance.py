from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import fredfw_topology_fat_tree
from fredfw.testing import RouterTests, TopologyTests
from fredfw_topology_fat_tree import EcmpRouter, FatTree, SprayRouter


class TestFatTree(TopologyTests):
    plugin = fredfw_topology_fat_tree
    topologies = (
        FatTree(),
        FatTree(radix=4),
        FatTree(radix=4, npus=13),
        FatTree(radix=4, npus=1),
        FatTree(radix=8, levels=2, oversubscription=2.0),
        FatTree(radix=8, npus=100, routing="ecmp"),
    )


class TestEcmp(TopologyTests):
    plugin = fredfw_topology_fat_tree
    topologies = (FatTree(radix=4, routing="ecmp"),)
    expected_failures: ClassVar[Mapping[str, str]] = {
        "levels_are_as_fast_as_they_say": "they promise an even share of the links up; ECMP puts two flows on one link"
    }


class TestRouters(RouterTests):
    plugin = fredfw_topology_fat_tree
    routers = (EcmpRouter(), SprayRouter())
    fabrics = (FatTree(radix=4).build(), FatTree(radix=6, levels=2, npus=11).build())
