"""A flow table for any sharing policy, whose state is arrays with an entry per flow."""

from __future__ import annotations

import math

import numpy as np

from fredfw.fabric import Routes
from fredfw.simulation.core.loads import LEAST, Load, Statistics
from fredfw.simulation.core.table import FlowTable, Taken
from fredfw.simulation.rates import RateSolver
from fredfw.simulation.sharing import Effort, Incidence
from fredfw.typing import BoolArray, FloatArray, IntArray

# A flow is drained when what remains is below this share of its own volume.
_DRAINED = 1e-11
# It is worth to see which flows a change reaches where there are so many, and fewer than one in eight came or went.
_WORTH, _FEW = 256, 8
# After it has reached most of them, that is not tried again for so many solves at most.
_PATIENCE = 63


class PolicyTable(FlowTable):
    """A table that asks the sharing policy; see ``FlowTable``."""

    def __init__(self, solver: RateSolver, statistics: Statistics) -> None:
        super().__init__(solver, statistics)
        self._now = 0.0
        self._issued = 0
        # One entry per draining flow, in the order of their serial numbers.
        self._serials: IntArray = np.zeros(0, dtype=np.intp)
        self._remaining = np.zeros(0)
        self._volumes = np.zeros(0)
        self._rates = np.zeros(0)
        self._joining: list[FloatArray] = []  # volumes of loads that have no entries yet
        self._first_in = math.inf  # seconds until the first flow is drained
        self._first = 0
        # The incidence of flows that drained when it was last asked for, their serial numbers, and the next one then.
        self._incidence: tuple[Incidence, IntArray, int] | None = None
        self._effort = Effort()
        # What has changed since rates were last known: the flows that left, how many, and the first new one.
        self._left: list[tuple[Routes, IntArray]] = []
        self._gone = 0
        self._new = 0
        self._everything = True
        self._skips = self._skipped = 0

    def __len__(self) -> int:
        """See ``FlowTable``."""
        self._join()
        return len(self._serials)

    def put(self, load: Load, now: float) -> None:
        """See ``FlowTable.put``."""
        self.pass_time(now)
        load.first = self._issued
        self._issued += len(load.volumes)
        self.loads.append(load)
        self._firsts.append(load.first)
        self._joining.append(load.volumes)
        self.first_done = math.nan

    def _join(self) -> None:
        """Append what was put, all at once: often that is many loads at the same moment."""
        if self._joining:
            volumes = self._joining[0] if len(self._joining) == 1 else np.concatenate(self._joining)
            count, self._joining = len(volumes), []
            fresh = np.arange(self._issued - count, self._issued)
            if len(self._serials):
                self._serials = np.concatenate([self._serials, fresh])
                self._remaining = np.concatenate([self._remaining, volumes])
                self._volumes = np.concatenate([self._volumes, volumes])
                self._rates = np.concatenate([self._rates, np.zeros(count)])
            else:  # nothing is copied, for of millions of flows a new array takes as long as a pass over it
                self._serials, self._remaining, self._volumes, self._rates = fresh, volumes, volumes, np.zeros(count)

    def pass_time(self, now: float) -> None:
        """See ``FlowTable.pass_time``."""
        seconds = now - self._now
        if seconds > 0 and len(self):
            left = self._rates * seconds
            np.subtract(self._remaining, left, out=left)
            self._remaining = np.maximum(left, LEAST, out=left)
            self._first_in -= seconds
        self._now = now

    def settle(self) -> float:
        """See ``FlowTable.settle``."""
        self._join()
        if self.loads:
            self._rates = self._all_rates()
            self._left, self._gone, self._new, self._everything = [], 0, self._issued, False
            with np.errstate(divide="ignore"):
                finish = self._remaining / self._rates  # infinite where a flow has no rate
            self._first = int(finish.argmin())
            self._first_in = float(finish[self._first])
        else:
            self._first_in = math.inf
        self.first_done = self._now + self._first_in
        return self.first_done

    def take_first(self) -> list[Taken]:
        """See ``FlowTable.take_first``."""
        left = self._rates * self._first_in
        np.subtract(self._remaining, left, out=left)
        # The first defines this moment; others join if what they have left then is rounding.
        done = left <= _DRAINED * self._volumes
        done[self._first] = True
        self._remaining = np.maximum(left, 0.0, out=left)
        self._now = self.first_done
        self._first_in = 0.0
        return self._take(done)

    def drop(self, load: Load, flows: IntArray) -> None:
        """See ``FlowTable.drop``."""
        gone = np.zeros(len(load.volumes), dtype=bool)
        gone[flows] = True
        done = np.zeros(len(self), dtype=bool)
        done[self._of(load)] = gone[load.draining]
        self._take(done)

    def remaining(self, load: Load, at: float | FloatArray) -> FloatArray:
        """See ``FlowTable.remaining``."""
        place, left = self._of(load), np.zeros(len(load.volumes))
        seconds = np.broadcast_to(at, left.shape)[load.draining] - self._now
        left[load.draining] = np.maximum(self._remaining[place] - self._rates[place] * seconds, 0.0)
        return left

    def stalled(self) -> list[Load]:
        """See ``FlowTable.stalled``."""
        still = self._rates == 0
        return [load for load in self.loads if still[self._of(load)].any()]

    def set_bandwidths(self, bandwidths: FloatArray) -> None:
        """See ``FlowTable.set_bandwidths``."""
        super().set_bandwidths(bandwidths)
        self._everything = True

    def _of(self, load: Load) -> slice:
        """Return where the draining flows of ``load`` are."""
        self._join()
        start = int(np.searchsorted(self._serials, load.first))
        return slice(start, start + load.count)

    def _take(self, done: BoolArray) -> list[Taken]:
        """Take the ``(F,)`` flows ``done`` off the links."""
        gone, keep = self._serials[done], ~done
        self._serials, self._remaining = self._serials[keep], self._remaining[keep]
        self._volumes, self._rates = self._volumes[keep], self._rates[keep]
        self.first_done = math.nan
        self._gone += len(gone)
        # Which links they leave matters where what that reaches will be looked for.
        local = self._solver.sharing.local and len(done) > _WORTH
        self._everything |= not local
        taken = self._take_out(gone)
        if local:
            for load, flows in taken:
                self._left.append((load.routes, np.arange(len(load.volumes)) if flows is None else flows))
        return taken

    def _index(self, load: Load, places: IntArray) -> IntArray:
        return places - load.first

    def _solve(self, loads: list[Load]) -> FloatArray:
        before = self._effort.passes
        if len(loads) == len(self.loads):
            rates = self._solve_changed()
        else:
            rates = self._solver.solve(self._incidence_of(loads, self._effort), self.bandwidths)
            self._incidence = None
        self._statistics.count_solve(len(rates), self._effort.passes - before)
        return rates

    def _solve_changed(self) -> FloatArray:
        """Return the rates of all flows; what a change does not reach keeps the rate that it has."""
        solver, incidence = self._solver, self._links()
        reached = None if self._everything else self._reached(incidence)
        if reached is None:
            return solver.solve(incidence, self.bandwidths)
        rates = self._rates.copy()
        rates[reached] = solver.solve(incidence.select(reached), self.bandwidths)
        return rates

    def _reached(self, incidence: Incidence) -> BoolArray | None:
        """Return the ``(F,)`` mask of flows that what has come and gone reaches, or ``None`` for all."""
        fresh = int(np.searchsorted(self._serials, self._new))
        changed = len(self._serials) - fresh + self._gone
        if len(self._serials) <= max(_WORTH, _FEW * changed) or not self._solver.sharing.local:
            return None
        if self._skipped < self._skips:
            self._skipped += 1
            return None
        disturbed = np.zeros(len(self.bandwidths), dtype=bool)
        disturbed[incidence.links[incidence.offsets[fresh] :]] = True
        for routes, flows in self._left:
            disturbed[routes.links_of(flows)] = True
        reached = incidence.reach(disturbed)
        self._skips = min(2 * self._skips + 1, _PATIENCE) if 2 * reached.sum() > len(reached) else 0
        self._skipped = 0
        return reached

    def _links(self) -> Incidence:
        """Return the links of all flows: those of the last time that still drain, and what has come since."""
        parts, since = [], 0
        if self._incidence is not None:
            last, serials, since = self._incidence
            place = np.searchsorted(self._serials, serials)
            kept = self._serials[np.minimum(place, len(self._serials) - 1)] == serials
            parts.append(last.select(kept))
        new = len(self.loads)
        while new and self.loads[new - 1].first >= since:
            new -= 1
        parts += [load.incidence() for load in self.loads[new:]]
        whole = Incidence.concatenate(parts, self._effort)
        self._incidence = whole, self._serials, self._issued
        return whole
