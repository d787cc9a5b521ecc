from __future__ import annotations

import fredfw_topology_switch
from fredfw.testing import RouterTests, TopologyTests
from fredfw_topology_switch import CrossbarRouter, Switch


class TestSwitch(TopologyTests):
    plugin = fredfw_topology_switch
    topologies = (Switch(), Switch(npus=1), Switch(npus=7, in_network=True, link_latency=0))


class TestCrossbar(RouterTests):
    plugin = fredfw_topology_switch
    routers = (CrossbarRouter(),)
    fabrics = (Switch().build(), Switch(in_network=True).build())
