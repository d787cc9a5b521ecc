"""What comes after the tasks of a graph, and what is missing before those that begin as a whole."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fredfw.simulation.assignment import Assignment
from fredfw.typing import IntArray


class Dependents:
    """Edges from each task to those that come directly after it and have participants in common with it.

    Args:
        tasks: The graph.
        whole: ``(T,)`` whether all participants of a task begin it together.

    Attributes:
        whole: That.
        missing: ``(T,)`` for such tasks, how often participants wait for tasks before them.
        tasks: ``(E,)`` task that each edge leads to; those of one task are in order of their numbers.
        counts: ``(E,)`` participants that it has in common with the task at the other end.
    """

    def __init__(self, tasks: Assignment, whole: Sequence[bool]) -> None:
        graph = tasks.graph
        self.whole = whole
        after = np.repeat(np.arange(len(graph)), np.diff(graph.dependency_offsets))
        before = graph.dependencies
        # What a rank has no part in, it does not wait for: that depends on the member tables alone.
        tables = max(len(graph.tables), 1)
        pairs, first, which = np.unique(
            graph.members[before] * tables + graph.members[after], return_index=True, return_inverse=True
        )
        self._shared: list[IntArray | None] = []
        counts = np.zeros(len(pairs), dtype=np.intp)
        for pair, edge in enumerate(first.tolist()):
            one, other = int(before[edge]), int(after[edge])
            shared = tasks.shared_slots(one, other)
            self._shared.append(shared)
            counts[pair] = len(tasks.table(other).participants) if shared is None else np.count_nonzero(shared >= 0)
        count = counts[which]
        self.missing: list[int] = np.bincount(after, count, len(graph)).astype(np.intp).tolist()
        kept = np.flatnonzero(count)
        order = kept[np.argsort(before[kept], kind="stable")]
        offsets = np.zeros(len(graph) + 1, dtype=np.intp)
        np.cumsum(np.bincount(before[kept], minlength=len(graph)), out=offsets[1:])
        self._offsets: list[int] = offsets.tolist()
        self.tasks: list[int] = after[order].tolist()
        self.counts: list[int] = count[order].tolist()
        self._pairs: list[int] = which[order].tolist()
        self._alone: list[bool] = (np.diff(graph.dependency_offsets) == 1).tolist()

    def edges(self, task: int) -> range:
        """Return the numbers of the edges from ``task``."""
        return range(self._offsets[task], self._offsets[task + 1])

    def slots(self, edge: int, slots: IntArray) -> IntArray:
        """Return the slots of the later task of ``edge`` that are ``slots`` of the earlier one."""
        shared = self._shared[self._pairs[edge]]
        if shared is None:
            return slots
        theirs: IntArray = shared[slots]
        return theirs[theirs >= 0]

    def alike(self, edge: int) -> bool:
        """Return whether the later task waits for the earlier one alone, and all of its participants do."""
        return self._shared[self._pairs[edge]] is None and self._alone[self.tasks[edge]]
