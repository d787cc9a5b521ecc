"""The event engine: flows drain at the rates the sharing policy gives them, and callbacks run when they are delivered.

What happens when stands in the ``Calendar``; what drains, in the flow table of the ``Carrier``, which takes over what
the admission ``Desk`` lets in. Rates are solved only when the set of active flows changes, and never twice for the same
set. The engine is steppable (``next_event_time``, ``advance``), keeps no global state, and never reads a clock.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from fredfw.arrays import is_real
from fredfw.errors import InputError
from fredfw.fabric import AlwaysStart, Fabric, FlowSet, Router
from fredfw.simulation import answers, rerouting
from fredfw.simulation.calendar import Calendar
from fredfw.simulation.carrier import BatchLoad, Carrier
from fredfw.simulation.checks import check_bandwidths, check_callback, check_fabric, check_flows, check_sharing
from fredfw.simulation.claims import Claim
from fredfw.simulation.core.dynamic import DynamicTable
from fredfw.simulation.core.loads import Load, Statistics
from fredfw.simulation.core.slots import CALENDAR, FLOWS_DRAINED
from fredfw.simulation.core.ways import Way
from fredfw.simulation.desk import Desk
from fredfw.simulation.dynamics import Dynamics
from fredfw.simulation.memory import keep_freed_memory
from fredfw.simulation.messages import Messages, flows_of
from fredfw.simulation.rates import RateSolver
from fredfw.simulation.requests import Completion, Request, Unicasts
from fredfw.simulation.rerouting import Rerouting
from fredfw.simulation.sharing import SharingPolicy, sharing_of
from fredfw.typing import FloatArray, IntArray


class FlowNetwork:
    """A fabric that carries flows, in simulated time.

    Args:
        fabric: The network.
        sharing: How links are shared.
        solver: Knows the rates of flow sets from earlier simulations with the same fabric and policy.

    Raises:
        InputError: ``fabric`` is no fabric, or ``sharing`` is no policy.

    Attributes:
        admission: The fabric's, for this simulation alone; has figures and notes when it is over.
    """

    def __init__(self, fabric: Fabric, sharing: SharingPolicy | None = None, solver: RateSolver | None = None) -> None:
        check_fabric(fabric)
        check_sharing(sharing)
        keep_freed_memory()
        self.fabric = fabric
        self._statistics = Statistics()
        self.admission = answers.admission(fabric)
        self._calendar = Calendar()
        solver = solver or RateSolver(fabric, sharing_of(fabric) if sharing is None else sharing)
        self._carrier = Carrier(solver, self._statistics, self._calendar)
        controlled = len(fabric.network.sources)
        self._desk = Desk(self.admission, self._carrier, fabric.name, self._statistics, controlled)
        self._messages = Messages(self._carrier)
        # Whether a flow need not be a flow set: nobody has a say in it.
        self._plain = type(self.admission) is AlwaysStart and self._carrier.table.serves_messages
        self._tickets = 0
        self._open: dict[int, int] = {}  # activities that have not ended, by ticket

    @property
    def statistics(self) -> Statistics:
        """Counters."""
        self._carrier.table.count()
        return self._statistics

    @property
    def dynamics(self) -> Dynamics | None:
        """The state of the sharing policy, if it has any."""
        table = self._carrier.table
        return table.dynamics if isinstance(table, DynamicTable) else None

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
        if not is_real(delay) or not 0 <= delay < math.inf:
            raise InputError(f"a delay of {delay!r}", key="delay", accepted="seconds, finite and not negative")
        return self._calendar.push(self._calendar.now + delay, callback, priority=priority)

    def unschedule(self, event: int) -> None:
        """Take back an event that has not happened, by the number that ``schedule`` returned."""
        self._calendar.withdraw(event)

    def next_event_time(self) -> float:
        """Return when something happens next, infinite if nothing will."""
        calendar, table = self._calendar, self._carrier.table
        first = min(calendar.first, table.first_delivery)
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
        if not is_real(until) or not until >= self.now:
            raise InputError(f"cannot advance from {self.now!r} to {until!r}", key="until", accepted="not in the past")
        calendar, carrier, messages = self._calendar, self._carrier, self._messages
        table = carrier.table
        table.begin()
        while what := table.step(until, calendar):
            if what > 0:
                messages.deliver(what)
            elif what == CALENDAR:
                calendar.run_first()
                # Messages are drained in steps alone, so that no delivery comes between.
                while calendar.first <= calendar.now < table.first_delivery:
                    calendar.run_first()
            elif what == FLOWS_DRAINED:
                carrier.finish_first()
            else:
                table.settle()
        if until < math.inf:
            calendar.now = until
            table.pass_time(until)

    @property
    def idle(self) -> bool:
        """Whether no flow drains or waits and no event is due."""
        table = self._carrier.table
        due = min(self._calendar.first, table.first_delivery) < math.inf
        return not (due or len(table) or self._desk.waiting)

    # --- flows

    def start(
        self,
        flows: FlowSet,
        on_complete: Completion,
        *,
        unicasts: Unicasts | None = None,
        on_drained: Completion | None = None,
        checked: bool = False,
    ) -> int:
        """Start ``flows`` now, or as the fabric's admission decides; return a ticket to cancel them with.

        Args:
            flows: What to carry.
            on_complete: Gets the activities that end, each once, as often as some end at the same time.
            unicasts: Returns what to carry instead where the admission asks for it: unicasts of the same activities.
            on_drained: Gets the activities whose flows have left their sources, each before it ends. Of flows that run
                in parts it hears at the end. Of repeated flows it hears when all repetitions have drained; once more
                where a change of the links then finds that some have not, for the latency of all is paid at the end.
            checked: Whether the flows are known to be possible, as those that fredfw makes are.

        Raises:
            InputError: The flows are not possible, or not on this fabric; names the field of ``FlowSet``.
            RefusedError: The admission refuses the flows.
            SimulationError: It asks for unicasts where there are none.
            PluginError: It fails, or returns what cannot be done.
        """
        if not checked:
            check_flows(flows, self.fabric)
            check_callback(on_complete, "on_complete")
        if flows.repeat > 1:
            self._unfold()  # for what repetitions meet that are simulated as one is noted
        self._tickets = ticket = self._tickets + 1
        self._open[ticket] = flows.activities
        try:
            self._desk.ask(Request(ticket, flows, partial(self._report, ticket, on_complete), unicasts, on_drained))
        except BaseException:
            self._open.pop(ticket, None)
            raise
        return ticket

    def send(self, way: Way, volume: float, on_complete: Completion, priority: int = 0, label: str = "") -> int:
        """Start a single flow now, or as the fabric's admission decides; return a ticket to cancel it with.

        It does what ``start`` does with a flow set of that flow, at less cost where nothing but links can hinder it.

        Args:
            way: Its links.
            volume: Its bytes.
            on_complete: Gets the number of the only activity when it ends.
            priority: Its class for the sharing policy.
            label: What its bytes are accounted to.

        Raises:
            InputError: A volume that is negative or not finite.
            RefusedError: The admission refuses it.
            PluginError: It fails, or returns what cannot be done.
        """
        if not 0 <= volume < math.inf:
            raise InputError(f"a volume of {volume!r}", key="volume", accepted="bytes, finite and not negative")
        carrier = self._carrier
        if carrier.claims.held:  # what they let go of may be repetitions
            carrier.claims.yield_links(way.routes.links)
        if carrier.detours.closed or carrier.meetings.compressed or not (self._plain and volume > 0 and way.length):
            return self.start(flows_of(way, volume, priority, label), on_complete, checked=True)
        self._tickets = ticket = self._tickets + 1
        self._messages.under_way[ticket] = way, volume, on_complete, priority, label, self._calendar.now
        carrier.table.send(way, ticket, volume)
        return ticket

    def _unfold(self) -> None:
        """Make flow sets of the messages that are under way."""
        for ticket in self._messages.unfold(lambda ticket, ended: partial(self._report, ticket, ended)):
            self._open[ticket] = 1

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
        self._unfold()
        if ticket not in self._open:
            accepted = "a ticket with flows that have neither ended nor been cancelled"
            raise InputError(f"nothing runs for {ticket!r}", key="ticket", accepted=accepted)
        del self._open[ticket]
        self._desk.forget(ticket)
        self._carrier.cancel(ticket)

    def stalled(self) -> list[str]:
        """Return the labels of flows that cannot move: they wait for admission or have no rate."""
        self._unfold()
        table = self._carrier.table
        if math.isnan(table.first_done):
            table.settle()
        return [request.flows.label for request in self._desk.waiting] + [_label(load) for load in table.stalled()]

    def link_bytes(self) -> dict[str, FloatArray]:
        """Return the ``(links,)`` bytes that have crossed each link until now, by label."""
        self._unfold()
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
        self._unfold()
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
            InputError: Links that do not exist, not as many bandwidths, or some that are negative or not finite.
        """
        links, values = check_bandwidths(links, values)
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
            self._unfold()
            rerouting.set_bandwidths(self._carrier, bandwidths)

    def reroute(self, router: Router) -> Rerouting:
        """Route flows over closed links again with ``router``, with what they have left, and from now on what starts.

        A flow that has no other route waits until links are back, under way or not; the others of its set go on.
        Repetitions of a phase that have not begun take the routes that there are then.
        """
        self._unfold()
        return rerouting.reroute(self._carrier, router)

    @property
    def held(self) -> dict[str, tuple[float, int]]:
        """When flows first were to start while links were closed, without a way round them, and how often, by label."""
        return self._carrier.held

    def __getstate__(self) -> dict[str, Any]:
        self._unfold()  # ways are of this process
        return self.__dict__.copy()


def _label(load: Load) -> str:
    assert isinstance(load, BatchLoad)
    return load.batch.request.flows.label
