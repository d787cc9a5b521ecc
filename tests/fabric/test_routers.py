"""Routers over many paths, over an NPU between, and along dimensions."""

from __future__ import annotations

from itertools import chain
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, strategies as st

from fredfw import (
    Dimension,
    DimensionOrderRouter,
    Fabric,
    MultipathRouter,
    NodeKind,
    Operation,
    Router,
    ShortestPathRouter,
    product_fabric,
)
from fredfw.errors import InputError, UnsupportedError
from fredfw.fabric import ValiantRouter
from fredfw.testing import check_router
from fredfw.testing.fabrics import grid, star


def network(nodes: int, links: list[tuple[int, int]], switches: int = 0, latencies: Any = 1.0) -> Fabric:
    near, far = zip(*links, strict=True)
    kinds = [NodeKind.NPU] * nodes + [NodeKind.SWITCH] * switches
    return Fabric("any", kinds, near, far, 1.0, latencies, 0.0, copies=True, reduces=True)


def both_ways(links: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return [*links, *((far, near) for near, far in links)]


# NPUs 0 and 1 are on switch 4, 2 and 3 on switch 5; 0 and 2 are on switch 6, 3 has a link to 1.
TWO_SERVERS = network(4, both_ways([(0, 4), (1, 4), (2, 5), (3, 5), (0, 6), (2, 6), (1, 3)]), switches=3)
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


def from_each_to_each(nodes: int) -> Any:
    return np.divmod(np.arange(nodes * nodes), nodes)


@given(st.integers(2, 7), st.data())
def test_all_shortest_paths_carry_the_same(nodes: int, data: st.DataObject) -> None:
    # A ring keeps it connected; parallel links are different paths.
    node = st.integers(0, nodes - 1)
    more = data.draw(st.lists(st.tuples(node, node).filter(lambda pair: pair[0] != pair[1]), max_size=15))
    links = [(one, (one + 1) % nodes) for one in range(nodes)] + more
    seconds = [float(1 + link % 3) for link in range(len(links))]
    fabric = network(nodes, links, latencies=seconds)
    sources, destinations = from_each_to_each(nodes)
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


def test_searches_in_blocks_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = grid(5, 4, closed=True)
    sources, destinations = np.random.default_rng(0).integers(0, 20, (2, 300))
    whole = MultipathRouter().route(fabric, sources, destinations)
    monkeypatch.setattr("fredfw.fabric.routing.SEARCH_CELLS", 60)
    monkeypatch.setattr("fredfw.fabric.multipath._FLOWS", 7)
    parts = MultipathRouter().route(fabric, sources, destinations)
    for name in ("offsets", "links", "latencies", "coefficients"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(parts, name))
    assert len(MultipathRouter().route(fabric, sources[:0], destinations[:0])) == 0


def test_pairs_without_a_path_are_named() -> None:
    fabric = network(3, [(0, 1), (1, 0), (2, 0)])
    with pytest.raises(UnsupportedError, match="no path from npu1 to npu2"):
        MultipathRouter().route(fabric, np.array([0, 1]), np.array([1, 2]))


@pytest.mark.parametrize(
    ("router", "fabric", "sources", "destinations", "operation"),
    [
        (MultipathRouter(), grid(3, 3), [0], [4, 8], Operation.MULTICAST),
        (ValiantRouter(), RING, [0], [3, 9], Operation.MULTICAST),
        (ValiantRouter(), star(4), range(4), range(4), Operation.ALL_REDUCE),  # over one node
    ],
)
def test_trees_make_no_detour(router: Router, fabric: Fabric, sources: Any, destinations: Any, operation: Any) -> None:
    ends = fabric.npus[list(sources)], fabric.npus[list(destinations)]
    plain = ShortestPathRouter().tree(fabric, *ends, operation)
    assert router.tree(fabric, *ends, operation).links.tolist() == plain.links.tolist()


# NPU 0 reaches NPU 2 over NPU 1, or over two switches, which is longer.
ROUND_ABOUT = network(3, both_ways([(0, 1), (1, 2), (0, 3), (3, 4), (4, 2)]), switches=2)


@pytest.mark.parametrize(
    ("fabric", "through", "source", "destination", "nodes"),
    [
        (TWO_SERVERS, True, 0, 3, {1, 4}),
        (TWO_SERVERS, False, 0, 1, {4}),
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
    minimal = np.bincount(DimensionOrderRouter().route(RING, *ends).links, minlength=128)
    assert sorted(set(minimal.tolist())) == [0, 31]
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
