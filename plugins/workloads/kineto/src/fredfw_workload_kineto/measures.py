"""How long communication goes on while nothing is computed: in a trace, and in what was simulated."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fredfw import TaskKind, Timeline
from fredfw_workload_kineto.chain import COMPUTE
from fredfw_workload_kineto.order import union


def uncovered_time(communication: Iterable[tuple[float, float]], computation: Iterable[tuple[float, float]]) -> float:
    """Return for how long one interval of ``communication`` runs, and none of ``computation``."""
    computation = list(computation)
    return total([*communication, *computation]) - total(computation)


def total(intervals: Iterable[tuple[float, float]]) -> float:
    """Return for how long one of ``intervals`` runs."""
    return float(np.diff(union(intervals), axis=1).sum())


def uncovered(timeline: Timeline, rank: int = 0) -> float:
    """Return the seconds for which ``rank`` communicates while its GPU runs no other kernel.

    Time of the host covers nothing. It is the number that a result's notes give for the trace, of a simulated iteration
    of the workload ``kineto``.
    """
    graph = timeline.graph
    communication, computation = [], []
    for task, start, end, ranks in zip(timeline.task, timeline.start, timeline.end, timeline.ranks, strict=True):
        if rank in ranks:
            if graph.kinds[task] != TaskKind.COMPUTE:
                communication.append((float(start), float(end)))
            elif graph.label(int(task)) == COMPUTE:
                computation.append((float(start), float(end)))
    return uncovered_time(communication, computation)
