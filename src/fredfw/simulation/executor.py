"""Runs a task graph on a flow network: starts what is ready, rank by rank, and records what happened when.

``Computations`` says when a computation that is ready begins, ``Exchanges`` when a message does, and ``Gatherings``
when a collective, a transfer, a load or a store does.

Most tasks of a trace are of one rank or one group. They begin as a whole, when nothing is missing before them, so that
only a number is kept of what is. For other tasks there is an array of what is missing before each participant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from fredfw.errors import DeadlockError
from fredfw.fabric import Fabric
from fredfw.simulation.assignment import COMPUTE, RECEIVE, SEND, STREAMS, TRANSFER, WAIT, Assignment
from fredfw.simulation.bounds import LowerBounds
from fredfw.simulation.computations import Computations
from fredfw.simulation.dependents import Dependents
from fredfw.simulation.events import LinkEvents
from fredfw.simulation.exchanges import Exchanges
from fredfw.simulation.fidelity import COMPRESSED, possible
from fredfw.simulation.gatherings import Gatherings
from fredfw.simulation.lowering import Lowering
from fredfw.simulation.network import FlowNetwork
from fredfw.simulation.planner import Planner
from fredfw.simulation.repeats import Repeats, Unit
from fredfw.simulation.runs import Runs
from fredfw.simulation.statistics import Statistics
from fredfw.simulation.timeline import Record, Timeline
from fredfw.simulation.transactions import Transactions
from fredfw.simulation.variation import Pace
from fredfw.typing import FloatArray, IntArray
from fredfw.units import counted
from fredfw.workloads import Kernels, TaskGraph

# Progress is reported when the share that is done has grown by this much.
_VISIBLE = 0.002
# What a deadlock report lists at most.
_LISTED = 10


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
        pace: How fast computations are, where not all are as ``compute_seconds`` says. Every repetition is simulated
            then, and with jitter repeated blocks are written out.
        events: What happens to links meanwhile, if anything does; repeated blocks are written out then.

    Raises:
        InputError: A load or store uses an I/O controller or a memory tier that the fabric does not have.
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
        pace: Pace | None = None,
        events: LinkEvents | None = None,
    ) -> None:
        fidelity = possible(fidelity, network)
        uneven = events is not None or (pace is not None and pace.jitter is not None)
        built, graph = graph, graph if fidelity == COMPRESSED and not uneven else graph.expanded()
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
        skips = built is not graph and pace is None and events is None
        self._repeats = Repeats(built, self._tasks, lowering, network.sharing, network.admission) if skips else None
        self._network = network
        self._events = events
        runs = Runs(self._tasks, network, lowering, fidelity)
        self._rank_by_rank = runs.rank_by_rank
        self._tables = [self._tasks.table(task) for task in range(len(graph))]
        self._dependents = Dependents(self._tasks, [self._begins_whole(task) for task in range(len(graph))])
        self._missing: dict[int, IntArray] = {}  # before a task, by slot, once some of it has come and not all
        self._released: set[int] = set()  # tasks before which nothing is missing, although nobody has counted
        self._ended = [0] * len(graph)  # participants
        self._spans = Record()
        repeats = self._repeats
        factors = None if pace is None else pace.factors(self._tasks, placement)
        self._computations = Computations(
            self._tasks, network, repeats, compute_seconds, self._spans, self._end, factors
        )
        self._exchanges = Exchanges(self._tasks, network, repeats, runs, self._dependents, self._end)
        transactions = Transactions(network, lowering)
        self._gatherings = Gatherings(self._tasks, network, repeats, runs, transactions, self._end)
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
        if self._events is None:
            self._network.advance()
        else:
            self._events.drive(self._network)
        self._check_finished()
        return self._spans.timeline(graph)

    @property
    def statistics(self) -> Statistics:
        """The counters of the network, and how many repetitions were not simulated."""
        skipped = 0 if self._repeats is None else self._repeats.skipped
        return self._network.statistics + Statistics(skipped=skipped)

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
        if kind in (SEND, RECEIVE, WAIT):
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
        table = self._tables[task]
        whole = len(slots) == len(table.everybody)
        slots = table.everybody if whole else slots
        if self._tasks.kinds[task] == COMPUTE:
            self._computations.start(task, slots, table.participants if whole else table.participants[slots], trigger)
        else:
            self._gatherings.ready(task, slots, trigger)

    def _begin(self, task: int, trigger: int) -> None:
        """Begin ``task``, all of whose participants are ready."""
        kind = self._tasks.kinds[task]
        if kind == COMPUTE:
            self._computations.start_alone(task, trigger)
        elif kind == SEND:
            self._exchanges.send(task, trigger)
        elif kind == RECEIVE:
            self._exchanges.receive(task, trigger)
        elif kind == WAIT:
            self._pause(task, trigger)
        else:
            self._gatherings.begin(task, self._tables[task].whole, trigger)

    def _pause(self, task: int, trigger: int) -> None:
        """Have the ranks of a wait, all of which are there, wait for its time."""
        table = self._tables[task]
        if self._repeats is not None:
            self._repeats.begin(task, table.participants, 1)
        seconds = self._graph.seconds.item(task)
        self._network.schedule(seconds, partial(self._pass, task, self._network.now, trigger))

    def _pass(self, task: int, start: float, trigger: int) -> None:
        """End a wait that began at ``start``."""
        table = self._tables[task]
        if self._repeats is not None:
            self._repeats.end(task, table.participants, 1, self._network.now)
        self._end(task, table.everybody, start, trigger, table.participants)

    def _end(self, task: int, slots: IntArray, start: float, trigger: int, ranks: IntArray) -> None:
        """Record a span of ``ranks`` and let the dependents of the participants ``slots`` know."""
        span = len(self._spans)
        self._ended[task] += len(slots)
        if self._progress is not None:
            self._tell(self._progress, len(slots))
        self._spans.add(task, start, self._network.now, trigger, ranks)
        if self._repeats is not None and not self._computations.waiting:
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
                    self._computations.freed(ranks, before + 1)
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
        stuck = f"{len(unfinished)} of {counted(len(graph), 'task')}"
        raise DeadlockError(f"{stuck} cannot finish:\n  " + "\n  ".join(lines))

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
