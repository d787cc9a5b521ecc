"""The event engine: flows drain at the rates the sharing policy gives them, and callbacks run when they are delivered.

State is arrays over all active flows; there is no Python object per flow. Rates are solved only when the set of active
flows changes, and never twice for the same set. The engine is steppable (``next_event_time``, ``advance``), keeps no
global state, and never reads a clock.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from functools import partial
from typing import assert_never

import numpy as np
from attrs import asdict, define

from fredfw.errors import InputError, RefusedError, SimulationError
from fredfw.fabric import Decompose, Fabric, FlowSet, Refuse, Routes, Split, Start, Wait
from fredfw.simulation.rates import Active, RateSolver
from fredfw.simulation.sharing import SharingPolicy
from fredfw.typing import BoolArray, FloatArray, IntArray

# A flow is drained when what remains is below this share of its own volume.
_DRAINED = 1e-11
# What a flow still has as long as it is not drained, so that without a rate it never ends.
_LEAST = np.finfo(float).tiny

Completion = Callable[[IntArray], None]
Unicasts = Callable[[], FlowSet]


# Time, priority, sequence, callback; the sequence is unique, so callbacks are never compared.
_Event = tuple[float, int, int, Callable[[], None]]


@define(eq=False, kw_only=True)
class _Batch(Active):
    """A started flow set: how many flows of each activity still drain, and when its last delivery is."""

    flows: FlowSet
    on_complete: Completion
    pending: IntArray
    end: FloatArray
    unfinished: int
    count: int


@define
class Statistics:
    """Counters of one engine.

    Args:
        events: Moments at which something happened.
        batches: Flow sets started.
        flows: Flows started.
        solves: Times that rates were computed.
        cached: Times that they were found in the cache instead.
        waits: Flow sets that had to wait for others, however often they were asked about again.
        splits: Flow sets that ran in parts.
        decompositions: Flow sets that were replaced by unicasts.
    """

    events: int = 0
    batches: int = 0
    flows: int = 0
    solves: int = 0
    cached: int = 0
    waits: int = 0
    splits: int = 0
    decompositions: int = 0

    def as_dict(self) -> dict[str, int]:
        """Return the counters by name."""
        return asdict(self)


class FlowNetwork:
    """A fabric that carries flows, in simulated time.

    Args:
        fabric: The network.
        sharing: How links are shared.
        solver: Knows the rates of flow sets from earlier simulations with the same fabric and policy.

    Attributes:
        now: Seconds since the simulation began.
        statistics: Counters.
        admission: The fabric's, for this simulation alone; has figures and notes when it is over.
    """

    def __init__(self, fabric: Fabric, sharing: SharingPolicy, solver: RateSolver | None = None) -> None:
        self.fabric = fabric
        self._solver = solver or RateSolver(fabric, sharing)
        self.now = 0.0
        self.statistics = Statistics()
        self.admission = fabric.admission()
        self._events: list[_Event] = []
        self._sequence = 0
        self._batches: list[_Batch] = []  # with flows that still drain, in order of their start
        self._admitted: list[_Batch] = []
        self._waiting: list[tuple[FlowSet, Completion, Unicasts | None]] = []
        # One entry per draining flow, batch by batch in the order of ``_batches``.
        self._remaining = np.zeros(0)
        self._volume = np.zeros(0)
        self._rate = np.zeros(0)
        self._stale = False
        # The next flow to drain: when, in how many seconds, and which.
        self._next_drain = math.inf
        self._until_drain = math.inf
        self._first = 0
        self._moved: dict[tuple[int, str], tuple[Routes, FloatArray]] = {}

    def schedule(self, delay: float, callback: Callable[[], None], priority: int = 0) -> None:
        """Call ``callback`` in ``delay`` seconds; at equal times lower ``priority`` first, then first come.

        Raises:
            InputError: A delay that is negative or not finite.
        """
        if not (math.isfinite(delay) and delay >= 0):
            raise InputError(f"a delay of {delay!r}", key="delay", accepted="seconds, finite and not negative")
        self._push(self.now + delay, callback, priority)

    def start(self, flows: FlowSet, on_complete: Completion, *, unicasts: Unicasts | None = None) -> None:
        """Start ``flows`` now, or as the fabric's admission decides.

        Args:
            flows: What to carry.
            on_complete: Gets the activities that end, each once, as often as some end at the same time.
            unicasts: Returns what to carry instead where the admission asks for it: unicasts of the same activities.

        Raises:
            RefusedError: The admission refuses the flows.
            SimulationError: It asks for unicasts where there are none, or splits the flows into what are no parts of
                them.
        """
        self._ask(flows, on_complete, unicasts)

    def next_event_time(self) -> float:
        """Return when something happens next, infinite if nothing will."""
        if self._events and self._events[0][0] <= self.now:
            return self.now
        if self._stale:
            self._solve()
        first = self._events[0][0] if self._events else math.inf
        return min(first, self._next_drain)

    def advance(self, until: float = math.inf) -> None:
        """Let everything happen that happens at or before ``until``, and stop exactly there.

        With an infinite ``until`` it stops at the last event.

        Raises:
            InputError: ``until`` lies in the past or is NaN.
        """
        if not until >= self.now:
            raise InputError(f"cannot advance from {self.now!r} to {until!r}", key="until", accepted="not in the past")
        while (time := self.next_event_time()) <= until and time < math.inf:
            self._step(time)
        if until < math.inf:
            self._drain_until(until)

    @property
    def idle(self) -> bool:
        """Whether no flow drains or waits and no event is due."""
        return not (self._events or self._batches or self._waiting)

    def stalled(self) -> list[str]:
        """Return the labels of flows that cannot move: they wait for admission or have no rate."""
        held = [flows.label for flows, *_ in self._waiting]
        still = self._rate == 0
        held += [batch.flows.label for batch, part in self._parts() if still[part].any()]
        return held

    def link_bytes(self) -> dict[str, FloatArray]:
        """Return the ``(links,)`` bytes that have crossed each link, by label, for all that is delivered."""
        totals: dict[str, FloatArray] = {}
        for (_, label), (routes, volumes) in self._moved.items():
            weights = np.repeat(volumes, np.diff(routes.offsets))
            if routes.coefficients is not None:
                weights = weights * routes.coefficients
            load = np.bincount(routes.links, weights=weights, minlength=len(self.fabric.bandwidths)).astype(float)
            totals[label] = totals[label] + load if label in totals else load
        return totals

    def _push(self, time: float, callback: Callable[[], None], priority: int = 0) -> None:
        self._sequence += 1
        heapq.heappush(self._events, (time, priority, self._sequence, callback))

    def _ask(self, flows: FlowSet, on_complete: Completion, unicasts: Unicasts | None, *, waited: bool = False) -> None:
        """Do with ``flows`` what the admission says."""
        fabric, what = self.fabric.name, flows.label or "flows"
        decision = self.admission.admit(flows, [batch.flows for batch in self._admitted])
        match decision:
            case Start():
                self._admit(flows, on_complete, decision)
            case Wait():
                self.statistics.waits += not waited
                self._waiting.append((flows, on_complete, unicasts))
            case Split():
                self._split(flows, on_complete, unicasts, decision)
            case Decompose():
                if unicasts is None:
                    raise SimulationError(
                        f"fabric {fabric!r} cannot carry {what}, and there are no unicasts instead: {decision.reason}"
                    )
                self.statistics.decompositions += 1
                self._ask(unicasts(), on_complete, None)
            case Refuse():
                raise RefusedError(f"fabric {fabric!r} refuses {what}: {decision.reason}")
            case _:
                assert_never(decision)

    def _split(self, flows: FlowSet, on_complete: Completion, unicasts: Unicasts | None, split: Split) -> None:
        """Run the parts of ``flows`` one after the other; an activity ends with the last part that has flows of it."""
        count, what = len(flows.volumes), f"fabric {self.fabric.name!r} splits {flows.label or 'flows'}"
        if len(split.parts) < 2 or not all(len(part) for part in split.parts):
            raise SimulationError(f"{what} into itself: a split must have two or more parts, and none may be empty")
        if not np.array_equal(np.sort(np.concatenate(split.parts)), np.arange(count)):
            raise SimulationError(f"{what} into parts that do not hold each of its {count} flows exactly once")
        self.statistics.splits += 1
        parts = [flows.part(np.asarray(part, dtype=np.intp)) for part in split.parts]
        last = np.zeros(flows.activities, dtype=np.intp)
        for turn, part in enumerate(parts):
            last[part.activity] = turn

        def begin(turn: int) -> None:
            unfinished = flows.activities

            def ended(activities: IntArray) -> None:
                nonlocal unfinished
                unfinished -= len(activities)
                if unfinished == 0 and turn + 1 < len(parts):
                    begin(turn + 1)
                done = activities[last[activities] == turn]
                if len(done):
                    on_complete(done)

            self._ask(parts[turn], ended, unicasts and _unicasts_of(parts[turn], flows, unicasts))

        begin(0)

    def _admit(self, flows: FlowSet, on_complete: Completion, decision: Start) -> None:
        count = len(flows.volumes)
        self.statistics.batches += 1
        self.statistics.flows += count
        batch = _Batch(
            routes=flows.routes,
            caps=flows.caps if decision.caps is None else decision.caps,
            priority=flows.priority,
            draining=np.ones(count, dtype=bool),
            flows=flows,
            on_complete=on_complete,
            count=count,
            pending=flows.sizes.copy(),
            end=np.full(flows.activities, self.now),
            unfinished=flows.activities,
        )
        self._admitted.append(batch)
        setup = flows.setup + decision.setup
        if setup > 0:
            once = (flows.setup_once or decision.setup_once) and not flows.takes_turns
            self._push(self.now + setup * (1 if once else flows.repeat), partial(self._begin, batch))
        else:
            self._begin(batch)

    def _begin(self, batch: _Batch) -> None:
        """Put the flows of ``batch`` on the links; those with nothing to wait for are drained at once."""
        volumes = batch.flows.totals
        free = batch.flows.unhindered
        if batch.caps is not None:
            free = free & ((volumes <= 0) | np.isinf(batch.caps))
        batch.end[:] = self.now
        if not batch.pending.all():
            self._deliver(batch, np.flatnonzero(batch.pending == 0))
        if not len(volumes):
            return
        self._batches.append(batch)
        self._remaining = np.concatenate([self._remaining, volumes])
        self._volume = np.concatenate([self._volume, volumes])
        self._rate = np.concatenate([self._rate, np.zeros(len(volumes))])
        self._expire()
        if free.any():
            done = np.zeros(len(self._remaining), dtype=bool)
            done[len(done) - len(volumes) :] = free
            self._finish(done)

    def _step(self, time: float) -> None:
        """Go to ``time`` and let all that happens then happen, in order."""
        self.statistics.events += 1
        if time >= self._next_drain:
            # The first to finish defines this moment; others join if what they have left then is rounding.
            left = self._remaining - self._until_drain * self._rate
            done = left <= _DRAINED * self._volume
            done[self._first] = True
            self._remaining = np.maximum(left, 0.0)
            self.now = time
            self._finish(done)
        else:
            self._drain_until(time)
        while self._events and self._events[0][0] <= self.now:
            heapq.heappop(self._events)[3]()

    def _drain_until(self, time: float) -> None:
        elapsed = time - self.now
        if elapsed > 0 and len(self._remaining):
            self._remaining = np.maximum(self._remaining - self._rate * elapsed, _LEAST)
            self._until_drain -= elapsed
        self.now = time

    def _parts(self) -> list[tuple[_Batch, slice]]:
        parts, start = [], 0
        for batch in self._batches:
            parts.append((batch, slice(start, start + batch.count)))
            start += batch.count
        return parts

    def _finish(self, done: BoolArray) -> None:
        """Take the flows ``done`` off the links and note when they will be delivered."""
        for batch, part in self._parts():
            flows = np.flatnonzero(batch.draining)[done[part]]
            if not len(flows):
                continue
            batch.draining[flows] = False
            batch.count -= len(flows)
            activity = batch.flows.activity[flows]
            arrival = self.now + batch.flows.delays[flows]
            np.maximum.at(batch.end, activity, arrival)
            drained = np.bincount(activity, minlength=batch.flows.activities)
            batch.pending -= drained
            self._deliver(batch, np.flatnonzero((batch.pending == 0) & (drained > 0)))
        keep = ~done
        self._remaining, self._volume = self._remaining[keep], self._volume[keep]
        self._rate = self._rate[keep]
        self._batches = [batch for batch in self._batches if batch.count]
        self._expire()

    def _expire(self) -> None:
        """Note that the rates, and with them the next drain, are those of another set of flows."""
        self._stale = True
        self._next_drain = math.inf

    def _deliver(self, batch: _Batch, activities: IntArray) -> None:
        """Note the end of ``activities``, whose flows are all drained; equal ends are one event."""
        while len(activities):
            time = batch.end[activities[0]]
            now = batch.end[activities] == time
            self._push(float(time), partial(self._complete, batch, activities[now]))
            activities = activities[~now]

    def _complete(self, batch: _Batch, activities: IntArray) -> None:
        batch.unfinished -= len(activities)
        if batch.unfinished == 0:
            self._account(batch.flows)
            self._admitted.remove(batch)
            self.admission.release(batch.flows)
            waiting, self._waiting = self._waiting, []
            for flows, on_complete, unicasts in waiting:
                self._ask(flows, on_complete, unicasts, waited=True)
        batch.on_complete(activities)

    def _account(self, flows: FlowSet) -> None:
        key = id(flows.routes), flows.label
        moved = flows.totals
        if key in self._moved:
            moved = self._moved[key][1] + moved
        self._moved[key] = flows.routes, moved

    def _solve(self) -> None:
        """Set the rates of all draining flows."""
        self._stale = False
        if not self._batches:
            return
        before = self._solver.solves, self._solver.cached
        self._rate = self._solver.rates(self._batches)
        self.statistics.solves += self._solver.solves - before[0]
        self.statistics.cached += self._solver.cached - before[1]
        with np.errstate(divide="ignore"):
            finish = self._remaining / self._rate  # infinite where a flow has no rate
        self._first = int(finish.argmin())
        self._until_drain = float(finish[self._first])
        self._next_drain = self.now + self._until_drain


def _unicasts_of(part: FlowSet, flows: FlowSet, unicasts: Unicasts) -> Unicasts | None:
    """Return what does the same as ``part`` of ``flows``; ``None`` if it lacks flows of an activity that it has."""
    members = np.unique(part.activity)
    if not np.array_equal(part.sizes[members], flows.sizes[members]):
        return None

    def of_part() -> FlowSet:
        everything = unicasts()
        return everything.part(np.flatnonzero(np.isin(everything.activity, members)))

    return of_part
