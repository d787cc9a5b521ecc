from __future__ import annotations

from collections import Counter
from itertools import combinations

import networkx as nx
import pytest
from hypothesis import given, strategies as st

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
