from __future__ import annotations

import fredfw_topology_fred
from fredfw import DeviceMesh
from fredfw.testing import AdmissionTests, PlacementTests, RouterTests, TopologyTests
from fredfw_topology_fred import Fred, RoutablePlacement, UpDownRouter

DEEP = Fred(arity=(4, 2, 3), bandwidths=(3e12, 12e12, 48e12), io_controllers=0)


class TestFred(TopologyTests):
    plugin = fredfw_topology_fred
    topologies = (*(Fred(variant=one) for one in "ABCD"), Fred(arity=(1,)), DEEP)


class TestCircuits(AdmissionTests):
    plugin = fredfw_topology_fred
    topologies = (Fred(variant="D"), Fred(variant="B", middle_switches=2, on_conflict="decompose"))


class TestUpDown(RouterTests):
    plugin = fredfw_topology_fred
    routers = (UpDownRouter(),)
    fabrics = (Fred().build(), DEEP.build())


class TestRoutable(PlacementTests):
    plugin = fredfw_topology_fred
    placements = (RoutablePlacement(), RoutablePlacement(seed=1))
    fabrics = (Fred().build(), Fred(arity=(3, 2), io_controllers=2).build())
    meshes = (
        DeviceMesh({"mp": 1, "pp": 1, "dp": 1}),
        DeviceMesh({"mp": 2, "pp": 2, "dp": 1}),
        DeviceMesh({"mp": 2, "pp": 1, "dp": 3}),
        DeviceMesh({"mp": 4, "pp": 1, "dp": 5}),
    )
