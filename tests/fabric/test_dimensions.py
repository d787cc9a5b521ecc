import math
from collections import Counter
from itertools import product
from typing import Any

import networkx as nx
import numpy as np
import pytest
from attrs import evolve
from fabrics import everybody
from hypothesis import given, strategies as st

from fredfw import Dimension, DimensionOrderRouter, Fabric, Level, NodeKind, product_fabric, with_servers
from fredfw.errors import InputError, UnsupportedError
from fredfw.fabric.view import KINDS, Kind
from fredfw.testing import check_router
from fredfw.testing.routes import RouterCase
from fredfw.testing.topology import TopologyCase

SIZES, BANDWIDTHS, LATENCIES = st.integers(1, 5), st.sampled_from([1.0, 3.0]), st.sampled_from([0.0, 1.0, 4.0])
DIMENSIONS = st.lists(
    st.builds(Dimension, st.sampled_from(KINDS), SIZES, BANDWIDTHS, LATENCIES)
    | st.builds(Dimension, st.just("ring"), SIZES, BANDWIDTHS, LATENCIES, two_way=st.booleans()),
    min_size=1,
    max_size=3,
)
ONE_WAY = Dimension("ring", 5, 1.0, 1.0, two_way=False)


@pytest.mark.parametrize(
    ("kind", "size", "links"),
    [
        *(("ring", size, links) for size, links in ((8, 2), (2, 1), (1, 1))),
        *(("line", size, links) for size, links in ((8, 2), (2, 1))),
        *(("fully-connected", size, links) for size, links in ((8, 7), (1, 1))),
        ("switch", 8, 1),
    ],
)
def test_the_bandwidth_of_an_npu_is_divided_among_its_links(kind: Kind, size: int, links: int) -> None:
    one = Dimension(kind, size, 840e9, 1e-6, "node")
    assert (one.links_per_npu, one.link_bandwidth) == (links, 840e9 / links)
    assert one.level.bandwidth == 840e9 / links
    assert (one.level.size, one.level.latency, one.level.name) == (size, 1e-6, "node")
    assert Dimension.of_links(kind, size, 840e9 / links, 1e-6, "node") == one
    if size > 1:
        fabric = product_fabric([one])
        sent = np.bincount(fabric.sources, fabric.bandwidths)[fabric.npus]
        assert sent[1 % size] == pytest.approx(840e9)
        assert sent[0] == pytest.approx(420e9 if kind == "line" and size > 2 else 840e9)  # at the end of a line
        assert one.level.total_bandwidth == pytest.approx(840e9)


def test_a_one_way_ring_has_one_link() -> None:
    assert (ONE_WAY.link_bandwidth, ONE_WAY.level) == (1.0, Level(5, "ring", 1.0, 1.0, two_way=False))
    assert Dimension("ring", 2, 1.0, two_way=False).level == Level(2, "line", 1.0)


def test_a_product_of_a_ring_a_full_mesh_and_switches() -> None:
    # The stack of the first case of ASTRA-sim's notation: Ring(4)_FullyConnected(8)_Switch(8).
    ring, full = Dimension("ring", 4, 200e9, 1e-9, energy=1.0), Dimension("fully-connected", 8, 700e9, 2e-9, energy=2.0)
    fabric = product_fabric([ring, full, Dimension("switch", 8, 100e9, 4e-9, "pod", energy=3.0)])
    assert fabric.name == "ring 4 x fully-connected 8 x switch 8"
    assert set(fabric.bandwidths.tolist()) == {100e9}
    assert fabric.levels == (
        Level(4, "ring", 100e9, 1e-9),
        Level(8, "fully-connected", 100e9, 2e-9),
        Level(8, "switch", 100e9, 4e-9, name="pod"),
    )
    # From (1, 2, 3) to (3, 0, 7): two hops in the ring, down from an odd position, then one, then through the switch.
    route = fabric.defaults.router.path(fabric, 1 + 4 * 2 + 32 * 3, 3 + 4 * 0 + 32 * 7)
    names = [fabric.link_name(link) for link in route.links.tolist()]
    assert names == ["npu105->npu104", "npu104->npu107", "npu107->npu99", "npu99->pod(3,0,*)", "pod(3,0,*)->npu227"]
    assert route.latencies.tolist() == [pytest.approx(2e-9 + 2e-9 + 4e-9)]
    assert fabric.energies[route.links].tolist() == [1.0, 1.0, 2.0, 3.0, 3.0]
    assert (fabric.copies == (fabric.kinds == NodeKind.NPU)).all()


def reference(dimensions: list[Dimension]) -> Any:
    """The product as a graph, from the words of the documentation; edges know their dimension."""
    graph: Any = nx.DiGraph()
    places = [tuple(reversed(one)) for one in np.ndindex(*[one.size for one in reversed(dimensions)])]
    number = {place: npu for npu, place in enumerate(places)}
    graph.add_nodes_from(number.values())
    for (place, npu), (k, one) in product(number.items(), enumerate(dimensions)):
        for x in range(one.size):
            apart, cycle = x - place[k], one.size if one.kind == "ring" else 2 * one.size
            up, down = apart % cycle == 1, -apart % cycle == 1
            if one.kind == "switch" and one.size > 1:
                switch = (k, *place[:k], *place[k + 1 :])
                graph.add_edges_from([(npu, switch), (switch, npu)], dimension=k)
            elif apart and (up or (down and one.two_way) or one.kind == "fully-connected"):
                graph.add_edge(npu, number[(*place[:k], x, *place[k + 1 :])], dimension=k)
    return graph


@given(DIMENSIONS)
def test_links_and_routes_are_those_of_the_product(dimensions: list[Dimension]) -> None:
    fabric = product_fabric(dimensions)
    graph, npus = reference(dimensions), math.prod(one.size for one in dimensions)
    assert (len(fabric.npus), len(fabric.kinds)) == (npus, len(graph))
    direct = {(a, b) for a, b in graph.edges if not isinstance(a, tuple) and not isinstance(b, tuple)}
    built = list(zip(fabric.sources.tolist(), fabric.destinations.tolist(), strict=True))
    assert {ends for ends in built if max(ends) < npus} == direct
    assert len(built) == len(graph.edges)
    sources, destinations = everybody(fabric)
    routes = fabric.defaults.router.route(fabric, sources, destinations)
    hops = dict(nx.all_pairs_shortest_path_length(graph))
    # Links come dimension by dimension, which are crossed in order.
    counts = Counter(dimension for *_, dimension in graph.edges(data="dimension"))
    owner = np.repeat(np.arange(len(dimensions)), [counts[k] for k in range(len(dimensions))])
    place = fabric.coordinates
    assert place is not None
    for flow, (source, destination) in enumerate(zip(sources.tolist(), destinations.tolist(), strict=True)):
        links = routes.links_of(np.array([flow]))
        assert len(links) == hops[source][destination]
        assert (np.diff(owner[links]) >= 0).all()
        if len(links):
            assert (fabric.sources[links[0]], fabric.destinations[links[-1]]) == (source, destination)
            assert (fabric.destinations[links[:-1]] == fabric.sources[links[1:]]).all()
        # Half way round a ring, messages from odd positions go down.
        for k in np.flatnonzero(2 * abs(place[source] - place[destination]) == [one.size for one in dimensions]):
            one, start = dimensions[k], place[source, k]
            if one.kind == "ring" and one.two_way and one.size > 2:
                hop = fabric.destinations[links[owner[links] == k][0]]
                assert place[hop, k] == (start + (-1 if start % 2 else 1)) % one.size


@pytest.mark.sampled
@pytest.mark.parametrize(
    "dimensions",
    [
        [Dimension("ring", 4, 2.0, 1.0), Dimension("fully-connected", 3, 2.0, 2.0), Dimension("switch", 4, 3.0, 4.0)],
        [Dimension("switch", 3, 2.0, 1.0), Dimension("line", 4, 2.0, 2.0), Dimension("switch", 2, 5.0, 4.0)],
        [Dimension("line", 2, 2.0, 1.0), ONE_WAY, Dimension("fully-connected", 2, 2.0, 2.0)],
        [Dimension("switch", 1, 2.0), Dimension("ring", 2, 2.0, 2.0)],
    ],
    ids=lambda dimensions: " x ".join(f"{one.kind} {one.size}" for one in dimensions),
)
@pytest.mark.parametrize("switches", [True, False])
def test_the_router_and_the_levels_keep_the_contract(dimensions: list[Dimension], switches: bool) -> None:
    fabric = product_fabric(dimensions, switches_copy=switches, switches_reduce=switches)
    check_router(DimensionOrderRouter(), fabric)
    check_router(DimensionOrderRouter(order=tuple(reversed(range(len(dimensions))))), fabric)
    case: Any = RouterCase(subject=fabric.defaults.router, fabric=fabric)
    assert not list(TopologyCase.levels_are_as_fast_as_they_say(case))


def test_messages_may_go_along_the_dimensions_in_another_order_and_switches_have_none() -> None:
    switch = product_fabric([Dimension("switch", 3, 1.0)])
    for ends in ((0, 3), (3, 0)):
        with pytest.raises(UnsupportedError, match="routes no messages of switches"):
            switch.defaults.router.path(switch, *ends)
    fabric = product_fabric([Dimension("line", 3, 1.0), Dimension("line", 3, 1.0)])
    yx = DimensionOrderRouter(order=(1, 0))
    assert fabric.sources[yx.path(fabric, 0, 8).links].tolist() == [0, 3, 6, 7]
    with pytest.raises(InputError, match=r"^order: \[0, 0\] does not name each of the 2 dimensions once"):
        DimensionOrderRouter(order=(0, 0)).path(fabric, 0, 8)


def test_products_that_are_numbered_otherwise_are_routed_as_well() -> None:
    """Links backwards, and NPUs in another order."""
    dimensions = [Dimension("ring", 4, 2.0, 1.0), Dimension("switch", 3, 2.0, 2.0), Dimension("line", 3, 2.0, 3.0)]
    fabric = product_fabric(dimensions)
    node = np.arange(len(fabric.kinds))
    node[:36] = np.random.default_rng(1).permutation(36)
    backwards = {name: getattr(fabric, name)[::-1] for name in ("sources", "destinations", "bandwidths", "latencies")}
    backwards |= {name: node[backwards[name]] for name in ("sources", "destinations")}
    assert fabric.coordinates is not None
    coordinates = fabric.coordinates[node[:36].argsort()]
    check_router(DimensionOrderRouter(), evolve(fabric, **backwards, coordinates=coordinates))


def gated(fabric: Fabric) -> Fabric:
    """With two controllers at NPU 1 and a memory at the last one."""
    nodes, doors = len(fabric.kinds), np.array([1, 1, len(fabric.npus) - 1])
    gates = nodes + np.arange(3)
    kinds = np.concatenate([fabric.kinds, [NodeKind.CONTROLLER, NodeKind.CONTROLLER, NodeKind.MEMORY]])
    links = np.concatenate([gates, fabric.sources, doors]), np.concatenate([doors, fabric.destinations, gates])
    place: dict[str, Any] = {"levels": fabric.levels, "coordinates": fabric.coordinates}
    return Fabric("gated", kinds, *links, 1.0, 1.0, 0.0, copies=True, reduces=True, **place)


def test_what_is_attached_to_an_npu_is_reached_through_it() -> None:
    fabric = gated(product_fabric([Dimension("fully-connected", 3, 2.0, 1.0), Dimension("switch", 3, 2.0, 2.0)]))
    check_router(DimensionOrderRouter(), fabric)
    first, second = fabric.controllers.tolist()
    route = DimensionOrderRouter().path(fabric, first, second)
    assert [fabric.link_name(link) for link in route.links.tolist()] == ["controller0->npu1", "npu1->controller1"]


@pytest.mark.parametrize(
    "changes",
    [
        {"levels": (), "coordinates": None},
        {"levels": (Level(3, "switch", 1.0), Level(3, "ring", 1.0))},
        {"levels": (Level(3, "ring", 1.0), Level(3, "line", 1.0))},
        {"kinds": [NodeKind.NPU] * 9 + [NodeKind.CONTROLLER], "copies": False, "reduces": False},
        {"destinations": np.arange(36) % 9},
    ],
)
def test_the_router_refuses_what_is_not_such_a_product(changes: dict[str, Any]) -> None:
    fabric = evolve(product_fabric([Dimension("ring", 3, 1.0), Dimension("ring", 3, 1.0)]), **changes)
    with pytest.raises(UnsupportedError, match="dimension-order router cannot route"):
        fabric.defaults.router.route(fabric, np.array([0]), np.array([1]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "rings"}, "'rings' is not a kind of dimension; did you mean 'ring'."),
        *(({"size": size}, f"{size} is not a valid number") for size in (0, 2.0)),
        *(({"bandwidth": rate}, f"{rate} is not a bandwidth") for rate in (0.0, math.nan)),
        ({"latency": -1.0}, "-1.0 is not finite, or below 0"),
        ({"energy": math.inf}, "inf is not finite, or below 0"),
        ({"kind": "line", "two_way": False}, "a line goes both ways"),
    ],
)
def test_bad_dimensions(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=rf"^{list(change)[-1]}: {message}.*\(accepted: "):
        Dimension(**{"kind": "ring", "size": 4, "bandwidth": 1.0, **change})


def test_products_have_a_size() -> None:
    one, long, full = Dimension("ring", 1, 1.0), Dimension("ring", 10**9, 1.0), Dimension("fully-connected", 10**5, 1.0)
    for dimensions, message in (
        *(([], "0 dimensions"), ([one] * 33, "33 dimensions")),
        *(([long], "nodes are too many"), ([full], "links are too many")),
    ):
        with pytest.raises(InputError, match=message):
            product_fabric(dimensions)


def clusters() -> Fabric:
    """Return three servers of two NPUs: 10 B/s to the switch of the server, 4 B/s to one of two leaves, 1 B/s above."""
    npus, servers, leaves = range(6), range(6, 9), range(9, 11)
    cables = [(npu, servers[npu // 2], 10.0) for npu in npus] + [(npu, leaves[npu % 2], 4.0) for npu in npus]
    cables += [(leaf, 11, 1.0) for leaf in leaves]
    near, far, rates = zip(*cables, strict=True)
    kinds = [NodeKind.NPU] * 6 + [NodeKind.SWITCH] * 6
    return Fabric("cluster", kinds, (*near, *far), (*far, *near), (*rates, *rates), 1.0, 0.0)


def test_servers_and_what_is_between_them_are_levels_but_for_those_of_one_position() -> None:
    fabric = with_servers(clusters(), 2, ("node", "rail"))
    assert fabric.levels == (Level(2, "switch", 10.0, 2.0, name="node"), Level(3, "switch", 4.0, 2.0, name="rail"))
    np.testing.assert_array_equal(fabric.coordinates, [[0, 0], [1, 0], [0, 1], [1, 1], [0, 2], [1, 2]])
    assert [level.name for level in with_servers(clusters(), 6).levels] == ["server"]
    assert [level.name for level in with_servers(clusters(), 1).levels] == ["network"]
    assert with_servers(Fabric("one", [NodeKind.NPU], [], [], [], [], []), 1).levels == ()
    for npus in (0, 4, 12):
        with pytest.raises(InputError, match=f"{npus} does not divide the 6 NPUs of 'cluster'"):
            with_servers(clusters(), npus)


def test_a_level_is_as_fast_as_its_slowest_shift() -> None:
    fabric = product_fabric([Dimension.of_links("ring", 8, 6.0, 1.0)])
    plain = Fabric("ring", fabric.kinds, fabric.sources, fabric.destinations, 6.0, 1.0, 0.0)
    # Half way round, four hops: eight messages of four links each on eight links one way round.
    assert with_servers(plain, 1).levels == (Level(8, "switch", 6.0 / 4, 4.0, name="network"),)
