"""Where a task graph begins and ends for its ranks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from fredfw.typing import IntArray
from fredfw.workloads.graph import TaskGraph

_NONE = np.zeros(0, dtype=np.intp)


def entries(graph: TaskGraph) -> IntArray:
    """Return the tasks that some rank may begin first."""
    return _uncovered(graph, (graph.after(task).tolist() for task in range(len(graph))))


def exits(graph: TaskGraph) -> IntArray:
    """Return the tasks that some rank may end last."""
    after: list[list[int]] = [[] for _ in range(len(graph))]
    counts = np.diff(graph.dependency_offsets)
    for one, task in zip(graph.dependencies.tolist(), np.repeat(np.arange(len(graph)), counts).tolist(), strict=True):
        after[one].append(task)
    return _uncovered(graph, after)


def _uncovered(graph: TaskGraph, others: Iterable[Sequence[int]]) -> IntArray:
    """Return the tasks of which some participant has part in none of the ``others`` of that task."""
    members = graph.members.tolist()
    known: dict[tuple[int, frozenset[int]], bool] = {}

    def found() -> Iterator[int]:
        for task, near in enumerate(others):
            key = members[task], frozenset(members[one] for one in near)
            if key not in known:
                theirs = [graph.tables[table].ravel() for table in key[1]]
                known[key] = bool(np.isin(graph.tables[key[0]], np.concatenate([_NONE, *theirs])).all())
            if not known[key]:
                yield task

    return np.fromiter(found(), dtype=np.intp)
