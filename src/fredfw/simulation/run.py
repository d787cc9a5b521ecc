"""Runs a task graph on a network, and says what happened when."""

from collections import deque
from collections.abc import Callable
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
from attrs import define, field

from fredfw.errors import DeadlockError
from fredfw.fabric import FlowSet, NodeKind, Routes
from fredfw.fidelities import COMPRESSED
from fredfw.simulation import engine
from fredfw.simulation.assignment import RECEIVE, Assignment, Groups
from fredfw.simulation.demands import Demands
from fredfw.simulation.fidelity import possible, way_of
from fredfw.simulation.links import LinkEvents
from fredfw.simulation.lowering import ScheduleFlows
from fredfw.simulation.network import FlowNetwork
from fredfw.simulation.program import Program
from fredfw.simulation.record import Timeline
from fredfw.simulation.variation import Pace
from fredfw.typing import IntArray
from fredfw.units import counted
from fredfw.workloads import Kernels, TaskGraph

_VISIBLE = 0.002  # by how much the share that is done has grown when progress is reported
_LISTED = 10  # what a deadlock report lists at most


class Executor:
    """Executes one task graph; used once."""

    def __init__(
        self,
        graph: TaskGraph,
        *,
        network: FlowNetwork,
        compute_seconds: Callable[[float, float, Kernels | None], float],  # see Assignment.seconds
        fidelity: str = COMPRESSED,
        progress: Callable[[float], None] | None = None,  # gets the share of the tasks that has ended, if it shows
        pace: Pace | None = None,
        events: LinkEvents | None = None,
        **given: Any,  # whatever else Assignment takes
    ) -> None:
        fidelity = possible(fidelity, network)
        # Of repeated blocks all repetitions are simulated where these may differ.
        uneven = events is not None or (pace is not None and pace.jitter is not None)
        graph = graph if fidelity == COMPRESSED and not uneven else graph.expanded()
        self.tasks = tasks = Assignment(graph, fidelity=fidelity, **given)
        self.demands = Demands(tasks)
        self._network = network
        self._events = events
        way, factors = way_of(fidelity, network), None if pace is None else pace.factors(tasks)
        self._by_rank = way in (engine.BY_RANK, engine.RENDEZVOUS)
        self._write = partial(
            Program, tasks, network=network, way=way, compute_seconds=compute_seconds, factors=factors
        )
        self._streams = Streams(network, tasks)
        self.progress = None if progress is None else partial(self._tell, progress)
        self._told = 0.0

    def run(self) -> Timeline:
        """Execute the graph from time 0 of the clock; ``DeadlockError`` where tasks are left that cannot end."""
        network = self._network
        network._run_graph(self, self._program.struct)
        if self._events is None:
            network.advance()
        else:
            self._events.drive(network)
        record = network._record()
        self._check_finished(record)
        self._compare(record)
        return Timeline(
            graph=self.tasks.graph,
            task=record.task,
            start=record.start,
            end=record.end,
            trigger=record.trigger,
            ranks=tuple(record.rank[first:last] for first, last in pairwise(record.rank_offset.tolist())),
            duration=float(record.end.max(initial=0.0)),
        )

    def exported(self, routes: Routes | None = None) -> bytes:
        """Return the graph and its network as a file for other programs, with the routes of messages; nothing runs."""
        return self._program.written(routes)

    @cached_property
    def _program(self) -> Program:
        return self._write()

    def flows(self, task: int, share: int, groups: IntArray) -> ScheduleFlows:
        """Return the flow sets of a share of ``task`` in ``(k,)`` ``groups``."""
        nodes = self.tasks.groups(task).part(groups).nodes
        return self.tasks.flows(task, self._program.shares[share], nodes, by_rank=self._by_rank)

    def stream(self, task: int, groups: IntArray, on_complete: Callable[[IntArray], None]) -> None:
        """Start the streams of a load or store in ``(k,)`` ``groups``, or have them wait for their memories."""
        self._streams.start(task, self.tasks.table(task).part(groups), on_complete)

    @cached_property
    def _total(self) -> int:
        return sum(len(self.tasks.table(task).participants) for task in range(len(self.tasks.graph)))

    def _tell(self, progress: Callable[[float], None], done: int) -> None:
        share = done / self._total
        if self._told + _VISIBLE <= share < 1:  # the caller reports the end, since it knows what comes next
            self._told = share
            progress(share)

    def _compare(self, record: engine.Record) -> None:
        order = np.argsort(record.compared_ended, kind="stable")
        rows = record.compared_task, record.compared_share, record.compared_began, record.compared_ended
        for task, number, began, ended in zip(*(row[order].tolist() for row in rows), strict=True):
            share = self._program.shares[number]
            note = share.too_fast((ended - began) / self.tasks.repeats[task], ended)
            if note is not None:
                request = share.request
                kind = f"{share.plan.algorithm} {request.pattern} {request.ranks} {request.size}"
                self.tasks.notes.setdefault(kind, note)

    def _check_finished(self, record: engine.Record) -> None:
        graph, tasks, ended = self.tasks.graph, self.tasks, record.ended.tolist()
        unfinished = [task for task, count in enumerate(ended) if count < len(tasks.table(task).participants)]
        if not unfinished:
            return
        shown = unfinished[:_LISTED]
        lines = [f"{graph.names[task]} ({tasks.labels[task]}) {self._why(task, record)}" for task in shown]
        if len(unfinished) > _LISTED:
            lines.append(f"... and {len(unfinished) - _LISTED} more")
        held = self._network.stalled()
        if held:
            lines.append(f"flows that cannot move: {', '.join(held[:_LISTED])}")
        stuck = f"{len(unfinished)} of {counted(len(graph), 'task')}"
        raise DeadlockError(f"{stuck} cannot finish:\n  " + "\n  ".join(lines))

    def _why(self, task: int, record: engine.Record) -> str:
        before, spans = self.tasks.before(task), np.repeat(record.task, np.diff(record.rank_offset))
        mine = self.tasks.table(task).participants
        late = [np.setdiff1d(self.tasks.table(one).participants, record.rank[spans == one]) for one in before]
        blocked = {rank for ranks in late for rank in np.intersect1d(mine, ranks).tolist()}
        if blocked:
            names = [self.tasks.graph.names[one] for one in before]
            return f"waits for {', '.join(names[:_LISTED])} on rank {min(blocked)}"
        if self.tasks.kinds[task] == RECEIVE:
            send = self.tasks.partners[task]
            sender = self.tasks.table(send).participants[0]
            return f"waits for {self.tasks.graph.names[send]}, the send of rank {sender}"
        return "has started and does not end"


@define(eq=False)
class Streams:
    """Starts loads and stores; where memories serve one after the other, a flow waits for those that came before it."""

    network: FlowNetwork
    tasks: Assignment
    # What waits for each memory that is busy, and what is called at its end.
    _waiting: dict[int, deque[tuple[FlowSet, Callable[[], None]]]] = field(factory=dict, init=False)

    def start(self, task: int, part: Groups, on_complete: Callable[[IntArray], None]) -> None:
        """Start ``part`` of a load or store; ``on_complete`` gets the places in it of groups that have ended."""
        flows, tier = self.tasks.stream(task, part), self.tasks.memory(task)
        if tier is None or not tier.one_at_a_time:
            self.network.start(flows, on_complete, checked=True)
            return
        left = flows.sizes.copy()

        def ended(activity: int) -> None:
            left[activity] -= 1
            if not left[activity]:
                on_complete(np.array([activity]))

        fabric = self.tasks.fabric
        for flow in range(len(flows.volumes)):
            alone = self.tasks.lowering.each(flows, np.array([flow]))
            ends = np.concatenate([column[alone.routes.links] for column in (fabric.sources, fabric.destinations)])
            memory = int(ends[fabric.kinds[ends] == NodeKind.MEMORY][0])
            end = partial(ended, int(flows.activity[flow]))
            if memory in self._waiting:
                self._waiting[memory].append((alone, end))
            else:
                self._waiting[memory] = deque()
                self._serve(memory, alone, end)

    def _serve(self, memory: int, flows: FlowSet, end: Callable[[], None]) -> None:
        def served(_done: IntArray) -> None:
            if self._waiting[memory]:
                self._serve(memory, *self._waiting[memory].popleft())
            else:
                del self._waiting[memory]
            end()

        self.network.start(flows, served, checked=True)
