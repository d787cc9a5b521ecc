"""Flow sets that were let in: on the links, drained, delivered."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial

import numpy as np
from attrs import define, field

from fredfw.fabric import FlowSet, Routes, Start
from fredfw.simulation import repetition
from fredfw.simulation.account import Account
from fredfw.simulation.calendar import Calendar
from fredfw.simulation.claims import Claims
from fredfw.simulation.core.loads import LEAST, Load, Statistics
from fredfw.simulation.core.tables import flow_table
from fredfw.simulation.detours import Detours
from fredfw.simulation.laps import Lap, Laps
from fredfw.simulation.meetings import Meetings, Stay
from fredfw.simulation.rates import RateSolver
from fredfw.simulation.requests import Request
from fredfw.typing import BoolArray, FloatArray, IntArray


@define(eq=False)
class Batch:
    """A flow set that was let in.

    As long as all activities are at the same point, as one always is, there are no arrays of them.

    Args:
        request: What asked for it.
        stay: When it was let in, and what it has met.
        setup: Seconds before each repetition but the first.
        caps: Upper limits of the rates, or ``None``.
        routes: The links that are used now.
        unfinished: Activities that have not ended.
        last: When the last delivery is, of what is drained so far.
        since: When the flows were put on the links; NaN before.
        left: Flows that still drain, where all activities are at the same point.
        pending: ``(activities,)`` flows of each that still drain, -1 once it has ended.
        end: ``(activities,)`` when the last delivery is, of what is drained so far.
        loads: What is or was on the links.
        laps: How far the repetitions of each activity are, once that matters.
    """

    request: Request
    stay: Stay
    setup: float
    caps: FloatArray | None
    routes: Routes
    unfinished: int
    last: float
    since: float = math.nan
    left: int = field(init=False)
    pending: IntArray | None = None
    end: FloatArray | None = None
    loads: list[BatchLoad] = field(factory=list)
    laps: Laps | None = None

    def __attrs_post_init__(self) -> None:
        self.left = len(self.request.flows.volumes)

    def progress(self) -> tuple[IntArray, FloatArray]:
        """Return ``pending`` and ``end``, which are there from now on."""
        if self.pending is None or self.end is None:
            flows = self.request.flows
            known = flows.activities == 1 or not self.left
            self.pending = np.full(flows.activities, self.left) if known else flows.sizes.copy()
            self.end = np.full(flows.activities, self.last)
        return self.pending, self.end

    def ends(self) -> FloatArray:
        """Return the ``(activities,)`` ends of all."""
        return self.progress()[1]

    def delays(self, flows: IntArray | slice, times: int | IntArray) -> FloatArray:
        """Return the seconds that ``times`` repetitions of ``flows`` take while nothing drains, set up once already."""
        delays: FloatArray = self.routes.latencies[flows] * times + self.setup * (times - 1)
        return delays


@define(eq=False, kw_only=True)
class BatchLoad(Load):
    """A load, and which flows of which batch it is.

    Args:
        batch: Theirs.
        members: ``(F,)`` indices into its flow set, or ``None`` for all.
        delays: ``(F,)`` seconds from the last byte's departure to its delivery; ``None`` for those of all repetitions
            of all flows.
        drained: ``(F,)`` when each was drained, infinite before; ``None`` where it is not needed.
        lap: How one of its repetitions drains alone, once that matters.
    """

    batch: Batch
    members: IntArray | None = None
    delays: FloatArray | None = None
    drained: FloatArray | None = None
    lap: Lap | None = None

    def flows(self, chosen: IntArray) -> IntArray:
        """Return the flows of the batch that those at ``chosen`` are."""
        return chosen if self.members is None else self.members[chosen]

    def delays_of(self, chosen: IntArray) -> FloatArray:
        """Return the seconds from the last byte's departure of those at ``chosen`` to its delivery."""
        if self.delays is None:
            times = self.batch.request.flows.repeat
            latencies = self.routes.latencies
            self.delays = latencies if times == 1 else latencies * times + self.batch.setup * (times - 1)
        return self.delays[chosen]

    @property
    def activity(self) -> IntArray:
        """``(F,)`` activity of each flow."""
        activity = self.batch.request.flows.activity
        return activity if self.members is None else activity[self.members]


class Carrier:
    """Puts flow sets on the links, and tells those who asked for them what has been drained and delivered.

    Args:
        solver: Knows rates.
        statistics: Counts.
        calendar: The clock.

    Attributes:
        table: What drains.
        batches: The flow sets that were let in and have not ended, as they were let in.
        meetings: Which of them share links.
        detours: The ways round closed links.
        claims: Links that somebody has to himself.
        account: What has been sent by those that have ended.
        held: When flows first were to start while links were closed and there was no way round them, and how often that
            was, by label.
        on_close: Told of each flow set that has ended.
    """

    def __init__(self, solver: RateSolver, statistics: Statistics, calendar: Calendar) -> None:
        self.solver = solver
        self.calendar = calendar
        self.table = flow_table(solver, statistics)
        self.batches: dict[Batch, FlowSet] = {}
        self.meetings = Meetings(solver, statistics)
        self.detours = Detours()
        self.claims = Claims()
        self.account = Account(len(solver.fabric.bandwidths))
        self.held: dict[str, tuple[float, int]] = {}
        self.on_close: Callable[[FlowSet], None] | None = None
        self._statistics = statistics

    def admit(self, request: Request, flows: FlowSet, start: Start) -> None:
        """Let in the flows of ``request``, which take the ways of ``flows``."""
        statistics, now = self._statistics, self.calendar.now
        statistics.batches += 1
        statistics.flows += len(flows.volumes)
        once, again = 0.0, 0.0
        for seconds, only_once in ((flows.setup, flows.setup_once), (start.setup, start.setup_once)):
            if not only_once or flows.takes_turns:
                again += seconds
            elif not flows.continues:
                once += seconds
        setup = once + again
        stay = self.meetings.enter(flows, now, setup, again)
        caps = flows.caps if start.caps is None else start.caps
        if flows.caps is not None and start.caps is not None:
            caps = np.minimum(flows.caps, start.caps)
        batch = Batch(request, stay, again, caps, flows.routes, flows.activities, now)
        self.batches[batch] = flows
        if setup > 0:
            self.calendar.push(now + setup, partial(self._begin, batch), batch)
        else:
            self._begin(batch)

    def adopt(self, request: Request, since: float) -> Batch:
        """Take over the flow of ``request``, which has been let in at ``since`` as a message, and counted."""
        flows = request.flows
        stay = self.meetings.enter(flows, since, 0.0, 0.0)
        batch = Batch(request, stay, 0.0, None, flows.routes, flows.activities, since, since)
        self.batches[batch] = flows
        load = BatchLoad(
            routes=flows.routes,
            volumes=flows.volumes,
            caps=None,
            priority=flows.priority,
            label=flows.label,
            batch=batch,
        )
        batch.loads.append(load)
        return batch

    def await_end(self, batch: Batch, time: float, number: int) -> None:
        """Note that a flow that was adopted is drained, and delivered at ``time``, as event ``number``."""
        (load,) = batch.loads
        load.take(None)
        batch.left, batch.last = 0, time
        self.calendar.place(time, number, partial(self._complete, batch, everybody(1)), batch)

    def _begin(self, batch: Batch) -> None:
        """Put the flows of ``batch`` on the links; what has no flows ends at once."""
        batch.since = batch.last = self.calendar.now
        flows = batch.request.flows
        if flows.lag is None:
            pending, end = batch.progress()
            empty = np.flatnonzero(pending == 0)
            end[empty] += batch.setup * (flows.repeat - 1)
            self.deliver(batch, empty)
        if len(flows.volumes):
            volumes = flows.volumes if flows.repeat == 1 else flows.totals
            free = None if flows.sends else flows.unhindered
            if self.detours.closed:
                closed = self.detours.crossing(batch.routes)
                if closed.any():
                    self.hold(flows.label)
                    # What has no bytes waits with the others.
                    volumes = np.where(closed, np.maximum(volumes, LEAST), volumes)
                    free = flows.unhindered & ~closed
            load = BatchLoad(
                routes=batch.routes,
                volumes=volumes,
                caps=batch.caps,
                priority=flows.priority,
                label=flows.label,
                batch=batch,
                drained=np.full(len(volumes), math.inf) if flows.repeat > 1 else None,
            )
            self._put(load, free)

    def hold(self, label: str) -> None:
        """Note that flows begin which have no way."""
        first, times = self.held.get(label, (self.calendar.now, 0))
        self.held[label] = first, times + 1

    def _put(self, load: BatchLoad, free: BoolArray | None) -> None:
        """Put ``load`` on the links; those with nothing to wait for, which are among ``free``, are drained at once."""
        if self.claims.held:
            self.claims.yield_links(load.routes.links)
        load.batch.loads.append(load)
        self.table.put(load, self.calendar.now)
        if free is not None:
            if load.caps is not None:
                free = free & ((load.volumes <= 0) | np.isinf(load.caps))
            self.drain_at_once(load, free)

    def drain_at_once(self, load: BatchLoad, flows: BoolArray) -> None:
        """Take ``flows`` of ``load`` off the links, which have nothing to wait for."""
        if flows.any():
            chosen = np.flatnonzero(flows & load.draining)
            self.table.drop(load, chosen)
            self._drained(load, chosen)

    def lay(self, batch: Batch, flows: IntArray, volumes: FloatArray, delays: FloatArray) -> None:
        """Put ``flows`` of ``batch`` on the links once more, with the routes that they have now."""
        load = BatchLoad(
            routes=batch.routes.select(flows),
            volumes=volumes,
            delays=delays,
            caps=None if batch.caps is None else batch.caps[flows],
            priority=batch.request.flows.priority,
            label=batch.request.flows.label,
            batch=batch,
            members=flows,
            drained=np.full(len(flows), math.inf),
        )
        self._put(load, (volumes <= LEAST) | (np.diff(load.routes.offsets) == 0))

    def withdraw(self, load: BatchLoad, chosen: IntArray, carried: FloatArray) -> None:
        """Take the flows at ``chosen`` of ``load`` off the links; they have carried so many bytes."""
        load.volumes = load.volumes.copy()
        load.volumes[chosen] = carried
        self.table.drop(load, chosen)

    def finish_first(self) -> None:
        """Note when the flows that are drained now, before all others, will be delivered."""
        for load, drained in self.table.take_found():
            if load is None:
                assert drained is not None  # it is the slot of a message
                self.table.deliver(drained.item(), self.calendar.number())
                continue
            assert isinstance(load, BatchLoad)
            batch, flows = load.batch, load.batch.request.flows
            if flows.activities == 1 and batch.pending is None and drained is not None:
                self._drained_of_one(load, drained)
                continue
            # All flows at once, over the routes whose latencies are known, or else activity by activity.
            if drained is not None or batch.pending is not None or load.routes is not flows.routes:
                self._drained(load, everybody(len(load.volumes)) if drained is None else drained)
                continue
            if load.drained is not None:
                load.drained[:] = self.calendar.now
            lag = flows.lag
            assert lag is not None  # else there are arrays of the activities
            batch.left = 0
            batch.last = self.calendar.now + (lag * flows.repeat + batch.setup * (flows.repeat - 1))
            everyone = everybody(flows.activities)
            self._announce(batch, everyone)
            self.calendar.push(batch.last, partial(self._complete, batch, everyone), batch)

    def _drained_of_one(self, load: BatchLoad, drained: IntArray) -> None:
        """Do what ``_drained`` does where there is one activity, all of which ``load`` is."""
        batch, now = load.batch, self.calendar.now
        if load.drained is not None:
            load.drained[drained] = now
        batch.left -= len(drained)
        batch.last = max(batch.last, now + max(load.delays_of(drained).tolist()))
        if not batch.left:
            everyone = everybody(1)
            self._announce(batch, everyone)
            self.calendar.push(batch.last, partial(self._complete, batch, everyone), batch)

    def _drained(self, load: BatchLoad, drained: IntArray) -> None:
        """Note when ``(k,)`` flows of ``load``, which are drained now, will be delivered."""
        batch, now = load.batch, self.calendar.now
        if load.drained is not None:
            load.drained[drained] = now
        pending, end = batch.progress()
        activity = batch.request.flows.activity[load.flows(drained)]
        np.maximum.at(end, activity, now + load.delays_of(drained))
        counts = np.bincount(activity, minlength=len(pending))
        pending -= counts
        self.deliver(batch, np.flatnonzero((pending == 0) & (counts > 0)))

    def deliver(self, batch: Batch, activities: IntArray) -> None:
        """Note the end of ``activities``, whose flows are all drained; equal ends are one event."""
        if len(activities):
            self._announce(batch, activities)
        end = batch.ends()
        while len(activities):
            time = end[activities[0]]
            now = end[activities] == time
            self.calendar.push(float(time), partial(self._complete, batch, activities[now]), batch)
            activities = activities[~now]

    def _announce(self, batch: Batch, activities: IntArray) -> None:
        """Have whoever asked for it know that ``activities`` are drained now, if no repetitions are to come."""
        if batch.request.on_drained is not None:
            if batch.laps is not None:
                activities = activities[batch.laps.later[activities] == 0]
            self.calendar.push(self.calendar.now, partial(batch.request.on_drained, activities), batch)

    def _complete(self, batch: Batch, activities: IntArray) -> None:
        if batch.laps is not None:
            activities = repetition.next_laps(self, batch, batch.laps, activities)
            if not len(activities):
                return
        if batch.pending is not None:
            batch.pending[activities] = -1
        batch.unfinished -= len(activities)
        if batch.unfinished == 0:
            self.close(batch)
        batch.request.on_complete(activities)

    def close(self, batch: Batch) -> None:
        """Account what ``batch`` has sent."""
        label = batch.request.flows.label
        for load in batch.loads:
            self.account.add(label, load.routes, load.volumes)
        batch.loads = []  # they name their batch, and a ring of references keeps arrays until someone looks for rings
        self.meetings.leave(batch.stay, batch.ends)
        flows = self.batches.pop(batch)
        if self.on_close is not None:
            self.on_close(flows)

    def cancel(self, ticket: int) -> None:
        """Take the flows of ``ticket`` off the links; what was sent is accounted."""
        self.table.pass_time(self.calendar.now)
        for batch in [batch for batch in self.batches if batch.request.ticket == ticket]:
            carried = [self.carried(batch, place) for place in range(len(batch.loads))]
            for load, volumes in zip(batch.loads, carried, strict=True):
                self.withdraw(load, np.arange(len(volumes)), volumes)
            self.calendar.drop(batch)
            self.close(batch)

    def carried(self, batch: Batch, place: int) -> FloatArray:
        """Return the ``(F,)`` bytes that the flows of a load have sent by now, in repetitions that have begun."""
        load = batch.loads[place]
        carried = load.volumes - self.table.remaining(load, self.calendar.now)
        if batch.request.flows.repeat > 1:
            repetition.correct(self, batch, place, carried)
        return carried

    def link_bytes(self) -> dict[str, FloatArray]:
        """Return the ``(links,)`` bytes that have crossed each link until now, by label."""
        under_way = [
            (batch.request.flows.label, load.routes, self.carried(batch, place))
            for batch in self.batches
            for place, load in enumerate(batch.loads)
        ]
        return self.account.by_link(under_way + self.claims.moved())


@lru_cache(maxsize=256)
def everybody(count: int) -> IntArray:
    """Return the numbers of all of ``count`` activities or flows, which nobody may change."""
    numbers = np.arange(count)
    numbers.flags.writeable = False
    return numbers
