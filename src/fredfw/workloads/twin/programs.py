"""What each rank does, in turn: a task graph from the side of its ranks."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np

from fredfw.collectives.pattern import Pattern
from fredfw.errors import UnsupportedError
from fredfw.workloads.graph import TaskGraph
from fredfw.workloads.kinds import TaskKind

_KINDS = TaskKind.COMPUTE, TaskKind.COLLECTIVE, TaskKind.SEND, TaskKind.RECEIVE


class Step(NamedTuple):
    """What one rank has to do with one task."""

    task: int  # its number in the graph
    kind: TaskKind  # what it does
    pattern: Pattern | None  # of a collective
    label: str  # what time is charged to
    values: tuple[float, float, float]  # seconds (NaN where they follow from the others), FLOPs, and bytes
    members: tuple[int, ...]  # the group of a collective, in its order; empty for others
    root: int  # position of the root among them
    peer: int  # the other rank of a send or receive, else -1
    partner: int  # the task that sends what a receive gets, else -1
    before: tuple[int, ...]  # places of the steps of the rank that come directly before it


def programs(graph: TaskGraph) -> list[list[Step]]:
    """Return the steps of each rank of ``graph``, in the same order for ranks that do the same."""
    graph = graph.expanded()
    steps: list[list[Step]] = [[] for _ in range(graph.ranks)]
    places: dict[int, dict[int, int]] = {}  # of each task: the place of its step by rank
    partners = graph.partners.tolist()
    peers = [int(graph.tables[graph.members[one]].ravel()[0]) if one >= 0 else -1 for one in partners]
    for task in _order(graph):
        kind = TaskKind(int(graph.kinds[task]))
        if kind not in _KINDS:
            raise UnsupportedError(
                f"task {graph.names[task]!r} is a {kind.name.lower()}",
                accepted="computations, collectives, sends and receives, as traces have them",
            )
        collective = kind is TaskKind.COLLECTIVE
        table = graph.tables[graph.members[task]]
        before: dict[int, list[int]] = {}
        for one in graph.after(task).tolist():
            for rank, place in places[one].items():
                before.setdefault(rank, []).append(place)
        values = float(graph.seconds[task]), float(graph.flops[task]), float(graph.bytes[task])
        here = {}
        for row in (table if collective else table.reshape(-1, 1)).tolist():
            for rank in row:
                here[rank] = len(steps[rank])
                steps[rank].append(
                    Step(
                        task=task,
                        kind=kind,
                        pattern=graph.patterns[task] if collective else None,
                        label=graph.label(task),
                        values=values,
                        members=tuple(row) if collective else (),
                        root=int(graph.roots[task]),
                        peer=peers[task],
                        partner=partners[task] if kind is TaskKind.RECEIVE else -1,
                        before=tuple(sorted(before.get(rank, ()))),
                    )
                )
        places[task] = here
    return steps


def _order(graph: TaskGraph) -> list[int]:
    """Return the tasks as ranks run them that do one computation at a time, each of which takes as long.

    A rank goes on with what became ready last, so what depends on each other comes in a row. Communication takes no
    time. What became ready at the same time is ordered by what it does, and only then by its number.
    """
    columns = (column.tolist() for column in (graph.labels, graph.flops, graph.bytes))
    alike = list(zip(graph.kinds.tolist(), map(str, graph.patterns), *columns, range(len(graph)), strict=True))
    missing = np.diff(graph.dependency_offsets).tolist()
    dependents: list[list[int]] = [[] for _ in missing]
    for task, partner in enumerate(graph.partners.tolist()):
        for one in graph.after(task).tolist():
            dependents[one].append(task)
        if 0 <= partner < task:  # it receives what an earlier task sends
            dependents[partner].append(task)
            missing[task] += 1
    found: list[int] = []
    tick = 0
    computing: dict[int, list[tuple[int, Any]]] = {}  # by rank: what is ready, the latest first
    communicating: list[Any] = []

    def became_ready(task: int) -> None:
        table = graph.tables[graph.members[task]]
        if graph.kinds[task] == TaskKind.COMPUTE and table.size == 1:
            heappush(computing.setdefault(int(table[0]), []), (-tick, alike[task]))
        else:
            heappush(communicating, alike[task])

    def run(task: int) -> None:
        found.append(task)
        for one in dependents[task]:
            missing[one] -= 1
            if not missing[one]:
                became_ready(one)

    for task, left in enumerate(list(missing)):
        if not left:
            became_ready(task)
    while len(found) < len(graph):
        tick += 1
        while communicating:
            run(heappop(communicating)[-1])
        for task in [heappop(computing[rank])[1][-1] for rank in sorted(computing) if computing[rank]]:
            run(task)
    return found
