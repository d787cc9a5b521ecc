from __future__ import annotations

from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, strategies as st

from fredfw import Fabric, Operation, Routes
from fredfw.errors import UnsupportedError
from fredfw_topology_optical_ring import OpticalRing, ShortestArcRouter


def ring(npus: int, **fields: Any) -> Fabric:
    return OpticalRing(npus=npus, **fields).build()


def nodes(fabric: Fabric, routes: Routes, flow: int) -> list[int]:
    links = routes.links[routes.offsets[flow] : routes.offsets[flow + 1]]
    ends = list(zip(fabric.sources[links].tolist(), fabric.destinations[links].tolist(), strict=True))
    assert all(one[1] == other[0] for one, other in pairwise(ends))
    return [source for source, _ in ends] + [ends[-1][1]] if ends else []


@given(st.integers(2, 12))
def test_routes_are_shortest_paths(npus: int) -> None:
    fabric = ring(npus)
    sources, destinations = np.repeat(fabric.npus, npus), np.tile(fabric.npus, npus)
    routes = fabric.defaults.router.route(fabric, sources, destinations)
    lengths = dict(nx.all_pairs_shortest_path_length(nx.cycle_graph(npus)))
    for flow, (source, destination) in enumerate(zip(sources.tolist(), destinations.tolist(), strict=True)):
        path = nodes(fabric, routes, flow)
        if source == destination:
            assert path == []
            continue
        assert (path[0], path[-1], len(path) - 1) == (source, destination, lengths[source][destination])


def test_ties_alternate_in_order_of_their_sources() -> None:
    fabric = ring(8)
    sources = np.array([6, 1, 3, 0, 1, 2])
    routes = fabric.defaults.router.route(fabric, sources, np.array([2, 5, 4, 4, 5, 6]))
    clockwise = routes.links[routes.offsets[:-1]] < 8
    # 3 -> 4 is no tie. The others by source: 0, 1 (the first of them), 1, 2, 6.
    assert clockwise.tolist() == [True, False, True, True, True, False]


def test_two_nodes_have_two_links_each_way() -> None:
    fabric = ring(2)
    assert list(zip(fabric.sources.tolist(), fabric.destinations.tolist(), strict=True)) == [(0, 1), (1, 0)] * 2
    routes = fabric.defaults.router.route(fabric, np.array([0, 1]), np.array([1, 0]))
    # Link 0 is clockwise from 0 to 1, link 3 counter-clockwise from 1 to 0.
    assert routes.links.tolist() == [0, 3]


def test_latency_is_propagation_and_conversion() -> None:
    fabric = ring(8, hop_latency=1.0, oeo_latency=10.0)
    routes = fabric.defaults.router.route(fabric, np.array([0, 0, 0]), np.array([0, 3, 7]))
    assert routes.latencies.tolist() == [0.0, 13.0, 11.0]


def test_nothing_is_routed_to_nothing() -> None:
    fabric, none = ring(4), np.zeros(0, dtype=np.intp)
    routes = fabric.defaults.router.route(fabric, none, none)
    assert (len(routes), routes.links.tolist()) == (0, [])


def test_trees_have_two_ends() -> None:
    fabric, root = ring(6), np.array([1])
    single = fabric.defaults.router.tree(fabric, root, np.array([5]), Operation.MULTICAST)
    assert nodes(fabric, single, 0) == [1, 0, 5]
    with pytest.raises(UnsupportedError, match="no multicast tree from 1 to 2 nodes"):
        fabric.defaults.router.tree(fabric, root, np.array([2, 3]), Operation.MULTICAST)


def test_other_fabrics_are_refused() -> None:
    fabric = ring(4)
    other = evolve(fabric, sources=fabric.sources[::-1], destinations=fabric.destinations[::-1])
    with pytest.raises(UnsupportedError, match=r"shortest-arc router cannot route .*accepted: a ring of"):
        ShortestArcRouter().route(other, np.array([0]), np.array([1]))
