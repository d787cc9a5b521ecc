"""Edge-disjoint spanning trees of an undirected graph, as many as there are: matroid union."""

from collections import deque
from collections.abc import Sequence

from attrs import define


class _Forest:
    """One of the forests that are packed, rooted anew after each change."""

    def __init__(self, nodes: int) -> None:
        self.edges: list[dict[int, int]] = [{} for _ in range(nodes)]  # by node and neighbour
        self.parent = list(range(nodes))
        self.depth = [0] * nodes
        self.tree = list(range(nodes))
        self.size = 0

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
        found = []
        while one != other:
            if self.depth[one] < self.depth[other]:
                one, other = other, one
            above = self.parent[one]
            found.append(self.edges[one][above])
            one = above
        return found


@define(eq=False)
class TooManyError(Exception):
    """There are not so many trees: there are fewer copies of edges between the ``(nodes,)`` parts than they need."""

    parts: list[int]


def most(ends: Sequence[tuple[int, int]], copies: Sequence[int], parts: Sequence[int]) -> tuple[int, int]:
    """Return copies of edges between parts, and how many each tree needs: a bound (Nash-Williams, Tutte, 1961)."""
    total = sum(count for (one, other), count in zip(ends, copies, strict=True) if parts[one] != parts[other])
    return total, len(set(parts)) - 1


def pack(nodes: int, ends: Sequence[tuple[int, int]], copies: Sequence[int], trees: int) -> list[list[int]]:
    """Return ``trees`` spanning trees that use no edge more often than it has copies; raises ``TooManyError``."""
    # A copy is put into a forest where it closes no circle; elsewhere it takes the place of another edge of the circle,
    # which looks for a forest in turn, over the fewest such exchanges (Edmonds, "Minimum partition of a matroid into
    # independent subsets", 1965). Copies of one edge can all go to the same forests, so that one of them looks for all.
    packer = _Packer(nodes, ends, copies, trees)
    packer.grow()
    while sum(forest.size for forest in packer.forests) < trees * (nodes - 1):
        if (blocked := packer.augment()) is not None:
            # Every forest joins all ends of these edges over these edges alone. All others are in use.
            raise TooManyError(components(nodes, [ends[edge] for edge in blocked]))
    return [sorted({edge for near in forest.edges for edge in near.values()}) for forest in packer.forests]


class _Packer:
    def __init__(self, nodes: int, ends: Sequence[tuple[int, int]], copies: Sequence[int], trees: int) -> None:
        self._nodes, self._ends = nodes, ends
        self._free = list(copies)
        self._holders: list[set[int]] = [set() for _ in ends]  # forests that have each edge
        self.forests = [_Forest(nodes) for _ in range(trees)]

    def grow(self) -> None:
        """Grow shallow trees one after the other, over the edges of which the most copies are left."""
        free = self._free
        near: list[list[tuple[int, int]]] = [[] for _ in range(self._nodes)]
        for edge, (one, other) in enumerate(self._ends):
            near[one].append((edge, other))
            near[other].append((edge, one))
        for number, forest in enumerate(self.forests):
            start = number % self._nodes
            queue, seen = deque([start]), {start}
            while queue:
                here = queue.popleft()
                for edge, there in sorted(near[here], key=lambda one: -free[one[0]]):
                    if there not in seen and free[edge]:
                        forest.add(here, there, edge)
                        self._holders[edge].add(number)
                        free[edge] -= 1
                        seen.add(there)
                        queue.append(there)

    def augment(self) -> list[int] | None:
        """Put one more copy of an edge into the forests; return the edges that were tried if there is no way."""
        spare = [edge for edge, count in enumerate(self._free) if count]
        # How each edge was reached: the edge that takes its place, and in which forest.
        reached: dict[int, tuple[int, int]] = dict.fromkeys(spare, (-1, -1))
        queue = deque(spare)
        unfinished = [number for number, forest in enumerate(self.forests) if forest.size < self._nodes - 1]
        while queue:
            edge = queue.popleft()
            one, other = self._ends[edge]
            for number in unfinished:
                if self.forests[number].tree[one] != self.forests[number].tree[other]:
                    self._exchange(edge, number, reached)
                    return None
            for number, forest in enumerate(self.forests):
                if len(reached) == len(self._ends):
                    break
                if number not in self._holders[edge]:
                    for place in forest.path(one, other):
                        if place not in reached:
                            reached[place] = edge, number
                            queue.append(place)
        return list(reached)

    def _exchange(self, edge: int, number: int, reached: dict[int, tuple[int, int]]) -> None:
        """Put ``edge`` into forest ``number``, the edge that it was reached from in its old place, and so on."""
        while True:
            before, old = reached[edge]
            if before >= 0:
                self.forests[old].remove(*self._ends[edge])
                self._holders[edge].remove(old)
            self.forests[number].add(*self._ends[edge], edge)
            self._holders[edge].add(number)
            if before < 0:
                self._free[edge] -= 1
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
