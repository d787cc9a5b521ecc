"""A flow table for a sharing policy with state: its rates hold for a time, and then it is asked again."""

from __future__ import annotations

import math

import numpy as np
from attrs import evolve

from fredfw.errors import PluginError
from fredfw.simulation import answers
from fredfw.simulation.calendar import Calendar
from fredfw.simulation.core.loads import Load, Statistics
from fredfw.simulation.core.slots import NOTHING_DUE, Places
from fredfw.simulation.core.table import FlowTable, Taken
from fredfw.simulation.dynamics import ActiveFlows, StatefulSharing
from fredfw.simulation.rates import RateSolver
from fredfw.simulation.sharing import Effort

# How often in turn no flow may have a rate, while nothing else happens.
_PATIENCE = 1_000_000


class DynamicTable(FlowTable):
    """A table that asks a policy with state; see ``FlowTable``.

    Attributes:
        dynamics: The state of the policy.
    """

    def __init__(self, solver: RateSolver, statistics: Statistics, sharing: StatefulSharing) -> None:
        super().__init__(solver, statistics)
        self.dynamics = answers.begun(sharing, solver.fabric)
        self._sharing = sharing
        self._held = math.inf  # until when rates hold
        self._ids = 0
        self._first_ids: dict[Load, tuple[int, float]] = {}  # of each load, and when it was put on the links
        self._known: ActiveFlows | None = None  # while no flow comes or goes; what is left of each is of then
        self._standing = 0

    @property
    def first_done(self) -> float:
        """When the first flow is drained or rates change, whichever comes first; see ``FlowTable``."""
        first = self._slots.first_done
        return first if math.isnan(first) else min(first, self._held)

    def put(self, load: Load, now: float) -> None:
        """See ``FlowTable.put``."""
        super().put(load, now)
        self._first_ids[load] = self._ids, now
        self._ids += len(load.volumes)
        self._known = None

    def step(self, until: float, calendar: Calendar) -> int:
        """See ``FlowTable.step``; what passes in between is rates that held until then."""
        while True:
            time, _ = calendar.head()
            if time > self._slots.now and math.isnan(self._slots.first_done):
                self.settle()
            bound = min(until, self._held)
            what = super().step(bound, calendar)
            if what != NOTHING_DUE or bound < self._held or self._held == math.inf:
                return what
            calendar.now = bound
            self.pass_time(bound)
            self.begin()
            self._slots.first_done = math.nan

    def settle(self) -> float:
        """See ``FlowTable.settle``; return when the first flow is drained or rates change."""
        super().settle()
        return self.first_done

    def stalled(self) -> list[Load]:
        """See ``FlowTable.stalled``; what has no rate for a time is not stalled."""
        return super().stalled() if self._held == math.inf else []

    def _settle(self) -> float:
        self._held = math.inf
        if not self.loads:
            return math.inf
        slots, flows = self._slots, self._flows()
        held = answers.held(self.dynamics, flows, self.bandwidths, slots.now, self._solver.fabric)
        self._statistics.count_solve(len(flows), 0)
        self._held = held.until
        self._standing = 0 if held.rates.any() else self._standing + 1
        if self._standing > _PATIENCE:
            name = self._sharing.name
            raise PluginError(f"the sharing {name!r} gave none of {len(flows)} flows a rate, {_PATIENCE} times in turn")
        first = slots.assign(slots.now, held.rates)
        slots.everything = 1  # for nothing is known of bottlenecks
        return first

    def _flows(self) -> ActiveFlows:
        slots = self._slots
        mine = slots.taken()
        left = np.maximum(slots.remaining[mine] - slots.rate[mine] * (slots.now - slots.since[mine]), 0.0)
        known = self._known
        if known is not None:
            return evolve(known, remaining=left)
        members = slots.member[mine]
        counts = [load.count for load in self.loads]
        firsts, births = zip(*(self._first_ids[load] for load in self.loads), strict=True)
        self._known = ActiveFlows(
            incidence=self._incidence_of(self.loads, Effort()),
            ids=np.repeat(np.array(firsts, dtype=np.intp), counts) + members,
            births=np.repeat(births, counts),
            sizes=slots.volume[mine],
            remaining=left,
            latencies=np.concatenate([load.routes.latencies[load.draining] for load in self.loads]),
            labels=tuple(load.label for load in self.loads for _ in range(load.count)),
        )
        return self._known

    def _taken(self, gone: Places) -> list[Taken]:
        self._known = None
        taken = super()._taken(gone)
        for load, _ in taken:
            if not load.count:
                del self._first_ids[load]
        return taken
