"""A flow table for any sharing policy."""

from __future__ import annotations

import math

import numpy as np

from fredfw.simulation.core.loads import Load, Statistics
from fredfw.simulation.core.memoryless import MemorylessTable
from fredfw.simulation.core.slots import Places
from fredfw.simulation.core.table import Taken
from fredfw.simulation.rates import RateSolver
from fredfw.simulation.sharing import Effort, Incidence
from fredfw.typing import BoolArray, FloatArray, IntArray

# It is worth to see which flows a change reaches where there are so many, and fewer than one in eight came or went.
_WORTH, _FEW = 256, 8
# After it has reached most of them, that is not tried again for so many solves at most.
_PATIENCE = 63


class PolicyTable(MemorylessTable):
    """A table that asks the sharing policy; see ``FlowTable``."""

    def __init__(self, solver: RateSolver, statistics: Statistics) -> None:
        super().__init__(solver, statistics)
        self._effort = Effort()
        self._everything = True  # whether all flows have to be solved
        self._left: list[IntArray] = []  # links of the flows that have left since rates were known
        self._skips = self._skipped = 0

    def _settle(self) -> float:
        if not self.loads:
            return math.inf
        first = self._slots.assign(self._slots.now, self._all_rates())
        self._slots.everything = 1  # for nothing is known of bottlenecks
        self._everything, self._left = False, []
        return first

    def set_bandwidths(self, bandwidths: FloatArray) -> None:
        """See ``FlowTable.set_bandwidths``."""
        super().set_bandwidths(bandwidths)
        self._everything = True

    def _taken(self, gone: Places) -> list[Taken]:
        # Which links they leave matters where what that reaches will be looked for.
        if not self._solver.sharing.local or self._slots.active <= _WORTH:
            self._everything = True
        elif not self._everything:
            self._left.append(self._slots.links_of(gone))
        return super()._taken(gone)

    def _solve(self, loads: list[Load]) -> FloatArray:
        before = self._effort.passes
        if len(loads) == len(self.loads):
            rates = self._solve_changed()
        else:
            rates = self._solver.solve(self._incidence_of(loads, self._effort), self.bandwidths)
        self._statistics.count_solve(len(rates), self._effort.passes - before)
        return rates

    def _solve_changed(self) -> FloatArray:
        """Return the rates of all flows; what a change does not reach keeps the rate that it has."""
        solver, incidence = self._solver, self._links()
        reached = None if self._everything else self._reached(incidence)
        if reached is None:
            return solver.solve(incidence, self.bandwidths)
        rates = self._slots.rate[self._slots.taken()]
        rates[reached] = solver.solve(incidence.select(reached), self.bandwidths)
        return rates

    def _reached(self, incidence: Incidence) -> BoolArray | None:
        """Return the ``(F,)`` mask of flows that what has come and gone reaches, or ``None`` for all."""
        fresh = int(self._slots.draining[: self._slots.fresh].sum())
        changed = len(incidence) - fresh + self._slots.gone
        if len(incidence) <= max(_WORTH, _FEW * changed) or not self._solver.sharing.local:
            return None
        if self._skipped < self._skips:
            self._skipped += 1
            return None
        disturbed = np.zeros(len(self.bandwidths), dtype=bool)
        disturbed[incidence.links[incidence.offsets[fresh] :]] = True
        for links in self._left:
            disturbed[links] = True
        reached = incidence.reach(disturbed)
        self._skips = min(2 * self._skips + 1, _PATIENCE) if 2 * reached.sum() > len(reached) else 0
        self._skipped = 0
        return reached

    def _links(self) -> Incidence:
        """Return the links of all flows."""
        slots, mine = self._slots, self._slots.taken()
        offsets = np.zeros(len(mine) + 1, dtype=np.intp)
        np.cumsum(slots.length[mine], out=offsets[1:])
        pairs = slots.pairs_of(mine)
        caps = slots.cap[mine]
        counts, weights = [load.count for load in self.loads], [load.weight for load in self.loads]
        return Incidence(
            offsets,
            slots.link[pairs].astype(np.intp),
            None if slots.coefficient is None else slots.coefficient[pairs],
            None if np.isinf(caps).all() else caps,
            np.repeat([load.priority for load in self.loads], counts),
            np.repeat(weights, counts) if any(weight != 1.0 for weight in weights) else None,
            self._effort,
        )
