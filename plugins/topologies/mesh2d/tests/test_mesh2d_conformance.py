from __future__ import annotations

import fredfw_topology_mesh2d
from fredfw.testing import RouterTests, TopologyTests
from fredfw_topology_mesh2d import Mesh2D, XYRouter


class TestMesh2D(TopologyTests):
    plugin = fredfw_topology_mesh2d
    topologies = (
        Mesh2D(),
        Mesh2D(rows=1, columns=1),
        Mesh2D(rows=1, columns=6, link_bandwidth=5e9, link_latency=1e-6),
        Mesh2D(rows=3, columns=3, io_controllers=False),
        Mesh2D(rows=16, columns=12),
    )


class TestXYRouter(RouterTests):
    plugin = fredfw_topology_mesh2d
    routers = (XYRouter(),)
    fabrics = (Mesh2D().build(), Mesh2D(rows=2, columns=7).build())
