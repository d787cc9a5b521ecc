from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, ClassVar

import networkx as nx
import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, strategies as st

import fredfw_topology_optical_ring
from fredfw import Fabric, Level, Operation, Routes
from fredfw.errors import InputError, UnsupportedError
from fredfw.testing import AdmissionTests, RouterTests, TopologyTests
from fredfw_topology_optical_ring import OpticalRing, ShortestArcRouter


@pytest.mark.parametrize("npus", [2, 3, 64])
def test_each_npu_has_a_link_to_both_sides(npus: int) -> None:
    fabric = OpticalRing(npus=npus).build()
    ends = list(zip(fabric.sources.tolist(), fabric.destinations.tolist(), strict=True))
    assert ends[:npus] == [(one, (one + 1) % npus) for one in range(npus)]
    assert ends[npus:] == [(one, (one - 1) % npus) for one in range(npus)]
    assert fabric.coordinates is not None
    assert fabric.coordinates.ravel().tolist() == fabric.npus.tolist() == list(range(npus))


def test_the_defaults_are_those_of_the_published_comparison_and_all_wavelengths_a_links_bandwidth() -> None:
    ring = OpticalRing()
    assert (ring.line_rate, ring.reconfiguration, ring.pay, ring.stripe) == (5e9, 25e-6, "every-step", False)
    assert (ring.hop_latency, ring.oeo_latency) == (0.0, 0.0)
    fabric = ring.build()
    assert (fabric.offers.circuits, fabric.offers.reduces, fabric.offers.multicasts) == (True, False, False)
    fabric = OpticalRing(
        npus=4, waveguides=2, wavelengths=16, line_rate=40e9, hop_latency=1.0, oeo_latency=2.0, link_energy=3.0
    ).build()
    assert fabric.levels == (Level(4, "ring", 32 * 40e9, 3.0, two_way=True, lanes=32),)
    assert np.unique(fabric.bandwidths).tolist() == [32 * 40e9]
    assert np.unique(fabric.latencies).tolist() == [1.0]
    assert np.unique(fabric.energies).tolist() == [3.0]


@pytest.mark.parametrize(
    ("field", "value"),
    [("npus", 1), ("laser_power", np.nan), ("laser_power", 0.0), ("receiver_sensitivity", -20.0), ("node_loss", 0.1)],
)
def test_bad_input_names_key_and_what_is_accepted(field: str, value: Any) -> None:
    with pytest.raises(InputError, match=rf"^{field}: .* \(accepted: "):
        OpticalRing(**{field: value})


def test_a_budget_for_less_than_one_hop_is_refused() -> None:
    budget: dict[str, Any] = {"laser_power": 0.0, "receiver_sensitivity": -3.0, "coupler_loss": 2.0}
    OpticalRing(drop_loss=1.0, **budget)
    message = r"^laser_power: .* one hop loses 3\.5 dB, laser and receiver have 3 dB between them"
    with pytest.raises(InputError, match=message):
        OpticalRing(drop_loss=1.5, **budget)


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


def test_two_nodes_have_two_links_each_way_and_latency_is_propagation_and_conversion() -> None:
    fabric = ring(2)
    assert list(zip(fabric.sources.tolist(), fabric.destinations.tolist(), strict=True)) == [(0, 1), (1, 0)] * 2
    # Link 0 is clockwise from 0 to 1, link 3 counter-clockwise from 1 to 0.
    assert fabric.defaults.router.route(fabric, np.array([0, 1]), np.array([1, 0])).links.tolist() == [0, 3]
    assert len(fabric.defaults.router.route(fabric, fabric.npus[:0], fabric.npus[:0])) == 0
    fabric = ring(8, hop_latency=1.0, oeo_latency=10.0)
    routes = fabric.defaults.router.route(fabric, np.array([0, 0, 0]), np.array([0, 3, 7]))
    assert routes.latencies.tolist() == [0.0, 13.0, 11.0]


def test_trees_have_two_ends_and_other_fabrics_are_refused() -> None:
    fabric, root = ring(6), np.array([1])
    single = fabric.defaults.router.tree(fabric, root, np.array([5]), Operation.MULTICAST)
    assert nodes(fabric, single, 0) == [1, 0, 5]
    with pytest.raises(UnsupportedError, match="no multicast tree from 1 to 2 nodes"):
        fabric.defaults.router.tree(fabric, root, np.array([2, 3]), Operation.MULTICAST)
    fabric = ring(4)
    other = evolve(fabric, sources=fabric.sources[::-1], destinations=fabric.destinations[::-1])
    with pytest.raises(UnsupportedError, match=r"shortest-arc router cannot route .*accepted: a ring of"):
        ShortestArcRouter().route(other, np.array([0]), np.array([1]))


class TestOddRing(TopologyTests):
    plugin = fredfw_topology_optical_ring
    topologies = (
        OpticalRing(npus=9, hop_latency=5e-9, oeo_latency=1e-8, waveguides=2, stripe=True),
        OpticalRing(npus=7, wavelengths=2, pay="on-change", laser_power=10.0, receiver_sensitivity=-20.0),
    )


class TestEvenRing(TopologyTests):
    plugin = fredfw_topology_optical_ring
    topologies = (OpticalRing(), OpticalRing(npus=2), OpticalRing(npus=8, shortage="refuse"))
    expected_failures: ClassVar[Mapping[str, str]] = {
        "routes_do_not_depend_on_the_batch": "flows half way round alternate, so that both directions are used alike"
    }


class TestWavelengths(AdmissionTests):
    plugin = fredfw_topology_optical_ring
    topologies = (
        OpticalRing(npus=12, wavelengths=4, stripe=True),
        OpticalRing(npus=16, wavelengths=1, pay="on-change"),
        OpticalRing(npus=12, wavelengths=1, shortage="refuse"),
    )


class TestShortestArc(RouterTests):
    plugin = fredfw_topology_optical_ring
    routers = (ShortestArcRouter(), ShortestArcRouter(oeo_latency=1e-6))
    fabrics = (OpticalRing(npus=11).build(),)
