from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import ClassVar

import numpy as np
import pytest
from fredfw import Fabric, Framework, Level, NodeKind, Operation, ShortestPathRouter
from fredfw.errors import InputError, UnsupportedError
from fredfw.testing import RouterTests, TopologyTests

import fredfw_topology_dragonfly
from fredfw_topology_dragonfly import Dragonfly, DragonflyMinimalRouter

CABLES = Dragonfly(groups=3)  # four links between each two groups
SHAPES = (
    Dragonfly(),
    Dragonfly(arrangement="palmtree"),
    CABLES,
    Dragonfly(p=1, a=3, h=2, groups=4, arrangement="palmtree"),  # two links
    Dragonfly(p=3, a=3, h=3, groups=7, global_bandwidth=50e9, global_latency=2e-6),  # ports left over
    Dragonfly(p=2, a=1, h=3),  # no local links
    Dragonfly(p=3, a=4, groups=1),  # no global links
)


class TestDragonfly(TopologyTests):
    plugin = fredfw_topology_dragonfly
    topologies = tuple(shape for shape in SHAPES if shape != CABLES)


class TestSeveralCables(TopologyTests):
    plugin = fredfw_topology_dragonfly
    topologies = (CABLES,)
    expected_failures: ClassVar[Mapping[str, str]] = {
        "levels_are_as_fast_as_they_say": "between groups a level promises the worst case: half of a local link",
    }


class TestMinimalRouter(RouterTests):
    plugin = fredfw_topology_dragonfly
    routers = (DragonflyMinimalRouter(),)
    fabrics = tuple(shape.build() for shape in SHAPES[:3])


def all_to_all(fabric: Fabric) -> tuple[np.ndarray, np.ndarray]:
    """Every pair of NPUs that differ."""
    x, y = np.nonzero(~np.eye(len(fabric.npus), dtype=bool))
    return fabric.npus[x], fabric.npus[y]


def group_of(fabric: Fabric, node: int) -> int:
    """The group of a router, by its name."""
    return int(fabric.node_name(node).split(".")[0].removeprefix("g"))


def cables(fabric: Fabric) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """The routers that the links from one group to another join."""
    joined: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for one, other in zip(fabric.sources.tolist(), fabric.destinations.tolist(), strict=True):
        if fabric.kinds[one] == fabric.kinds[other] == NodeKind.SWITCH:
            groups = group_of(fabric, one), group_of(fabric, other)
            if groups[0] != groups[1]:
                joined.setdefault(groups, []).append((one, other))
    return joined


@pytest.mark.parametrize(
    ("p", "a", "h", "npus", "ports"),
    [
        (2, 4, 2, 72, 7),  # Kim et al., figure 5
        (4, 8, 4, 1056, 15),  # section 4.2: what is simulated
        (16, 32, 16, 262656, 63),  # section 3.1: a radix of 64 scales to over 256K nodes
    ],
)
def test_the_sizes_of_the_paper(p: int, a: int, h: int, npus: int, ports: int) -> None:
    assert Dragonfly(p=p, a=a, h=h).structure().npus == npus
    assert p + a + h - 1 == ports
    if npus < 2000:
        fabric = Dragonfly(p=p, a=a, h=h).build()
        assert np.bincount(fabric.kinds).tolist() == [npus, npus // p]
        assert set(np.bincount(fabric.sources)[npus:].tolist()) == {ports}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_all_groups_are_joined_alike(shape: Dragonfly) -> None:
    fabric = shape.build()
    groups = fabric.levels[2].size
    between = cables(fabric)
    assert set(between) == {(x, y) for x, y in product(range(groups), repeat=2) if x != y}
    assert {len(joined) for joined in between.values()} <= {shape.a * shape.h // max(groups - 1, 1)}
    for (x, y), joined in between.items():
        assert sorted(between[y, x]) == sorted((other, one) for one, other in joined)
    used = np.bincount([one for joined in between.values() for one, _ in joined], minlength=len(fabric.kinds))
    assert np.ptp(used[len(fabric.npus) :]) <= 1
    assert used.max() <= shape.h


@pytest.mark.parametrize(
    ("arrangement", "of_group_0", "of_group_5"),
    [
        # Two ports per router, all other groups in turn.
        ("consecutive", [{1, 2}, {3, 4}, {5, 6}, {7, 8}], [{0, 1}, {2, 3}, {4, 6}, {7, 8}]),
        ("palmtree", [{8, 7}, {6, 5}, {4, 3}, {2, 1}], [{4, 3}, {2, 1}, {0, 8}, {7, 6}]),
    ],
)
def test_arrangements(arrangement: str, of_group_0: list[set[int]], of_group_5: list[set[int]]) -> None:
    fabric = Dragonfly(arrangement=arrangement).build()
    for group, expected in ((0, of_group_0), (5, of_group_5)):
        for router, others in enumerate(expected):
            node = next(node for node in range(72, 108) if fabric.node_name(node) == f"g{group}.r{router}")
            ends = {group_of(fabric, int(end)) for end in fabric.destinations[fabric.sources == node] if end >= 72}
            assert ends - {group} == others


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_routes_are_local_global_local(shape: Dragonfly) -> None:
    fabric = shape.build()
    between = cables(fabric)
    attached = dict(zip(fabric.sources.tolist(), fabric.destinations[: len(fabric.npus)].tolist(), strict=False))
    sources, destinations = all_to_all(fabric)
    routes = fabric.defaults.router.route(fabric, sources, destinations)
    paths = np.split(routes.links, routes.offsets[1:-1])
    for source, destination, links in zip(sources.tolist(), destinations.tolist(), paths, strict=True):
        first, last = attached[source], attached[destination]
        groups = group_of(fabric, first), group_of(fabric, last)
        gates: list[tuple[int, ...]] = [()] if groups[0] == groups[1] else list(between[groups])
        ways = [(source, first, *gate, last, destination) for gate in gates]
        nodes = (int(fabric.sources[links[0]]), *fabric.destinations[links].tolist())
        # Where a link would lead from a router to itself there is none.
        assert nodes in [tuple(dict.fromkeys(way)) for way in ways]
    # NPU to router, at most three links between routers (Kim et al., section 3.1), and to the NPU.
    assert np.diff(routes.offsets).max() <= 5
    longest = 2 * shape.terminal_latency
    longest += 2 * shape.local_latency + shape.global_latency if len(between) else shape.local_latency
    if shape.a > 1:
        assert routes.latencies.max() == pytest.approx(longest, rel=1e-12)


@pytest.mark.parametrize(("p", "a", "h"), [(2, 4, 2), (1, 2, 1), (3, 4, 2), (4, 8, 4)])
@pytest.mark.parametrize("arrangement", ["consecutive", "palmtree"])
def test_what_an_all_to_all_puts_on_links(p: int, a: int, h: int, arrangement: str) -> None:
    fabric = Dragonfly(p=p, a=a, h=h, arrangement=arrangement).build()
    routes = fabric.defaults.router.route(fabric, *all_to_all(fabric))
    load = np.bincount(routes.links, minlength=len(fabric.sources))
    npus = len(fabric.npus)
    routers = npus // p
    terminal, local, between = np.split(load, [2 * npus, 2 * npus + routers * (a - 1)])
    assert set(terminal.tolist()) == {npus - 1}
    # Among two routers' NPUs, and from or to the h groups behind either of them.
    assert set(local.tolist()) == {p * p + 2 * p * h * a * p}
    assert set(between.tolist()) == {(a * p) ** 2}


@pytest.mark.parametrize("arrangement", ["consecutive", "palmtree"])
def test_an_all_to_all_takes_no_longer_than_sending(arrangement: str) -> None:
    # Balanced, a = 2 p = 2 h, so that no link has more to carry than the NPUs' own: 71 blocks, local 68, global 64.
    fabric = Dragonfly(arrangement=arrangement).build()
    result = Framework().simulate_collective(fabric, "all-to-all", size="1 GB", algorithm="direct")
    sending = 71 / 72 * 1e9 / 25e9
    assert result.duration == pytest.approx(sending + 2 * 500e-9 + 2 * 500e-9 + 1e-6, rel=1e-12)
    assert sending < result.bound.seconds <= result.duration


@pytest.mark.parametrize("shape", [*SHAPES, Dragonfly(p=4, a=8, h=4), Dragonfly(p=3, a=3, h=2, groups=2)], ids=str)
def test_levels_promise_what_there_is(shape: Dragonfly) -> None:
    fabric = shape.build()
    coordinates, sizes = fabric.coordinates, [level.size for level in fabric.levels]
    assert coordinates is not None
    for column, level in enumerate(fabric.levels):
        if level.size > 1:
            following = coordinates.copy()
            following[:, column] = (following[:, column] + 1) % level.size
            routes = fabric.defaults.router.route(
                fabric, fabric.npus, np.ravel_multi_index(tuple(following.T), sizes, order="F").astype(np.intp)
            )
            load = np.bincount(routes.links, minlength=len(fabric.sources))
            got = (fabric.bandwidths[load > 0] / load[load > 0]).min()
            assert level.bandwidth <= got * (1 + 1e-12)
            assert routes.latencies.max() <= level.latency * (1 + 1e-12)


def test_the_levels_of_the_default() -> None:
    # Eight NPUs of a group share its one link to the next group: 1 / (a p), as section 4.1 says of minimal routing.
    assert Dragonfly().build().levels == (
        Level(2, "switch", 25e9, 1e-6),
        Level(4, "switch", 25e9 / 2, 1.5e-6),
        Level(9, "switch", 25e9 / 8, 3e-6),
    )


def test_a_route_crosses_one_global_link_where_the_fewest_links_may_be_two() -> None:
    fabric = Dragonfly().build()
    far = fabric.latencies == 1e-6
    pairs = all_to_all(fabric)
    for router, most in ((DragonflyMinimalRouter(), 1), (ShortestPathRouter(), 2)):
        routes = router.route(fabric, *pairs)
        assert np.add.reduceat(far[routes.links].astype(int), routes.offsets[:-1]).max() == most


def test_trees_have_two_ends_or_are_refused() -> None:
    fabric = Dragonfly().build()
    pair = np.array([5]), np.array([70])
    tree = fabric.defaults.router.tree(fabric, *pair, Operation.MULTICAST)
    route = fabric.defaults.router.route(fabric, *pair)
    assert tree.links.tolist() == route.links.tolist()
    assert tree.latencies.tolist() == route.latencies.tolist()
    one, two = np.array([0]), np.array([1, 2])
    for operation, sources, destinations in (
        (Operation.MULTICAST, one, two),
        (Operation.REDUCE, two, one),
        (Operation.ALL_REDUCE, two, two),
    ):
        with pytest.raises(UnsupportedError, match="neither copy nor combine"):
            fabric.defaults.router.tree(fabric, sources, destinations, operation)


def test_other_fabrics_are_refused() -> None:
    fabric = Dragonfly().build()
    swapped = Fabric("swapped", fabric.kinds, fabric.destinations, fabric.sources, 1.0, 0.0, 0.0)
    # As a dragonfly, this ring would have 10^12 local links.
    x = np.arange(10**6)
    levels = tuple(Level(size, "ring", 1.0) for size in (1, len(x), 1))
    ring = Fabric("ring", 0 * x, x, np.roll(x, -1), 1.0, 0.0, 0.0, levels, np.stack([0 * x, x, 0 * x], axis=1))
    for other in (swapped, ring):
        with pytest.raises(UnsupportedError, match="is not a dragonfly"):
            DragonflyMinimalRouter().route(other, np.array([0]), np.array([1]))
    with pytest.raises(UnsupportedError, match="begin and end at NPUs"):
        fabric.defaults.router.route(fabric, np.array([0]), np.array([72]))


def test_more_groups_than_links_lead_to_are_refused() -> None:
    with pytest.raises(InputError, match=r"10 groups, of which each has 4 x 2 links.*accepted: 1 to 9"):
        Dragonfly(groups=10)
