import re
from collections import Counter
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from fabrics import everybody

import fredfw_topology_dragonfly_plus
from fredfw import Fabric, Level, MultipathRouter, Operation
from fredfw.errors import InputError, UnsupportedError
from fredfw.testing import RouterTests, TopologyTests
from fredfw_topology_dragonfly_plus import DragonflyPlus, DragonflyPlusRouter


def build(**fields: Any) -> Fabric:
    return DragonflyPlus(**fields).build()


def test_the_default() -> None:
    fabric = build()
    assert fabric.name == "144-NPU dragonfly+"
    # 9 groups of 4 leaves, 4 spines and 16 NPUs; a cable between each two groups.
    assert (len(fabric.npus), len(fabric.kinds), len(fabric.sources)) == (144, 216, 2 * (144 + 9 * 16 + 36))
    inner = Level(4, "switch", 25e9, 1e-6), Level(4, "switch", 25e9, 2e-6)
    assert fabric.levels == (*inner, Level(9, "switch", 25e9 / 16, 3e-6))


@pytest.mark.parametrize(
    "fields", [{"spines": 2}, {"spines": 3, "groups": 3}, {"spines": 0}, {"spines": 0, "groups": 2}]
)
def test_each_two_groups_have_as_many_cables(fields: dict[str, int]) -> None:
    fabric, spines = build(leaves=3, cables=2, **fields), fields["spines"]
    groups, gateways = fields.get("groups", 2 * (spines or 3) + 1), spines or 3
    cables, ports = Counter[tuple[str, ...]](), Counter[str]()
    for name in map(fabric.link_name, range(len(fabric.sources))):
        ends = re.fullmatch(r"((g\d+)\.(leaf|spine)\d+)->(?!\2\.)(g\d+)\..*", name)
        if ends is not None:
            assert ends[3] == ("spine" if spines else "leaf")
            cables[ends[2], ends[4]] += 1
            ports[ends[1]] += 1
    assert len(cables) == groups * (groups - 1)
    assert set(cables.values()) == {2 * gateways // (groups - 1)}
    assert max(ports.values()) <= 2


def test_a_dragonfly_leaves_out_local_links_that_it_does_not_need() -> None:
    fabric = build(npus_per_leaf=1, leaves=2, spines=0, cables=1)
    for ends, way in (((0, 2), "g0.leaf0 g1.leaf0 npu2"), ((1, 3), "g0.leaf1 g0.leaf0 g1.leaf0 g1.leaf1 npu3")):
        links = fabric.defaults.router.path(fabric, *ends).links
        assert [fabric.node_name(node) for node in fabric.destinations[links].tolist()] == way.split()


@pytest.mark.parametrize(
    "fields",
    [{}, {"spines": 2, "cables": 4, "groups": 2}, {"spines": 3, "groups": 4}, {"leaves": 2, "spines": 2, "groups": 3}],
)
def test_on_a_dragonfly_plus_all_shortest_paths_carry_the_same(fields: dict[str, int]) -> None:
    fabric = build(**{"npus_per_leaf": 2, "cables": 3, **fields})
    ends = everybody(fabric)
    found, expected = (router.route(fabric, *ends) for router in (fabric.defaults.router, MultipathRouter()))
    np.testing.assert_array_equal(found.offsets, expected.offsets)
    np.testing.assert_allclose(found.latencies, expected.latencies)
    flow = np.repeat(np.arange(len(found)), np.diff(found.offsets))
    one, other = (np.lexsort((routes.links, flow)) for routes in (found, expected))
    np.testing.assert_array_equal(found.links[one], expected.links[other])
    np.testing.assert_allclose(np.array(found.coefficients)[one], np.array(expected.coefficients)[other])


@pytest.mark.parametrize("spines", [0, 2])
def test_an_all_to_all_loads_cables_alike(spines: int) -> None:
    fabric = build(npus_per_leaf=2, leaves=2, spines=spines, cables=2)
    loads = fabric.defaults.router.route(fabric, *everybody(fabric))
    found = np.bincount(loads.links, loads.coefficients, len(fabric.sources))
    # Each of the 4 NPUs of a group sends to each of the 4 of another; each two groups have one cable.
    assert set(found[-20:].tolist()) == {16.0}


def test_trees_other_fabrics_and_switches_are_refused() -> None:
    fabric = build()
    with pytest.raises(UnsupportedError, match="neither copy nor combine"):
        fabric.defaults.router.tree(fabric, fabric.npus[:1], fabric.npus[1:], Operation.MULTICAST)
    one = fabric.defaults.router.tree(fabric, fabric.npus[:1], fabric.npus[-1:], Operation.MULTICAST)
    assert len(one) == 1
    router = DragonflyPlusRouter()
    with pytest.raises(UnsupportedError, match="paths begin and end at NPUs"):
        router.path(fabric, 0, 144)
    for other in (
        evolve(fabric, levels=fabric.levels[:2], coordinates=None),
        evolve(fabric, sources=fabric.destinations),
    ):
        with pytest.raises(UnsupportedError, match="cannot route fabric"):
            router.path(other, 0, 1)


@pytest.mark.parametrize("fields", [{"groups": 10}, {"spines": 0, "leaves": 2, "groups": 6}])
def test_more_groups_than_can_be_joined_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"^groups: .* \(accepted: 1 to "):
        DragonflyPlus(**fields)


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
