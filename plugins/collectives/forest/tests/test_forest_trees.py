from collections import Counter
from itertools import combinations, permutations

import networkx as nx
import pytest
from hypothesis import given, strategies as st

from fredfw_collective_forest.arborescences import Grove, grow
from fredfw_collective_forest.packing import TooManyError, most, pack

Ends = list[tuple[int, int]]


def spans(nodes: int, ends: Ends, tree: list[int]) -> bool:
    graph = nx.Graph([ends[edge] for edge in tree])
    return len(graph) == nodes and nx.is_tree(graph)


def partitions(nodes: list[int]) -> list[list[list[int]]]:
    if not nodes:
        return [[]]
    found = []
    for rest in partitions(nodes[1:]):
        found.append([[nodes[0]], *rest])
        found += [[*rest[:at], [nodes[0], *part], *rest[at + 1 :]] for at, part in enumerate(rest)]
    return found


@given(st.integers(2, 5), st.data())
def test_there_are_as_many_trees_as_partitions_allow(nodes: int, data: st.DataObject) -> None:
    # Nash-Williams and Tutte, 1961: the least, over all partitions, of the copies between parts for each part but one.
    ends = list(combinations(range(nodes), 2))
    copies = [data.draw(st.integers(0, 3)) for _ in ends]
    trees = min(
        sum(count for (one, other), count in zip(ends, copies, strict=True) if part[one] != part[other])
        // (len(parts) - 1)
        for parts in partitions(list(range(nodes)))
        if len(parts) > 1
        for part in [{node: index for index, part in enumerate(parts) for node in part}]
    )
    found = pack(nodes, ends, copies, trees)
    assert all(spans(nodes, ends, tree) for tree in found)
    used = Counter(edge for tree in found for edge in tree)
    assert all(used[edge] <= count for edge, count in enumerate(copies))
    with pytest.raises(TooManyError) as raised:
        pack(nodes, ends, copies, trees + 1)
    total, needed = most(ends, copies, raised.value.parts)
    assert total < needed * (trees + 1)


Capacities = dict[tuple[int, int], int]


def proper(grove: Grove, ranks: int) -> bool:
    """Return whether all trees span the ranks, and fit."""
    used = Counter(edge for tree in grove.trees for edge in tree)
    fits = all(count <= grove.capacities[edge] for edge, count in used.items())
    return fits and all(
        nx.is_arborescence(graph) and len(graph) == ranks and graph.in_degree(tree[0][0]) == 0
        for tree in grove.trees
        for graph in [nx.DiGraph(tree)]
    )


def rate(grove: Grove) -> float:
    return float(grove.rate * len(grove.trees))


@pytest.mark.parametrize(
    ("boxes", "published", "within"), [(1, 342.857, 1e-5), pytest.param(2, 346.667, 0.01, marks=pytest.mark.slow)]
)
def test_they_pass_the_switches_of_boxes(boxes: int, published: float, within: float) -> None:
    # 300 GB/s to the switch of the box, 25 GB/s to a common one; no more than a few trees for each root.
    gpus = range(8 * boxes)
    pairs = {(gpu, 8 * boxes + gpu // 8): 12 for gpu in gpus}
    pairs |= {(gpu, 9 * boxes): 1 for gpu in gpus if boxes > 1}
    capacities = pairs | {(other, one): count for (one, other), count in pairs.items()}
    grove = grow(9 * boxes + (boxes > 1), len(gpus), capacities, gpus)
    assert proper(grove, len(gpus))
    assert published * (1 - within) <= rate(grove) * 25 <= published * (1 + 1e-5)


@given(st.integers(2, 5), st.data())
def test_a_broadcast_has_as_many_trees_as_the_thinnest_cut_allows(ranks: int, data: st.DataObject) -> None:
    # Edmonds, "Edge-disjoint branchings", 1973: the least flow to any rank.
    capacities = {
        pair: data.draw(st.integers(1, 3)) for pair in permutations(range(ranks), 2) if data.draw(st.booleans())
    }
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(ranks))
    graph.add_edges_from((*pair, {"capacity": count}) for pair, count in capacities.items())
    least = min(nx.maximum_flow_value(graph, 0, rank) for rank in range(1, ranks))
    if least == 0 or not capacities:
        return
    grove = grow(ranks, ranks, capacities, [0])
    assert proper(grove, ranks)
    assert rate(grove) == least
