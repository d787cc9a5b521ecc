from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, strategies as st

from fredfw import Dimension, Fabric, MultipathRouter, NodeKind, Operation, ShortestPathRouter, product_fabric
from fredfw.errors import UnsupportedError
from fredfw.testing import check_router
from fredfw.testing.fabrics import grid, star


def network(nodes: int, links: list[tuple[int, int]], latencies: Any = 1.0) -> Fabric:
    near, far = zip(*links, strict=True)
    return Fabric("any", [NodeKind.NPU] * nodes, near, far, 1.0, latencies, 0.0, copies=True, reduces=True)


@pytest.mark.sampled
@pytest.mark.parametrize(
    "fabric",
    [
        star(5, controllers=2),
        grid(4, 3),
        grid(4, 6, closed=True),
        grid(2, 2, 2),
        product_fabric([Dimension("ring", 4, 1.0, 1.0), Dimension("switch", 3, 1.0, 2.0)]),
        grid(9, 9, closed=True),
    ],
    ids=lambda fabric: fabric.name,
)
def test_it_keeps_the_contract(fabric: Fabric) -> None:
    check_router(MultipathRouter(), fabric)


@given(st.integers(2, 7), st.data())
def test_all_shortest_paths_carry_the_same(nodes: int, data: st.DataObject) -> None:
    # A ring keeps it connected; parallel links are different paths.
    node = st.integers(0, nodes - 1)
    more = data.draw(st.lists(st.tuples(node, node).filter(lambda pair: pair[0] != pair[1]), max_size=15))
    links = [(one, (one + 1) % nodes) for one in range(nodes)] + more
    seconds = [float(1 + link % 3) for link in range(len(links))]
    fabric = network(nodes, links, seconds)
    sources, destinations = np.repeat(np.arange(nodes), nodes), np.tile(np.arange(nodes), nodes)
    routes = MultipathRouter().route(fabric, sources, destinations)
    assert routes.coefficients is not None
    graph: Any = nx.MultiDiGraph()
    graph.add_edges_from((one, other, link) for link, (one, other) in enumerate(links))
    for flow, (source, destination) in enumerate(zip(sources.tolist(), destinations.tolist(), strict=True)):
        ends = nx.shortest_path_length(graph, source, destination)
        paths = [list(one) for one in nx.all_simple_edge_paths(graph, source, destination, cutoff=ends)] if ends else []
        expected: dict[int, float] = {}
        for path in paths:
            for _, _, link in path:
                expected[link] = expected.get(link, 0.0) + 1 / len(paths)
        part = slice(routes.offsets[flow], routes.offsets[flow + 1])
        found = dict(zip(routes.links[part].tolist(), routes.coefficients[part].tolist(), strict=True))
        assert found == pytest.approx(expected)
        assert routes.latencies[flow] == max((sum(seconds[link] for *_, link in path) for path in paths), default=0.0)


def test_searches_in_blocks_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = grid(5, 4, closed=True)
    random = np.random.default_rng(0)
    sources, destinations = random.integers(0, 20, (2, 300))
    whole = MultipathRouter().route(fabric, sources, destinations)
    monkeypatch.setattr("fredfw.fabric.routing.SEARCH_CELLS", 60)
    monkeypatch.setattr("fredfw.fabric.multipath._FLOWS", 7)
    parts = MultipathRouter().route(fabric, sources, destinations)
    for name in ("offsets", "links", "latencies", "coefficients"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(parts, name))


def test_no_flows_have_no_routes() -> None:
    none = np.zeros(0, dtype=np.intp)
    assert len(MultipathRouter().route(grid(3), none, none)) == 0


def test_pairs_without_a_path_are_named() -> None:
    fabric = network(3, [(0, 1), (1, 0), (2, 0)])
    with pytest.raises(UnsupportedError, match="no path from npu1 to npu2"):
        MultipathRouter().route(fabric, np.array([0, 1]), np.array([1, 2]))


def test_trees_are_those_of_the_shortest_path_router() -> None:
    fabric = grid(3, 3)
    ends = np.array([0]), np.array([4, 8])
    tree = MultipathRouter().tree(fabric, *ends, Operation.MULTICAST)
    assert tree.links.tolist() == ShortestPathRouter().tree(fabric, *ends, Operation.MULTICAST).links.tolist()


def two_servers() -> Fabric:
    """Return NPUs 0 and 1 on switch 4, 2 and 3 on switch 5; 0 and 2 are on switch 6, 3 has a link to 1."""
    ends = [(0, 4), (1, 4), (2, 5), (3, 5), (0, 6), (2, 6), (1, 3)]
    near, far = zip(*ends, *((far, near) for near, far in ends), strict=True)
    kinds = [NodeKind.NPU] * 4 + [NodeKind.SWITCH] * 3
    return Fabric("two servers", kinds, near, far, 1.0, 1.0, 0.0)


def nodes_of(fabric: Fabric, router: MultipathRouter, source: int, destination: int) -> set[int]:
    """Return the nodes that messages pass on the way."""
    routes = router.route(fabric, np.array([source]), np.array([destination]))
    return set(fabric.sources[routes.links].tolist()) - {source}


def test_npus_forward_only_where_there_is_no_other_way() -> None:
    fabric, router = two_servers(), MultipathRouter(through_npus=False)
    assert nodes_of(fabric, MultipathRouter(), 0, 3) == {1, 4}
    # 0 and 1 meet at a switch, 0 and 2 too; 1 and 3 are neighbours. 0 and 3 need an NPU between them.
    assert nodes_of(fabric, router, 0, 1) == {4}
    assert nodes_of(fabric, router, 0, 2) == {6}
    assert nodes_of(fabric, router, 1, 3) == set()
    assert nodes_of(fabric, router, 0, 3) == {1, 4}
    assert nodes_of(fabric, router, 2, 2) == set()


def test_npus_that_do_not_forward_leave_the_way_over_switches() -> None:
    # NPU 0 reaches NPU 2 over NPU 1, or over two switches, which is longer.
    ends = [(0, 1), (1, 2), (0, 3), (3, 4), (4, 2)]
    near, far = zip(*ends, *((far, near) for near, far in ends), strict=True)
    fabric = Fabric("any", [NodeKind.NPU] * 3 + [NodeKind.SWITCH] * 2, near, far, 1.0, 1.0, 0.0)
    assert nodes_of(fabric, MultipathRouter(), 0, 2) == {1}
    assert nodes_of(fabric, MultipathRouter(through_npus=False), 0, 2) == {3, 4}


def test_each_pair_is_routed_alike_beside_others() -> None:
    fabric, router = two_servers(), MultipathRouter(through_npus=False)
    sources, destinations = np.repeat(np.arange(4), 4), np.tile(np.arange(4), 4)
    routes = router.route(fabric, sources, destinations)
    for flow, pair in enumerate(zip(sources.tolist(), destinations.tolist(), strict=True)):
        alone = router.path(fabric, *pair)
        part = slice(routes.offsets[flow], routes.offsets[flow + 1])
        assert routes.links[part].tolist() == alone.links.tolist()
        assert routes.latencies[flow] == alone.latencies[0]


@pytest.mark.parametrize(
    "fabric", [star(5, controllers=2), grid(4, 3), grid(4, 6, closed=True)], ids=lambda one: one.name
)
def test_it_keeps_the_contract_without_forwarding(fabric: Fabric) -> None:
    check_router(MultipathRouter(through_npus=False), fabric)
