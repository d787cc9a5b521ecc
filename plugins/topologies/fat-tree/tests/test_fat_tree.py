import math
import re
from collections import Counter
from collections.abc import Mapping
from functools import partial
from itertools import pairwise, product
from typing import Any, ClassVar

import networkx as nx
import numpy as np
import pytest
from attrs import evolve
from fabrics import Run, everybody
from hypothesis import given, strategies as st

import fredfw_topology_fat_tree
from fredfw import Fabric, FlowSet, Framework, Level, Operation, Router
from fredfw.errors import InputError, UnsupportedError
from fredfw.testing import RouterTests, TopologyTests
from fredfw.typing import IntArray
from fredfw_topology_fat_tree import EcmpRouter, FatTree, SprayRouter
from fredfw_topology_fat_tree.structure import pair_hash

GBPS40 = 5e9  # 40 Gbps in bytes per second
HOP = 500e-9
ROUTERS = [EcmpRouter(), SprayRouter()]


@st.composite
def trees(draw: st.DrawFn) -> FatTree:
    levels = draw(st.integers(2, 4))
    radix = draw(st.sampled_from([2, 4, 6] if levels > 2 else [2, 3, 4, 5, 6]))
    up = draw(st.integers(1, radix // 2))
    down = draw(st.integers(up, radix - up))  # fewer than the others leaves ports free
    tree = FatTree(radix=radix, levels=levels, oversubscription=down / up, link_latency=1.0)
    return evolve(tree, npus=draw(st.integers(1, min(tree.capacity, 60))))


def ends(sources: IntArray, destinations: IntArray) -> tuple[list[int], list[int]]:
    return sources.tolist(), destinations.tolist()


def exchange(fabric: Fabric, router: Router, bit: int, volume: float) -> float:
    """The seconds until everybody has got so much from the NPU whose number differs in one bit."""
    routes, count = router.route(fabric, fabric.npus, fabric.npus ^ (1 << bit)), len(fabric.npus)
    return Run(fabric, FlowSet(routes, np.full(count, volume), np.zeros(count, dtype=np.intp), 1)).last[0]


@given(trees().map(FatTree.build))
def test_an_ecmp_path_is_one_of_the_shortest(fabric: Fabric) -> None:
    sources, destinations = everybody(fabric)
    routes = EcmpRouter().route(fabric, sources, destinations)
    lengths = dict(nx.all_pairs_shortest_path_length(nx.DiGraph(fabric.to_networkx())))
    expected = [lengths[source][destination] for source, destination in zip(*ends(sources, destinations), strict=True)]
    # The kit checks that they lead to the destinations.
    assert np.diff(routes.offsets).tolist() == routes.latencies.tolist() == expected
    assert routes.coefficients is None
    assert all(len(router.route(fabric, fabric.npus[:0], fabric.npus[:0])) == 0 for router in ROUTERS)


@given(trees().map(FatTree.build))
def test_spraying_uses_all_shortest_paths_alike(fabric: Fabric) -> None:
    sources, destinations = everybody(fabric)
    routes = SprayRouter().route(fabric, sources, destinations)
    assert routes.coefficients is not None
    graph = nx.DiGraph(fabric.to_networkx())
    pairs = list(zip(*ends(fabric.sources, fabric.destinations), strict=True))
    for flow in range(0, len(sources), 7):
        part = slice(routes.offsets[flow], routes.offsets[flow + 1])
        links = [pairs[link] for link in routes.links[part].tolist()]
        assert len(set(links)) == len(links)
        paths = list(nx.all_shortest_paths(graph, int(sources[flow]), int(destinations[flow])))
        taken = Counter(pair for path in paths for pair in pairwise(path))
        expected = {pair: times / len(paths) for pair, times in taken.items()}
        assert dict(zip(links, routes.coefficients[part].tolist(), strict=True)) == pytest.approx(expected)
        # The latency is that of one path, not the sum over all links.
        assert routes.latencies[flow] == len(paths[0]) - 1


def test_the_hash_is_splitmix64() -> None:
    # First outputs of SplitMix64: seed 0 (Java's SplittableRandom, xoshiro's seeding), seed 1234567 (Rosetta Code).
    hashes = pair_hash(np.zeros(2, dtype=np.intp), np.array([0, 1234567]))
    assert hashes.tolist() == [0xE220A8397B1DCDAF, 6457827717110365317]


@pytest.mark.parametrize("routing", ["ecmp", "spray"])
@pytest.mark.parametrize("oversubscription", [1, 3])
def test_an_all_to_all_never_beats_the_links_that_all_of_it_passes(routing: str, oversubscription: int) -> None:
    fabric = FatTree(radix=8, npus=64, oversubscription=oversubscription, routing=routing).build()
    size = 1e9
    found = Framework().simulate_collective(fabric, "all-to-all", size=size, algorithm="direct")
    # Oversubscribed, 6 NPUs share 2 links up for what they send beyond their lowest switch.
    bound = (63 if oversubscription == 1 else 3 * 58) / 64 * size / GBPS40
    assert found.duration > bound
    if routing == "spray":
        assert found.duration == pytest.approx(bound + 6 * HOP, rel=1e-9)


@pytest.mark.parametrize(
    ("tree", "steps"),
    [
        # 8 NPUs below a lowest switch, 64 in a pod; 16 below a lowest switch that has 8 links up.
        (FatTree(radix=16, npus=512), [(1, 2)] * 3 + [(1, 4)] * 3 + [(1, 6)] * 3),
        (FatTree(radix=24, npus=256, levels=2, oversubscription=2), [(1, 2)] * 4 + [(2, 4)] * 4),
    ],
)
def test_recursive_doubling_takes_its_closed_form(tree: FatTree, steps: list[tuple[int, int]]) -> None:
    fabric, volume = tree.build(), 1e6
    for bit, (slowdown, hops) in enumerate(steps):
        took, hashed = (exchange(fabric, router, bit, volume) for router in (SprayRouter(), EcmpRouter()))
        assert took == pytest.approx(slowdown * volume / GBPS40 + hops * HOP, rel=1e-12)
        # Below a lowest switch there is one path; beyond it two flows are hashed to one link.
        assert hashed > took if hops > 2 else hashed == pytest.approx(took, rel=1e-12)


@pytest.mark.parametrize("router", ROUTERS)
def test_a_stream_with_one_end_is_a_route_paths_join_hosts_and_there_is_no_all_reduce_tree(router: Any) -> None:
    fabric = FatTree(npus=512).build()
    one, other = np.array([3]), np.array([400])
    for operation in (Operation.MULTICAST, Operation.REDUCE):
        tree, route = router.tree(fabric, one, other, operation), router.route(fabric, one, other)
        assert tree.links.tolist() == route.links.tolist()
        assert tree.latencies.tolist() == route.latencies.tolist()
        none = router.tree(fabric, one, one, operation)
        assert (len(none), len(none.links), none.latencies.tolist()) == (1, 0, [0.0])
    with pytest.raises(UnsupportedError, match="begin and end at hosts"):
        router.route(fabric, one, np.array([512]))
    with pytest.raises(UnsupportedError, match="no all-reduce tree"):
        router.tree(fabric, fabric.npus, fabric.npus, Operation.ALL_REDUCE)


@pytest.mark.parametrize("operation", [Operation.MULTICAST, Operation.REDUCE])
@given(fabric=trees().map(FatTree.build), data=st.data())
def test_switches_that_can_carry_a_stream_as_a_tree(fabric: Fabric, data: st.DataObject, operation: Operation) -> None:
    def ordered(one: IntArray, other: IntArray) -> tuple[IntArray, IntArray]:
        return (one, other) if operation is Operation.MULTICAST else (other, one)

    fabric = evolve(fabric, copies=True, reduces=True)
    npu = st.sampled_from(fabric.npus.tolist())
    root, leaves = data.draw(npu), data.draw(st.lists(npu, min_size=1, unique=True))
    tree, again = (
        EcmpRouter().tree(fabric, *ordered(np.array([root]), np.array(order)), operation)
        for order in (leaves, leaves[::-1])
    )
    assert again.links.tolist() == tree.links.tolist()
    near, far = ordered(fabric.sources, fabric.destinations)
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_node(root)
    graph.add_edges_from(zip(*ends(near[tree.links], far[tree.links]), strict=True))
    # A tree from the root whose leaves are the ends, each as near as it can be.
    assert nx.is_arborescence(graph)
    assert {node for node in graph if not graph.out_degree(node)} | {root} == {*leaves, root}
    depths = nx.single_source_shortest_path_length(graph, root)
    lengths = nx.single_source_shortest_path_length(nx.DiGraph(fabric.to_networkx()), root)
    assert all(depths[leaf] == lengths[leaf] for leaf in leaves)
    assert tree.latencies.tolist() == [max(depths.values())]


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


def slow_links(tree: FatTree) -> set[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """The links up of the whole tree, from below to above.

    A node is its level, the place of its subtree in the one above, in the one above that, and so on, and the port taken
    at each level on the way up to it.
    """
    down = [tree.down_ports, *[tree.radix // 2] * (tree.levels - 2), tree.radix]
    up = [1, tree.up_ports, *[tree.radix // 2] * (tree.levels - 2)]
    return {
        ((level, place, ports[:-1]), (level + 1, place[1:], ports))
        for level in range(tree.levels)
        for place in product(*map(range, down[level:]))
        for ports in product(*map(range, up[: level + 1]))
    }


def test_the_defaults_are_the_electrical_baseline_of_wrht() -> None:
    # WRHT (arXiv 2207.10982) and what is assumed there: three levels of 32 ports hold 8,192 hosts; 40 Gbps and 500 ns.
    assert FatTree().capacity == 8192
    fabric = FatTree(npus=4096).build()
    # 16 of 32 pods, each of 16 lowest and 16 middle switches; all 256 switches of the top level.
    assert np.bincount(fabric.kinds).tolist() == [4096, 16 * 16 + 16 * 16 + 256]
    assert len(fabric.sources) == 2 * 3 * 4096
    for per_link, value in ((fabric.bandwidths, GBPS40), (fabric.latencies, HOP), (fabric.energies, 0.0)):
        assert np.unique(per_link).tolist() == [value]
    assert fabric.levels == tuple(Level(16, "switch", GBPS40, latency) for latency in (1e-6, 2e-6, 3e-6))
    assert fabric.name == "4096-NPU fat tree"
    assert fabric.defaults.router == SprayRouter()
    assert FatTree(routing="ecmp").build().defaults.router == EcmpRouter()
    assert len(FatTree().build().npus) == 64


def test_it_has_up_to_32_levels() -> None:
    assert FatTree(radix=4, levels=32).capacity == 2**33
    # A switch of two ports has one port down, but both at the top: 31 switches above each of two NPUs, and the top.
    fabric = FatTree(radix=2, levels=32).build()
    assert np.bincount(fabric.kinds).tolist() == [2, 2 * 31 + 1]
    assert [level.size for level in fabric.levels] == [1] * 31 + [2]
    assert fabric.defaults.router.path(fabric, 0, 1).latencies.tolist() == pytest.approx([64 * HOP])


@pytest.mark.parametrize(
    ("radix", "levels", "ratio", "down", "up"),
    [
        (32, 3, 2, 20, 10),
        (64, 3, 1.66667, 40, 24),
        # The facts about WRHT: two levels of 32 ports hold at most 992 hosts, 31 below each of 32 switches.
        (32, 2, 31, 31, 1),
        # An odd radix has no halves, but two levels need none.
        (5, 2, 1.5, 3, 2),
    ],
)
def test_a_ratio_is_exact_and_leaves_ports_free(radix: int, levels: int, ratio: float, down: int, up: int) -> None:
    tree = FatTree(radix=radix, levels=levels, oversubscription=ratio)
    assert (tree.down_ports, tree.up_ports) == (down, up)
    assert tree.capacity == down * (radix // 2) ** (levels - 2) * radix


@given(trees())
def test_it_is_the_part_of_the_whole_tree_that_its_npus_can_use(tree: FatTree) -> None:
    whole = nx.DiGraph(list(slow_links(tree)))
    in_order = sorted(whole, key=lambda node: (node[0], node[1][::-1], node[2]))
    hosts = [node for node in in_order if node[0] == 0]
    assert len(hosts) == tree.capacity
    used = set(hosts[: tree.npus])
    used |= {above for host in used for above in nx.descendants(whole, host)}
    height = next(level for level in range(1, 5) if len({place for one, place, _ in used if one == level}) == 1)
    nodes = [node for node in in_order if node in used and node[0] <= height]
    number = {node: index for index, node in enumerate(nodes)}
    fabric = tree.build()
    assert len(fabric.kinds) == len(nodes)
    counts = Counter("npu" if level == 0 else f"L{level}." for level, _, _ in nodes)
    names = [f"{name}{one}" for name, count in counts.items() for one in range(count)]
    assert [fabric.node_name(node) for node in range(len(nodes))] == names
    up = {(a, b) for a, b, _ in fabric.to_networkx().edges if a < b}
    assert up == {(number[a], number[b]) for a, b in whole.subgraph(nodes).edges}


@given(trees())
def test_levels_describe_trees_that_are_evenly_filled(tree: FatTree) -> None:
    fabric = tree.build()
    npus = len(fabric.npus)
    # Smallest subtree that holds everyone, and the subtrees just below its tops.
    sizes = [tree.down_ports, *[tree.radix // 2] * (tree.levels - 2), tree.radix]
    height = next(one for one in range(1, tree.levels + 1) if math.prod(sizes[:one]) >= npus)
    part = math.prod(sizes[: height - 1])
    # The kit checks how fast they are.
    expected = [] if npus % part else [*sizes[: height - 1], npus // part]
    assert [(level.size, level.kind) for level in fabric.levels] == [(size, "switch") for size in expected]
    assert (fabric.coordinates is None) == (npus % part > 0)


@pytest.mark.parametrize(
    ("fields", "key", "message", "accepted"),
    [
        ({"radix": 5}, "radix", "5 ports cannot be half up, half down", "even"),
        # Before they are listed.
        *(({"levels": levels}, "levels", f"{levels} levels of switches", "2 to 32") for levels in (33, 2**63 - 1)),
        ({"npus": 8193}, "npus", "8193 NPUs do not fit 3 levels of switches with 32 ports", "1 to 8192"),
        ({"npus": 993, "levels": 2, "oversubscription": 31}, "npus", "31 of them down", "1 to 992"),
        ({"oversubscription": 63}, "oversubscription", "32 ports cannot be divided into ports down", "1 to 31"),
        ({"oversubscription": 3.001}, "oversubscription", "ports up at 3.001 to 1", "whose sum is at most 32"),
    ],
)
def test_bad_input_names_key_value_and_what_is_accepted(
    fields: dict[str, Any], key: str, message: str, accepted: str
) -> None:
    with pytest.raises(InputError, match=rf"^{key}: .*{re.escape(message)}.* \(accepted: .*{accepted}"):
        FatTree(**fields)


@pytest.mark.parametrize(
    ("npus", "group", "said"), [(64, 16, "slows nothing"), (64, 32, ""), (16, 16, "changes nothing")]
)
def test_an_oversubscription_that_slows_nothing_says_so(npus: int, group: int, said: str) -> None:
    """Lowest switches have 16 NPUs, or 24 for 8 links up: the ring stays below one, or does not."""
    fabrics = [FatTree(npus=npus, oversubscription=ratio).build() for ratio in (1.0, 3.0)]
    simulate = partial(Framework().simulate_collective, pattern="all-reduce", size=1e6, algorithm="ring")
    one, three = (simulate(fabric, group=range(group)) for fabric in fabrics)
    assert one.notes == ()
    assert [said in note for note in three.notes] == [True] * bool(said)
    assert (three.duration == one.duration) or not said


class TestFatTree(TopologyTests):
    plugin = fredfw_topology_fat_tree
    topologies = (
        FatTree(),
        FatTree(radix=4),
        FatTree(radix=4, npus=13),
        FatTree(radix=4, npus=1),
        FatTree(radix=8, levels=2, oversubscription=2.0),
        FatTree(radix=8, npus=96, oversubscription=3.0),
        FatTree(radix=8, npus=100, routing="ecmp"),
    )


class TestEcmp(TopologyTests):
    plugin = fredfw_topology_fat_tree
    topologies = (FatTree(radix=4, routing="ecmp"),)
    expected_failures: ClassVar[Mapping[str, str]] = {
        "levels_are_as_fast_as_they_say": "they promise an even share of the links up; ECMP puts two flows on one link"
    }


class TestRouters(RouterTests):
    plugin = fredfw_topology_fat_tree
    routers = (EcmpRouter(), SprayRouter())
    fabrics = (FatTree(radix=4).build(), FatTree(radix=6, levels=2, npus=11).build())
