from __future__ import annotations

import fredfw_topology_dragonfly_plus
from fredfw.testing import RouterTests, TopologyTests
from fredfw_topology_dragonfly_plus import DragonflyPlus, DragonflyPlusRouter

SMALL = {"npus_per_leaf": 2, "leaves": 3}


class TestDragonflyPlus(TopologyTests):
    plugin = fredfw_topology_dragonfly_plus
    topologies = (
        DragonflyPlus(),
        DragonflyPlus(**SMALL, spines=2, cables=3, groups=3, local_bandwidth=10e9, global_bandwidth=40e9),
        DragonflyPlus(**SMALL, spines=3, cables=1, groups=2),
        DragonflyPlus(npus_per_leaf=1, leaves=2, spines=1, groups=1),
    )


class TestDragonfly(TopologyTests):
    plugin = fredfw_topology_dragonfly_plus
    topologies = (
        DragonflyPlus(npus_per_leaf=2, spines=0),
        DragonflyPlus(**SMALL, spines=0, cables=1),
        DragonflyPlus(**SMALL, spines=0, cables=2, groups=3),
        DragonflyPlus(**SMALL, spines=0, cables=2, groups=2, local_latency=2e-6),
        DragonflyPlus(npus_per_leaf=3, leaves=1, spines=0, cables=4),
    )


class TestDragonflyPlusRouter(RouterTests):
    plugin = fredfw_topology_dragonfly_plus
    routers = (DragonflyPlusRouter(),)
    fabrics = (DragonflyPlus(npus_per_leaf=3, spines=3, cables=3, groups=4).build(),)
