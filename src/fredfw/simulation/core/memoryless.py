"""A flow table for policies without state: rates depend on which flows drain alone, so they are remembered."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from fredfw.simulation.core.loads import Load
from fredfw.simulation.core.table import FlowTable
from fredfw.typing import FloatArray

# Of how many loads at most sets are remembered.
_LOADS = 256
# It is worth to see which loads share links where they have so many flows each, in the mean.
_WORTH = 256


class MemorylessTable(FlowTable):
    """A table that solves each set of flows once; see ``FlowTable``."""

    @abstractmethod
    def _solve(self, loads: list[Load]) -> FloatArray:
        """Return the rates of the flows of ``loads``, which share no links with the others, and count the solve."""

    def _all_rates(self) -> FloatArray:
        """Return the rates of all flows."""
        apart = self._apart()
        if len(apart) == 1:
            return self._rates_of(self.loads)
        parts: dict[int, FloatArray] = {}
        for loads in apart:
            bounds = np.cumsum([load.count for load in loads])[:-1]
            for load, known in zip(loads, np.split(self._rates_of(loads), bounds), strict=True):
                parts[id(load)] = known
        return np.concatenate([parts[id(load)] for load in self.loads])

    def _apart(self) -> list[list[Load]]:
        """Return the loads, apart where they share no links, directly or through others, and that is worth to know."""
        if len(self.loads) == 1 or len(self) < _WORTH * len(self.loads) or not self._solver.sharing.local:
            return [self.loads]
        islands: list[list[Load]] = []
        for load in self.loads:
            touched = [any(self._solver.meet(load.routes, one.routes) for one in island) for island in islands]
            joined = [one for island, near in zip(islands, touched, strict=True) if near for one in island]
            islands = [island for island, near in zip(islands, touched, strict=True) if not near]
            islands.append([*joined, load])
        return [sorted(island, key=lambda load: load.first) for island in islands]

    def _rates_of(self, loads: list[Load]) -> FloatArray:
        """Return the rates of the flows of ``loads``, which share no links with the others."""
        # Where so many loads are under way the same set never comes again.
        key = None if len(loads) > _LOADS else (self._setting, *[load.key or load.name() for load in loads])
        known = None if key is None else self._solver.find(key)
        if known is not None:
            self._statistics.cached += 1
            return known
        rates = self._solve(loads)
        if key is not None:
            self._solver.remember(key, rates)
        return rates
