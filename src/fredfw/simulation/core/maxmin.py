"""A flow table for max-min fair sharing: after a change it solves the piece that the change disturbs.

Every flow remembers its bottleneck, the link that limits it. The piece begins with the flows that are new and those
whose bottleneck has lost a flow. Its links are saturated in the order of their levels, the lowest first. A resting flow
that is faster than a level gives way and joins the piece, and so do the flows that rested at the level of a link on
which another flow has slowed down. At the end every flow has a saturated link on which no flow is faster; that makes
the rates max-min fair. Only flows whose rate changes get another finish time. Where much changes at once all flows are
solved instead, and bottlenecks, chains and heap are made anew when little changes again.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from fredfw.simulation.core.fill import max_min
from fredfw.simulation.core.loads import Load
from fredfw.simulation.core.memoryless import MemorylessTable
from fredfw.simulation.sharing import Effort
from fredfw.typing import FloatArray

# Sets of so many loads at most come again, and are remembered.
_LOADS = 16
_NONE = np.zeros(0)


class MaxMinTable(MemorylessTable):
    """A table whose flows share links max-min fair; see ``FlowTable``."""

    serves_messages: ClassVar[bool] = True

    def _settle(self) -> float:
        slots = self._slots
        first = slots.settle(slots.now)
        if math.isnan(first):
            return slots.assign(slots.now, self._solve_all())
        self._statistics.count_solve(slots.touched, slots.passes)
        return first

    def _solve_all(self) -> FloatArray:
        """Return the rates of all flows."""
        if len(self.loads) <= _LOADS and not self._slots.messages:
            return self._all_rates() if self.loads else _NONE
        rates, passes = self._slots.solve()
        self._statistics.count_solve(len(rates), passes)
        return rates

    def _solve(self, loads: list[Load]) -> FloatArray:
        flows = self._incidence_of(loads, Effort())
        rates, passes = max_min(flows.offsets, flows.links, flows.coefficients, flows.caps, self.bandwidths)
        self._statistics.count_solve(len(rates), passes)
        return rates
