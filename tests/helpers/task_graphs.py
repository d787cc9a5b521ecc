"""What is in a task graph, by kind, label and name."""

import numpy as np

from fredfw.typing import FloatArray
from fredfw.workloads import TaskGraph, TaskKind


def of_kind(graph: TaskGraph, kind: TaskKind, label: str | None = None) -> list[int]:
    return [t for t in range(len(graph)) if graph.kinds[t] == kind and label in (None, graph.label(t))]


def names_before(graph: TaskGraph, name: str) -> set[str]:
    return {graph.names[task] for task in graph.after(graph.names.index(name))}


def longest_path(graph: TaskGraph, cost: FloatArray) -> float:
    """Return the length of the longest path, where tasks are as long as ``cost``."""
    end = np.zeros(len(graph))
    for task in range(len(graph)):
        end[task] = cost[task] + max((end[before] for before in graph.after(task)), default=0.0)
    return float(np.max(end))
