"""Runs a task graph on a flow network: starts what is ready, rank by rank, and records what happened when."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import NamedTuple

import numpy as np
from attrs import define, frozen

from fredfw.collectives import CollectiveRequest
from fredfw.errors import DeadlockError, InputError
from fredfw.fabric import Fabric, FlowSet, Operation
from fredfw.simulation.bounds import LowerBounds
from fredfw.simulation.fidelity import COMPRESSED, run_of
from fredfw.simulation.lowering import Lowering
from fredfw.simulation.network import FlowNetwork
from fredfw.simulation.planner import Plan, Planner, too_fast
from fredfw.simulation.timeline import Timeline
from fredfw.typing import BoolArray, IntArray
from fredfw.workloads import TaskGraph, TaskKind

# Plain integers: looking up an enum's member costs more than the comparison, and this is the hot path.
_COMPUTE, _TRANSFER, _LOAD = int(TaskKind.COMPUTE), int(TaskKind.TRANSFER), int(TaskKind.LOAD)
_STREAMS = (_LOAD, int(TaskKind.STORE))
# Progress is reported when the share that is done has grown by this much.
_VISIBLE = 0.002
# What a deadlock report lists at most.
_LISTED = 10


@frozen(eq=False)
class _Table:
    """A member table of the graph, seen from its participants.

    Args:
        groups: ``(G, n)`` ranks.
        participants: ``(slots,)`` distinct ranks, sorted; a slot is a position in it.
        slots: ``(G, n)`` slot of each member.
        memberships: ``(slots,)`` groups that each participant belongs to.
    """

    groups: IntArray
    participants: IntArray
    slots: IntArray
    memberships: IntArray

    @classmethod
    def of(cls, members: IntArray) -> _Table:
        participants, slots = np.unique(members, return_inverse=True)
        slots = slots.reshape(members.shape)
        return cls(members, participants, slots, np.bincount(slots.ravel(), minlength=len(participants)))


@define(eq=False)
class _Task:
    """What is still missing before (and until the end of) one task, by slot and by group."""

    missing: IntArray
    absent: IntArray
    running: IntArray
    ended: int = 0


class _Span(NamedTuple):
    task: int
    start: float
    end: float
    trigger: int
    ranks: IntArray


@frozen(eq=False)
class _Share:
    """The groups of a task that one plan serves.

    Args:
        plan: What they run.
        request: What that is for.
        served: ``(G,)`` which groups of the task's table.
        first: The first of them, which stands for all where the plan is compared with its bound.
        members: ``(ranks,)`` NPU numbers of the first.
        bounds: The lower bounds on the fabric.
    """

    plan: Plan
    request: CollectiveRequest
    served: BoolArray
    first: int
    members: IntArray
    bounds: LowerBounds

    def too_fast(self, seconds: float, now: float) -> str | None:
        """Return a note where no algorithm can do in ``seconds``, until ``now``, what the first group is to do."""
        if seconds >= self._ceiling:
            return None
        return too_fast(self.plan.algorithm, self.request, seconds, self._least, now)

    @cached_property
    def _ceiling(self) -> float:
        return self.bounds.ceiling(self.request, self.members)

    @cached_property
    def _least(self) -> float:
        return self.bounds.of(self.request, self.members).seconds


class Executor:
    """Executes one task graph; used once.

    Args:
        graph: What to do.
        fabric: Where the bytes travel.
        network: The engine, on the same fabric.
        placement: ``(ranks,)`` NPU number of each rank.
        planner: Chooses the collective algorithms.
        lowering: Turns transfers into flows.
        compute_seconds: Duration of ``(flops, bytes)`` on an NPU.
        priorities: Class by label, 0 the highest; other labels come after all of them.
        fidelity: How closely collectives are simulated; repeated blocks are written out but where it is compressed.
        bounds: The lower bounds on the fabric, if there are some that know it already.
        progress: Called with the share of the tasks that has ended, below 1, where that has grown enough to be seen.

    Raises:
        InputError: A load or store uses an I/O controller that the fabric does not have.
    """

    def __init__(
        self,
        graph: TaskGraph,
        *,
        fabric: Fabric,
        network: FlowNetwork,
        placement: IntArray,
        planner: Planner,
        lowering: Lowering,
        compute_seconds: Callable[[float, float], float],
        priorities: Mapping[str, int] | None = None,
        fidelity: str = COMPRESSED,
        bounds: LowerBounds | None = None,
        progress: Callable[[float], None] | None = None,
    ) -> None:
        _check_controllers(graph, fabric)
        graph = graph if fidelity == COMPRESSED else graph.expanded()
        self._graph = graph
        self._repeats: list[int] = graph.repeats.tolist()
        self._kinds: list[int] = graph.kinds.tolist()
        self._members: list[int] = graph.members.tolist()
        self._fabric = fabric
        self._network = network
        self._placement = placement
        self._nodes = fabric.npus[placement]
        self._planner = planner
        self._lowering = lowering
        self._bounds = LowerBounds(fabric) if bounds is None else bounds
        self._compute_seconds = compute_seconds
        self._fidelity = fidelity
        classes = dict(priorities or {})
        lowest = max(classes.values(), default=-1) + 1
        self._priority = [classes.get(label, lowest) for label in graph.label_names]
        self.algorithms: dict[str, str] = {}
        self.notes: dict[str, str] = {}
        self._tables: dict[int, _Table] = {}
        self._shared: dict[tuple[int, int], IntArray | None] = {}
        self._plans: dict[tuple[object, ...], list[_Share]] = {}
        self._dependents: list[list[int]] = [[] for _ in range(len(graph))]
        self._tasks: list[_Task] = []
        self._busy = np.zeros(graph.ranks, dtype=bool)
        self._freed_by = np.full(graph.ranks, -1)
        self._queue: list[tuple[float, int, IntArray, int]] = []
        self._spans: list[_Span] = []
        self._progress = progress
        self._done = 0
        self._total = 0
        self._told = 0.0

    def check_collectives(self) -> None:
        """Make sure, without simulating anything, that there is an algorithm for every collective.

        Raises:
            UnsupportedError: There is none.
        """
        graph = self._graph
        wanted = {
            (self._members[task], graph.patterns[task], float(graph.bytes[task])): task
            for task, pattern in enumerate(graph.patterns)
            if pattern is not None
        }
        for task in wanted.values():
            request = self._request(task)
            for view, _ in self._fabric.views(self._placement[self._table(task).groups]):
                self._planner.able(request, view)

    def check_streams(self) -> None:
        """Make sure, without simulating anything, that there are links for every load and store.

        Raises:
            UnsupportedError: There are none.
        """
        for task, kind in enumerate(self._kinds):
            if kind in _STREAMS:
                self._stream(task, np.arange(len(self._table(task).groups)))

    def run(self) -> Timeline:
        """Execute the graph from time 0 of the network's clock and return what happened.

        Raises:
            DeadlockError: Nothing is left to happen while tasks are unfinished.
            PluginError: A plugin fails, or answers what cannot be used.
            ScheduleError: An algorithm writes a schedule that is wrong.
        """
        graph = self._graph
        for task in range(len(graph)):
            self._tasks.append(self._prepare(task))
        for task, state in enumerate(self._tasks):
            ready = np.flatnonzero(state.missing == 0)
            if len(ready):
                self._ready(task, ready, -1)
        self._network.advance()
        self._check_finished()
        end = np.array([span.end for span in self._spans], dtype=float)
        return Timeline(
            graph=graph,
            task=np.array([span.task for span in self._spans], dtype=np.intp),
            start=np.array([span.start for span in self._spans], dtype=float),
            end=end,
            trigger=np.array([span.trigger for span in self._spans], dtype=np.intp),
            ranks=tuple(span.ranks for span in self._spans),
            duration=float(end.max(initial=0.0)),
        )

    def _prepare(self, task: int) -> _Task:
        table = self._table(task)
        missing = np.zeros(len(table.participants), dtype=np.intp)
        for before in self._graph.after(task).tolist():
            self._dependents[before].append(task)
            shared = self._shared_slots(before, task)
            if shared is None:
                missing += 1
            else:
                missing[shared[shared >= 0]] += 1
        awaited = table.slots[:, :1] if self._kinds[task] == _TRANSFER else table.slots
        absent = np.full(len(table.groups), awaited.shape[1])
        return _Task(missing, absent, table.memberships.copy())

    @cached_property
    def _awaited(self) -> BoolArray:
        """Which tasks some computation comes after, directly or through others; all where only one label sends."""
        sends = {label for label, kind in zip(self._graph.labels, self._kinds, strict=True) if kind != _COMPUTE}
        awaited: BoolArray = np.full(len(self._graph), len(sends) < 2)
        for task in reversed(range(len(self._graph))):
            if awaited[task] or self._kinds[task] == _COMPUTE:
                awaited[self._graph.after(task)] = True
        return awaited

    def _table(self, task: int) -> _Table:
        index = self._members[task]
        known = self._tables.get(index)
        if known is None:
            members = self._graph.tables[index]
            known = self._tables[index] = _Table.of(members if members.ndim == 2 else members[:, None])
        return known

    def _shared_slots(self, before: int, after: int) -> IntArray | None:
        """Return the slot in ``after`` of each slot of ``before``, -1 for none; ``None`` if all are the same."""
        key = self._members[before], self._members[after]
        if key not in self._shared:
            one, other = self._table(before).participants, self._table(after).participants
            if len(one) == len(other) and (one == other).all():
                self._shared[key] = None
            else:
                place = np.searchsorted(other, one)
                found = other[np.minimum(place, len(other) - 1)] == one
                self._shared[key] = np.where(found, place, -1)
        return self._shared[key]

    def _ready(self, task: int, slots: IntArray, trigger: int) -> None:
        """Note that nothing keeps the participants ``slots`` of ``task`` from starting any more."""
        if self._kinds[task] == _COMPUTE:
            self._queue.append((self._network.now, task, self._table(task).participants[slots], trigger))
            self._compute()
            return
        table, state = self._table(task), self._tasks[task]
        arrived: BoolArray = np.zeros(len(table.participants), dtype=bool)
        arrived[slots] = True
        awaited = table.slots[:, : 1 if self._kinds[task] == _TRANSFER else None]
        newly = arrived[awaited].sum(axis=1)
        state.absent -= newly
        groups = np.flatnonzero((newly > 0) & (state.absent == 0))
        if len(groups):
            self._communicate(task, groups, trigger)

    def _compute(self) -> None:
        """Start queued computations on the ranks that are free: first ready first, then by task index."""
        self._queue.sort(key=lambda entry: entry[:2])
        waiting = []
        for since, task, ranks, trigger in self._queue:
            free = ~self._busy[ranks]
            if free.any() and since < self._network.now:
                # What made it start is the computation that kept the rank busy until now.
                for span in np.unique(self._freed_by[ranks[free]]).tolist():
                    self._begin_compute(task, ranks[free & (self._freed_by[ranks] == span)], span)
            elif free.any():
                self._begin_compute(task, ranks[free], trigger)
            if not free.all():
                waiting.append((since, task, ranks[~free], trigger))
        self._queue = waiting

    def _begin_compute(self, task: int, ranks: IntArray, trigger: int) -> None:
        graph = self._graph
        seconds = float(graph.seconds[task])
        if np.isnan(seconds):
            seconds = self._compute_seconds(float(graph.flops[task]), float(graph.bytes[task]))
        start = self._network.now
        self._busy[ranks] = True

        def ended() -> None:
            self._busy[ranks] = False
            self._freed_by[ranks] = len(self._spans)
            slots = np.searchsorted(self._table(task).participants, ranks)
            self._end(task, slots, start, trigger, ranks)
            if self._queue:
                self._compute()

        self._network.schedule(seconds * self._repeats[task], ended)

    def _communicate(self, task: int, groups: IntArray, trigger: int) -> None:
        start = self._network.now

        def ended(done: IntArray) -> None:
            self._end_groups(task, done, start, trigger)

        if self._kinds[task] in _STREAMS:
            flows = self._stream(task, groups)
            self._network.start(flows, lambda done: ended(groups[done]))
            return
        shares = self._planned(task)
        for share in shares:
            mine = groups if len(shares) == 1 else groups[share.served[groups]]
            if len(mine):
                self._run_schedule(task, share, mine, ended)

    def _run_schedule(self, task: int, share: _Share, groups: IntArray, ended: Callable[[IntArray], None]) -> None:
        start = self._network.now

        def complete(done: IntArray) -> None:
            if share.first in groups[done]:
                self._compare(task, share, self._network.now - start)
            ended(groups[done])

        run_of(
            self._fidelity,
            self._network,
            self._lowering,
            share.plan.schedule,
            self._nodes[self._table(task).groups[groups]],
            complete,
            priority=self._priority[self._graph.labels[task]],
            label=self._graph.label(task),
            times=self._repeats[task],
        ).start()

    def _compare(self, task: int, share: _Share, seconds: float) -> None:
        """Note a time that no algorithm can reach, once for all of a kind."""
        note = share.too_fast(seconds / self._repeats[task], self._network.now)
        if note is not None:
            request = share.request
            self.notes.setdefault(f"{share.plan.algorithm} {request.pattern} {request.ranks} {request.size}", note)

    def _planned(self, task: int) -> list[_Share]:
        """Return the plans of a task's groups; equal schedules share one."""
        graph = self._graph
        label = graph.label(task)
        awaited = bool(self._awaited[task])
        key = self._members[task], graph.patterns[task], float(graph.bytes[task]), label, awaited
        known = self._plans.get(key)
        if known is not None:
            return known
        request, table = self._request(task), self._table(task)
        plans: dict[int, tuple[Plan, list[int]]] = {}
        for plan, indices in self._planner.plans(request, self._placement[table.groups], awaited=awaited):
            plans.setdefault(id(plan.schedule), (plan, []))[1].extend(indices.tolist())
            self._note(f"{label} {request.pattern} x{request.ranks}", plan.algorithm)
            self.notes |= {note: note for note in plan.notes}
        everybody = np.arange(len(table.groups))
        known = self._plans[key] = []
        for plan, served in sorted(plans.values(), key=lambda share: min(share[1])):
            first = min(served)
            members = self._placement[table.groups[first]]
            known.append(_Share(plan, request, np.isin(everybody, served), first, members, self._bounds))
        return known

    def _request(self, task: int) -> CollectiveRequest:
        pattern = self._graph.patterns[task]
        assert pattern is not None  # the builder gives one to every collective and transfer
        return CollectiveRequest(pattern, self._table(task).groups.shape[1], float(self._graph.bytes[task]))

    def _note(self, what: str, algorithm: str) -> None:
        names = {*self.algorithms.get(what, algorithm).split(" + "), algorithm}
        self.algorithms[what] = " + ".join(sorted(names))

    def _stream(self, task: int, groups: IntArray) -> FlowSet:
        graph, table = self._graph, self._table(task)
        controllers = self._fabric.controllers[graph.controller_tables[graph.controllers[task]][groups]][:, None]
        members = self._nodes[table.groups[groups]]
        load = self._kinds[task] == _LOAD
        return self._lowering.stream(
            controllers if load else members,
            members if load else controllers,
            Operation.MULTICAST if load else Operation.REDUCE,
            float(graph.bytes[task]),
            priority=self._priority[graph.labels[task]],
            label=graph.label(task),
            times=self._repeats[task],
        )

    def _end_groups(self, task: int, groups: IntArray, start: float, trigger: int) -> None:
        table, running = self._table(task), self._tasks[task].running
        ended = np.bincount(table.slots[groups].ravel(), minlength=len(running))
        running -= ended
        touched = np.flatnonzero(ended)
        self._end(task, touched[running[touched] == 0], start, trigger, table.participants[touched])

    def _end(self, task: int, slots: IntArray, start: float, trigger: int, ranks: IntArray) -> None:
        """Record a span of ``ranks`` and let the dependents of the participants ``slots`` know."""
        span = len(self._spans)
        self._tasks[task].ended += len(slots)
        if self._progress is not None:
            self._tell(self._progress, len(slots))
        self._spans.append(_Span(task, start, self._network.now, trigger, ranks))
        for dependent in self._dependents[task]:
            shared = self._shared_slots(task, dependent)
            theirs = slots
            if shared is not None:
                theirs = shared[slots]
                theirs = theirs[theirs >= 0]
            missing = self._tasks[dependent].missing
            missing[theirs] -= 1
            ready = theirs[missing[theirs] == 0]
            if len(ready):
                self._ready(dependent, ready, span)

    def _tell(self, progress: Callable[[float], None], ended: int) -> None:
        """Count participants of tasks that ended, and tell their share where it has grown enough to be seen."""
        self._total = self._total or sum(len(self._table(task).participants) for task in range(len(self._graph)))
        self._done += ended
        share = self._done / self._total
        if self._told + _VISIBLE <= share < 1:  # the caller reports the end, since it knows what comes next
            self._told = share
            progress(share)

    def _check_finished(self) -> None:
        graph = self._graph
        unfinished = [
            task for task, state in enumerate(self._tasks) if state.ended < len(self._table(task).participants)
        ]
        if not unfinished:
            return
        lines = [f"{graph.names[task]} ({graph.label(task)}) {self._why(task)}" for task in unfinished[:_LISTED]]
        if len(unfinished) > _LISTED:
            lines.append(f"... and {len(unfinished) - _LISTED} more")
        held = self._network.stalled()
        if held:
            lines.append(f"flows that cannot move: {', '.join(held[:_LISTED])}")
        raise DeadlockError(f"{len(unfinished)} of {len(graph)} tasks cannot finish:\n  " + "\n  ".join(lines))

    def _why(self, task: int) -> str:
        state, table = self._tasks[task], self._table(task)
        blocked = table.participants[state.missing > 0]
        if len(blocked):
            before = [self._graph.names[one] for one in self._graph.after(task)]
            return f"waits for {', '.join(before[:_LISTED])} on rank {blocked[0]}"
        return "has started and does not end"


def _check_controllers(graph: TaskGraph, fabric: Fabric) -> None:
    """Raise ``InputError`` where a load or store uses an I/O controller that ``fabric`` does not have."""
    count = len(fabric.controllers)
    for index, controllers in enumerate(graph.controller_tables):
        missing = controllers[(controllers < 0) | (controllers >= count)]
        if missing.size:
            name = graph.names[int(np.argmax(graph.controllers == index))]
            message = f"task {name!r} uses I/O controller {missing[0]}, and {fabric.name!r} has {count} I/O controllers"
            raise InputError(message, accepted=f"0 to {count - 1}" if count else "a fabric with I/O controllers")
