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

import numpy as np

from fredfw.simulation.core.fill import max_min
from fredfw.simulation.core.loads import Load, Statistics
from fredfw.simulation.core.slots import slots_class
from fredfw.simulation.core.table import FlowTable, Taken
from fredfw.simulation.rates import RateSolver
from fredfw.simulation.sharing import Effort
from fredfw.typing import FloatArray, IntArray

# The piece that a change disturbs is looked for where fewer than one in so many flows came or went.
_FEW = 2
# After it was more than half of the flows, it is not looked for again for so many solves at most.
_PATIENCE = 63
# Sets of so many loads at most come again, and are remembered.
_LOADS = 16
_NONE = np.zeros(0)


class MaxMinTable(FlowTable):
    """A table whose flows share links max-min fair; see ``FlowTable``."""

    def __init__(self, solver: RateSolver, statistics: Statistics) -> None:
        super().__init__(solver, statistics)
        self._slots = slots_class()(self.bandwidths)
        self._now = 0.0
        self._related = False  # whether bottlenecks, chains and heap are those of the flows that drain
        self._everything = True  # whether all flows have to be solved
        self._fresh = 0  # the slots from this one on are new since rates were known
        self._gone = 0  # how many flows have left since
        self._skips = self._skipped = 0

    def __len__(self) -> int:
        """See ``FlowTable``."""
        return self._slots.active

    def put(self, load: Load, now: float) -> None:
        """See ``FlowTable.put``."""
        slots = self._slots
        if not slots.active:
            slots.clear()
            self._fresh = 0
        elif slots.crowded(len(load.volumes)):
            self._compact()
        self._now = now
        load.first = slots.append(load.routes, load.volumes, load.caps, now)
        self.loads.append(load)
        self._firsts.append(load.first)
        self.first_done = math.nan

    def pass_time(self, now: float) -> None:
        """See ``FlowTable.pass_time``."""
        self._now = now

    def settle(self) -> float:
        """See ``FlowTable.settle``."""
        slots = self._slots
        if not self._repaired():
            self._related = False
            self._skipped += 1
            self.first_done = slots.assign(self._now, self._solve_all())
        self._everything, self._gone, self._fresh = False, 0, slots.slots
        return self.first_done

    def take_first(self) -> list[Taken]:
        """See ``FlowTable.take_first``."""
        self._now = self.first_done
        return self._take(self._slots.drained(self._now, self._related))

    def drop(self, load: Load, flows: IntArray) -> None:
        """See ``FlowTable.drop``."""
        gone = np.zeros(len(load.volumes), dtype=bool)
        gone[flows] = True
        mine = self._of(load)
        self._take(mine[gone[self._slots.member[mine]]])

    def remaining(self, load: Load, at: float | FloatArray) -> FloatArray:
        """See ``FlowTable.remaining``."""
        slots, mine, left = self._slots, self._of(load), np.zeros(len(load.volumes))
        members = slots.member[mine]
        seconds = np.broadcast_to(at, left.shape)[members] - slots.since[mine]
        left[members] = np.maximum(slots.remaining[mine] - slots.rate[mine] * seconds, 0.0)
        return left

    def stalled(self) -> list[Load]:
        """See ``FlowTable.stalled``."""
        return [load for load in self.loads if (self._slots.rate[self._of(load)] == 0).any()]

    def set_bandwidths(self, bandwidths: FloatArray) -> None:
        """See ``FlowTable.set_bandwidths``."""
        super().set_bandwidths(bandwidths)
        self._slots.capacity[:] = bandwidths
        self._everything = True

    def _of(self, load: Load) -> IntArray:
        """Return the slots of the draining flows of ``load``."""
        if not load.count:
            return np.zeros(0, dtype=np.intp)
        end = load.first + len(load.volumes)
        mine = load.first + np.flatnonzero(self._slots.draining[load.first : min(end, self._slots.slots)])
        return mine[: load.count]  # after those come the flows of another load, where slots have moved together

    def _repaired(self) -> bool:
        """Solve again what a change disturbs, if that is worth while; return whether it was."""
        slots = self._slots
        if self._everything or not self._few(slots.slots - self._fresh + self._gone):
            return False
        if not self._related:
            slots.relate()
            self._related = True
        if not slots.repair(self._now, self._fresh, slots.active // 2):
            self._skips, self._skipped = min(2 * self._skips + 1, _PATIENCE), 0
            return False
        self._skips = 0
        self._statistics.count_solve(slots.touched, slots.passes)
        self.first_done = slots.first
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
        return self._skipped >= self._skips and _FEW * changed <= self._slots.active

    def _take(self, gone: IntArray) -> list[Taken]:
        """Take the flows of slots ``gone``, in order, off the links."""
        slots, count = self._slots, len(gone)
        if not count:
            return []
        if gone[0] < self._fresh:
            self._gone += count
            if not self._related and not self._everything:
                if self._few(self._gone):  # bottlenecks are known by the rates, as long as all flows are there
                    slots.relate()
                    self._related = True
                else:
                    self._everything = True
        self.first_done = math.nan
        taken = self._take_out(gone)
        slots.remove(gone, self._related)
        return taken

    def _index(self, load: Load, places: IntArray) -> IntArray:
        return self._slots.member[places].astype(np.intp)

    def _solve(self, loads: list[Load]) -> FloatArray:
        flows = self._incidence_of(loads, Effort())
        rates, passes = max_min(flows.offsets, flows.links, flows.coefficients, flows.caps, self.bandwidths)
        self._statistics.count_solve(len(rates), passes)
        return rates

    def _compact(self) -> None:
        """Have the slots of flows that are gone back."""
        places = np.cumsum(np.concatenate([[0], self._slots.compact(self._related)]))
        for place, load in enumerate(self.loads):
            self._firsts[place] = load.first = int(places[load.first])
        self._fresh = int(places[self._fresh])
