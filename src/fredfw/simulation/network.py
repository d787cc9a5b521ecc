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
from typing import Any, assert_never

import numpy as np
from attrs import define, field, frozen

from fredfw.errors import InputError, RefusedError, SimulationError
from fredfw.fabric import AlwaysStart, Decompose, Fabric, FlowSet, Refuse, Router, Routes, Split, Start, Wait
from fredfw.simulation import answers
from fredfw.simulation.claims import Claim, Claims
from fredfw.simulation.core.loads import LEAST, Load, Statistics
from fredfw.simulation.core.tables import flow_table
from fredfw.simulation.detours import Detours
from fredfw.simulation.laps import Lap, Laps, Position, SteadyLap, position, was_alone
from fredfw.simulation.meetings import Meetings, Stay
from fredfw.simulation.memory import keep_freed_memory
from fredfw.simulation.rates import RateSolver
from fredfw.simulation.requests import Completion, Request, Turns, Unicasts
from fredfw.simulation.sharing import SharingPolicy
from fredfw.typing import BoolArray, FloatArray, IntArray

# So many events that were taken back may stay in the heap; it is not worth while to look for fewer.
_FEW = 64


@define(eq=False)
class _Batch:
    """A flow set that was let in.

    Args:
        request: What asked for it.
        stay: When it was let in, and what it has met.
        setup: Seconds before each repetition but the first.
        caps: Upper limits of the rates, or ``None``.
        routes: The links that are used now.
        pending: ``(activities,)`` flows of each that still drain, -1 once it has ended.
        end: ``(activities,)`` when the last delivery is, of what is drained so far.
        unfinished: Activities that have not ended.
        since: When the flows were put on the links; NaN before.
        loads: What is or was on the links.
        laps: How far the repetitions of each activity are, once that matters.
    """

    request: Request
    stay: Stay
    setup: float
    caps: FloatArray | None
    routes: Routes
    pending: IntArray
    end: FloatArray
    unfinished: int
    since: float = math.nan
    loads: list[_Load] = field(factory=list)
    laps: Laps | None = None

    def delays(self, flows: IntArray | slice, times: int | IntArray) -> FloatArray:
        """Return the seconds that ``times`` repetitions of ``flows`` take while nothing drains, set up once already."""
        delays: FloatArray = self.routes.latencies[flows] * times + self.setup * (times - 1)
        return delays


@define(eq=False, kw_only=True)
class _Load(Load):
    """A load, and which flows of which batch it is.

    Args:
        batch: Theirs.
        members: ``(F,)`` indices into its flow set, or ``None`` for all.
        drained: ``(F,)`` when each was drained, infinite before; ``None`` where it is not needed.
        lap: How one of its repetitions drains alone, once that matters.
    """

    batch: _Batch
    members: IntArray | None = None
    drained: FloatArray | None = None
    lap: Lap | None = None

    def flows(self, chosen: IntArray) -> IntArray:
        """Return the flows of the batch that those at ``chosen`` are."""
        return chosen if self.members is None else self.members[chosen]

    @property
    def activity(self) -> IntArray:
        """``(F,)`` activity of each flow."""
        activity = self.batch.request.flows.activity
        return activity if self.members is None else activity[self.members]


# Time, priority, sequence, callback, and the batch that it belongs to; the sequence is unique, so no more is compared.
_Event = tuple[float, int, int, Callable[[], object], "_Batch | None"]


@frozen
class Rerouting:
    """What became of the flows whose links were closed.

    Args:
        moved: How many have other routes now.
        stranded: Labels of flow sets that have no other; they wait until links are back.
    """

    moved: int
    stranded: tuple[str, ...]


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
        held: When flows first were to start while links were closed and there was no way round them, and how often that
            was, by label.
    """

    def __init__(self, fabric: Fabric, sharing: SharingPolicy, solver: RateSolver | None = None) -> None:
        keep_freed_memory()
        self.fabric = fabric
        self.now = 0.0
        self.statistics = Statistics()
        self.admission = answers.admission(fabric)
        self._solver = solver or RateSolver(fabric, sharing)
        self._table = flow_table(self._solver, self.statistics)
        self._meetings = Meetings(self._solver, self.statistics)
        self._events: list[_Event] = []
        self._withdrawn: set[int] = set()  # events that will not happen
        self._sequence = 0
        self._tickets = 0
        self._open: dict[int, int] = {}  # activities that have not ended, by ticket
        self._admitted: dict[_Batch, FlowSet] = {}
        self._waiting: list[Request] = []
        self._moved: dict[tuple[int, str], tuple[Routes, FloatArray]] = {}
        self._detours = Detours()
        self._claims = Claims()
        self.held: dict[str, tuple[float, int]] = {}

    def schedule(self, delay: float, callback: Callable[[], object], priority: int = 0) -> int:
        """Call ``callback`` in ``delay`` seconds; at equal times lower ``priority`` first, then first come.

        Return a number to take that back with.

        Raises:
            InputError: A delay that is negative or not finite.
        """
        if not (math.isfinite(delay) and delay >= 0):
            raise InputError(f"a delay of {delay!r}", key="delay", accepted="seconds, finite and not negative")
        self._push(self.now + delay, callback, priority=priority)
        return self._sequence

    def unschedule(self, event: int) -> None:
        """Take back an event that has not happened, by the number that ``schedule`` returned."""
        self._withdrawn.add(event)
        # What a callback holds is released, and the heap stays as long as what is due, whatever is taken back.
        if len(self._withdrawn) > max(_FEW, len(self._events) // 2):
            self._events = [one for one in self._events if one[2] not in self._withdrawn]
            heapq.heapify(self._events)
            self._withdrawn.clear()

    def start(
        self,
        flows: FlowSet,
        on_complete: Completion,
        *,
        unicasts: Unicasts | None = None,
        on_drained: Completion | None = None,
    ) -> int:
        """Start ``flows`` now, or as the fabric's admission decides; return a ticket to cancel them with.

        Args:
            flows: What to carry.
            on_complete: Gets the activities that end, each once, as often as some end at the same time.
            unicasts: Returns what to carry instead where the admission asks for it: unicasts of the same activities.
            on_drained: Gets the activities whose flows have left their sources, each once and before it ends; for flows
                that are not repeated. Of flows that run in parts it hears at the end.

        Raises:
            RefusedError: The admission refuses the flows.
            SimulationError: It asks for unicasts where there are none.
            PluginError: It fails, or returns what cannot be done.
        """
        self._tickets += 1
        ticket = self._tickets
        self._open[ticket] = flows.activities
        try:
            self._ask(Request(ticket, flows, partial(self._report, ticket, on_complete), unicasts, on_drained))
        except BaseException:
            self._open.pop(ticket, None)
            raise
        return ticket

    def cancel(self, ticket: int) -> None:
        """Take the flows of ``ticket`` off the links; no more of its activities end. What was sent stays accounted.

        Raises:
            InputError: They have ended or were cancelled, or there are none.
        """
        if ticket not in self._open:
            accepted = "a ticket with flows that have neither ended nor been cancelled"
            raise InputError(f"nothing runs for {ticket!r}", key="ticket", accepted=accepted)
        del self._open[ticket]
        self._waiting = [request for request in self._waiting if request.ticket != ticket]
        self._catch_up()
        for batch in [batch for batch in self._admitted if batch.request.ticket == ticket]:
            carried = [self._carried(batch, place) for place in range(len(batch.loads))]
            for load, volumes in zip(batch.loads, carried, strict=True):
                self._withdraw(load, np.arange(len(volumes)), volumes)
            self._drop_events(batch)
            self._close(batch)

    @property
    def solver(self) -> RateSolver:
        """Knows the rates of flows on the fabric."""
        return self._solver

    def claim(self, claim: Claim, label: str) -> bool:
        """Give the links of ``claim`` to it as long as nobody else comes; return whether they are free.

        Its flows always start at once, so there is no admission to ask, and the sharing policy is local.
        """
        if not isinstance(self.admission, AlwaysStart) or not self._solver.sharing.local:
            return False
        if any(claim.links[batch.routes.links].any() for batch in self._admitted):
            return False
        return self._claims.add(claim, label)

    def release(self, claim: Claim) -> None:
        """Take back the links of ``claim``, and account what it has sent until now."""
        label = self._claims.remove(claim)
        for routes, volumes in claim.moved():
            self._account(label, routes, volumes)

    @property
    def bandwidths(self) -> FloatArray:
        """The ``(links,)`` bytes per second of the links now; 0 for one that is closed."""
        return self._table.bandwidths

    def set_bandwidths(self, links: IntArray, values: FloatArray) -> None:
        """Give the ``(k,)`` ``links`` other bandwidths, from now on; 0 closes a link.

        What runs goes on at other rates. A phase that is repeated is split at its current repetition, so that no flow
        has run ahead of the slowest of its activity.

        Raises:
            InputError: Links that do not exist, or bandwidths that are negative or not finite.
        """
        links, values = np.asarray(links, dtype=np.intp), np.asarray(values, dtype=float)
        count = len(self.fabric.bandwidths)
        missing = links[(links < 0) | (links >= count)]
        if missing.size:
            raise InputError(
                f"{self.fabric.name!r} has no link {missing[0]}", key="links", accepted=f"0 to {count - 1}"
            )
        bad = values[~np.isfinite(values) | (values < 0)]
        if bad.size:
            accepted = "bytes per second, finite and not negative"
            raise InputError(f"a bandwidth of {float(bad[0])!r}", key="values", accepted=accepted)
        bandwidths = self.bandwidths.copy()
        bandwidths[links] = values
        if np.array_equal(bandwidths, self.bandwidths):
            return
        self._claims.yield_links()
        self._catch_up()
        for batch in self._admitted:
            self._split_laps(batch)
        self._table.set_bandwidths(bandwidths)
        self._detours.close(bandwidths == 0)
        for load in [load for batch in self._admitted for load in batch.loads]:
            # Messages without bytes that have waited for a way.
            self._drain_at_once(load, load.draining & (load.volumes <= LEAST) & ~self._detours.crossing(load.routes))

    def reroute(self, router: Router) -> Rerouting:
        """Route flows over closed links again with ``router``, with what they have left, and from now on what starts.

        A flow that has no other route waits until links are back, under way or not; the others of its set go on.
        Repetitions of a phase that have not begun take the routes that there are then.
        """
        self._claims.yield_links()
        self._catch_up()
        self._detours.use(router)
        moved, stranded = 0, set()
        for batch in self._admitted:
            crossing = self._detours.crossing(batch.routes)
            if not crossing.any():
                continue
            routes = self._detours.routes(batch.request.flows)
            leaving = crossing & ~self._detours.crossing(routes)
            if leaving.any():
                batch.routes = Routes.choose(leaving, routes, batch.routes)
                self._split_laps(batch)
            if math.isnan(batch.since) and not leaving[crossing].all():
                stranded.add(batch.request.flows.label)
            for place, load in enumerate(list(batch.loads)):
                draining = np.flatnonzero(load.draining)
                flows = load.flows(draining)
                if leaving[flows].any():
                    moved += int(leaving[flows].sum())
                    self._replace(batch, place, draining[leaving[flows]])
                if (crossing & ~leaving)[flows].any():
                    stranded.add(batch.request.flows.label)
        return Rerouting(moved, tuple(sorted(stranded)))

    def next_event_time(self) -> float:
        """Return when something happens next, infinite if nothing will."""
        first = self._first_event()
        if first <= self.now:
            return self.now
        self._settle()
        return min(first, self._table.first_done)

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
            self.now = until

    @property
    def idle(self) -> bool:
        """Whether no flow drains or waits and no event is due."""
        return not (self._first_event() < math.inf or self._table.loads or self._waiting)

    def stalled(self) -> list[str]:
        """Return the labels of flows that cannot move: they wait for admission or have no rate."""
        self._settle()
        held = [request.flows.label for request in self._waiting]
        return held + [_batch_of(load).request.flows.label for load in self._table.stalled()]

    def link_bytes(self) -> dict[str, FloatArray]:
        """Return the ``(links,)`` bytes that have crossed each link until now, by label."""
        totals: dict[str, FloatArray] = {}
        moved = [(label, routes, volumes) for (_, label), (routes, volumes) in self._moved.items()]
        for batch in self._admitted:
            label = batch.request.flows.label
            moved += [(label, load.routes, self._carried(batch, place)) for place, load in enumerate(batch.loads)]
        for label, routes, volumes in moved + self._claims.moved():
            weights = np.repeat(volumes, np.diff(routes.offsets))
            if routes.coefficients is not None:
                weights = weights * routes.coefficients
            load = np.bincount(routes.links, weights=weights, minlength=len(self.fabric.bandwidths)).astype(float)
            totals[label] = totals[label] + load if label in totals else load
        return totals

    def _settle(self) -> None:
        """Find out when the next flow is drained, if flows have come or gone."""
        if math.isnan(self._table.first_done):
            self._table.settle()

    def _first_event(self) -> float:
        """Return when the next event is due, infinite if there is none; cancelled events do not count."""
        events = self._events
        while events and events[0][2] in self._withdrawn:
            self._withdrawn.remove(heapq.heappop(events)[2])
        return events[0][0] if events else math.inf

    def _push(
        self, time: float, callback: Callable[[], object], batch: _Batch | None = None, *, priority: int = 0
    ) -> None:
        self._sequence += 1
        heapq.heappush(self._events, (time, priority, self._sequence, callback, batch))

    def _drop_events(self, batch: _Batch) -> None:
        self._events = [event for event in self._events if event[4] is not batch]
        heapq.heapify(self._events)

    def _report(self, ticket: int, on_complete: Completion, activities: IntArray) -> None:
        """Tell who started the flows that ``activities`` have ended."""
        self._open[ticket] -= len(activities)
        if not self._open[ticket]:
            del self._open[ticket]
        on_complete(activities)

    def _ask(self, request: Request) -> None:
        """Do with the flows of ``request`` what the admission says."""
        flows = self._detours.around(request.flows)
        fabric, what = self.fabric.name, flows.label or "flows"
        # There may be thousands, which the default does not look at.
        active = () if isinstance(self.admission, AlwaysStart) else tuple(self._admitted.values())
        decision = answers.decision(self.admission, flows, active)
        match decision:
            case Start():
                self._admit(request, flows, decision)
            case Wait():
                self._wait(request)
            case Split():
                self._split(request, decision)
            case Decompose():
                if request.unicasts is None:
                    raise SimulationError(
                        f"fabric {fabric!r} cannot carry {what}, and cannot replace it by unicasts: {decision.reason}"
                    )
                self.statistics.decompositions += 1
                self._ask(Request(request.ticket, request.unicasts(), request.on_complete, None, request.on_drained))
            case Refuse():
                raise RefusedError(f"fabric {fabric!r} refuses {what}: {decision.reason}")
            case _:
                assert_never(decision)

    def _wait(self, request: Request) -> None:
        """Have ``request`` asked about again."""
        self.statistics.waits += not request.waited
        request.waited = True
        self._meetings.wait(request.flows)
        self._waiting.append(request)

    def _ask_again(self) -> None:
        """Do with what waits what can be done now."""
        waiting, self._waiting = self._waiting, []
        for place, request in enumerate(waiting, start=1):
            try:
                self._ask(request)
            except BaseException:
                self._waiting += waiting[place:]  # an error in one does not concern the others
                raise

    def _hold(self, label: str) -> None:
        """Note that flows begin which have no way."""
        first, times = self.held.get(label, (self.now, 0))
        self.held[label] = first, times + 1

    def _split(self, request: Request, split: Split) -> None:
        """Run the parts of ``request`` one after the other."""
        flows = request.flows
        self.statistics.splits += 1
        Turns.of(self._ask, request, [flows.part(np.asarray(part, dtype=np.intp)) for part in split.parts]).begin()

    def _admit(self, request: Request, flows: FlowSet, decision: Start) -> None:
        self.statistics.batches += 1
        self.statistics.flows += len(flows.volumes)
        setup = flows.setup + decision.setup
        once = (flows.setup_once or decision.setup_once) and not flows.takes_turns
        again = 0.0 if once else setup
        batch = _Batch(
            request=request,
            stay=self._meetings.enter(flows, self.now, setup, again),
            setup=again,
            caps=flows.caps if decision.caps is None else decision.caps,
            routes=flows.routes,
            pending=flows.sizes.copy(),
            end=np.full(flows.activities, self.now),
            unfinished=flows.activities,
        )
        self._admitted[batch] = flows
        if setup > 0:
            self._push(self.now + setup, partial(self._begin, batch), batch)
        else:
            self._begin(batch)

    def _begin(self, batch: _Batch) -> None:
        """Put the flows of ``batch`` on the links; what has no flows ends at once."""
        batch.since = self.now
        flows = batch.request.flows
        batch.end[:] = self.now
        if not batch.pending.all():
            empty = np.flatnonzero(batch.pending == 0)
            batch.end[empty] += batch.setup * (flows.repeat - 1)
            self._deliver(batch, empty)
        if len(flows.volumes):
            volumes, free = flows.totals, flows.unhindered
            closed = self._detours.crossing(batch.routes)
            if closed.any():
                self._hold(flows.label)
                # What has no bytes waits with the others.
                volumes, free = np.where(closed, np.maximum(volumes, LEAST), volumes), free & ~closed
            load = _Load(
                routes=batch.routes,
                volumes=volumes,
                delays=batch.delays(slice(None), flows.repeat),
                caps=batch.caps,
                priority=flows.priority,
                batch=batch,
                drained=np.full(len(flows.volumes), math.inf) if flows.repeat > 1 else None,
            )
            self._put(load, free)

    def _put(self, load: _Load, free: BoolArray) -> None:
        """Put ``load`` on the links; those with nothing to wait for, which are among ``free``, are drained at once."""
        self._claims.yield_links(load.routes.links)
        if load.caps is not None:
            free = free & ((load.volumes <= 0) | np.isinf(load.caps))
        self._catch_up()
        load.batch.loads.append(load)
        self._table.put(load, self.now)
        self._drain_at_once(load, free)

    def _drain_at_once(self, load: _Load, flows: BoolArray) -> None:
        """Take ``flows`` of ``load`` off the links, which have nothing to wait for."""
        if flows.any():
            chosen = np.flatnonzero(flows & load.draining)
            self._table.drop(load, chosen)
            self._finish([(load, chosen)])

    def _step(self, time: float) -> None:
        """Go to ``time`` and let all that happens then happen, in order."""
        self.statistics.events += 1
        # Where flows have come or gone at this moment, when the next is drained is not known, and it is later.
        if time >= self._table.first_done:  # never where that is NaN
            self.now = time
            self._finish(self._table.take_first())
        self.now = time
        while self._first_event() <= self.now:
            heapq.heappop(self._events)[3]()

    def _catch_up(self) -> None:
        """Take off what has drained until now."""
        self._table.pass_time(self.now)

    def _finish(self, done: list[tuple[Load, IntArray]]) -> None:
        """Note when the flows that are drained will be delivered, by load and index into it."""
        for load, drained in done:
            assert isinstance(load, _Load)
            batch = load.batch
            if load.drained is not None:
                load.drained[drained] = self.now
            of = batch.request.flows.activity
            if len(drained) == 1 or len(batch.pending) == 1:
                one = int(of[load.flows(drained[:1])][0])
                self._finish_one(batch, one, len(drained), self.now + float(load.delays[drained].max()))
                continue
            activity = of[load.flows(drained)]
            np.maximum.at(batch.end, activity, self.now + load.delays[drained])
            counts = np.bincount(activity, minlength=len(batch.pending))
            batch.pending -= counts
            self._deliver(batch, np.flatnonzero((batch.pending == 0) & (counts > 0)))

    def _finish_one(self, batch: _Batch, activity: int, count: int, arrival: float) -> None:
        """Note that ``count`` flows of one ``activity`` are drained, the last of which arrives then."""
        batch.end[activity] = max(batch.end[activity], arrival)
        batch.pending[activity] -= count
        if not batch.pending[activity]:
            self._deliver(batch, np.array([activity]))

    def _deliver(self, batch: _Batch, activities: IntArray) -> None:
        """Note the end of ``activities``, whose flows are all drained; equal ends are one event."""
        if batch.request.on_drained is not None and len(activities):
            self._push(self.now, partial(batch.request.on_drained, activities), batch)
        while len(activities):
            time = batch.end[activities[0]]
            now = batch.end[activities] == time
            self._push(float(time), partial(self._complete, batch, activities[now]), batch)
            activities = activities[~now]

    def _complete(self, batch: _Batch, activities: IntArray) -> None:
        if batch.laps is not None:
            activities = self._next_lap(batch, batch.laps, activities)
            if not len(activities):
                return
        batch.pending[activities] = -1
        batch.unfinished -= len(activities)
        if batch.unfinished == 0:
            self._close(batch)
        batch.request.on_complete(activities)

    def _close(self, batch: _Batch) -> None:
        """Account what ``batch`` has sent, and let in what has waited for it."""
        label = batch.request.flows.label
        for load in batch.loads:
            self._account(label, load.routes, load.volumes)
        batch.loads = []  # they name their batch, and a ring of references keeps arrays until someone looks for rings
        self._meetings.leave(batch.stay, batch.end)
        answers.release(self.admission, self._admitted.pop(batch))
        self._ask_again()

    def _account(self, label: str, routes: Routes, volumes: FloatArray) -> None:
        key = id(routes), label
        before = self._moved.get(key)
        self._moved[key] = routes, volumes if before is None else before[1] + volumes

    def _split_laps(self, batch: _Batch) -> None:
        """Leave on the links what the current repetitions of ``batch`` have still to send; the others come after them.

        Compressed, all repetitions drain before the latency or the next set-up of any is paid, and a fast flow runs
        ahead of the slowest of its activity. Where an activity really is, then, says its slowest flow: a repetition
        that drains in t, has a latency of l and a set-up of s takes t + l + s.
        """
        flows = batch.request.flows
        if flows.repeat == 1 or math.isnan(batch.since) or not len(flows.volumes):
            return
        laps = batch.laps = self._laps(batch)
        for place, load in enumerate(list(batch.loads)):
            mine = laps.several(place) & (batch.pending >= 0)
            if mine.any():
                self._split_load(batch, laps, load, mine)

    def _laps(self, batch: _Batch) -> Laps:
        """Return how far ``batch`` is; all of its repetitions are on the links where nothing has split them."""
        return batch.laps or Laps.of(batch.request.flows.activities, batch.request.flows.repeat, batch.since)

    def _carried(self, batch: _Batch, place: int) -> FloatArray:
        """Return the ``(F,)`` bytes that the flows of a load have sent by now, in repetitions that have begun."""
        load = batch.loads[place]
        carried = load.volumes - self._table.remaining(load, self.now)
        laps = self._laps(batch)
        mine = laps.several(place) & (batch.pending >= 0)
        if mine.any():
            chosen = mine[load.activity]
            carried[chosen] = self._position(batch, laps, load)[1][chosen]
        return carried

    def _split_load(self, batch: _Batch, laps: Laps, load: _Load, mine: BoolArray) -> None:
        chosen = np.flatnonzero(mine[load.activity])
        at, sent = self._position(batch, laps, load)
        self._withdraw(load, chosen, sent[chosen])
        split = np.unique(load.activity[chosen])
        laps.later[split] = laps.now[split] - at.done[split] - 1
        laps.now[mine] = 1
        self._lay(batch, laps, load.flows(chosen), at.left[chosen], at.delays[chosen])

    def _position(self, batch: _Batch, laps: Laps, load: _Load) -> tuple[Position, FloatArray]:
        """Return where the repetitions are that are on a load, and the ``(F,)`` bytes that have been sent by now.

        Args:
            batch: Theirs.
            laps: Its.
            load: What is on the links of them.
        """
        activity, elapsed = load.activity, self.now - laps.since
        times = laps.now[activity]
        volumes = load.volumes / times
        sent = load.volumes - self._table.remaining(load, self.now)
        if load.lap is None:
            load.lap = Lap(self._solver, self.bandwidths, load, volumes)
        lap: Lap | SteadyLap = load.lap
        if not was_alone(load.lap, sent, volumes, elapsed[activity], times):
            assert load.drained is not None  # it has several repetitions
            seconds = np.minimum(load.drained, self.now) - laps.since[activity]
            lap = SteadyLap(volumes, np.divide(sent, seconds, out=np.zeros(len(sent)), where=seconds > 0))
        at = position(
            lap,
            volumes=volumes,
            latencies=load.routes.latencies,
            setup=batch.setup,
            activity=activity,
            elapsed=elapsed,
            laps=laps.now,
        )
        return at, at.done[activity] * volumes + volumes - at.left

    def _withdraw(self, load: _Load, chosen: IntArray, carried: FloatArray) -> None:
        """Take the flows at ``chosen`` of ``load`` off the links; they have carried so many bytes."""
        load.volumes = load.volumes.copy()
        load.volumes[chosen] = carried
        self._table.drop(load, chosen)

    def _lay(self, batch: _Batch, laps: Laps, flows: IntArray, volumes: FloatArray, delays: FloatArray) -> None:
        """Put ``flows`` of ``batch``, all that there are of some activities, on the links once more."""
        activity = batch.request.flows.activity[flows]
        counts = np.bincount(activity, minlength=len(batch.pending))
        mine = counts > 0
        laps.since[mine] = self.now
        laps.load[mine] = len(batch.loads)
        batch.end[mine] = self.now
        batch.pending[mine] = counts[mine]
        # Deliveries that were due are not any more.
        self._drop_events(batch)
        self._deliver(batch, np.flatnonzero((batch.pending == 0) & ~mine))
        self._lay_load(batch, flows, volumes, delays)

    def _lay_load(self, batch: _Batch, flows: IntArray, volumes: FloatArray, delays: FloatArray) -> None:
        load = _Load(
            routes=batch.routes.select(flows),
            volumes=volumes,
            delays=delays,
            caps=None if batch.caps is None else batch.caps[flows],
            priority=batch.request.flows.priority,
            batch=batch,
            members=flows,
            drained=np.full(len(flows), math.inf),
        )
        self._put(load, (volumes <= LEAST) | (np.diff(load.routes.offsets) == 0))

    def _next_lap(self, batch: _Batch, laps: Laps, activities: IntArray) -> IntArray:
        """Start the repetitions that are left of ``activities``; return those that have none left."""
        more = laps.later[activities] > 0
        again, over = activities[more], activities[~more]
        batch.pending[over] = -1
        if len(again):
            laps.now[again], laps.later[again] = laps.later[again], 0
            flows = batch.request.flows
            members = np.flatnonzero(np.isin(flows.activity, again))
            times = laps.now[flows.activity[members]]
            if self._detours.router is not None:
                begin = np.zeros(len(flows.volumes), dtype=bool)
                begin[members] = True
                batch.routes = Routes.choose(begin, self._detours.routes(flows), batch.routes)
                if self._detours.crossing(batch.routes)[members].any():
                    self._hold(flows.label)
            self._lay(batch, laps, members, flows.volumes[members] * times, batch.delays(members, times))
        return over

    def _replace(self, batch: _Batch, place: int, leaving: IntArray) -> None:
        """Let the flows ``leaving`` of a load go on over the routes that they have now, with what they have left."""
        load = batch.loads[place]
        left = self._table.remaining(load, self.now)[leaving]
        flows = load.flows(leaving)
        self._withdraw(load, leaving, load.volumes[leaving] - left)
        delays = batch.routes.latencies[flows]
        if batch.laps is not None:
            delays = delays + batch.setup * (batch.laps.later[load.activity[leaving]] > 0)
        self._lay_load(batch, flows, left, delays)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_moved": list(self._moved.items())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        # Keys name routes by identity, which is another one in a copy.
        self._moved = {(id(routes), label): (routes, moved) for (_, label), (routes, moved) in state["_moved"]}


def _batch_of(load: Load) -> _Batch:
    assert isinstance(load, _Load)
    return load.batch
