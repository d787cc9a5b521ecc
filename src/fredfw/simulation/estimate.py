"""How long a task graph takes about, without simulating it: the longest path, each communication as if it were alone.

All groups of a communication are simulated together, once for all that do the same; what communications do to each
other is left out, and that computations of a rank wait for each other; but no iteration is shorter than those of its
busiest rank. Repeated blocks are scaled, as in a compressed simulation.
"""

from collections.abc import Callable, Hashable
from functools import partial
from operator import itemgetter

import numpy as np
from attrs import define, field, frozen

from fredfw.errors import SimulationError
from fredfw.keeping import kept
from fredfw.simulation.assignment import COMPUTE, RECEIVE, STREAMS, TRANSFER, Assignment, Groups
from fredfw.simulation.lowering import ScheduleRun
from fredfw.simulation.record import Statistics
from fredfw.simulation.run import Streams
from fredfw.typing import FloatArray, IntArray
from fredfw.workloads import Kernels
from fredfw.workloads.labels import COMPUTE as COMPUTED


@frozen
class Estimate:
    """What an iteration takes about."""

    seconds: float  # of the longest path, or of the computations of the busiest rank where these take longer
    breakdown: dict[str, float]  # of the seconds by cause
    energy: float  # joules spent on links
    algorithms: dict[str, str]
    statistics: dict[str, int]  # of the engine, over all communications that were simulated alone
    notes: tuple[str, ...]  # what a reader of the plans must know


# What a communication takes alone: (G,) seconds of each group, or one number where all are alike; joules; counters.
_Alone = tuple[FloatArray | float, float, Statistics]


@define(eq=False)
class Estimator:
    """Estimates one task graph on a fabric; used once."""

    _tasks: Assignment
    _compute_seconds: Callable[[float, float, Kernels | None], float]  # see Assignment.seconds
    _seconds: list[float] = field(factory=list, init=False)  # of each task that computes
    # When each participant is through with a task, by slot; one number where all are at once, as they mostly are.
    _ends: list[FloatArray | float] = field(factory=list, init=False)
    _starts: list[float] = field(factory=list, init=False)  # the last of the participants
    _causes: list[int] = field(factory=list, init=False)  # the task that it has waited for, -1 for none
    _computed: dict[int, float] = field(factory=dict, init=False)  # seconds of each participant, by member table
    # For which participants a task waits for one before it: whether all, and their slots there and here.
    _covers: dict[tuple[int, int, bool], tuple[bool, IntArray, IntArray]] = field(factory=dict, init=False)
    _alone: dict[Hashable, _Alone] = field(factory=dict, init=False)
    _energy: float = field(default=0.0, init=False)

    def estimate(self) -> Estimate:
        self._seconds = self._tasks.seconds(self._compute_seconds)
        for task in range(len(self._tasks.graph)):
            self._end(task)
        latest = [float(np.max(ends)) for ends in self._ends]
        path, busiest = max(latest, default=0.0), self._busiest()
        return Estimate(
            seconds=max(path, busiest),
            breakdown={COMPUTED: busiest} if busiest > path else self._breakdown(latest),
            energy=self._energy,
            algorithms=dict(sorted(self._tasks.algorithms.items())),
            statistics=sum((one for _, _, one in self._alone.values()), Statistics()).as_dict(),
            notes=tuple(self._tasks.notes.values()),
        )

    def _end(self, task: int) -> None:
        ready, cause = self._ready(task)
        kind = self._tasks.kinds[task]
        if kind == RECEIVE:
            # Both ends of a message are through with it when it is there.
            partner = self._tasks.partners[task]
            sent = float(np.max(self._ends[partner]))
            if sent >= np.max(ready):
                ready, cause = sent, partner
            ends = ready
        elif kind == COMPUTE:
            seconds = self._seconds[task]
            members = int(self._tasks.graph.members[task])
            self._computed[members] = self._computed.get(members, 0.0) + seconds
            ends = ready + seconds
        else:
            alone, energy, _ = self._of(task)
            self._energy += energy
            ends = self._together(task, ready, alone)
        self._starts.append(float(np.max(ready)))
        self._causes.append(cause)
        self._ends.append(ends)

    def _ready(self, task: int) -> tuple[FloatArray | float, int]:
        """Return when each participant of ``task`` is ready for it, and the task that the last one has waited for."""
        before = [(one, *self._cover(one, task), self._ends[one]) for one in self._tasks.before(task)]
        covers = [one for one in before if len(one[2])]
        if all(whole and isinstance(ends, float) for _, whole, _, _, ends in covers):
            ready = [(float(ends), one) for one, _, _, _, ends in reversed(covers)]
            return max(ready, key=itemgetter(0), default=(0.0, -1))
        moments = np.zeros(len(self._tasks.table(task).participants))
        latest, cause = -1.0, -1
        for one, _, there, here, ends in covers:
            theirs = ends if isinstance(ends, float) else ends[there]
            moments[here] = np.maximum(moments[here], theirs)
            last = float(np.max(theirs))
            if last > latest:
                latest, cause = last, one
        return moments, cause

    def _cover(self, before: int, task: int) -> tuple[bool, IntArray, IntArray]:
        awaits_first = self._tasks.kinds[task] == TRANSFER  # its receivers need not be ready
        key = int(self._tasks.graph.members[before]), int(self._tasks.graph.members[task]), awaits_first
        if key not in self._covers:
            table = self._tasks.table(task)
            shared = self._tasks.shared_slots(before, task)
            everybody = np.arange(len(table.participants))
            shared = everybody if shared is None else shared
            awaited = np.unique(table.slots[:, 0]) if awaits_first else everybody
            theirs = np.flatnonzero(np.isin(shared, awaited))
            self._covers[key] = len(theirs) == len(awaited), theirs, shared[theirs]
        return self._covers[key]

    def _together(self, task: int, ready: FloatArray | float, seconds: FloatArray | float) -> FloatArray | float:
        """Return when each participant of a communication is through; a group begins with the last it waits for."""
        if isinstance(ready, float) and isinstance(seconds, float):
            return ready + seconds
        table = self._tasks.table(task)
        moments = np.broadcast_to(ready, len(table.participants))
        slots = table.slots[:, :1] if self._tasks.kinds[task] == TRANSFER else table.slots
        done = moments[slots].max(axis=1) + seconds
        ends = np.zeros(len(table.participants))
        np.maximum.at(ends, table.slots, done[:, None])
        return float(ends[0]) if np.ptp(ends) == 0 else ends

    def _of(self, task: int) -> _Alone:
        graph, tasks = self._tasks.graph, self._tasks
        table = tasks.groups(task)
        what: tuple[Hashable, ...]
        if tasks.kinds[task] in STREAMS:
            what = tasks.kinds[task], int(graph.controllers[task]), int(graph.memories[task]), tasks.bytes[task]
        else:
            what = int(graph.splits[task]), *(share.plan.schedule for share in tasks.planned(task))
        return kept(self._alone, (table, tasks.repeats[task], what), lambda: self._simulated(task, table))

    def _simulated(self, task: int, table: Groups) -> _Alone:
        tasks, network = self._tasks, self._tasks.simulator.network()
        seconds = np.full(len(table), np.nan)

        def ended(groups: IntArray, done: IntArray) -> None:
            seconds[groups[done]] = network.now

        if tasks.kinds[task] in STREAMS:
            Streams(network, tasks).start(task, table, partial(ended, table.which))
        else:
            for share in tasks.planned(task):
                nodes, end = share.groups.nodes, partial(ended, share.groups.which)
                ScheduleRun(network, tasks.lowering, share.plan.schedule, nodes, end, times=tasks.repeats[task]).start()
        network.advance()
        if np.isnan(seconds).any():
            what = f"task {self._tasks.graph.names[task]!r} does not end on {self._tasks.fabric.name!r}"
            raise SimulationError(f"{what}: flows that cannot move: {', '.join(sorted(set(network.stalled())))}")
        moved = sum(network.link_bytes().values(), np.zeros(len(self._tasks.fabric.bandwidths)))
        alike = float(seconds[0]) if np.ptp(seconds) == 0 else seconds
        return alike, float(moved @ self._tasks.fabric.energies), network.statistics

    def _busiest(self) -> float:
        busy = np.zeros(self._tasks.graph.ranks)
        for members, seconds in self._computed.items():
            busy[np.ravel(self._tasks.graph.tables[members])] += seconds
        return float(busy.max(initial=0.0))

    def _breakdown(self, latest: list[float]) -> dict[str, float]:
        parts: dict[str, float] = {COMPUTED: 0.0}
        task = int(np.argmax(latest)) if latest else -1
        until = latest[task] if latest else 0.0
        while task >= 0:
            # Where participants end at different times, a task may have begun after the one that it is traced to.
            start = min(until, self._starts[task])
            cause = COMPUTED if self._tasks.kinds[task] == COMPUTE else self._tasks.labels[task]
            parts[cause] = parts.get(cause, 0.0) + until - start
            until, task = start, self._causes[task]
        return parts
