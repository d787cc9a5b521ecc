from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, strategies as st

from fredfw import Fabric, FlowSet, Framework, Incidence, Operation, PluginManager, Routes, max_min
from fredfw.collectives import Pattern, ring_schedule
from fredfw.errors import UnsupportedError
from fredfw.simulation import FlowNetwork, Lowering, MaxMin, ScheduleRun
from fredfw.typing import FloatArray, IntArray
from fredfw_topology_fat_tree import EcmpRouter, FatTree, SprayRouter
from fredfw_topology_fat_tree.routing import pair_hash

GBPS40 = 5e9  # 40 Gbps in bytes per second
HOP = 500e-9
ROUTERS = [EcmpRouter(), SprayRouter()]


@st.composite
def fabrics(draw: st.DrawFn) -> Fabric:
    """Small fat trees of any shape, whole or not; latencies of 1."""
    levels = draw(st.integers(2, 4))
    radix = draw(st.sampled_from([2, 4, 6] if levels > 2 else [2, 3, 4, 5, 6]))
    up = draw(st.integers(1, radix // 2))
    tree = FatTree(radix=radix, levels=levels, oversubscription=radix / up - 1, link_latency=1.0)
    return evolve(tree, npus=draw(st.integers(1, min(tree.capacity, 40)))).build()


def all_pairs(fabric: Fabric) -> tuple[IntArray, IntArray]:
    return np.repeat(fabric.npus, len(fabric.npus)), np.tile(fabric.npus, len(fabric.npus))


def rates(fabric: Fabric, routes: Routes) -> FloatArray:
    priorities = np.zeros(len(routes), dtype=np.intp)
    return max_min(Incidence(routes.offsets, routes.links, routes.coefficients, None, priorities), fabric.bandwidths)


def load(fabric: Fabric, routes: Routes) -> FloatArray:
    """Flows on each link."""
    return np.bincount(routes.links, weights=routes.coefficients, minlength=len(fabric.sources)).astype(float)


def exchange(fabric: Fabric, routes: Routes, volume: float) -> float:
    """Seconds until all flows are delivered."""
    network = FlowNetwork(fabric, MaxMin())
    count = len(routes)
    network.start(FlowSet(routes, np.full(count, volume), np.zeros(count, dtype=np.intp), 1), lambda _: None)
    network.advance()
    return network.now


def test_paths_are_as_long_as_the_levels_they_climb() -> None:
    for router in ROUTERS:
        fabric = FatTree(npus=512).build()
        routes = router.route(fabric, np.zeros(5, dtype=np.intp), np.array([0, 15, 16, 255, 256]))
        assert routes.latencies == pytest.approx(HOP * np.array([0, 2, 4, 4, 6]))
    # Sprayed over 16 links up from the lowest switch, and 256 paths in all; the same down.
    assert np.diff(routes.offsets).tolist() == [0, 2, 2 * 17, 2 * 17, 2 * (1 + 16 + 256)]
    assert all(len(router.route(fabric, fabric.npus[:0], fabric.npus[:0])) == 0 for router in ROUTERS)


@given(fabrics())
def test_an_ecmp_path_is_one_of_the_shortest(fabric: Fabric) -> None:
    sources, destinations = all_pairs(fabric)
    routes = EcmpRouter().route(fabric, sources, destinations)
    lengths = dict(nx.all_pairs_shortest_path_length(nx.DiGraph(fabric.to_networkx())))
    assert routes.coefficients is None
    for flow, (source, destination) in enumerate(zip(sources.tolist(), destinations.tolist(), strict=True)):
        links = routes.links[routes.offsets[flow] : routes.offsets[flow + 1]]
        nodes = [source, *fabric.destinations[links].tolist()]
        assert fabric.sources[links].tolist() == nodes[:-1]
        assert nodes[-1] == destination
        assert len(links) == lengths[source][destination] == routes.latencies[flow]


@given(fabrics())
def test_spraying_uses_all_shortest_paths_alike(fabric: Fabric) -> None:
    sources, destinations = all_pairs(fabric)
    routes = SprayRouter().route(fabric, sources, destinations)
    assert routes.coefficients is not None
    graph = nx.DiGraph(fabric.to_networkx())
    pairs = zip(fabric.sources.tolist(), fabric.destinations.tolist(), strict=True)
    number = {pair: link for link, pair in enumerate(pairs)}
    for flow in range(0, len(sources), 7):
        part = slice(routes.offsets[flow], routes.offsets[flow + 1])
        share = dict(zip(routes.links[part].tolist(), routes.coefficients[part].tolist(), strict=True))
        assert len(share) == len(routes.links[part])
        paths = list(nx.all_shortest_paths(graph, int(sources[flow]), int(destinations[flow])))
        expected: dict[int, float] = {}
        for path in paths:
            for pair in nx.utils.pairwise(path):
                expected[number[pair]] = expected.get(number[pair], 0.0) + 1 / len(paths)
        assert share == pytest.approx(expected)
        # The latency is that of one path, not the sum over all links.
        assert routes.latencies[flow] == len(paths[0]) - 1


@pytest.mark.parametrize(("radix", "levels"), [(4, 2), (6, 3), (4, 4), (32, 3)])
def test_a_sprayed_permutation_does_not_block(radix: int, levels: int) -> None:
    tree = FatTree(radix=radix, levels=levels, routing="spray")
    fabric = evolve(tree, npus=min(tree.capacity, 512)).build()
    shuffled = np.random.default_rng(radix).permutation(fabric.npus)
    for destinations in (shuffled, fabric.npus[::-1], np.roll(fabric.npus, 1)):
        routes = fabric.defaults.router.route(fabric, fabric.npus, destinations)
        assert load(fabric, routes).max() <= 1 + 1e-12
        moves = destinations != fabric.npus
        assert rates(fabric, routes)[moves] == pytest.approx(GBPS40, rel=1e-12)


def test_4096_npus_exchange_at_line_rate_and_at_a_third_when_three_share_a_link_up() -> None:
    # Powers of two: nothing is rounded.
    fabric = FatTree(npus=4096, routing="spray").build()
    routes = fabric.defaults.router.route(fabric, fabric.npus, (fabric.npus + 2048) % 4096)
    assert (rates(fabric, routes) == GBPS40).all()
    assert len(routes.links) == 4096 * 2 * (1 + 16 + 256)
    thin = FatTree(npus=3072, oversubscription=3, routing="spray").build()
    routes = thin.defaults.router.route(thin, thin.npus, (thin.npus + 1536) % 3072)
    assert rates(thin, routes) == pytest.approx(GBPS40 / 3, rel=1e-12)
    # That is what the levels say.
    assert [level.bandwidth for level in thin.levels] == pytest.approx([GBPS40, GBPS40 / 3, GBPS40 / 3])


def test_the_hash_is_splitmix64() -> None:
    # First outputs of SplitMix64: seed 0 (Java's SplittableRandom, xoshiro's seeding), seed 1234567 (Rosetta Code).
    zero = np.zeros(2, dtype=np.intp)
    hashes = pair_hash(zero, np.array([0, 1234567]))
    assert hashes.tolist() == [0xE220A8397B1DCDAF, 6457827717110365317]


def test_ecmp_uses_all_ports_up_alike() -> None:
    fabric = FatTree(npus=1024).build()
    sources, destinations = all_pairs(fabric)
    far = sources // 256 != destinations // 256
    routes = EcmpRouter().route(fabric, sources[far], destinations[far])
    counts = load(fabric, routes)
    up = fabric.sources < fabric.destinations
    for first, last in ((1024, 1088), (1088, 1152)):  # 64 lowest switches, 64 middle ones
        links = (fabric.sources >= first) & (fabric.sources < last)
        for chosen in (up & links, ~up & (fabric.destinations >= first) & (fabric.destinations < last)):
            # 16 hosts per switch and 16 links: each carries the 768 flows of one host, if the hash is even. A binomial
            # count of 12288 draws at 1/16 has a standard deviation of 27, and 5 of them are rare among 1024 links.
            assert counts[chosen].mean() == 768
            assert abs(counts[chosen] - 768).max() < 5 * np.sqrt(12288 * 15 / 16**2)


@pytest.mark.parametrize("routing", ["ecmp", "spray"])
@pytest.mark.parametrize("oversubscription", [1, 3])
def test_an_all_to_all_never_beats_the_links_that_all_of_it_passes(routing: str, oversubscription: int) -> None:
    fabric = FatTree(radix=8, npus=64, oversubscription=oversubscription, routing=routing).build()
    size = 1e9
    found = Framework(PluginManager.discover()).simulate_collective(fabric, "all-to-all", size=size, algorithm="direct")
    # Oversubscribed, 6 NPUs share 2 links up for what they send beyond their lowest switch.
    bound = (63 if oversubscription == 1 else 3 * 58) / 64 * size / GBPS40
    assert found.duration > bound
    if routing == "spray":
        assert found.duration == pytest.approx(bound + 6 * HOP, rel=1e-9)


@pytest.mark.parametrize("routing", ["ecmp", "spray"])
@pytest.mark.parametrize(("npus", "hops"), [(16, 2), (256, 4), (1024, 6), (1000, 6)])
def test_a_ring_takes_its_closed_form(npus: int, hops: int, routing: str) -> None:
    # One flow enters a subtree and one leaves it, so no link is shared: 2 (n - 1) steps of size / n.
    fabric = FatTree(npus=npus, routing=routing).build()
    size = 1e9
    schedule = ring_schedule(Pattern.ALL_REDUCE, size, np.arange(npus)[:, None])
    network = FlowNetwork(fabric, MaxMin())
    ScheduleRun(network, Lowering(fabric), schedule, fabric.npus[None, :], lambda _: None, label="").start()
    network.advance()
    assert network.now == pytest.approx(2 * (npus - 1) * (size / npus / GBPS40 + hops * HOP), rel=1e-9)


@pytest.mark.parametrize(
    ("tree", "steps"),
    [
        # 8 NPUs below a lowest switch, 64 in a pod; 16 below a lowest switch that has 8 links up.
        (FatTree(radix=16, npus=512), [(1, 2)] * 3 + [(1, 4)] * 3 + [(1, 6)] * 3),
        (FatTree(radix=24, npus=256, levels=2, oversubscription=2), [(1, 2)] * 4 + [(2, 4)] * 4),
    ],
)
def test_recursive_doubling_takes_its_closed_form(tree: FatTree, steps: list[tuple[int, int]]) -> None:
    fabric, volume = evolve(tree, routing="spray").build(), 1e6
    for bit, (slowdown, hops) in enumerate(steps):
        routes = fabric.defaults.router.route(fabric, fabric.npus, fabric.npus ^ (1 << bit))
        took = exchange(fabric, routes, volume)
        assert took == pytest.approx(slowdown * volume / GBPS40 + hops * HOP, rel=1e-12)
        hashed = EcmpRouter().route(fabric, fabric.npus, fabric.npus ^ (1 << bit))
        assert exchange(fabric, hashed, volume) >= took * (1 - 1e-12)


def test_ecmp_is_no_faster_than_spraying() -> None:
    fabric = FatTree(npus=512).build()
    partner = fabric.npus ^ 256
    slow = rates(fabric, EcmpRouter().route(fabric, fabric.npus, partner))
    assert slow.min() < GBPS40
    assert slow.max() <= GBPS40
    assert (rates(fabric, SprayRouter().route(fabric, fabric.npus, partner)) == GBPS40).all()


@pytest.mark.parametrize("router", ROUTERS)
def test_a_stream_with_one_end_is_a_route(router: Any) -> None:
    fabric = FatTree(npus=512).build()
    ends = np.array([3]), np.array([400])
    for operation in (Operation.MULTICAST, Operation.REDUCE):
        tree, route = router.tree(fabric, *ends, operation), router.route(fabric, *ends)
        assert tree.links.tolist() == route.links.tolist()
        assert tree.latencies.tolist() == route.latencies.tolist()
        none = router.tree(fabric, ends[0], ends[0], operation)
        assert (len(none), len(none.links), none.latencies.tolist()) == (1, 0, [0.0])


@pytest.mark.parametrize("router", ROUTERS)
def test_plain_switches_carry_no_streams(router: Any) -> None:
    fabric = FatTree(npus=512).build()
    root, others = np.array([0]), np.array([1, 300])
    with pytest.raises(UnsupportedError, match=r"L1\.0 of fabric '512-NPU fat tree' cannot copy"):
        router.tree(fabric, root, others, Operation.MULTICAST)
    with pytest.raises(UnsupportedError, match=r"L1\.0 of fabric '512-NPU fat tree' cannot combine"):
        router.tree(fabric, others, root, Operation.REDUCE)
    with pytest.raises(UnsupportedError, match="no all-reduce tree"):
        router.tree(fabric, others, others, Operation.ALL_REDUCE)


@given(fabrics(), st.data())
def test_switches_that_can_carry_a_stream_as_a_tree(fabric: Fabric, data: st.DataObject) -> None:
    fabric = evolve(fabric, copies=True, reduces=True)
    npu = st.sampled_from(fabric.npus.tolist())
    root, leaves = data.draw(npu), data.draw(st.lists(npu, min_size=1, unique=True))
    router, ends = EcmpRouter(), (np.array([root]), np.array(leaves))
    for operation in (Operation.MULTICAST, Operation.REDUCE):
        reverse = operation is Operation.REDUCE
        tree = router.tree(fabric, *(ends[::-1] if reverse else ends), operation)
        near, far = (fabric.destinations, fabric.sources) if reverse else (fabric.sources, fabric.destinations)
        graph: nx.DiGraph[int] = nx.DiGraph()
        graph.add_node(root)
        graph.add_edges_from(zip(near[tree.links].tolist(), far[tree.links].tolist(), strict=True))
        # A tree from the root whose leaves are the ends, each as near as it can be.
        assert nx.is_arborescence(graph)
        assert {node for node in graph if not graph.out_degree(node)} | {root} == {*leaves, root}
        depths = nx.single_source_shortest_path_length(graph, root)
        lengths = nx.single_source_shortest_path_length(nx.DiGraph(fabric.to_networkx()), root)
        assert all(depths[leaf] == lengths[leaf] for leaf in leaves)
        assert tree.latencies.tolist() == [max(depths.values())]
        again = router.tree(fabric, *((ends[1][::-1], ends[0]) if reverse else (ends[0], ends[1][::-1])), operation)
        assert again.links.tolist() == tree.links.tolist()


@pytest.mark.parametrize("router", ROUTERS)
@pytest.mark.parametrize(
    ("kinds", "pairs"),
    [
        # One NPU alone; a ring; two that are not joined; a link down that is missing; a switch below hosts; ever wider.
        ([0], []),
        ([0, 0, 0], [(0, 1), (1, 0), (1, 2), (2, 1), (0, 2), (2, 0)]),
        ([0, 0], []),
        ([0, 0, 1], [(0, 2), (1, 2), (2, 0)]),
        ([1, 0, 0], [(1, 0), (2, 0), (0, 1), (0, 2)]),
        ([0] * 90, [(a, b) for a in range(90) for b in range(90) if 0 < abs(a - b) < 4]),
    ],
)
def test_the_routers_refuse_what_is_no_fat_tree(router: Any, kinds: list[int], pairs: list[tuple[int, int]]) -> None:
    ends = np.array(pairs, dtype=np.intp).reshape(-1, 2)
    fabric = Fabric("knot", kinds, ends[:, 0], ends[:, 1], 1.0, 0.0, 0.0)
    with pytest.raises(UnsupportedError, match="'knot' is not a fat tree"):
        router.route(fabric, np.array([0]), np.array([0]))


def test_paths_join_hosts() -> None:
    fabric = FatTree(npus=32).build()
    with pytest.raises(UnsupportedError, match="begin and end at hosts"):
        fabric.defaults.router.route(fabric, np.array([0]), np.array([32]))
