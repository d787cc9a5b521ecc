import inspect
import re
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import networkx as nx
import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, strategies as st

import fredfw_topology_cluster
from fredfw import Capabilities, Fabric, Framework, Npu, Operation, Topology
from fredfw.errors import InputError, LimitError, UnsupportedError
from fredfw.fabric import IdealTransport
from fredfw.testing import TopologyTests
from fredfw_topology_cluster import Cluster
from fredfw_topology_cluster.network import KINDS
from fredfw_topology_cluster.presets import table
from fredfw_topology_fat_tree import FatTree
from fredfw_topology_fully_connected import FullyConnected
from fredfw_topology_switch import Switch
from fredfw_topology_torus import Torus

FRAMEWORK = Framework()
GB = 1e9
INSTANT: dict[str, Any] = {"nic_latency": 0.0, "link_latency": 0.0}


def nvswitch(npus: int = 8, **fields: Any) -> Switch:
    return Switch(npus=npus, link_bandwidth=450 * GB, link_latency=0.0, **fields)


def seconds(topology: Topology, pattern: str, size: float = 1 * GB, **options: Any) -> float:
    return FRAMEWORK.simulate_collective(topology.build(), pattern, size=size, **options).duration


def sizes(fabric: Fabric) -> list[tuple[str, int]]:
    return [(level.name, level.size) for level in fabric.levels]


def names(fabric: Fabric, source: str, destination: str) -> list[str]:
    known = {fabric.node_name(node): node for node in range(len(fabric.kinds))}
    routes = fabric.defaults.router.path(fabric, known[source], known[destination])
    return [source, *(fabric.node_name(int(fabric.destinations[link])) for link in routes.links)]


def test_presets_are_documented_with_what_is_uncertain() -> None:
    page = inspect.getdoc(Cluster) or ""
    for name, entry in table().items():
        assert re.search(rf"[ ,]{name}[ ,;\n]", page)
        assert entry["source"]
        doubts = [one.partition(":")[0] for one in entry.get("uncertain", [])]
        assert set(doubts) < set(entry)
        assert Npu.of(entry["npu"]).memory > 0


@pytest.mark.parametrize(
    ("preset", "npus", "inside", "outside"),
    [
        ("dgx-a100", 8, 300, 25),
        ("dgx-h100", 8, 450, 50),
        ("hgx-b200", 8, 900, 50),
        ("gb200-nvl72", 72, 900, 50),
        ("mi300x", 8, 448, 50),
        ("tpu-v4", 4096, 300, 6.25),
        ("tpu-v5p", 8960, 600, 6.25),
        ("trainium2", 16, 640, 25),
        ("gaudi3", 8, 525, 75),
    ],
)
def test_presets_have_the_bandwidths_of_their_sources(preset: str, npus: int, inside: float, outside: float) -> None:
    """GB/s of an NPU to the others of its node, and to other nodes."""
    fabric = Cluster(preset=preset, nodes=2).build()
    assert len(fabric.npus) == 2 * npus
    *within, between = fabric.levels
    assert sum(level.total_bandwidth for level in within) == pytest.approx(inside * GB, rel=1e-12)
    assert (between.size, between.bandwidth) == (2, outside * GB)


def test_what_is_given_takes_the_place_of_the_presets_also_by_name() -> None:
    given_nic = Cluster(nodes=4, nic="800 Gbps")  # type: ignore[arg-type]  # text, as in a file
    assert [level.bandwidth for level in given_nic.build().levels] == [450 * GB, 100 * GB]
    network = Cluster(preset="gb200-nvl72", nodes=4, node=nvswitch(4)).router.network
    assert (network.nics, network.rails) == (4, 4)
    assert Cluster(preset="gb200-nvl72", nodes=4).router.network.rails == 4
    assert Cluster(preset="gb200-nvl72", nodes=4, nics=36, radix=128).router.network.rails == 36
    node = {"name": "torus", "dimensions": [2, 2], "link_bandwidth": "1 GB/s"}
    one = FRAMEWORK.topology("cluster", nodes=2, node=node)
    assert one == Cluster(nodes=2, node=Torus((2, 2), link_bandwidth=(1e9,)))
    with pytest.raises(InputError, match=r"node.dimension: unknown key; did you mean 'dimensions'"):
        FRAMEWORK.topology("cluster", node={"name": "torus", "dimension": 3})


def test_leaf_i_serves_nic_i_of_every_node_of_a_pod() -> None:
    fabric = Cluster(nodes=6, radix=8, routing="ecmp", nics=4).build()  # leaves of 4 down, so pods of 3
    assert sizes(fabric) == [("node", 8), ("spine", 6)]
    links = map(fabric.link_name, range(len(fabric.sources)))
    up = {f"node{node}.nic{nic}->leaf{node // 3 * 4 + nic}" for node in range(6) for nic in range(4)}
    assert {name for name in links if re.fullmatch(r"node.\.nic.->leaf.", name)} == up


@pytest.mark.parametrize(
    ("fields", "way"),
    [
        # A leaf serves NIC 0 of every node of a pod.
        ({"nodes": 6, "radix": 8, "routing": "ecmp", "nics": 4}, "node0.npu1 node0.nic0 leaf0 node2.nic0 node2.npu0"),
        # A fat tree has leaves for nodes.
        ({"nodes": 16, "network": "fat-tree"}, "node0.npu1 leaf0 node3.npu3"),
        ({"nodes": 16, "network": "fat-tree"}, "node0.npu1 leaf0 spines0 leaf1 node4.npu3"),
        # Rails alone are reached through the node.
        ({"nodes": 4, "network": "rail-only"}, "node0.npu2 rail2.leaf0 node3.npu2"),
        ({"nodes": 4, "network": "rail-only"}, "node0.npu2 node0.switch0 node0.npu5 rail5.leaf0 node3.npu5"),
        # NPUs that share a NIC leave by one of their place.
        (
            {"nodes": 2, "nics": 2, "network": "rail-only"},
            "node0.npu1 node0.switch0 node0.npu5 node0.nic1 rail1.leaf0 node1.nic1 node1.npu6",
        ),
        # A PCIe switch is on the way.
        (
            {"nodes": 2, "nics": 4, "pcie": 24e9, "pcie_npus": 4, "pxn": False},
            "node0.npu5 node0.pcie1 node0.root1 node0.nic2 leaf2 spines0 leaf0 node1.nic0 node1.root0 node1.pcie0 "
            "node1.npu0",
        ),
    ],
)
def test_ways_between_nodes(fields: dict[str, Any], way: str) -> None:
    nodes = way.split()
    assert names(Cluster(**fields).build(), nodes[0], nodes[-1]) == nodes


def test_levels_are_pods_and_what_they_share_or_all_nodes_where_nothing_is_slower_beyond_the_leaves() -> None:
    """Leaves of 4 ports down and 2 up; pods of 4 nodes, of which spines of 3 ports down connect two."""
    fields: dict[str, Any] = {"node": nvswitch(2), "network": "rail-only", "radix": 6, "oversubscription": 2.0}
    three = Cluster(nodes=32, **fields).build()
    assert sizes(three) == [("node", 2), ("rail", 4), ("spine", 2), ("core", 4)]
    assert [level.bandwidth for level in three.levels] == [450 * GB, 50 * GB, 25 * GB, 25 * GB]
    assert [level.latency for level in three.levels[1:]] == pytest.approx([1e-6, 2e-6, 3e-6])
    groups_differ = Cluster(nodes=28, **fields).build()
    assert sizes(groups_differ) == [("node", 2), ("rail", 4), ("core", 7)]
    pods_differ = Cluster(nodes=13, radix=16, oversubscription=3.0).build()
    assert (sizes(pods_differ), pods_differ.levels[1].bandwidth) == ([("node", 8), ("spine", 13)], 25 * GB)
    # Levels with the NICs in common cannot be busy at once, so two of them would mislead algorithms.
    shared = Cluster(nodes=48, nics=4, radix=16).build()
    assert (sizes(shared), shared.levels[1].bandwidth) == ([("node", 8), ("core", 48)], 25 * GB)
    assert shared.levels[1].latency == pytest.approx(3e-6)


@pytest.mark.parametrize(
    ("fields", "pxn"),
    [
        *(({"preset": preset}, preset == "dgx-a100") for preset in ("dgx-a100", "mi300x", "a3-high", "trainium2")),
        ({"node": nvswitch()}, False),
        ({"pxn": False}, False),
    ],
)
def test_messages_change_rails_in_their_node_where_the_library_does_so(fields: dict[str, Any], *, pxn: bool) -> None:
    fabric = Cluster(nodes=4, **{"network": "rail-optimised", **fields}).build()
    each = len(fabric.npus) // 4
    first, second = (fabric.node_name(int(fabric.npus[npu])) for npu in (2, 3 * each + 5))
    way = names(fabric, first, second)
    assert any("spine" in node for node in way) == (not pxn)
    assert any("node0.npu" in node for node in way[1:]) == pxn


@pytest.mark.parametrize(("pxn", "crossing"), [(False, 4 * 7 / 8), (True, 1.0)])
def test_messages_that_change_rails_in_their_node_need_no_spines(pxn: bool, crossing: float) -> None:
    """All-to-all: 56 of 64 parts go to other nodes. Of these 7 of 8 go to other rails, by a quarter of the links."""
    cluster = Cluster(nodes=8, node=nvswitch(), pxn=pxn, oversubscription=4.0, **INSTANT)
    took = seconds(cluster, "all-to-all", algorithm="direct")
    assert took == pytest.approx(crossing * 56 / 64 * GB / (50 * GB), rel=1e-9)


@pytest.mark.parametrize("nics", [3, 7, 12])
def test_nics_that_cannot_be_divided_are_shared_evenly(nics: int) -> None:
    """A ring over all NPUs sends as much as all NICs together do."""
    fabric, whole = (Cluster(nodes=2, nics=one, nic=8e9).build() for one in (nics, 8))
    rates = fabric.bandwidths[fabric.tiers == 1] / whole.bandwidths[whole.tiers == 1]
    assert rates == pytest.approx(np.full(len(rates), nics / 8))
    assert fabric.levels[-1].bandwidth == nics * 1e9
    assert fabric.notes == (f"each of the 8 NPUs of a node has an even share of its {nics} NICs",)
    assert not whole.notes


@pytest.mark.parametrize(("preset", "nodes"), [("dgx-h100", 2), ("dgx-a100", 40)])  # 40: two pods, and spines
def test_switches_between_nodes_reduce_with_sharp(preset: str, nodes: int) -> None:
    """Each NIC carries the buffer of its rail once up and once down at the same time, however many nodes there are."""
    fields: dict[str, Any] = {"preset": preset, "nodes": nodes, "radix": 40, "nic": 1e9, **INSTANT}
    fabric = Cluster(sharp=True, **fields).build().with_defaults(transport=IdealTransport())
    rail = [8 * node + 3 for node in range(nodes)]
    found = FRAMEWORK.simulate_collective(fabric, "all-reduce", size=1e9, group=rail)
    assert found.algorithm == "in-network"
    assert found.duration == pytest.approx(1.0, rel=1e-6)
    assert found.bound_ratio >= 1 - 1e-9
    # All NPUs: what a node reduces within goes through its NICs once.
    steps = ("in-network" if preset == "dgx-h100" else "direct", "in-network")
    by_level: dict[str, Any] = {"algorithm": "hierarchical", "chunks": 16, "steps": steps}
    whole = FRAMEWORK.simulate_collective(fabric, "all-reduce", size=8e9, **by_level)
    assert 1.0 <= whole.duration < 1.15
    assert whole.bound_ratio >= 1 - 1e-9


def test_an_npu_uses_all_its_nics_through_a_pcie_switch_that_limits_and_delays() -> None:
    alone = Cluster(nodes=1).build()
    assert (len(alone.kinds), [level.size for level in alone.levels]) == (9, [8])
    assert Cluster(nodes=1, node=nvswitch(in_network=True)).build().offers == Capabilities(True, True)
    fabric = Cluster(nodes=2, nics=32).build()
    routes = fabric.defaults.router.route(fabric, fabric.npus[:1], fabric.npus[8:9])
    assert routes.coefficients is not None
    assert routes.coefficients.tolist() == [0.25] * 8
    assert fabric.levels[1].bandwidth == 200e9
    level = Cluster(nodes=2, nics=4, pcie=24e9, pcie_npus=4, pcie_latency=2e-6).build().levels[1]
    assert level.bandwidth == 6e9
    assert level.latency == pytest.approx(2 * (2e-6 + 0.5e-6), rel=1e-12)


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    npus = draw(st.sampled_from([1, 2, 4]))
    return Cluster(
        nodes=draw(st.integers(2, 30)),
        node=FullyConnected(npus=npus),
        nics=draw(st.sampled_from([1, npus, 2 * npus])),
        network=draw(st.sampled_from(KINDS)),
        radix=draw(st.sampled_from([16, 18, 32])),
        oversubscription=draw(st.sampled_from([1.0, 2.0, 3.0])),
        routing="ecmp",
    )


@given(clusters())
def test_switches_have_as_many_ports_as_they_may(cluster: Cluster) -> None:
    fabric = cluster.build()
    assert cluster.radix is not None
    first = cluster.router.layout.first_switch
    up, down = (Counter[int](), Counter[int]())
    for source, destination in zip(fabric.sources.tolist(), fabric.destinations.tolist(), strict=True):
        if source >= first:
            (up if destination > source else down)[source] += 1
    assert all(up[node] + down[node] <= cluster.radix for node in range(first, len(fabric.kinds)))
    leaves = [node for node in up if "leaf" in fabric.node_name(node)]
    assert all(down[leaf] <= cluster.oversubscription * up[leaf] for leaf in leaves)
    assert sum(down.values()) - sum(up.values()) == cluster.nodes * cluster.router.network.nics


@given(clusters())
def test_routes_through_leaves_of_all_nics_of_a_node_are_the_shortest(cluster: Cluster) -> None:
    fabric = evolve(cluster, network="fat-tree", rails=1, radix=32).build()
    source, others = int(fabric.npus[0]), fabric.npus[1:]
    routes = fabric.defaults.router.route(fabric, np.full(len(others), source), others)
    graph = nx.DiGraph(list(zip(fabric.sources.tolist(), fabric.destinations.tolist(), strict=True)))
    hops = nx.single_source_shortest_path_length(graph, source)
    shares = np.ones(len(routes.links)) if routes.coefficients is None else routes.coefficients
    flow = np.repeat(np.arange(len(routes)), np.diff(routes.offsets))
    assert np.allclose(np.bincount(flow, shares, len(routes)), [hops[int(node)] for node in others])


@pytest.mark.parametrize(("ratio", "slower"), [(1.0, 1.0), (2.0, 2.0), (3.0, 3.0), (5.0, 4.0)])
def test_oversubscription_slows_what_crosses_pods(ratio: float, slower: float) -> None:
    """A ring whose every step goes to another pod. Pods of 4 instead of 5 are alike; they have their one link up."""
    cluster = Cluster(nodes=12, node=nvswitch(1), radix=8, oversubscription=ratio, network="fat-tree", **INSTANT)
    network = cluster.router.network
    up = network.tree.parents[1] * network.bundles[1]
    assert network.pod / up == pytest.approx(slower)
    across = np.arange(12).reshape(-1, network.pod).T.ravel()
    took = seconds(cluster, "all-gather", algorithm="ring", group=across.tolist())
    assert took == pytest.approx(11 / 12 * GB / (50 * GB) * slower, rel=1e-9)


HALF = "the leaves are oversubscribed 2 to 1, not 2.5 to 1: a leaf has 4 NICs and 2 links up"
NONE = "oversubscription = 4 changes nothing: each leaf has all nodes, and there are no spines"


@pytest.mark.parametrize(
    ("fields", "notes"),
    [
        # 12 ports at 2.5 are 5 for NICs and 2 up. Leaves of 4 NICs are alike, and need the 2 links up, too.
        *(({"radix": 12, "oversubscription": 2.5, "routing": one}, (HALF,)) for one in ("spray", "ecmp")),
        ({"nodes": 4, "oversubscription": 4.0}, (NONE,)),
        ({"nodes": 4}, ()),
        *(({"radix": 8, "oversubscription": ratio}, ()) for ratio in (1.0, 2.0, 3.0)),
    ],
)
def test_a_ratio_that_is_not_built_is_noted(fields: dict[str, Any], notes: tuple[str, ...]) -> None:
    assert Cluster(**{"nodes": 24, "node": nvswitch(1), "network": "fat-tree", **fields}).build().notes == notes


def test_what_must_be_known_of_a_node_must_be_known_of_the_cluster() -> None:
    node = FatTree(npus=8, oversubscription=3.0)  # which changes nothing
    (note,) = node.build().notes
    assert note in Cluster(nodes=2, node=node).build().notes


def test_spraying_is_that_of_the_fat_tree_and_other_rails_take_the_scale_up_network() -> None:
    """Links that packets use evenly are one link; the topology fat-tree has each of them."""
    cluster = Cluster(nodes=32, node=nvswitch(1), nic=5e9, radix=8, network="fat-tree", routing="spray")
    tree = FatTree(npus=32, radix=8, levels=2, link_bandwidth=5e9, link_latency=500e-9, routing="spray")
    for algorithm in ("direct", "ring"):
        expected = seconds(tree, "all-to-all", 1e6, algorithm=algorithm)
        assert seconds(cluster, "all-to-all", 1e6, algorithm=algorithm) == pytest.approx(expected, rel=1e-9)
    # All-to-all between 2 nodes: 8 of 16 parts cross, each over its own NIC; 7 of them first go to another NPU.
    cluster = Cluster(nodes=2, node=nvswitch(), network="rail-only", **INSTANT)
    assert seconds(cluster, "all-to-all", algorithm="direct") == pytest.approx(8 / 16 * GB / (50 * GB), rel=1e-9)


def test_trees_are_inside_of_nodes() -> None:
    fabric = Cluster(nodes=2, node=nvswitch(in_network=True)).build()
    router, npus = fabric.defaults.router, fabric.npus
    tree = router.tree(fabric, npus[9:10], npus[10:14], Operation.MULTICAST)
    down = {f"node1.switch0->node1.npu{npu}" for npu in range(2, 6)}
    assert {fabric.link_name(int(link)) for link in tree.links} == {"node1.npu1->node1.switch0"} | down
    with pytest.raises(UnsupportedError, match="neither copy nor combine"):
        router.tree(fabric, npus[:1], npus[4:14], Operation.MULTICAST)
    assert fabric.offered(npus) == Capabilities()
    assert fabric.offered(npus[8:]) == Capabilities(reduces=True, multicasts=True)


def test_switches_are_not_reached_from_other_nodes_nor_other_fabrics() -> None:
    fabric = Cluster(nodes=2).build()
    with pytest.raises(UnsupportedError, match="cannot route fabric 'switch of 4'"):
        fabric.defaults.router.path(Switch(npus=4).build(), 0, 1)
    with pytest.raises(UnsupportedError, match=r"node0.switch0 of fabric .* is not reached"):
        names(fabric, "node1.npu0", "node0.switch0")


@pytest.mark.parametrize(
    ("fields", "key", "message", "accepted"),
    [
        ({"preset": "dgx-h10"}, "preset", "'dgx-h10' is not known; did you mean 'dgx-h100'", "tpu-v5p"),
        ({"nodes": 10**6}, "nodes", "do not fit three levels", "1 to "),
        ({"node": "torus"}, "node", "'torus' is not a topology", "{ name = ..., ... }"),
        ({"node": FatTree(radix=2**40, npus=2**40)}, "node.npus", "nodes are too many", "at most"),
        ({"nics": 16, "sharp": True}, "sharp", "an NPU has 2 NICs", "at most 8 NICs"),
        ({"preset": "p5", "sharp": True}, "sharp", "the network of 'p5' is efa", "InfiniBand"),
        ({"network": "rail-only", "pxn": False}, "pxn", "rails that are not connected need it", "another network"),
        ({"rails": 3}, "rails", "3 rails do not divide the 8 NICs", "1, 2, 4, 8"),
        ({"nics": 24, "rails": 2}, "rails", "2 rails cannot be divided among the 3 NICs", "multiple of 3"),
        ({"radix": 4, "network": "fat-tree", "rails": 1}, "radix", "a node has 8 on each", "at least 16"),
        ({"radix": 8, "nodes": 9}, "radix", "cannot connect 8 rails", "at least 16"),
        ({"radix": 8, "oversubscription": 8}, "oversubscription", "cannot be divided into ports", "1 to 7"),
        ({"pcie_npus": 2}, "pcie_npus", "there is no PCIe switch", "pcie"),
        ({"pcie_latency": 1e-6}, "pcie_latency", "there is no PCIe switch", "pcie"),
        ({"pcie": 1e9, "pcie_npus": 3}, "pcie_npus", "3 NPUs at a PCIe switch do not divide", "1, 2, 4, 8"),
    ],
)
def test_mistakes_name_key_value_and_what_is_accepted(
    fields: dict[str, Any], key: str, message: str, accepted: str
) -> None:
    with pytest.raises(InputError, match=rf"^{key}: .*{message}.* \(accepted: .*{re.escape(accepted)}"):
        Cluster(**fields)


def test_the_inside_has_no_controllers_no_admission_and_not_too_many_nodes() -> None:
    with pytest.raises(InputError, match="node: 'mesh2d' has I/O controllers"):
        FRAMEWORK.topology("cluster", node="mesh2d")
    with pytest.raises(InputError, match="node: 'optical-ring' has an admission control"):
        FRAMEWORK.topology("cluster", node="optical-ring")
    assert len(FRAMEWORK.topology("cluster", node={"name": "mesh2d", "io_controllers": False}).build().npus) == 320
    with pytest.raises(LimitError, match=r"nodes: .* nodes are too many"):
        Cluster(preset="tpu-v5p", nodes=100_000, radix=2**40).build()


@pytest.mark.parametrize(("preset", "able"), [("dgx-a100", False), ("dgx-h100", True), ("hgx-b200", True)])
def test_nvswitches_reduce_within_a_node_from_the_third_generation_on(preset: str, *, able: bool) -> None:
    for nodes in (1, 3):
        fabric = Cluster(preset=preset, nodes=nodes).build()
        assert fabric.view(np.array([5, 2, 7])).capabilities == Capabilities(reduces=able, multicasts=able)
    assert fabric.view(np.array([1, 9])).capabilities == Capabilities()


def test_switches_of_nodes_combine_and_copy_in_a_collective_over_several_nodes() -> None:
    fabric, size = Cluster(preset="dgx-h100", nodes=2).build().with_defaults(transport=IdealTransport()), 1e9
    simulate = partial(FRAMEWORK.simulate_collective, fabric, "all-reduce", size=size, algorithm="hierarchical")
    result = simulate(steps=["in-network", "ring"])
    # Eight streams to one GPU each, and eight from one GPU each, all of an eighth; between them a ring of two NICs.
    assert result.duration == pytest.approx(2 * size / 450e9 + 2 * (size / 8 / 2) / 50e9, rel=1e-3)
    # No algorithm can do without the NICs, and what NVSwitches combine is no bound of its own.
    assert result.bound.seconds == pytest.approx(size / 8 / 50e9, rel=1e-3)
    with pytest.raises(UnsupportedError, match="does not combine and copy streams for this group along a switch level"):
        simulate(steps=["ring", "in-network"])
    # In one node each GPU sends all of its buffer to the switch, and receives the sum at the same time.
    own = FRAMEWORK.simulate_collective(fabric, "all-reduce", size=size, algorithm="in-network", group=range(8, 16))
    assert own.duration == pytest.approx(size / 450e9 + 2 * 25e-9, rel=1e-9)
    # One GPU of each node has no use for its switch.
    assert fabric.offered_to_some(fabric.npus[[0, 8]]) == Capabilities()
    assert fabric.offered_to_some(fabric.npus[[0, 1, 8]]) == fabric.offers != Capabilities()


class TestCluster(TopologyTests):
    plugin = fredfw_topology_cluster
    topologies = (
        Cluster(preset="dgx-a100", nodes=4, nics=4, pcie=24e9, pcie_npus=4, pcie_latency=1e-6),
        Cluster(nodes=32, node=Switch(npus=2), network="rail-only", radix=6, oversubscription=2.0),
        Cluster(preset="hgx-b200", nodes=3, nics=16, network="fat-tree", routing="ecmp"),
        Cluster(preset="gb200-nvl72", nodes=2),
        Cluster(preset="dgx-a100", nodes=5, nics=4, pcie=24e9, sharp=True),
        Cluster(nodes=9, radix=8, node=Switch(npus=2), network="rail-only", sharp=True),
        Cluster(preset="mi300x", nodes=7, network="rail-only", nics=4, radix=8, oversubscription=3.0),
        Cluster(preset="tpu-v4", nodes=9, node=Torus((2, 3)), nics=2, radix=8, pcie=10e9),
        Cluster(preset="trainium2", nodes=5, node=Cluster(nodes=2, nics=2), nics=1),
    )


class TestEcmp(TopologyTests):
    plugin = fredfw_topology_cluster
    topologies = (Cluster(nodes=20, radix=16, routing="ecmp"),)
    expected_failures: ClassVar[Mapping[str, str]] = {
        "levels_are_as_fast_as_they_say": "they promise an even share of the links up; ECMP puts two flows on one link"
    }
