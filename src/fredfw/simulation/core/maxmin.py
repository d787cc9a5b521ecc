"""A flow table for max-min fair sharing: after a change it solves the piece that the change disturbs.

Every flow remembers its bottleneck, the link that limits it. The piece begins with the flows that are new and those
whose bottleneck has lost a flow. Its links are saturated in the order of their levels, the lowest first. A resting flow
that is faster than a level gives way and joins the piece, and so do the flows that rested at the level of a link on
which another flow has slowed down. At the end every flow has a saturated link on which no flow is faster; that makes
the rates max-min fair. Only flows whose rate changes get another finish time. Where much changes at once all flows are
solved instead, and bottlenecks, chains and heap are made anew when little changes again.
"""

from __future__ import annotations

import numpy as np

from fredfw.simulation.core.fill import max_min
from fredfw.simulation.core.loads import Load, Statistics
from fredfw.simulation.core.slots import Places
from fredfw.simulation.core.table import FlowTable
from fredfw.simulation.rates import RateSolver
from fredfw.simulation.sharing import Effort
from fredfw.typing import FloatArray

# The piece that a change disturbs is looked for where fewer than one in so many flows came or went.
_FEW = 2
# Sets of so many loads at most come again, and are remembered.
_LOADS = 16
_NONE = np.zeros(0)


class MaxMinTable(FlowTable):
    """A table whose flows share links max-min fair; see ``FlowTable``."""

    def __init__(self, solver: RateSolver, statistics: Statistics) -> None:
        super().__init__(solver, statistics)
        self._known = False  # whether bottlenecks, chains and heap are those of the flows that drain

    @property
    def _related(self) -> bool:
        return self._known

    def _settle(self) -> float:
        slots = self._slots
        if self._repaired():
            return slots.first
        self._known = False
        return slots.assign(self._now, self._solve_all())

    def _repaired(self) -> bool:
        """Solve again what a change disturbs, if that is worth while; return whether it was."""
        slots = self._slots
        if self._everything or not self._few(slots.slots - self._fresh + self._gone):
            return False
        if not self._known:
            slots.relate()
            self._known = True
        slots.repair(self._now, self._fresh)
        self._statistics.count_solve(slots.touched, slots.passes)
        return True

    def _solve_all(self) -> FloatArray:
        """Return the rates of all flows."""
        if len(self.loads) <= _LOADS:
            return self._all_rates() if self.loads else _NONE
        rates, passes = self._slots.solve()
        self._statistics.count_solve(len(rates), passes)
        return rates

    def _few(self, changed: int) -> bool:
        """Return whether so few flows have come or gone that what they disturb is looked for."""
        return _FEW * changed <= self._slots.active

    def _leave(self, gone: Places) -> None:
        del gone
        if not self._known and not self._everything:
            if self._few(self._gone):  # bottlenecks are known by the rates, as long as all flows are there
                self._slots.relate()
                self._known = True
            else:
                self._everything = True

    def _solve(self, loads: list[Load]) -> FloatArray:
        flows = self._incidence_of(loads, Effort())
        rates, passes = max_min(flows.offsets, flows.links, flows.coefficients, flows.caps, self.bandwidths)
        self._statistics.count_solve(len(rates), passes)
        return rates
