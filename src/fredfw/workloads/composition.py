"""Several jobs as one task graph: each starts at its time, does its iterations in turn, and has ranks of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import frozen

from fredfw import arrays, limits
from fredfw.collectives.pattern import Pattern
from fredfw.typing import AnyArray, IntArray
from fredfw.workloads.graph import TaskGraph
from fredfw.workloads.kinds import ROW, TABLES, TaskKind
from fredfw.workloads.labels import OWN, WAITING

_OWN = _STARTING, _ENDING = "start of ", "end of iteration "


@frozen(eq=False)
class JobGraph:
    """A job that is a part of a composed graph."""

    name: str  # goes before the names and the labels of its tasks, with a slash, which it has not itself
    number: int  # of the job, in ``TaskGraph.jobs``
    graph: TaskGraph  # one iteration
    start: float = 0.0  # seconds before which nothing of it begins
    iterations: int = 1  # how many it does in turn; all its ranks wait for each other between two of them

    def label(self, label: str) -> str:
        """Return what ``label`` is called in the composed graph."""
        return label if label in OWN else f"{self.name}/{label}"


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
    limits.check("tasks", sum(job.iterations * (len(job.graph) + 1) - (not job.start) for job in jobs))
    columns = _Columns()
    for job in jobs:
        columns.add(job)
    return columns.graph()


class _Columns:
    """The columns of a composed graph, a piece for each iteration and each wait."""

    def __init__(self) -> None:
        names = "kinds", "labels", "members", *ROW, "counts", "dependencies"
        self._pieces: dict[str, list[AnyArray]] = {name: [] for name in names}
        self._names: list[str] = []
        self._patterns: list[Pattern | None] = []
        self._tables: dict[str, list[Any]] = {name: [] for name in TABLES}
        self._labels: dict[str, int] = {}
        self._memories: dict[str, int] = {}
        self._ranks = self._blocks = 0

    def add(self, job: JobGraph) -> None:
        """Add all of ``job``."""
        graph = job.graph
        everybody = len(self._tables["tables"])
        self._tables["tables"].append(np.arange(graph.ranks)[None, :] + self._ranks)
        offsets = {column: len(self._tables[kind]) for kind, column in TABLES.items()}
        for kind, known in self._tables.items():
            more = getattr(graph, kind)
            known.extend([table + self._ranks for table in more] if kind == "tables" else more)
        labels = _numbers(self._labels, map(job.label, graph.label_names))
        in_turn = bool(job.start) or job.iterations > 1
        entries, exits = (entries_of(graph), exits_of(graph)) if in_turn else (_NONE, _NONE)
        before = -1
        if job.start:
            before = self._wait(job, f"{_STARTING}{job.name}", everybody, job.start, _NONE)
        for iteration in range(job.iterations):
            first = len(self._names)
            self._iteration(job, labels, offsets, first, before, entries)
            if iteration + 1 < job.iterations:
                before = self._wait(job, f"{_ENDING}{iteration + 1} of {job.name}", everybody, 0.0, exits + first)
        self._ranks += graph.ranks

    def graph(self) -> TaskGraph:
        """Return the graph of all that was added."""
        columns: dict[str, Any] = {name: np.concatenate(pieces) for name, pieces in self._pieces.items()}
        tables: dict[str, Any] = {name: tuple(tables) for name, tables in self._tables.items()}
        return TaskGraph(
            ranks=self._ranks,
            names=tuple(self._names),
            label_names=tuple(self._labels),
            memory_names=tuple(self._memories),
            patterns=tuple(self._patterns),
            dependency_offsets=arrays.offsets(columns.pop("counts")),
            **columns,
            **tables,
        )

    def _iteration(
        self, job: JobGraph, labels: IntArray, offsets: dict[str, int], first: int, before: int, entries: IntArray
    ) -> None:
        """Add an iteration whose first task is ``first``; its ``entries`` come after the task ``before``, if any."""
        graph = job.graph
        self._names += [f"{job.name}/{name}" for name in graph.names]
        self._patterns += graph.patterns
        columns = {name: getattr(graph, name) for name in ("kinds", "members", *ROW)}
        for name, offset in {**offsets, "blocks": self._blocks, "partners": first}.items():
            columns[name] = np.where(columns[name] >= 0, columns[name] + offset, -1)
        self._blocks += int(graph.blocks.max(initial=-1)) + 1
        columns["labels"] = labels[graph.labels]
        columns["memories"] = np.append(_numbers(self._memories, graph.memory_names), -1)[graph.memories]
        columns["jobs"] = np.full(len(graph), job.number)
        counts, dependencies = np.diff(graph.dependency_offsets), graph.dependencies + first
        if before >= 0:
            dependencies = np.insert(dependencies, graph.dependency_offsets[entries], before)
            counts[entries] += 1
        self._append({**columns, "counts": counts, "dependencies": dependencies})

    def _wait(self, job: JobGraph, name: str, table: int, seconds: float, after: IntArray) -> int:
        """Add a wait of all ranks of ``job``, those of ``table``, and return its number."""
        label = int(_numbers(self._labels, [WAITING])[0])
        row = {**ROW, "kinds": int(TaskKind.WAIT), "labels": label, "seconds": seconds, "members": table}
        row |= {"jobs": job.number, "counts": len(after)}
        self._append({column: np.array([value]) for column, value in row.items()} | {"dependencies": after})
        self._names.append(name)
        self._patterns.append(None)
        return len(self._names) - 1

    def _append(self, columns: Mapping[str, AnyArray]) -> None:
        for name, column in columns.items():
            self._pieces[name].append(column)


def _numbers(known: dict[str, int], names: Iterable[str]) -> IntArray:
    """Return the number of each of ``names``, a new one for those that are not ``known``."""
    return np.array([known.setdefault(name, len(known)) for name in names], dtype=np.intp)


_NONE = np.zeros(0, dtype=np.intp)


def entries_of(graph: TaskGraph) -> IntArray:
    """Return the tasks that some rank may begin first."""
    return _uncovered(graph, (graph.after(task).tolist() for task in range(len(graph))))


def exits_of(graph: TaskGraph) -> IntArray:
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
