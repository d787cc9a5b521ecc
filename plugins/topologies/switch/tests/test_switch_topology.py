from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, strategies as st

import fredfw_topology_switch
from fredfw import Capabilities, Fabric, Level, NodeKind, Operation, ShortestPathRouter
from fredfw.errors import UnsupportedError
from fredfw.testing import RouterTests, TopologyTests
from fredfw_topology_switch import CrossbarRouter, Switch


def tree(fabric: Fabric, sources: list[int], destinations: list[int], operation: Operation) -> set[tuple[int, int]]:
    links = fabric.defaults.router.tree(fabric, np.array(sources), np.array(destinations), operation).links
    return set(zip(fabric.sources[links].tolist(), fabric.destinations[links].tolist(), strict=True))


def test_the_default() -> None:
    fabric = Switch().build()
    assert fabric.name == "switch of 20"
    assert fabric.kinds.tolist() == [NodeKind.NPU] * 20 + [NodeKind.SWITCH]
    assert set(fabric.bandwidths.tolist()) == {3e12}
    assert fabric.levels == (Level(20, "switch", 3e12, 40e-9),)
    assert fabric.offers == Capabilities()


@given(st.integers(1, 12))
def test_every_npu_has_one_link_each_way(npus: int) -> None:
    fabric = Switch(npus=npus).build()
    expected = [(npu, npus) for npu in range(npus)] + [(npus, npu) for npu in range(npus)]
    assert list(zip(fabric.sources.tolist(), fabric.destinations.tolist(), strict=True)) == expected


@given(st.integers(1, 8))
def test_routes_are_those_of_the_shortest_path_router(npus: int) -> None:
    fabric = Switch(npus=npus, link_latency=1.0).build()
    nodes = np.arange(npus + 1)
    ends = np.repeat(nodes, len(nodes)), np.tile(nodes, len(nodes))
    ours, expected = (router.route(fabric, *ends) for router in (CrossbarRouter(), ShortestPathRouter()))
    for column in ("offsets", "links", "latencies"):
        assert getattr(ours, column).tolist() == getattr(expected, column).tolist()


def test_in_network_trees() -> None:
    fabric = Switch(npus=4, in_network=True, link_latency=1.0).build()
    assert fabric.offers == Capabilities(reduces=True, multicasts=True)
    assert tree(fabric, [1], [0, 1, 3], Operation.MULTICAST) == {(1, 4), (4, 0), (4, 3)}
    assert tree(fabric, [0, 1, 3], [1], Operation.REDUCE) == {(0, 4), (1, 4), (3, 4), (4, 1)}
    both = {(0, 4), (2, 4), (4, 0), (4, 2)}
    assert tree(fabric, [0, 2], [0, 2], Operation.ALL_REDUCE) == both
    # A stream with two ends needs nothing of a switch.
    assert tree(Switch(npus=3).build(), [0], [1], Operation.MULTICAST) == {(0, 3), (3, 1)}
    ends = np.array([0, 2])
    assert fabric.defaults.router.tree(fabric, ends, ends, Operation.ALL_REDUCE).latencies.tolist() == [2.0]


@pytest.mark.parametrize(
    "changes",
    [
        {"kinds": [NodeKind.NPU] * 4},
        {"kinds": [NodeKind.NPU, NodeKind.NPU, NodeKind.SWITCH, NodeKind.SWITCH], "coordinates": None},
        {"sources": [0, 1, 2, 0, 3, 3], "destinations": [3, 3, 3, 1, 1, 2]},
    ],
)
def test_the_router_refuses_what_is_no_single_switch(changes: dict[str, Any]) -> None:
    fabric = evolve(Switch(npus=3).build(), **{"levels": (), "coordinates": None, **changes})
    with pytest.raises(UnsupportedError, match="crossbar router cannot route"):
        fabric.defaults.router.route(fabric, np.array([0]), np.array([1]))


class TestSwitch(TopologyTests):
    plugin = fredfw_topology_switch
    topologies = (Switch(), Switch(npus=1), Switch(npus=7, in_network=True, link_latency=0))


class TestCrossbar(RouterTests):
    plugin = fredfw_topology_switch
    routers = (CrossbarRouter(),)
    fabrics = (Switch().build(), Switch(in_network=True).build())
