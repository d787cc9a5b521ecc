"""The event engine: flows drain at the rates the sharing policy gives them, and callbacks run when they are delivered.

What happens when stands in the ``Calendar``; what drains, in the flow table of the ``Carrier``, which takes over what
the admission ``Desk`` lets in. Rates are solved only when the set of active flows changes, and never twice for the same
set. The engine is steppable (``next_event_time``, ``advance``), keeps no global state, and never reads a clock.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from fredfw.errors import InputError
from fredfw.fabric import Fabric, FlowSet, Router
from fredfw.simulation import answers, rerouting
from fredfw.simulation.calendar import Calendar
from fredfw.simulation.carrier import BatchLoad, Carrier
from fredfw.simulation.claims import Claim
from fredfw.simulation.core.loads import Load, Statistics
from fredfw.simulation.desk import Desk
from fredfw.simulation.memory import keep_freed_memory
from fredfw.simulation.rates import RateSolver
from fredfw.simulation.requests import Completion, Request, Unicasts
from fredfw.simulation.rerouting import Rerouting
from fredfw.simulation.sharing import SharingPolicy
from fredfw.typing import FloatArray, IntArray


class FlowNetwork:
    """A fabric that carries flows, in simulated time.

    Args:
        fabric: The network.
        sharing: How links are shared.
        solver: Knows the rates of flow sets from earlier simulations with the same fabric and policy.

    Attributes:
        statistics: Counters.
        admission: The fabric's, for this simulation alone; has figures and notes when it is over.
    """

    def __init__(self, fabric: Fabric, sharing: SharingPolicy, solver: RateSolver | None = None) -> None:
        keep_freed_memory()
        self.fabric = fabric
        self.statistics = Statistics()
        self.admission = answers.admission(fabric)
        self._calendar = Calendar()
        self._carrier = Carrier(solver or RateSolver(fabric, sharing), self.statistics, self._calendar)
        self._desk = Desk(self.admission, self._carrier, fabric.name, self.statistics)
        self._tickets = 0
        self._open: dict[int, int] = {}  # activities that have not ended, by ticket

    # --- time

    @property
    def now(self) -> float:
        """Seconds since the simulation began."""
        return self._calendar.now

    def schedule(self, delay: float, callback: Callable[[], object], priority: int = 0) -> int:
        """Call ``callback`` in ``delay`` seconds; at equal times lower ``priority`` first, then first come.

        Return a number to take that back with.

        Raises:
            InputError: A delay that is negative or not finite.
        """
        if not 0 <= delay < math.inf:
            raise InputError(f"a delay of {delay!r}", key="delay", accepted="seconds, finite and not negative")
        return self._calendar.push(self._calendar.now + delay, callback, priority=priority)

    def unschedule(self, event: int) -> None:
        """Take back an event that has not happened, by the number that ``schedule`` returned."""
        self._calendar.withdraw(event)

    def next_event_time(self) -> float:
        """Return when something happens next, infinite if nothing will."""
        calendar, table = self._calendar, self._carrier.table
        first = calendar.first
        if first <= calendar.now:
            return calendar.now
        # Where flows have come or gone it is not known when the next is drained.
        done = table.settle() if math.isnan(table.first_done) else table.first_done
        return min(first, done)

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
            self._calendar.now = until

    def _step(self, time: float) -> None:
        """Go to ``time`` and let all that happens then happen, in order."""
        self.statistics.events += 1
        self._calendar.now = time
        if time >= self._carrier.table.first_done:  # never where that is NaN: what has come now is drained later
            self._carrier.finish_first()
        self._calendar.run_due()

    @property
    def idle(self) -> bool:
        """Whether no flow drains or waits and no event is due."""
        return not (self._calendar.first < math.inf or self._carrier.table.loads or self._desk.waiting)

    # --- flows

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
            on_drained: Gets the activities whose flows have left their sources, each before it ends. Of flows that run
                in parts it hears at the end. Of repeated flows it hears when all repetitions have drained; once more
                where a change of the links then finds that some have not, for the latency of all is paid at the end.

        Raises:
            RefusedError: The admission refuses the flows.
            SimulationError: It asks for unicasts where there are none.
            PluginError: It fails, or returns what cannot be done.
        """
        self._tickets = ticket = self._tickets + 1
        self._open[ticket] = flows.activities
        try:
            self._desk.ask(Request(ticket, flows, partial(self._report, ticket, on_complete), unicasts, on_drained))
        except BaseException:
            self._open.pop(ticket, None)
            raise
        return ticket

    def _report(self, ticket: int, on_complete: Completion, activities: IntArray) -> None:
        """Tell who started the flows that ``activities`` have ended."""
        left = self._open[ticket] - len(activities)
        if left:
            self._open[ticket] = left
        else:
            del self._open[ticket]
        on_complete(activities)

    def cancel(self, ticket: int) -> None:
        """Take the flows of ``ticket`` off the links; no more of its activities end. What was sent stays accounted.

        Raises:
            InputError: They have ended or were cancelled, or there are none.
        """
        if ticket not in self._open:
            accepted = "a ticket with flows that have neither ended nor been cancelled"
            raise InputError(f"nothing runs for {ticket!r}", key="ticket", accepted=accepted)
        del self._open[ticket]
        self._desk.forget(ticket)
        self._carrier.cancel(ticket)

    def stalled(self) -> list[str]:
        """Return the labels of flows that cannot move: they wait for admission or have no rate."""
        table = self._carrier.table
        if math.isnan(table.first_done):
            table.settle()
        return [request.flows.label for request in self._desk.waiting] + [_label(load) for load in table.stalled()]

    def link_bytes(self) -> dict[str, FloatArray]:
        """Return the ``(links,)`` bytes that have crossed each link until now, by label."""
        return self._carrier.link_bytes()

    # --- links

    @property
    def solver(self) -> RateSolver:
        """Knows the rates of flows on the fabric."""
        return self._carrier.solver

    def claim(self, claim: Claim, label: str) -> bool:
        """Give the links of ``claim`` to it as long as nobody else comes; return whether they are free.

        Its flows always start at once, so there is no admission to ask, and the sharing policy is local.
        """
        if not self._desk.always or not self.solver.sharing.local:
            return False
        if any(claim.links[batch.routes.links].any() for batch in self._carrier.batches):
            return False
        return self._carrier.claims.add(claim, label)

    def release(self, claim: Claim) -> None:
        """Take back the links of ``claim``, and account what it has sent until now."""
        label = self._carrier.claims.remove(claim)
        for routes, volumes in claim.moved():
            self._carrier.account.add(label, routes, volumes)

    @property
    def bandwidths(self) -> FloatArray:
        """The ``(links,)`` bytes per second of the links now; 0 for one that is closed."""
        return self._carrier.table.bandwidths

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
        if not np.array_equal(bandwidths, self.bandwidths):
            rerouting.set_bandwidths(self._carrier, bandwidths)

    def reroute(self, router: Router) -> Rerouting:
        """Route flows over closed links again with ``router``, with what they have left, and from now on what starts.

        A flow that has no other route waits until links are back, under way or not; the others of its set go on.
        Repetitions of a phase that have not begun take the routes that there are then.
        """
        return rerouting.reroute(self._carrier, router)

    @property
    def held(self) -> dict[str, tuple[float, int]]:
        """When flows first were to start while links were closed, without a way round them, and how often, by label."""
        return self._carrier.held


def _label(load: Load) -> str:
    assert isinstance(load, BatchLoad)
    return load.batch.request.flows.label
