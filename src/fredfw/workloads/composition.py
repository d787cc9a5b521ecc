"""Several jobs as one task graph: each starts at its time, does its iterations in turn, and has ranks of its own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import frozen

from fredfw import limits
from fredfw.typing import IntArray
from fredfw.workloads import ends
from fredfw.workloads.graph import TaskGraph
from fredfw.workloads.kinds import TaskKind
from fredfw.workloads.labels import OWN, WAITING

_OWN = _STARTING, _ENDING = "start of ", "end of iteration "


@frozen(eq=False)
class JobGraph:
    """A job that is a part of a composed graph.

    Args:
        name: Goes before the names and the labels of its tasks, with a slash, which it has not itself.
        number: Of the job, in ``TaskGraph.jobs``.
        graph: One iteration.
        start: Seconds before which nothing of it begins.
        iterations: How many it does in turn; all its ranks wait for each other between two of them.
    """

    name: str
    number: int
    graph: TaskGraph
    start: float = 0.0
    iterations: int = 1

    @property
    def tasks(self) -> int:
        """How many tasks it adds."""
        return self.iterations * (len(self.graph) + 1) - (0 if self.start else 1)

    def label(self, label: str) -> str:
        """Return what ``label`` is called in the composed graph."""
        return label if label in OWN else f"{self.name}/{label}"

    @property
    def starting(self) -> str:
        """Name of the task that waits for its start."""
        return f"{_STARTING}{self.name}"

    def ending(self, iteration: int) -> str:
        """Return the name of the task that ends ``iteration``, counted from 1, before the next one."""
        return f"{_ENDING}{iteration} of {self.name}"


def is_between(name: str) -> bool:
    """Return whether the task called ``name`` of a composed graph comes before an iteration: of a job, not in one."""
    return name.startswith(_OWN) and "/" not in name  # which the names of all tasks in iterations have


def composed(jobs: Sequence[JobGraph]) -> TaskGraph:
    """Return the graph of all ``jobs``, whose ranks come one after the other in that order.

    A task of an iteration is called ``JOB/TASK``, and its label ``JOB/LABEL``, but for ``compute``, ``bubble`` and
    ``waiting``.

    Raises:
        LimitError: There are too many tasks.
    """
    limits.check("tasks", sum(job.tasks for job in jobs))
    columns = _Columns()
    for job in jobs:
        columns.add(job)
    return columns.graph()


class _Columns:
    """The columns of a composed graph, a piece for each iteration and each wait."""

    def __init__(self) -> None:
        self._pieces: dict[str, list[IntArray]] = {name: [] for name in (*_SHIFTED, *_KEPT, "counts", "dependencies")}
        self._names: list[str] = []
        self._patterns: list[object] = []
        self._tables: dict[str, list[object]] = {name: [] for name in _SHIFTED.values()}
        self._labels: dict[str, int] = {}
        self._memories: dict[str, int] = {}
        self._ranks = self._blocks = 0

    def add(self, job: JobGraph) -> None:
        """Add all of ``job``."""
        graph = job.graph
        everybody = len(self._tables["tables"])
        self._tables["tables"].append(np.arange(graph.ranks)[None, :] + self._ranks)
        offsets = {name: len(self._tables[kind]) for name, kind in _SHIFTED.items()}
        for kind, known in self._tables.items():
            more = getattr(graph, kind)
            known.extend([table + self._ranks for table in more] if kind == "tables" else more)
        labels = np.array([self._label(job.label(one)) for one in graph.label_names], dtype=np.intp)
        in_turn = bool(job.start) or job.iterations > 1
        entries, exits = (ends.entries(graph), ends.exits(graph)) if in_turn else (_NONE, _NONE)
        before = -1
        if job.start:
            before = self._wait(job, job.starting, everybody, job.start, _NONE)
        for iteration in range(job.iterations):
            first = len(self._names)
            self._iteration(job, labels, offsets, first, before, entries)
            if iteration + 1 < job.iterations:
                before = self._wait(job, job.ending(iteration + 1), everybody, 0.0, exits + first)
        self._ranks += graph.ranks

    def graph(self) -> TaskGraph:
        """Return the graph of all that was added."""
        columns = {name: np.concatenate(pieces) for name, pieces in self._pieces.items()}
        counts = columns.pop("counts")
        return TaskGraph(
            ranks=self._ranks,
            names=tuple(self._names),
            label_names=tuple(self._labels),
            memory_names=tuple(self._memories),
            patterns=tuple(self._patterns),  # type: ignore[arg-type]
            dependency_offsets=np.concatenate([_ZERO, np.cumsum(counts)]),
            **columns,  # type: ignore[arg-type]
            **{name: tuple(tables) for name, tables in self._tables.items()},  # type: ignore[arg-type]
        )

    def _label(self, label: str) -> int:
        return self._labels.setdefault(label, len(self._labels))

    def _iteration(
        self, job: JobGraph, labels: IntArray, offsets: dict[str, int], first: int, before: int, entries: IntArray
    ) -> None:
        """Add an iteration whose first task is ``first``; its ``entries`` come after the task ``before``, if any."""
        graph, pieces = job.graph, self._pieces
        self._names += [f"{job.name}/{name}" for name in graph.names]
        self._patterns += graph.patterns
        for name, offset in offsets.items():
            column = getattr(graph, name)
            pieces[name].append(np.where(column >= 0, column + offset, -1))
        for name in _KEPT:
            pieces[name].append(getattr(graph, name))
        pieces["labels"][-1] = labels[graph.labels]
        tiers = [self._memories.setdefault(one, len(self._memories)) for one in graph.memory_names]
        pieces["memories"][-1] = np.where(graph.memories >= 0, np.array([*tiers, -1])[graph.memories], -1)
        pieces["blocks"][-1] = np.where(graph.blocks >= 0, graph.blocks + self._blocks, -1)
        self._blocks += int(graph.blocks.max(initial=-1)) + 1
        pieces["partners"][-1] = np.where(graph.partners >= 0, graph.partners + first, -1)
        pieces["jobs"][-1] = np.full(len(graph), job.number)
        counts, dependencies = np.diff(graph.dependency_offsets), graph.dependencies + first
        if before >= 0:
            dependencies = np.insert(dependencies, graph.dependency_offsets[entries], before)
            counts = counts.copy()
            counts[entries] += 1
        pieces["counts"].append(counts)
        pieces["dependencies"].append(dependencies)

    def _wait(self, job: JobGraph, name: str, table: int, seconds: float, after: IntArray) -> int:
        """Add a wait of all ranks of ``job``, those of ``table``, and return its number."""
        values = {**_WAIT, "labels": self._label(WAITING), "seconds": seconds, "members": table, "jobs": job.number}
        for column, value in values.items():
            self._pieces[column].append(np.array([value]))
        self._names.append(name)
        self._patterns.append(None)
        self._pieces["counts"].append(np.array([len(after)]))
        self._pieces["dependencies"].append(after)
        return len(self._names) - 1


_NONE, _ZERO = np.zeros(0, dtype=np.intp), np.zeros(1, dtype=np.intp)
# Columns that are an index into tables, and those tables.
_SHIFTED = {
    "members": "tables",
    "controllers": "controller_tables",
    "kernels": "kernel_tables",
    "splits": "split_tables",
}
_KEPT = ("kinds", "labels", "flops", "bytes", "seconds", "blocks", "repeats", "roots", "partners", "memories", "jobs")
# What a wait has in each column, but for what differs.
_WAIT: dict[str, float] = {
    "kinds": int(TaskKind.WAIT),
    "flops": 0.0,
    "bytes": 0.0,
    "controllers": -1,
    "kernels": -1,
    "splits": -1,
    "blocks": -1,
    "repeats": 1,
    "roots": 0,
    "partners": -1,
    "memories": -1,
}
