"""Several jobs as one task graph: each starts at its time, does its iterations in turn, and has ranks of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import frozen

from fredfw import arrays, limits
from fredfw.collectives.pattern import Pattern
from fredfw.typing import AnyArray, IntArray
from fredfw.workloads.graph import TaskGraph
from fredfw.workloads.kinds import ROW, TABLES, TaskKind
from fredfw.workloads.labels import OWN, WAITING

_NONE = np.zeros(0, dtype=np.intp)
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
        return label if label in OWN else f"{self.name}/{label}"


def is_between(name: str) -> bool:
    """Return whether the task called ``name`` of a composed graph comes before an iteration: of a job, not in one."""
    return name.startswith(_OWN) and "/" not in name  # which the names of all tasks in iterations have


def composed(jobs: Sequence[JobGraph]) -> TaskGraph:
    """Return the graph of all ``jobs``, with their ranks and tasks ``JOB/TASK`` one after the other."""
    limits.check("tasks", sum(job.iterations * (len(job.graph) + 1) - (not job.start) for job in jobs))
    whole = Assembly()
    for job in jobs:
        _add(whole, job)
    return whole.graph()


def _add(whole: Assembly, job: JobGraph) -> None:
    graph = job.graph
    wait = {"members": whole.table(np.arange(graph.ranks)[None, :] + whole.ranks), "jobs": job.number}
    offsets = whole.begin(graph)
    entries, exits = (entries_of(graph), exits_of(graph)) if job.start or job.iterations > 1 else (_NONE, _NONE)
    before = -1
    if job.start:
        before = whole.task(f"{_STARTING}{job.name}", TaskKind.WAIT, WAITING, _NONE, seconds=job.start, **wait)
    for iteration in range(1, job.iterations + 1):
        first = len(whole)
        labels = map(job.label, graph.label_names)
        whole.copy(graph, offsets, f"{job.name}/", labels, before, entries, jobs=np.full(len(graph), job.number))
        if iteration < job.iterations:
            name = f"{_ENDING}{iteration} of {job.name}"
            before = whole.task(name, TaskKind.WAIT, WAITING, exits + first, seconds=0.0, **wait)


class Assembly:
    """The columns of a graph that is made of those of others and of single tasks, a piece for each."""

    def __init__(self) -> None:
        names = "kinds", "labels", "members", *ROW, "counts", "dependencies"
        self._pieces: dict[str, list[AnyArray]] = {name: [] for name in names}
        self._names: list[str] = []
        self._patterns: list[Pattern | None] = []
        self._tables: dict[str, list[Any]] = {name: [] for name in TABLES}
        self._labels: dict[str, int] = {}
        self._memories: dict[str, int] = {}
        self._blocks = 0
        self.ranks = 0  # of the graphs that have begun

    def __len__(self) -> int:
        return len(self._names)

    def table(self, ranks: IntArray) -> int:
        self._tables["tables"].append(ranks)
        return len(self._tables["tables"]) - 1

    def memory(self, name: str) -> int:
        return int(_numbers(self._memories, [name])[0])

    def begin(self, graph: TaskGraph) -> dict[str, int]:
        """Add the ranks and tables of ``graph``; return the first of the tables that each column is an index into."""
        offsets = {column: len(self._tables[kind]) for kind, column in TABLES.items()}
        for kind, known in self._tables.items():
            more = getattr(graph, kind)
            known.extend([table + self.ranks for table in more] if kind == "tables" else more)
        self.ranks += graph.ranks
        return offsets

    def copy(
        self,
        graph: TaskGraph,
        offsets: Mapping[str, int],
        prefix: str,
        labels: Iterable[str],
        before: int = -1,
        entries: IntArray = _NONE,
        **changed: IntArray,
    ) -> None:
        """Add the tasks of ``graph``; its ``entries`` come after the task ``before``, if any."""
        first = len(self)
        self._patterns += graph.patterns
        columns = {name: getattr(graph, name) for name in ("kinds", "members", *ROW)} | changed
        for name, offset in {**offsets, "blocks": self._blocks, "partners": first}.items():
            columns[name] = np.where(columns[name] >= 0, columns[name] + offset, -1)
        self._blocks += int(graph.blocks.max(initial=-1)) + 1
        columns["labels"] = _numbers(self._labels, labels)[graph.labels]
        columns["memories"] = np.append(_numbers(self._memories, graph.memory_names), -1)[graph.memories]
        counts, dependencies = np.diff(graph.dependency_offsets), graph.dependencies + first
        if before >= 0:
            dependencies = np.insert(dependencies, graph.dependency_offsets[entries], before)
            counts[entries] += 1
        self._append([f"{prefix}{name}" for name in graph.names], columns, counts, dependencies)

    def task(self, name: str, kind: TaskKind, label: str, after: IntArray, **given: float) -> int:
        row = {**ROW, "kinds": int(kind), "labels": int(_numbers(self._labels, [label])[0]), **given}
        self._patterns.append(None)
        columns = {column: np.array([value]) for column, value in row.items()}
        self._append([name], columns, np.array([len(after)]), after)
        return len(self) - 1

    def _append(self, names: list[str], columns: dict[str, AnyArray], counts: IntArray, dependencies: IntArray) -> None:
        self._names += names
        for name, column in {**columns, "counts": counts, "dependencies": dependencies}.items():
            self._pieces[name].append(column)

    def graph(self) -> TaskGraph:
        columns: dict[str, Any] = {name: np.concatenate(pieces) for name, pieces in self._pieces.items()}
        tables: dict[str, Any] = {name: tuple(tables) for name, tables in self._tables.items()}
        return TaskGraph(
            ranks=self.ranks,
            names=tuple(self._names),
            label_names=tuple(self._labels),
            memory_names=tuple(self._memories),
            patterns=tuple(self._patterns),
            dependency_offsets=arrays.offsets(columns.pop("counts")),
            **columns,
            **tables,
        )


def _numbers(known: dict[str, int], names: Iterable[str]) -> IntArray:
    return np.array([known.setdefault(name, len(known)) for name in names], dtype=np.intp)


def entries_of(graph: TaskGraph) -> IntArray:
    """Return the tasks that some rank may begin first."""
    return _uncovered(graph, graph.dependencies, graph.dependency_offsets)


def exits_of(graph: TaskGraph) -> IntArray:
    """Return the tasks that some rank may end last."""
    after = np.repeat(np.arange(len(graph)), np.diff(graph.dependency_offsets))
    counts = np.bincount(graph.dependencies, minlength=len(graph))
    return _uncovered(graph, after[np.argsort(graph.dependencies, kind="stable")], arrays.offsets(counts))


def _uncovered(graph: TaskGraph, others: IntArray, offsets: IntArray) -> IntArray:
    """Return tasks of which some participant has part in none of ``others[offsets[task] : offsets[task + 1]]``."""
    near, bounds = graph.members[others].tolist(), offsets.tolist()
    known: dict[tuple[int, frozenset[int]], bool] = {}
    found = []
    for task, table in enumerate(graph.members.tolist()):
        key = table, frozenset(near[bounds[task] : bounds[task + 1]])
        if key not in known:
            theirs = [graph.tables[one].ravel() for one in key[1]]
            known[key] = bool(np.isin(graph.tables[table], np.concatenate([_NONE, *theirs])).all())
        if not known[key]:
            found.append(task)
    return np.array(found, dtype=np.intp)
