"""Edge-disjoint spanning trees of an undirected graph, as many as there are: matroid union."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from attrs import define, field


@define(eq=False)
class _Forest:
    """One of the forests that are packed, rooted anew after each change.

    Args:
        nodes: How many nodes the graph has.
        edges: By node, the neighbours and the edges that lead to them.
    """

    nodes: int
    edges: list[dict[int, int]] = field(init=False)
    parent: list[int] = field(init=False)
    depth: list[int] = field(init=False)
    tree: list[int] = field(init=False)
    size: int = 0

    def __attrs_post_init__(self) -> None:
        self.edges = [{} for _ in range(self.nodes)]
        self.parent = list(range(self.nodes))
        self.depth = [0] * self.nodes
        self.tree = list(range(self.nodes))

    def add(self, one: int, other: int, edge: int) -> None:
        """Add an edge between two trees: the tree of ``other`` hangs from ``one`` from now on."""
        self.edges[one][other] = self.edges[other][one] = edge
        self.size += 1
        self._hang(other, one, self.depth[one] + 1, self.tree[one])

    def remove(self, one: int, other: int) -> None:
        """Take an edge out: the end further from the root is a root from now on."""
        del self.edges[one][other], self.edges[other][one]
        self.size -= 1
        child = one if self.parent[one] == other else other
        self._hang(child, child, 0, child)

    def _hang(self, node: int, parent: int, depth: int, tree: int) -> None:
        self.parent[node], self.depth[node], self.tree[node] = parent, depth, tree
        stack = [node]
        while stack:
            here = stack.pop()
            for there in self.edges[here]:
                if there != self.parent[here]:
                    self.parent[there], self.depth[there], self.tree[there] = here, self.depth[here] + 1, tree
                    stack.append(there)

    def path(self, one: int, other: int) -> list[int]:
        """Return the edges between two nodes of one tree."""
        found = []
        parent, depth = self.parent, self.depth
        while one != other:
            if depth[one] < depth[other]:
                one, other = other, one
            found.append(self.edges[one][parent[one]])
            one = parent[one]
        return found


@define(eq=False)
class TooManyError(Exception):
    """There are not so many trees.

    Args:
        parts: ``(nodes,)`` part of each node. There are fewer copies of edges between the parts than the trees need.
    """

    parts: list[int]


def most(ends: Sequence[tuple[int, int]], copies: Sequence[int], parts: Sequence[int]) -> tuple[int, int]:
    """Return the copies of edges between parts, and how many of them each tree needs.

    That many trees there are at most, for the worst partition (Nash-Williams and Tutte, 1961).
    """
    total = sum(count for (one, other), count in zip(ends, copies, strict=True) if parts[one] != parts[other])
    return total, len(set(parts)) - 1


def pack(nodes: int, ends: Sequence[tuple[int, int]], copies: Sequence[int], trees: int) -> list[list[int]]:
    """Return ``trees`` spanning trees that use each edge at most as often as it has copies.

    A copy is put into a forest where it closes no circle; elsewhere it takes the place of another edge of the circle,
    which looks for a forest in turn, over the fewest such exchanges (Edmonds, "Minimum partition of a matroid into
    independent subsets", 1965). Copies of one edge can all go to the same forests, so that one of them looks for all.

    Args:
        nodes: How many the graph has.
        ends: The two nodes of each edge.
        copies: How often each edge may be used.
        trees: How many trees to find.

    Returns:
        The edges of each tree.

    Raises:
        TooManyError: There are fewer.
    """
    forests = [_Forest(nodes) for _ in range(trees)]
    holders: list[set[int]] = [set() for _ in ends]  # forests that have each edge
    free = list(copies)
    wanted = trees * (nodes - 1)
    _grow(nodes, ends, free, forests, holders)
    while sum(forest.size for forest in forests) < wanted:
        spare = [edge for edge, count in enumerate(free) if count]
        blocked = _augment(spare, ends, free, forests, holders)
        if blocked is not None:
            # Every forest joins all ends of these edges over these edges alone. All others are in use.
            raise TooManyError(components(nodes, [ends[edge] for edge in blocked]))
    return [sorted({edge for near in forest.edges for edge in near.values()}) for forest in forests]


def _grow(
    nodes: int, ends: Sequence[tuple[int, int]], free: list[int], forests: list[_Forest], holders: list[set[int]]
) -> None:
    """Grow shallow trees one after the other, over the edges of which the most copies are left."""
    near: list[list[tuple[int, int]]] = [[] for _ in range(nodes)]
    for edge, (one, other) in enumerate(ends):
        near[one].append((edge, other))
        near[other].append((edge, one))
    for number, forest in enumerate(forests):
        start = number % nodes
        queue, seen = deque([start]), {start}
        while queue:
            here = queue.popleft()
            for edge, there in sorted(near[here], key=lambda one: -free[one[0]]):
                if there not in seen and free[edge]:
                    forest.add(here, there, edge)
                    holders[edge].add(number)
                    free[edge] -= 1
                    seen.add(there)
                    queue.append(there)


def _augment(
    spare: list[int],
    ends: Sequence[tuple[int, int]],
    free: list[int],
    forests: list[_Forest],
    holders: list[set[int]],
) -> list[int] | None:
    """Put a copy of one of the ``spare`` edges into the forests; return what was tried if there is no way."""
    # How each edge was reached: the edge that takes its place, and in which forest.
    reached: dict[int, tuple[int, int]] = dict.fromkeys(spare, (-1, -1))
    queue = deque(spare)
    unfinished = [number for number, forest in enumerate(forests) if forest.size < forest.nodes - 1]
    while queue:
        edge = queue.popleft()
        one, other = ends[edge]
        for number in unfinished:
            if forests[number].tree[one] != forests[number].tree[other]:
                _exchange(edge, number, reached, ends, forests, holders, free)
                return None
        for number, forest in enumerate(forests):
            if len(reached) == len(ends):
                break
            if number not in holders[edge]:
                for place in forest.path(one, other):
                    if place not in reached:
                        reached[place] = edge, number
                        queue.append(place)
    return list(reached)


def _exchange(
    edge: int,
    number: int,
    reached: dict[int, tuple[int, int]],
    ends: Sequence[tuple[int, int]],
    forests: list[_Forest],
    holders: list[set[int]],
    free: list[int],
) -> None:
    """Put ``edge`` into forest ``number``, the edge that it was reached from in its old place, and so on."""
    while True:
        before, old = reached[edge]
        if before >= 0:
            forests[old].remove(*ends[edge])
            holders[edge].remove(old)
        forests[number].add(*ends[edge], edge)
        holders[edge].add(number)
        if before < 0:
            free[edge] -= 1
            return
        edge, number = before, old


def components(nodes: int, ends: Sequence[tuple[int, int]]) -> list[int]:
    """Return the lowest node that each node is joined with by edges."""
    part = list(range(nodes))

    def top(node: int) -> int:
        while part[node] != node:
            part[node] = part[part[node]]
            node = part[node]
        return node

    for one, other in ends:
        low, high = sorted((top(one), top(other)))
        part[high] = low
    return [top(node) for node in range(nodes)]
