"""Runs a task graph on a flow network: starts what is ready, rank by rank, and records what happened when.

A collective begins in a group when all of its members are ready, and ends for all of them at once. Where ranks do not
wait for each other, each enters it when it is ready itself, and is through with it on its own.

A rank does one computation at a time, in the order in which they get ready for it; those that the same event makes
ready in the order of their numbers. A computation that has begun is not interrupted.

Most tasks of a trace are of one rank or one group. They begin as a whole, when nothing is missing before them, so that
only a number is kept of what is. For other tasks there is an array of what is missing before each participant.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from fredfw.errors import DeadlockError
from fredfw.fabric import Fabric
from fredfw.simulation.assignment import (
    COMPUTE,
    RECEIVE,
    SEND,
    STREAMS,
    TRANSFER,
    Assignment,
    Part,
    Share,
)
from fredfw.simulation.bounds import LowerBounds
from fredfw.simulation.dependents import Dependents
from fredfw.simulation.entering import Entering
from fredfw.simulation.fidelity import COMPRESSED, RENDEZVOUS, goes_rank_by_rank, run_of
from fredfw.simulation.lowering import Lowering
from fredfw.simulation.network import FlowNetwork
from fredfw.simulation.planner import Planner
from fredfw.simulation.progress import ScheduleRun
from fredfw.simulation.ranks import RankRun
from fredfw.simulation.repeats import Repeats, Unit
from fredfw.simulation.timeline import Record, Timeline
from fredfw.typing import FloatArray, IntArray
from fredfw.workloads import Kernels, TaskGraph

# Progress is reported when the share that is done has grown by this much.
_VISIBLE = 0.002
# What a deadlock report lists at most.
_LISTED = 10
# At one moment ranks enter collectives after all that ends.
_ENTRIES = 1
# Nodes of a message.
_SENDER, _RECEIVER, _BOTH = np.array([0]), np.array([1]), np.array([0, 1])


class _Waiting(NamedTuple):
    """A computation that is ready on some ranks.

    Args:
        order: How many computations got ready before it.
        since: When it did.
        task: Its task.
        slots: Of the ranks.
        ranks: Where.
        trigger: The span that made it ready.
    """

    order: int
    since: float
    task: int
    slots: IntArray
    ranks: IntArray
    trigger: int


class _Entry(NamedTuple):
    """An entry of ranks into a collective.

    Args:
        time: When.
        trigger: The span that made them ready.
    """

    time: float
    trigger: int


class _Message(NamedTuple):
    """A message that has left its sender, or has arrived.

    Args:
        start: When the ranks that it waited for were ready.
        trigger: The span that made the last of them so.
    """

    start: float
    trigger: int


class Executor:
    """Executes one task graph; used once.

    Args:
        graph: What to do.
        fabric: Where the bytes travel.
        network: The engine, on the same fabric.
        placement: ``(ranks,)`` NPU number of each rank.
        planner: Chooses the collective algorithms.
        lowering: Turns transfers into flows.
        compute_seconds: Duration of ``(flops, bytes, kernels)`` on an NPU; the last is ``None`` where it is not known.
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
        compute_seconds: Callable[[float, float, Kernels | None], float],
        priorities: Mapping[str, int] | None = None,
        fidelity: str = COMPRESSED,
        bounds: LowerBounds | None = None,
        progress: Callable[[float], None] | None = None,
    ) -> None:
        built, graph = graph, graph if fidelity == COMPRESSED else graph.expanded()
        self._graph = graph
        self._tasks = Assignment(
            graph,
            fabric=fabric,
            placement=placement,
            planner=planner,
            lowering=lowering,
            priorities=priorities,
            bounds=bounds,
        )
        # Nothing to skip where blocks are not written out.
        skips = built is not graph
        self._repeats = (
            Repeats(built, self._tasks, lowering, network.solver.sharing, network.admission) if skips else None
        )
        self._network = network
        self._lowering = lowering
        self._compute_seconds = compute_seconds
        self._fidelity = fidelity
        self._rank_by_rank = goes_rank_by_rank(fidelity, network)
        self._seconds: list[float] = graph.seconds.tolist()
        self._flops: list[float] = graph.flops.tolist()
        self._kernels: list[int] = graph.kernels.tolist()
        self._known: dict[tuple[float, float, int], float] = {}  # seconds of what was computed before
        self._tables = [self._tasks.table(task) for task in range(len(graph))]
        self._dependents = Dependents(self._tasks, [self._begins_whole(task) for task in range(len(graph))])
        # What is missing before a task (and until its end), by slot or group, once some of it has come and not all.
        self._missing: dict[int, IntArray] = {}
        self._absent: dict[int, IntArray] = {}
        self._running: dict[int, IntArray] = {}
        self._released: set[int] = set()  # tasks before which nothing is missing, although nobody has counted
        self._ended = [0] * len(graph)  # participants
        self._busy = np.zeros(graph.ranks, dtype=bool)
        self._freed_by = np.full(graph.ranks, -1)
        # Computations that wait: those of single ranks by rank, unless some of several ranks wait too.
        self._queues: list[deque[tuple[int, float, int, int]]] = [deque() for _ in range(graph.ranks)]
        self._queued = 0
        self._queue: list[_Waiting] = []
        self._waited = 0
        self._messages: dict[int, _Message] = {}  # that have arrived, by the receive that is not ready
        self._posted: set[int] = set()  # receives that are ready, and whose messages have not begun
        self._exchanges: dict[int, RankRun] = {}  # messages under way that wait for their receive
        self._entering: dict[int, Entering] = {}  # tasks that some rank has entered, and not all are through with
        self._enter_now: dict[int, Entering] = {}  # those that some enter at this moment
        self._entries: list[_Entry] = []
        self._spans = Record()
        self._progress = progress
        self._done = 0
        self._total = 0
        self._told = 0.0

    @property
    def algorithms(self) -> dict[str, str]:
        """The algorithms of each collective, by what it is."""
        return self._tasks.algorithms

    @property
    def notes(self) -> dict[str, str]:
        """What a reader of the result must know; the values."""
        return self._tasks.notes

    def check(self) -> None:
        """Make sure that there is an algorithm for every collective, and links for every stream.

        Raises:
            UnsupportedError: There is none.
        """
        self._tasks.check_collectives()
        self._tasks.check_streams()

    def run(self) -> Timeline:
        """Execute the graph from time 0 of the network's clock and return what happened.

        Raises:
            DeadlockError: Nothing is left to happen while tasks are unfinished.
            PluginError: A plugin fails, or answers what cannot be used.
            ScheduleError: An algorithm writes a schedule that is wrong.
        """
        graph = self._graph
        for task in range(len(graph)):
            if self._dependents.whole[task]:
                if not self._dependents.missing[task]:
                    self._begin(task, -1)
                continue
            ready = self._unhindered(task)
            if len(ready):
                self._ready(task, ready, -1)
        self._network.advance()
        self._check_finished()
        if self._repeats is not None:
            self._network.statistics.skipped += self._repeats.skipped
        return self._spans.timeline(graph)

    def link_bytes(self) -> dict[str, FloatArray]:
        """Return the ``(links,)`` bytes that have crossed each link, by label, those that were not simulated too."""
        moved = self._network.link_bytes()
        skipped = {} if self._repeats is None else self._repeats.loads
        return moved | {label: moved[label] + loads for label, loads in skipped.items()}

    def _begins_whole(self, task: int) -> bool:
        """Return whether all participants of ``task`` begin it together."""
        kind, table = self._tasks.kinds[task], self._tables[task]
        if kind == COMPUTE:
            return len(table.participants) == 1
        if kind in (SEND, RECEIVE):
            return True
        return len(table.groups) == 1 and kind != TRANSFER and (kind in STREAMS or not self._rank_by_rank)

    def _unhindered(self, task: int) -> IntArray:
        """Return the slots of ``task`` that no task before it has a part in."""
        before, everybody = self._tasks.before(task), self._tables[task].everybody
        if not before:
            return everybody
        if any(self._tasks.shared_slots(one, task) is None for one in before):
            return everybody[:0]
        free: IntArray = (self._missing_of(task) == 0).nonzero()[0]
        return free

    def _missing_of(self, task: int) -> IntArray:
        """Return how many of the tasks before ``task`` each slot still waits for."""
        missing = self._missing.get(task)
        if missing is None:
            missing = self._missing[task] = np.zeros(len(self._tables[task].participants), dtype=np.intp)
            for one in self._tasks.before(task):
                shared = self._tasks.shared_slots(one, task)
                if shared is None:
                    missing += 1
                else:
                    missing[shared[shared >= 0]] += 1
        return missing

    def _ready(self, task: int, slots: IntArray, trigger: int) -> None:
        """Note that nothing keeps the participants ``slots`` of ``task`` from starting any more."""
        table, kind = self._tables[task], self._tasks.kinds[task]
        whole = len(slots) == len(table.everybody)
        slots = table.everybody if whole else slots
        if kind == COMPUTE:
            ranks = table.participants if whole else table.participants[slots]
            if self._queue or self._queued or np.count_nonzero(self._busy[ranks]):
                self._queue_together()
                self._wait(task, slots, ranks, trigger)
            else:
                self._begin_compute(task, slots, ranks, trigger)
            return
        if self._rank_by_rank and kind not in STREAMS:
            self._enter_later(task, slots, trigger)
            return
        absent = self._absent.get(task)
        if whole and absent is None:
            self._communicate(task, table.whole, trigger)
            return
        awaited = table.slots[:, :1] if kind == TRANSFER else table.slots
        if absent is None:
            absent = self._absent[task] = np.full(len(awaited), awaited.shape[1])
        arrived = np.zeros(len(table.participants), dtype=bool)
        arrived[slots] = True
        newly = arrived[awaited].sum(axis=1)
        absent -= newly
        groups = ((newly > 0) & (absent == 0)).nonzero()[0]
        if len(groups):
            self._communicate(task, table.part(groups), trigger)

    def _begin(self, task: int, trigger: int) -> None:
        """Begin ``task``, all of whose participants are ready."""
        kind = self._tasks.kinds[task]
        if kind == COMPUTE:
            self._compute_alone(task, trigger)
        elif kind == SEND:
            self._send(task, trigger)
        elif kind == RECEIVE:
            self._receive(task, trigger)
        else:
            self._communicate(task, self._tables[task].whole, trigger)

    # --- computations

    def _compute_alone(self, task: int, trigger: int) -> None:
        """Start a computation of a single rank, or have it wait for those before it."""
        ranks = self._tables[task].participants
        if self._queue:
            self._wait(task, self._tables[task].everybody, ranks, trigger)
            return
        rank = ranks.item()
        busy, queue = self._busy.item(rank), self._queues[rank]
        if busy or queue:
            queue.append((self._waited, self._network.now, task, trigger))
            self._waited += 1
            self._queued += 1
            if not busy:
                self._next(rank)
        else:
            self._begin_compute(task, self._tables[task].everybody, ranks, trigger)

    def _next(self, rank: int) -> None:
        """Start the first of the computations that wait for ``rank`` alone, which is free."""
        _, since, task, trigger = self._queues[rank].popleft()
        self._queued -= 1
        if since < self._network.now:
            trigger = self._freed_by.item(rank)
        self._begin_compute(task, self._tables[task].everybody, self._tables[task].participants, trigger)

    def _queue_together(self) -> None:
        """Have what waits for single ranks wait in the queue of all, which is empty."""
        if self._queued:
            for queue in self._queues:
                for order, since, task, trigger in queue:
                    table = self._tables[task]
                    self._queue.append(_Waiting(order, since, task, table.everybody, table.participants, trigger))
                queue.clear()
            self._queue.sort(key=itemgetter(0))
            self._queued = 0

    def _wait(self, task: int, slots: IntArray, ranks: IntArray, trigger: int) -> None:
        """Queue a computation that is ready on ``ranks``, and start it on those of them that nothing keeps busy."""
        self._queue.append(_Waiting(self._waited, self._network.now, task, slots, ranks, trigger))
        self._waited += 1
        self._compute()

    def _compute(self) -> None:
        """Start queued computations on the ranks that are free, those first that were ready first."""
        waiting = []
        for one in self._queue:
            order, since, task, slots, ranks, trigger = one
            free = ~self._busy[ranks]
            if free.any() and since < self._network.now:
                # What made it start is the computation that kept the rank busy until now.
                for span in np.unique(self._freed_by[ranks[free]]).tolist():
                    mine = free & (self._freed_by[ranks] == span)
                    self._begin_compute(task, slots[mine], ranks[mine], span)
            elif free.any():
                self._begin_compute(task, slots[free], ranks[free], trigger)
            if not free.all():
                waiting.append(_Waiting(order, since, task, slots[~free], ranks[~free], trigger))
        self._queue = waiting

    def _begin_compute(self, task: int, slots: IntArray, ranks: IntArray, trigger: int) -> None:
        seconds = self._seconds[task]
        if seconds != seconds:  # it follows from what is computed
            seconds = self._duration(task)
        self._busy[ranks] = True
        if self._repeats is not None:
            self._repeats.begin(task, ranks, 1)
        ended = partial(self._end_compute, task, slots, ranks, self._network.now, trigger)
        self._network.schedule(seconds * self._tasks.repeats[task], ended)

    def _duration(self, task: int) -> float:
        """Return how long a repetition of the computation ``task`` takes."""
        work = self._flops[task], self._tasks.bytes[task], self._kernels[task]
        if work not in self._known:
            table = self._kernels[task]
            kernels = None if table < 0 else self._graph.kernel_tables[table]
            self._known[work] = self._compute_seconds(*work[:2], kernels)
        return self._known[work]

    def _end_compute(self, task: int, slots: IntArray, ranks: IntArray, start: float, trigger: int) -> None:
        if self._repeats is not None:
            self._repeats.end(task, ranks, 1, self._network.now)
        self._busy[ranks] = False
        self._freed_by[ranks] = len(self._spans)
        self._end(task, slots, start, trigger, ranks)
        if self._queued and len(ranks) > 1:
            self._queue_together()
        if self._queue:
            self._compute()
        elif self._queued:
            rank = ranks.item()
            if self._queues[rank] and not self._busy.item(rank):
                self._next(rank)

    # --- messages

    def _send(self, task: int, trigger: int) -> None:
        """Send the message of ``task``, whose sender is ready."""
        (share,) = self._tasks.planned(task)
        message, receive = _Message(self._network.now, trigger), self._tasks.partners[task]
        nodes = self._tasks.groups(task).nodes
        if self._repeats is not None:
            self._repeats.begin(task, self._tables[task].participants, 2)  # until it is sent, and until it is there
        if not self._rank_by_rank:
            self._run(task, share, nodes, partial(self._delivered, task, share, message)).start()
            return
        entries = len(self._entries)
        self._entries.append(_Entry(*message))
        run = self._rank_run(
            task, share, nodes, partial(self._compare_message, task, share, message), partial(self._passed, task)
        )
        if self._fidelity != RENDEZVOUS or receive in self._posted:
            self._posted.discard(receive)
            self._network.schedule(0.0, partial(run.enter, _BOTH, entries), _ENTRIES)
        else:
            self._exchanges[receive] = run
            self._network.schedule(0.0, partial(run.enter, _SENDER, entries), _ENTRIES)

    def _receive(self, task: int, trigger: int) -> None:
        """Note that nothing but the message keeps ``task`` from its end."""
        if task in self._messages:  # later, because the end of one may let the next one end, and so on
            del self._messages[task]
            now = self._network.now
            self._network.schedule(0.0, partial(self._end_alone, task, _Message(now, trigger)))
        elif task in self._exchanges:
            self._entries.append(_Entry(self._network.now, trigger))
            enter = partial(self._exchanges.pop(task).enter, _RECEIVER, len(self._entries) - 1)
            self._network.schedule(0.0, enter, _ENTRIES)
        else:
            self._posted.add(task)

    def _delivered(self, task: int, share: Share, message: _Message, done: IntArray) -> None:
        """Note that the message of the send ``task`` has arrived, and with it the send has ended."""
        self._compare_message(task, share, message, done)
        self._sent(task, message)
        self._arrived(task, message)

    def _passed(self, task: int, nodes: IntArray, marks: IntArray) -> None:
        """Note that ``nodes`` of the message of the send ``task`` are through: 0 has sent it, 1 has it."""
        for node, mark in zip(nodes.tolist(), marks.tolist(), strict=True):
            message = _Message(*self._entries[mark])
            if node == 0:
                self._sent(task, message)
            else:
                self._arrived(task, message)

    def _sent(self, task: int, message: _Message) -> None:
        if self._repeats is not None:
            self._repeats.end(task, self._tables[task].participants, 1, self._network.now)
        self._end_alone(task, message)

    def _arrived(self, task: int, message: _Message) -> None:
        receive = self._tasks.partners[task]
        if self._repeats is not None:
            self._repeats.end(task, self._tables[task].participants, 1, self._network.now)
        if self._dependents.missing[receive]:
            self._messages[receive] = message
        else:
            self._posted.discard(receive)
            self._end_alone(receive, message)

    def _end_alone(self, task: int, message: _Message) -> None:
        table = self._tables[task]
        self._end(task, table.everybody, message.start, message.trigger, table.participants)

    def _compare_message(self, task: int, share: Share, message: _Message, done: IntArray) -> None:
        del done
        self._compare(task, share, self._network.now - message.start)

    # --- communication in groups

    def _communicate(self, task: int, part: Part, trigger: int) -> None:
        start = self._network.now
        if self._repeats is not None:
            self._repeats.begin(task, part.ranks, len(part.groups))
        if self._tasks.kinds[task] in STREAMS:
            self._network.start(
                self._tasks.stream(task, part), partial(self._end_groups, task, part, start, trigger, None)
            )
            return
        table = self._tables[task]
        for share in self._tasks.planned(task):
            mine = part
            if share.served is not None:
                groups = part.groups[share.served[part.groups]]
                if not len(groups):
                    continue
                mine = table.part(groups)
            self._run(task, share, mine.nodes, partial(self._end_groups, task, mine, start, trigger, share)).start()

    def _run(
        self, task: int, share: Share, nodes: IntArray, on_complete: Callable[[IntArray], None]
    ) -> ScheduleRun | RankRun:
        label = self._tasks.labels[task]
        return run_of(
            self._fidelity,
            self._network,
            self._lowering,
            share.plan.schedule,
            nodes,
            on_complete,
            priority=self._tasks.priority[label],
            label=label,
            times=self._tasks.repeats[task],
        )

    def _end_groups(
        self, task: int, part: Part, start: float, trigger: int, share: Share | None, done: IntArray
    ) -> None:
        """Note the end of the groups ``done`` of ``part``."""
        table = self._tables[task]
        if len(done) < len(part.groups):
            part = table.part(part.groups[done])
        if self._repeats is not None:
            self._repeats.end(task, part.ranks, len(part.groups), self._network.now)
        if share is not None and (part is table.whole or share.first in part.groups):
            self._compare(task, share, self._network.now - start)
        slots = part.slots
        if table.memberships is not None:
            running = self._running.get(task)
            if running is None:
                running = self._running[task] = table.memberships.copy()
            running -= np.bincount(table.slots[part.groups].ravel(), minlength=len(running))
            slots = slots[running[slots] == 0]
        self._end(task, slots, start, trigger, part.ranks)

    def _enter_later(self, task: int, slots: IntArray, trigger: int) -> None:
        """Have the participants ``slots`` enter ``task`` with all that do at this moment."""
        table = self._tables[task]
        entering = self._entering.get(task)
        if entering is None:
            entering = self._entering[task] = Entering(
                task,
                self._tasks,
                sender_alone=self._tasks.kinds[task] == TRANSFER and self._fidelity != RENDEZVOUS,
                new_run=partial(self._rank_run, task),
                on_through=partial(self._end_ranks, task),
                on_complete=partial(self._compare_since, task),
            )
            self._running[task] = np.bincount(table.slots.ravel())
        if not self._enter_now:
            self._network.schedule(0.0, self._enter, _ENTRIES)
        self._enter_now[task] = entering
        self._entries.append(_Entry(self._network.now, trigger))
        members = entering.add(slots, len(self._entries) - 1)
        if self._repeats is not None:
            self._repeats.begin(task, table.participants[slots], members)

    def _enter(self) -> None:
        entering, self._enter_now = self._enter_now, {}
        for one in entering.values():
            one.enter(self._network.now)

    def _rank_run(
        self,
        task: int,
        share: Share,
        nodes: IntArray,
        on_complete: Callable[[IntArray], None],
        on_through: Callable[[IntArray, IntArray], None],
    ) -> RankRun:
        label = self._tasks.labels[task]
        return RankRun(
            self._network,
            self._lowering,
            share.plan.schedule,
            nodes,
            on_complete,
            on_through=on_through,
            priority=self._tasks.priority[label],
            label=label,
            rendezvous=self._fidelity == RENDEZVOUS,
        )

    def _end_ranks(self, task: int, slots: IntArray, marks: IntArray) -> None:
        """Note that ``(k,)`` ``slots`` are through with a group each, and the ``marks`` of what each awaited last."""
        table, running = self._tables[task], self._running[task]
        for mark in np.unique(marks).tolist():
            mine = slots[marks == mark]
            if self._repeats is not None:
                self._repeats.end(task, table.participants[mine], len(mine), self._network.now)
            np.subtract.at(running, mine, 1)
            mine = np.unique(mine)
            over, entry = mine[running[mine] == 0], self._entries[mark]
            whole = len(over) == len(table.everybody)
            self._end(task, table.everybody if whole else over, entry.time, entry.trigger, table.participants[mine])
        if self._ended[task] == len(table.everybody):
            del self._entering[task]

    def _compare_since(self, task: int, share: Share, began: float) -> None:
        self._compare(task, share, self._network.now - began)

    def _compare(self, task: int, share: Share, seconds: float) -> None:
        """Note a time that no algorithm can reach, once for all of a kind."""
        note = share.too_fast(seconds / self._tasks.repeats[task], self._network.now)
        if note is not None:
            request = share.request
            self.notes.setdefault(f"{share.plan.algorithm} {request.pattern} {request.ranks} {request.size}", note)

    def _end(self, task: int, slots: IntArray, start: float, trigger: int, ranks: IntArray) -> None:
        """Record a span of ``ranks`` and let the dependents of the participants ``slots`` know."""
        span = len(self._spans)
        self._ended[task] += len(slots)
        if self._progress is not None:
            self._tell(self._progress, len(slots))
        self._spans.add(task, start, self._network.now, trigger, ranks)
        if self._repeats is not None and not self._queue and not self._queued:
            unit = self._repeats.jump(task, self._spans, self._network.now)
            if unit is not None:
                self._jump(unit, task, slots)
                return
        self._release(task, slots, span)

    def _jump(self, unit: Unit, task: int, slots: IntArray) -> None:
        """Let ``unit``, which has ended ``task`` and with it a repetition, go on behind those that it jumps over."""
        last = unit.cycle[-1]  # which may have been earlier
        skipped = unit.jumps * unit.period
        wake = self._network.now + skipped
        for times in range(1, unit.jumps + 1):
            shift = self._network.now - last.end + times * unit.period
            for one, _, end, _, ranks in unit.cycle:
                again, before = one + task - last.task + times * unit.block.length, len(self._spans) - 1
                start = self._spans[before].end
                self._ended[again] += len(slots)
                if self._tasks.kinds[again] == COMPUTE:
                    self._freed_by[ranks] = before + 1
                # Rounded, the shifted end may be a little before the one that it follows, or after what follows it.
                self._spans.add(again, start, min(max(start, end + shift), wake), before, ranks)
        self._network.schedule(skipped, partial(self._wake, unit, self._spans[-1].task, slots, len(self._spans) - 1))

    def _wake(self, unit: Unit, task: int, slots: IntArray, span: int) -> None:
        """Let ``unit`` go on behind ``task``, the last that it has jumped over, and its ``span``."""
        assert self._repeats is not None  # it jumps
        self._repeats.wake(unit, self._network.now)
        if self._progress is not None:
            self._tell(self._progress, len(slots) * unit.block.length * unit.jumps)
        self._release(task, slots, span)

    def _release(self, task: int, slots: IntArray, span: int) -> None:
        """Let the dependents of the participants ``slots`` of ``task`` know that they have ended it with ``span``."""
        whole = slots is self._tables[task].everybody
        dependents = self._dependents
        for edge in dependents.edges(task):
            dependent = dependents.tasks[edge]
            if dependents.whole[dependent]:
                came = dependents.counts[edge] if whole else len(dependents.slots(edge, slots))
                if came:
                    left = dependents.missing[dependent] = dependents.missing[dependent] - came
                    if not left:
                        self._begin(dependent, span)
                continue
            if whole and dependents.alike(edge):
                self._released.add(dependent)
                self._ready(dependent, self._tables[dependent].everybody, span)
                continue
            theirs = dependents.slots(edge, slots)
            missing = self._missing_of(dependent)
            missing[theirs] -= 1
            ready = theirs[missing[theirs] == 0]
            if len(ready):
                self._ready(dependent, ready, span)

    def _tell(self, progress: Callable[[float], None], ended: int) -> None:
        """Count participants of tasks that ended, and tell their share where it has grown enough to be seen."""
        self._total = self._total or sum(len(self._tables[task].participants) for task in range(len(self._graph)))
        self._done += ended
        share = self._done / self._total
        if self._told + _VISIBLE <= share < 1:  # the caller reports the end, since it knows what comes next
            self._told = share
            progress(share)

    def _check_finished(self) -> None:
        graph, tasks = self._graph, self._tasks
        unfinished = [task for task, ended in enumerate(self._ended) if ended < len(tasks.table(task).participants)]
        if not unfinished:
            return
        lines = [f"{graph.names[task]} ({tasks.labels[task]}) {self._why(task)}" for task in unfinished[:_LISTED]]
        if len(unfinished) > _LISTED:
            lines.append(f"... and {len(unfinished) - _LISTED} more")
        held = self._network.stalled()
        if held:
            lines.append(f"flows that cannot move: {', '.join(held[:_LISTED])}")
        raise DeadlockError(f"{len(unfinished)} of {len(graph)} tasks cannot finish:\n  " + "\n  ".join(lines))

    def _why(self, task: int) -> str:
        before = self._tasks.before(task)
        blocked = self._blocked(task)
        if len(blocked):
            names = [self._graph.names[one] for one in before]
            return f"waits for {', '.join(names[:_LISTED])} on rank {blocked[0]}"
        if self._tasks.kinds[task] == RECEIVE:
            send = self._tasks.partners[task]
            return f"waits for {self._graph.names[send]}, the send of rank {self._tables[send].participants[0]}"
        return "has started and does not end"

    def _blocked(self, task: int) -> IntArray:
        """Return the participants of ``task`` that wait for tasks before it."""
        participants = self._tables[task].participants
        if not self._dependents.whole[task]:
            return participants[:0] if task in self._released else participants[self._missing_of(task) > 0]
        if not self._dependents.missing[task]:
            return participants[:0]
        waits = np.zeros(self._graph.ranks, dtype=bool)
        for one in self._tasks.before(task):
            through = [span.ranks for span in self._spans if span.task == one]
            waits[np.setdiff1d(self._tables[one].participants, np.concatenate([participants[:0], *through]))] = True
        blocked: IntArray = participants[waits[participants]]
        return blocked
