"""How far a twin is from its original."""

import math
from collections import Counter, defaultdict

import numpy as np
from attrs import frozen

from fredfw import TaskGraph, TaskKind
from fredfw.typing import FloatArray, IntArray


@frozen
class Distance:
    """How far two iterations are from each other in one statistic."""

    statistic: str  # what is compared
    original: float  # its mean or sum per rank in the original
    twin: float  # the same in the twin
    largest: float | None = None  # Kolmogorov-Smirnov distance of distributions, from 0 to 1; ``None`` for a sum

    @property
    def relative(self) -> float:
        if self.original == 0:
            return 0.0 if self.twin == 0 else math.inf
        return self.twin / self.original - 1


def distances(original: TaskGraph, twin: TaskGraph) -> tuple[Distance, ...]:
    """Return how far ``twin`` is from ``original``: distributions over nodes, and sums per rank."""
    (ones, moved, sums), (others, other_moved, other_sums) = _measured(original), _measured(twin)
    found = [
        Distance(name, _mean(first), _mean(second), _apart(first, second))
        for (name, first), second in zip(ones.items(), others.values(), strict=True)
        if len(first) or len(second)
    ]
    mine, theirs = moved | sums, other_moved | other_sums
    found += [
        Distance(name, mine.get(name, 0.0) / original.ranks, theirs.get(name, 0.0) / twin.ranks)
        for name in (*sorted(moved | other_moved), *(sums | other_sums))
    ]
    return tuple(found)


def _measured(graph: TaskGraph) -> tuple[dict[str, FloatArray], dict[str, float], dict[str, float]]:
    """Return what there is of each node, rank by rank, the bytes that are moved, and other sums."""
    graph = graph.expanded()
    ranks = np.array([table.size for table in graph.tables], dtype=np.intp)[graph.members]
    computes = graph.kinds == TaskKind.COMPUTE
    moves = ~computes & (graph.kinds != TaskKind.RECEIVE)
    seconds = np.repeat(graph.seconds[computes], ranks[computes])
    flops = np.repeat(graph.flops[computes], ranks[computes])
    seconds, flops = seconds[seconds > 0], flops[flops > 0]  # the first leaves out what is not known
    degrees = _degrees(graph, ranks)
    moved: defaultdict[str, float] = defaultdict(float)
    for task in np.flatnonzero(moves).tolist():
        what = str(graph.patterns[task]) if graph.kinds[task] == TaskKind.COLLECTIVE else "send"
        moved[f"{what} per rank (B)"] += float(graph.bytes[task] * ranks[task])
    each = {
        "message size (B)": np.repeat(graph.bytes[moves], ranks[moves]),
        "duration of a computation (s)": seconds,
        "FLOPs of a computation": flops,
        "dependencies of a node": degrees,
    }
    sums = ("nodes", np.ones(len(degrees))), ("computation (s)", seconds), ("computation (FLOP)", flops)
    return each, moved, {f"{name} per rank": float(column.sum()) for name, column in sums if len(column)}


def _degrees(graph: TaskGraph, ranks: IntArray) -> FloatArray:
    """Return how much each rank waits for in each task that it has a part in; ``(T,)`` ``ranks`` have one."""
    alone = ranks == 1
    found = np.diff(graph.dependency_offsets)[alone].tolist()
    for task in np.flatnonzero(~alone).tolist():
        tables = (graph.tables[graph.members[one]] for one in graph.after(task))
        before = Counter(rank for table in tables for rank in table.ravel().tolist())
        found += [before[rank] for rank in graph.tables[graph.members[task]].ravel().tolist()]
    return np.array(found, dtype=float)


def _mean(values: FloatArray) -> float:
    return float(values.mean()) if len(values) else 0.0


def _apart(first: FloatArray, second: FloatArray) -> float:
    """Return the Kolmogorov-Smirnov distance: the largest difference of the two distributions."""
    if not len(first) or not len(second):
        return 1.0
    every = np.concatenate((first, second))
    shares = [np.searchsorted(np.sort(one), every, side="right") / len(one) for one in (first, second)]
    return float(np.abs(shares[0] - shares[1]).max())
