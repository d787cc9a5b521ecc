"""Routers: along the fewest hops, many paths, over an NPU between, and along dimensions."""

from itertools import chain
from typing import Any

import networkx as nx
import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, strategies as st

from fredfw import Dimension, MultipathRouter, NodeKind, Router, product_fabric
from fredfw.errors import InputError, UnsupportedError
from fredfw.fabric import Fabric, Operation, Routes, ShortestPathRouter, ValiantRouter, multipath, routing
from fredfw.testing import check_router
from fredfw.testing.fabrics import grid, star
from fredfw.testing.routes import examine

ROUTER = ShortestPathRouter()


def fabric_of(npus: int, edges: list[tuple[int, int]], *, switches: int = 0, **fields: Any) -> Fabric:
    """A fabric of NPUs and the switches behind them; link ``i`` has the latency ``i + 1`` by default."""
    ends = np.array(edges, dtype=np.intp).reshape(-1, 2)
    kinds = np.repeat([NodeKind.NPU, NodeKind.SWITCH], [npus, switches])
    latencies = np.arange(len(ends)) + 1.0
    return evolve(Fabric("random", kinds, ends[:, 0], ends[:, 1], 1.0, latencies, 0.0), **fields)


@st.composite
def fabrics(draw: st.DrawFn) -> Fabric:
    """Strongly connected: a cycle through all nodes, and any further links, parallel ones too."""
    nodes = draw(st.integers(2, 9))
    cycle = draw(st.permutations(range(nodes)))
    pair = st.tuples(st.integers(0, nodes - 1), st.integers(0, nodes - 1)).filter(lambda ends: ends[0] != ends[1])
    edges = list(zip(cycle, [*cycle[1:], cycle[0]], strict=True)) + draw(st.lists(pair, max_size=20))
    return fabric_of(nodes, draw(st.permutations(edges)), copies=True, reduces=True)


def all_pairs(fabric: Fabric) -> tuple[Any, Any]:
    nodes = np.arange(len(fabric.kinds))
    return np.repeat(nodes, len(nodes)), np.tile(nodes, len(nodes))


def columns(routes: Routes) -> list[Any]:
    """What routes are, to the last bit."""
    shares = np.ones(len(routes.links)) if routes.coefficients is None else routes.coefficients
    return [one.tolist() for one in (routes.offsets, routes.links, routes.latencies, shares)]


@given(fabrics())
def test_routes_are_shortest_paths_and_ties_go_to_the_lowest_node_then_the_lowest_link(fabric: Fabric) -> None:
    sources, destinations = all_pairs(fabric)
    routes = ROUTER.route(fabric, sources, destinations)
    lengths = dict(nx.all_pairs_shortest_path_length(nx.DiGraph(fabric.to_networkx())))
    assert len(routes) == len(sources)
    for flow, (source, destination) in enumerate(zip(sources.tolist(), destinations.tolist(), strict=True)):
        links = routes.links_of(np.array([flow]))
        assert [source, *fabric.destinations[links]] == [*fabric.sources[links], destination]
        assert len(links) == lengths[source][destination]
        assert routes.latencies[flow] == (links + 1).sum()
        for link in links:
            end = int(fabric.destinations[link])
            into = [(int(fabric.sources[one]), one) for one in np.flatnonzero(fabric.destinations == end).tolist()]
            nearer = [pair for pair in into if lengths[source][pair[0]] == lengths[source][end] - 1]
            assert min(nearer)[1] == link


@pytest.mark.parametrize("router", [ROUTER, MultipathRouter()], ids=lambda one: one.name)
@given(fabric=fabrics(), cells=st.integers(1, 30), remembered=st.sampled_from([0, 9]), data=st.data())
def test_neither_batches_nor_blocks_nor_what_is_remembered_change_a_route(
    router: Router, fabric: Fabric, cells: int, remembered: int, data: st.DataObject
) -> None:
    sources, destinations = all_pairs(fabric)
    whole = router.route(fabric, sources, destinations)
    picked = np.array(data.draw(st.lists(st.integers(0, len(sources) - 1), max_size=12)), dtype=np.intp)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(routing, "SEARCH_CELLS", cells)
        patch.setattr(routing, "_REMEMBERED", remembered)
        patch.setattr(multipath, "_FLOWS", 7)
        found = router.route(fabric, sources[picked], destinations[picked])
        assert columns(found) == columns(whole.select(picked))
        for pair in picked:
            one = router.path(fabric, int(sources[pair]), int(destinations[pair]))
            assert columns(one) == columns(whole.select(np.array([pair])))


@given(fabrics(), st.data())
def test_a_multicast_is_a_tree_of_shortest_paths_and_a_reduction_that_of_the_reversed_network(
    fabric: Fabric, data: st.DataObject
) -> None:
    nodes = st.integers(0, len(fabric.kinds) - 1)
    root = np.array([data.draw(nodes)])
    leaves = np.array(data.draw(st.lists(nodes, min_size=1, max_size=6)))
    tree = ROUTER.tree(fabric, root, leaves, Operation.MULTICAST)
    each = ROUTER.route(fabric, np.repeat(root, len(leaves)), leaves)
    assert len(tree) == 1
    assert tree.links.tolist() == sorted(set(each.links.tolist()))
    assert tree.latencies[0] == each.latencies.max()
    # A tree: no node is entered twice.
    assert len(set(fabric.destinations[tree.links])) == len(tree.links)
    edges = list(zip(fabric.destinations.tolist(), fabric.sources.tolist(), strict=True))
    other = ROUTER.tree(fabric_of(len(fabric.kinds), edges, reduces=True), leaves, root, Operation.REDUCE)
    assert other.links.tolist() == tree.links.tolist()
    assert other.latencies.tolist() == tree.latencies.tolist()


STAR = [(0, 3), (3, 0), (1, 3), (3, 1), (2, 3), (3, 2)]
LINE = [(0, 1), (1, 0), (1, 2), (2, 1)]


@pytest.mark.parametrize(
    ("nodes", "edges", "middle"),
    # The middle branches because two leaves lie beyond it, or because it is a leaf itself.
    [(4, STAR, "npu3"), (3, LINE, "npu1")],
)
def test_only_able_nodes_branch_and_join(nodes: int, edges: list[tuple[int, int]], middle: str) -> None:
    root, leaves = np.array([0]), np.array([1, 2])
    able = fabric_of(nodes, edges, copies=True, reduces=True)
    for operation, ends, unable, cannot in (
        (Operation.MULTICAST, (root, leaves), evolve(able, copies=False), "copy"),
        (Operation.REDUCE, (leaves, root), evolve(able, reduces=False), "combine"),
    ):
        assert len(ROUTER.tree(able, *ends, operation).links) == len(edges) // 2
        with pytest.raises(UnsupportedError, match=f"{middle} of fabric 'random' cannot {cannot}"):
            ROUTER.tree(unable, *ends, operation)


def test_nodes_that_do_not_branch_need_no_abilities() -> None:
    for sources, destinations, operation, links in (
        # A stream to one leaf asks nothing of the nodes on its way, and the root itself copies freely.
        ([0], [2], Operation.MULTICAST, [0, 2]),
        ([2], [0], Operation.REDUCE, [1, 3]),
        ([1], [0, 2], Operation.MULTICAST, [1, 2]),
    ):
        tree = ROUTER.tree(fabric_of(3, LINE), np.array(sources), np.array(destinations), operation)
        assert tree.links.tolist() == links


@given(fabrics(), st.data())
def test_an_all_reduce_is_a_reduction_to_the_nearest_node_and_a_multicast_from_it(
    one_way: Fabric, data: st.DataObject
) -> None:
    edges = np.stack([one_way.sources, one_way.destinations], axis=1)
    there_and_back = [(int(one), int(other)) for one, other in np.concatenate([edges, edges[:, ::-1]])]
    fabric = evolve(fabric_of(len(one_way.kinds), there_and_back, copies=True, reduces=True), latencies=1.0)
    nodes = st.integers(0, len(fabric.kinds) - 1)
    members = np.array(data.draw(st.lists(nodes, min_size=2, max_size=6, unique=True)))
    tree = ROUTER.tree(fabric, members, members, Operation.ALL_REDUCE)
    faults, stuck, _ = examine(fabric, Operation.ALL_REDUCE, members, members, tree.links)
    assert not faults
    assert not stuck
    lengths = dict(nx.all_pairs_shortest_path_length(nx.DiGraph(fabric.to_networkx())))
    farthest = [max(lengths[middle][member] for member in members) for middle in range(len(fabric.kinds))]
    assert tree.latencies[0] == 2 * min(farthest)


def test_an_all_reduce_meets_where_streams_are_combined_and_copied() -> None:
    everybody = np.arange(3)
    star = evolve(fabric_of(4, STAR), latencies=1.0)
    switch = np.arange(4) == 3
    tree = ROUTER.tree(evolve(star, copies=switch, reduces=switch), everybody, everybody, Operation.ALL_REDUCE)
    assert sorted(tree.links.tolist()) == list(range(6))
    assert tree.latencies.tolist() == [2.0]
    ring = fabric_of(4, [(0, 1), (1, 2), (2, 3), (3, 0)], copies=True, reduces=True)
    for fabric, ends, reason in (
        (evolve(star, copies=switch, reduces=~switch), 3, "no node that they all reach both combines and copies"),
        (evolve(star, copies=~switch, reduces=~switch), 3, "npu3 of fabric 'random' cannot combine a stream"),
        (ring, 4, "the ways to and from npu3 share a link"),
    ):
        with pytest.raises(UnsupportedError, match=f"no all-reduce tree on fabric 'random': {reason}"):
            ROUTER.tree(fabric, np.arange(ends), np.arange(ends), Operation.ALL_REDUCE)


def test_a_missing_path_names_both_ends() -> None:
    one_way = fabric_of(3, [(0, 1), (1, 2)])
    ends = np.array([2]), np.array([0])
    for ask, asked in (
        (ROUTER.route, (np.array([0, 2]), np.array([2, 0]))),
        (MultipathRouter().route, (np.array([0, 2]), np.array([2, 0]))),
        (ROUTER.path, (2, 0)),
        (ROUTER.tree, (*ends, Operation.REDUCE)),
        (ROUTER.tree, (*ends, Operation.MULTICAST)),
    ):
        with pytest.raises(UnsupportedError, match="no path from npu2 to npu0"):
            ask(one_way, *asked)
    assert len(ROUTER.route(one_way, ends[0][:0], ends[1][:0])) == 0


ABLE = {"copies": True, "reduces": True}


def both_ways(links: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return [*links, *((far, near) for near, far in links)]


# NPUs 0 and 1 are on switch 4, 2 and 3 on switch 5; 0 and 2 are on switch 6, 3 has a link to 1.
TWO_SERVERS = fabric_of(4, both_ways([(0, 4), (1, 4), (2, 5), (3, 5), (0, 6), (2, 6), (1, 3)]), switches=3, **ABLE)
RING = product_fabric([Dimension("ring", 64, 1.0, 1.0)])
SMALL = star(5, controllers=2), grid(4, 3)
WITH_SWITCH = product_fabric([Dimension("ring", 4, 1.0, 1.0), Dimension("switch", 3, 1.0, 2.0)])
FULL = product_fabric([Dimension("fully-connected", 9, 1.0, 1.0), Dimension("fully-connected", 9, 1.0, 1.0)])


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("router", "fabric"),
    [
        (router, fabric)
        for router, fabrics in (
            (MultipathRouter(), (grid(4, 6, closed=True), grid(2, 2, 2), WITH_SWITCH, grid(9, 9, closed=True))),
            (MultipathRouter(through_npus=False), (grid(4, 6, closed=True), TWO_SERVERS)),
            (ValiantRouter(), (grid(5, closed=True), WITH_SWITCH, FULL)),
            (ValiantRouter(seed=7), (grid(5, closed=True), WITH_SWITCH, FULL)),
        )
        for fabric in (*SMALL, *fabrics)
    ],
    ids=lambda one: one.name,
)
def test_routers_keep_the_contract(router: Router, fabric: Fabric) -> None:
    check_router(router, fabric)


@given(st.integers(2, 7), st.data())
def test_all_shortest_paths_carry_the_same(nodes: int, data: st.DataObject) -> None:
    # A ring keeps it connected; parallel links are different paths.
    node = st.integers(0, nodes - 1)
    more = data.draw(st.lists(st.tuples(node, node).filter(lambda pair: pair[0] != pair[1]), max_size=15))
    links = [(one, (one + 1) % nodes) for one in range(nodes)] + more
    seconds = [float(1 + link % 3) for link in range(len(links))]
    fabric = fabric_of(nodes, links, latencies=seconds)
    sources, destinations = all_pairs(fabric)
    routes = MultipathRouter().route(fabric, sources, destinations)
    assert routes.coefficients is not None
    graph: Any = nx.MultiDiGraph()
    graph.add_edges_from((one, other, link) for link, (one, other) in enumerate(links))
    for flow, (source, destination) in enumerate(zip(sources.tolist(), destinations.tolist(), strict=True)):
        ends = nx.shortest_path_length(graph, source, destination)
        paths = [list(one) for one in nx.all_simple_edge_paths(graph, source, destination, cutoff=ends)] if ends else []
        expected: dict[int, float] = {}
        for *_, link in chain(*paths):
            expected[link] = expected.get(link, 0.0) + 1 / len(paths)
        part = slice(routes.offsets[flow], routes.offsets[flow + 1])
        found = dict(zip(routes.links[part].tolist(), routes.coefficients[part].tolist(), strict=True))
        assert found == pytest.approx(expected)
        assert routes.latencies[flow] == max((sum(seconds[link] for *_, link in path) for path in paths), default=0.0)


@pytest.mark.parametrize("router", [MultipathRouter(), ValiantRouter()])
def test_trees_make_no_detour(router: Router) -> None:
    for fabric, sources, destinations, operation in (
        (RING, np.array([0]), np.array([3, 9]), Operation.MULTICAST),
        (star(4), np.arange(4), np.arange(4), Operation.ALL_REDUCE),  # over one node
    ):
        found, plain = (one.tree(fabric, sources, destinations, operation) for one in (router, ROUTER))
        assert found.links.tolist() == plain.links.tolist()


# NPU 0 reaches NPU 2 over NPU 1, or over two switches, which is longer.
ROUND_ABOUT = fabric_of(3, both_ways([(0, 1), (1, 2), (0, 3), (3, 4), (4, 2)]), switches=2)


@pytest.mark.parametrize(
    ("fabric", "through", "source", "destination", "nodes"),
    [
        (TWO_SERVERS, False, 0, 2, {6}),
        (TWO_SERVERS, False, 1, 3, set()),
        (TWO_SERVERS, False, 0, 3, {1, 4}),  # which need an NPU between them
        (TWO_SERVERS, False, 2, 2, set()),
        (ROUND_ABOUT, True, 0, 2, {1}),
        (ROUND_ABOUT, False, 0, 2, {3, 4}),
    ],
)
def test_npus_forward_only_where_there_is_no_other_way(
    fabric: Fabric, through: bool, source: int, destination: int, nodes: set[int]
) -> None:
    routes = MultipathRouter(through_npus=through).path(fabric, source, destination)
    assert set(fabric.sources[routes.links].tolist()) - {source} == nodes


def test_a_bad_pattern_is_spread() -> None:
    # Tornado on a ring of 64: all go 31 on, so that a shortest path loads the links upwards with 31 flows, and the
    # others with none. By way of a random NPU the mean path has 2 x 16 hops, half of them each way.
    ends = RING.npus, (RING.npus + 31) % 64
    loads = [np.bincount(ValiantRouter(seed=one).route(RING, *ends).links, minlength=128) for one in range(40)]
    spread = np.mean(loads, axis=0)
    assert spread.max() < 20
    assert spread.min() > 5


def test_seeds_choose_other_paths() -> None:
    ends = RING.npus, np.roll(RING.npus, 5)
    one, same, other = (ValiantRouter(seed=seed).route(RING, *ends).links.tolist() for seed in (1, 1, 2**70))
    assert one == same != other
    with pytest.raises(InputError, match="seed"):
        ValiantRouter(seed=-1)
