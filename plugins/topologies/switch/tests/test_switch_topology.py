from typing import Any

import numpy as np
import pytest
from attrs import evolve

import fredfw_topology_switch
from fredfw import Capabilities, Level, NodeKind, Operation
from fredfw.errors import UnsupportedError
from fredfw.testing import RouterTests, TopologyTests
from fredfw_topology_switch import CrossbarRouter, Switch


def test_the_default() -> None:
    fabric = Switch().build()
    assert fabric.name == "switch of 20"
    assert fabric.kinds.tolist() == [NodeKind.NPU] * 20 + [NodeKind.SWITCH]
    ends = [(npu, 20) for npu in range(20)] + [(20, npu) for npu in range(20)]
    assert list(zip(fabric.sources.tolist(), fabric.destinations.tolist(), strict=True)) == ends
    assert set(fabric.bandwidths.tolist()) == {3e12}
    assert fabric.levels == (Level(20, "switch", 3e12, 40e-9),)
    assert fabric.offers == Capabilities()


@pytest.mark.parametrize(
    ("in_network", "leaves", "links"),
    [
        (True, [0, 1, 3], {"npu1->switch0", "switch0->npu0", "switch0->npu3"}),  # the root has what it sends
        (False, [0], {"npu1->switch0", "switch0->npu0"}),  # with two ends it needs nothing of the switch
    ],
)
def test_a_multicast_goes_up_once_and_down_to_others(in_network: bool, leaves: list[int], links: set[str]) -> None:
    fabric = Switch(npus=4, in_network=in_network).build()
    tree = fabric.defaults.router.tree(fabric, np.array([1]), np.array(leaves), Operation.MULTICAST)
    assert {fabric.link_name(link) for link in tree.links.tolist()} == links


@pytest.mark.parametrize(
    "changes",
    [
        {"kinds": [NodeKind.NPU] * 4},
        {"kinds": [NodeKind.NPU, NodeKind.NPU, NodeKind.SWITCH, NodeKind.SWITCH]},
        {"sources": [0, 1, 2, 0, 3, 3], "destinations": [3, 3, 3, 1, 1, 2]},
    ],
)
def test_the_router_refuses_what_is_no_single_switch(changes: dict[str, Any]) -> None:
    fabric = evolve(Switch(npus=3).build(), levels=(), coordinates=None, **changes)
    with pytest.raises(UnsupportedError, match="crossbar router cannot route"):
        fabric.defaults.router.path(fabric, 0, 1)


class TestSwitch(TopologyTests):
    plugin = fredfw_topology_switch
    topologies = (Switch(), Switch(npus=1), Switch(npus=7, in_network=True, link_latency=0))


class TestCrossbar(RouterTests):
    plugin = fredfw_topology_switch
    routers = (CrossbarRouter(),)
    fabrics = (Switch().build(), Switch(in_network=True).build())
