"""Maximum flows in whole numbers."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

Capacities = Mapping[tuple[int, int], int]


class Flow:
    """A network to send over, by augmenting along shortest paths.

    Args:
        nodes: How many there are.
        capacities: Of each pair of nodes that a link joins.
    """

    def __init__(self, nodes: int, capacities: Capacities) -> None:
        self._heads: list[int] = []
        self._free: list[int] = []
        self._leaving: list[list[int]] = [[] for _ in range(nodes)]
        for (tail, head), capacity in capacities.items():
            self.add(tail, head, capacity)

    def add(self, tail: int, head: int, capacity: int) -> None:
        """Add a link."""
        self._leaving[tail].append(len(self._heads))
        self._leaving[head].append(len(self._heads) + 1)
        self._heads += [head, tail]
        self._free += [capacity, 0]

    def send(self, source: int, end: int, wanted: int) -> int:
        """Return how much gets from ``source`` to ``end``, up to ``wanted``, on top of what was sent before."""
        sent = 0
        while sent < wanted:
            path = self._path(source, end)
            if not path:
                break
            rate = min(wanted - sent, *(self._free[link] for link in path))
            for link in path:
                self._free[link] -= rate
                self._free[link ^ 1] += rate
            sent += rate
        return sent

    def _path(self, source: int, end: int) -> list[int]:
        before = {source: -1}
        queue = deque([source])
        while queue:
            here = queue.popleft()
            for link in self._leaving[here]:
                there = self._heads[link]
                if self._free[link] and there not in before:
                    before[there] = link
                    if there == end:
                        links = []
                        while there != source:
                            links.append(before[there])
                            there = self._heads[before[there] ^ 1]
                        return links
                    queue.append(there)
        return []

    def before_cut(self, source: int) -> set[int]:
        """Return the nodes that something more could still get to from ``source``."""
        seen, queue = {source}, deque([source])
        while queue:
            for link in self._leaving[queue.popleft()]:
                there = self._heads[link]
                if self._free[link] and there not in seen:
                    seen.add(there)
                    queue.append(there)
        return seen
