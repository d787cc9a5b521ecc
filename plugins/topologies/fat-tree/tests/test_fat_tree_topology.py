from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import partial
from itertools import product
from typing import Any, ClassVar

import networkx as nx
import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, strategies as st

import fredfw_topology_fat_tree
from fredfw import Capabilities, Fabric, Framework, Level, NodeKind
from fredfw.errors import InputError
from fredfw.testing import RouterTests, TopologyTests
from fredfw_topology_fat_tree import EcmpRouter, FatTree, SprayRouter

GBPS40 = 5e9  # 40 Gbps in bytes per second


@st.composite
def trees(draw: st.DrawFn) -> FatTree:
    """Small trees of any shape, whole or not."""
    levels = draw(st.integers(2, 4))
    radix = draw(st.sampled_from([2, 4, 6] if levels > 2 else [2, 3, 4, 5, 6]))
    up = draw(st.integers(1, radix // 2))
    down = draw(st.integers(up, radix - up))  # fewer than the others leaves ports free
    tree = FatTree(radix=radix, levels=levels, oversubscription=down / up, link_latency=1.0)
    return evolve(tree, npus=draw(st.integers(1, min(tree.capacity, 60))))


def slow_links(tree: FatTree) -> set[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """The links up of the whole tree, from below to above.

    A node is its level, the place of its subtree in the one above, in the one above that, and so on, and the port taken
    at each level on the way up to it.
    """
    down = [tree.down_ports, *[tree.radix // 2] * (tree.levels - 2), tree.radix]
    up = [1, tree.up_ports, *[tree.radix // 2] * (tree.levels - 2)]
    links = set()
    for level in range(tree.levels):
        for place in product(*(range(one) for one in down[level:])):
            for ports in product(*(range(one) for one in up[: level + 1])):
                links.add(((level, place, ports[:-1]), (level + 1, place[1:], ports)))
    return links


def climb(fabric: Fabric) -> nx.DiGraph[int]:
    """The links that lead up."""
    return nx.DiGraph([(a, b) for a, b, _ in fabric.to_networkx().edges if a < b])


def test_the_defaults_are_the_electrical_baseline_of_wrht() -> None:
    # WRHT (arXiv 2207.10982) and what is assumed there: three levels of 32 ports hold 8,192 hosts; 40 Gbps and 500 ns.
    assert FatTree().capacity == 8192
    fabric = FatTree(npus=4096).build()
    # 16 of 32 pods, each of 16 lowest and 16 middle switches; all 256 switches of the top level.
    assert np.bincount(fabric.kinds).tolist() == [4096, 16 * 16 + 16 * 16 + 256]
    assert len(fabric.sources) == 2 * 3 * 4096
    assert np.unique(fabric.bandwidths).tolist() == [GBPS40]
    assert np.unique(fabric.latencies).tolist() == [500e-9]
    assert not fabric.energies.any()
    assert fabric.levels == (
        Level(16, "switch", GBPS40, 1e-6),
        Level(16, "switch", GBPS40, 2e-6),
        Level(16, "switch", GBPS40, 3e-6),
    )
    assert fabric.name == "4096-NPU fat tree"
    assert fabric.offers == Capabilities()
    assert not np.any([fabric.copies, fabric.reduces])
    assert fabric.defaults.sharing is None
    assert fabric.defaults.router == SprayRouter()
    assert FatTree(routing="ecmp").build().defaults.router == EcmpRouter()
    assert len(FatTree().build().npus) == 64


@pytest.mark.parametrize("radix", [2, 4, 6, 16, 32, 48])
def test_capacity_without_oversubscription(radix: int) -> None:
    # Al-Fares et al. (SIGCOMM 2008): k^3 / 4 hosts with three levels.
    capacities = [FatTree(radix=radix, levels=levels).capacity for levels in (2, 3, 4)]
    assert capacities == [radix**2 // 2, radix**3 // 4, radix**4 // 8]


def test_capacity_with_oversubscription() -> None:
    # The facts about WRHT: two levels of 32 ports hold at most 992 hosts, 31 below each of 32 switches.
    assert FatTree(levels=2, oversubscription=31).capacity == 992
    assert FatTree(oversubscription=3).capacity == 24 * 16 * 32
    # An odd radix has no halves, but two levels need none.
    tree = FatTree(radix=5, levels=2, oversubscription=1.5)
    assert (tree.down_ports, tree.up_ports, tree.capacity) == (3, 2, 15)


@pytest.mark.parametrize("levels", [33, 2**31 - 1, 2**63 - 1])
@pytest.mark.parametrize("npus", [None, 4])
def test_more_than_32_levels_are_refused_before_they_are_listed(levels: int, npus: int | None) -> None:
    with pytest.raises(InputError, match=f"levels: {levels} levels of switches .*2 to 32"):
        FatTree(npus, radix=4, levels=levels)


def test_it_has_up_to_32_levels() -> None:
    assert FatTree(radix=4, levels=32).capacity == 2**33
    # A switch of two ports has one port down, but both at the top: 31 switches above each of two NPUs, and the top.
    fabric = FatTree(radix=2, levels=32).build()
    assert np.bincount(fabric.kinds).tolist() == [2, 2 * 31 + 1]
    assert [level.size for level in fabric.levels] == [1] * 31 + [2]
    # Two steps of half the size, each over all 64 links.
    result = Framework().simulate_collective(fabric, "all-reduce", size=1e6, algorithm="ring")
    assert result.duration == pytest.approx(2 * (5e5 / GBPS40 + 64 * 500e-9))


@pytest.mark.parametrize(
    ("radix", "ratio", "down", "up"),
    [(32, 2, 20, 10), (32, 1.5, 18, 12), (32, 4, 24, 6), (32, 31, 31, 1), (48, 2, 32, 16), (64, 1.66667, 40, 24)],
)
def test_a_ratio_is_exact_and_leaves_ports_free(radix: int, ratio: float, down: int, up: int) -> None:
    tree = FatTree(radix=radix, oversubscription=ratio)
    assert (tree.down_ports, tree.up_ports) == (down, up)
    assert tree.capacity == down * radix // 2 * radix
    assert up + down <= radix
    assert down / up == pytest.approx(ratio, rel=1e-5)


def test_a_ratio_may_be_rounded() -> None:
    for radix in (32, 63, 64, 128):
        for up in range(1, radix // 2 + 1):
            tree = FatTree(radix=radix, levels=2, oversubscription=float(f"{radix / up - 1:g}"))
            assert (tree.up_ports, tree.down_ports) == (up, radix - up)


@given(trees())
def test_it_is_the_part_of_the_whole_tree_that_its_npus_can_use(tree: FatTree) -> None:
    def place_in_order(node: tuple[Any, ...]) -> tuple[Any, ...]:
        level, place, ports = node
        return level, place[::-1], ports

    whole = nx.DiGraph(list(slow_links(tree)))
    hosts = sorted((node for node in whole if node[0] == 0), key=place_in_order)
    assert len(hosts) == tree.capacity
    used = set(hosts[: tree.npus])
    used |= {above for host in used for above in nx.descendants(whole, host)}
    height = next(level for level in range(1, 5) if len({place for one, place, _ in used if one == level}) == 1)
    nodes = sorted((node for node in used if node[0] <= height), key=place_in_order)
    number = {node: index for index, node in enumerate(nodes)}
    fabric = tree.build()
    assert len(fabric.kinds) == len(nodes)
    assert set(climb(fabric).edges) == {(number[a], number[b]) for a, b in whole.subgraph(nodes).edges}


@given(trees())
def test_levels_describe_trees_that_are_evenly_filled(tree: FatTree) -> None:
    fabric, down, npus = tree.build(), tree.down_ports, tree.npus
    assert npus is not None
    # Smallest subtree that holds everyone, and the subtrees just below its tops.
    sizes = [down, *[tree.radix // 2] * (tree.levels - 2), tree.radix]
    height = next(one for one in range(1, tree.levels + 1) if math.prod(sizes[:one]) >= npus)
    part = math.prod(sizes[: height - 1])
    if npus % part:
        assert (fabric.levels, fabric.coordinates) == ((), None)
        assert fabric.view().levels == ()
        return
    share = GBPS40 * tree.up_ports / down
    expected = [*sizes[: height - 1], npus // part]
    assert [level.size for level in fabric.levels] == expected
    assert {level.kind for level in fabric.levels} == {"switch"}
    assert [level.bandwidth for level in fabric.levels] == [GBPS40, share, share, share][:height]
    assert [level.latency for level in fabric.levels] == [2.0, 4.0, 6.0, 8.0][:height]
    assert fabric.coordinates is not None
    assert fabric.coordinates.tolist() == [list(reversed(one)) for one in product(*map(range, reversed(expected)))]


def test_nodes_have_names() -> None:
    fabric = FatTree(npus=16, radix=4).build()
    names = [fabric.node_name(node) for node in range(len(fabric.kinds))]
    counts = {"npu": 16, "L1.": 8, "L2.": 8, "L3.": 4}
    assert names == [f"{name}{one}" for name, count in counts.items() for one in range(count)]
    assert (fabric.kinds == NodeKind.SWITCH).sum() == 20


@pytest.mark.parametrize(
    ("fields", "key", "message", "accepted"),
    [
        ({"radix": 1}, "radix", "1", "at least 2"),
        ({"radix": 0}, "radix", "0", "at least 2"),
        ({"radix": 32.5}, "radix", "32.5", "whole"),
        ({"radix": 5}, "radix", "5 ports cannot be half up, half down", "even"),
        ({"levels": 1}, "levels", "1", "at least 2"),
        ({"npus": 0}, "npus", "0", "at least 1"),
        ({"npus": -4}, "npus", "-4", "at least 1"),
        ({"npus": True}, "npus", "True", "at least 1"),
        ({"npus": 8193}, "npus", "8193 NPUs do not fit 3 levels of switches with 32 ports", "1 to 8192"),
        ({"npus": 1024, "radix": 8}, "npus", "1024 NPUs do not fit 3 levels of switches with 8 ports", "1 to 128"),
        ({"npus": 993, "levels": 2, "oversubscription": 31}, "npus", "31 of them down", "1 to 992"),
        ({"oversubscription": 0.5}, "oversubscription", "0.5", "at least 1"),
        ({"oversubscription": 63}, "oversubscription", "32 ports cannot be divided into ports down", "1 to 31"),
        ({"oversubscription": 3.001}, "oversubscription", "ports up at 3.001 to 1", "whose sum is at most 32"),
        ({"oversubscription": 1e300}, "oversubscription", "ports up at 1e+300 to 1", "whose sum is at most 32"),
        ({"link_bandwidth": 0}, "link_bandwidth", "0", "more than 0"),
        ({"link_bandwidth": "40 Gb"}, "link_bandwidth", "40 Gb", "B/s"),
        ({"link_latency": "-1 ns"}, "link_latency", "too small", "at least 0"),
        ({"link_energy": -1.0}, "link_energy", "-1.0", "at least 0"),
        ({"routing": "sprey"}, "routing", "did you mean 'spray'", "ecmp, spray"),
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
