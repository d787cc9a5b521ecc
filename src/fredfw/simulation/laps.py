"""Repetitions that are simulated as one, and where they are when something changes on the way.

A repetition is a lap: its flows drain, their last bytes arrive, and where another follows it is set up. Simulated as
one, all laps drain first and the latencies and set-ups come after; a lap takes the same time all the same.
"""

from __future__ import annotations

import math

import numpy as np
from attrs import define, frozen

from fredfw.simulation.core.loads import LEAST, Load, Statistics
from fredfw.simulation.core.tables import flow_table
from fredfw.simulation.rates import RateSolver
from fredfw.typing import BoolArray, FloatArray, IntArray

# Of what a flow has to send in a lap, what is less than this is rounding.
_ROUNDING = 1e-11
# Flows were alone on their links if they have sent what they would have sent alone, to this share of it.
_ALONE = 1e-9


@define(eq=False)
class Laps:
    """The repetitions of a batch that has been split at the current ones.

    Args:
        now: ``(activities,)`` repetitions that are on the links.
        later: ``(activities,)`` repetitions that come after those.
        since: ``(activities,)`` when those on the links began.
        load: ``(activities,)`` place of the load that they are.
    """

    now: IntArray
    later: IntArray
    since: FloatArray
    load: IntArray

    @classmethod
    def of(cls, activities: int, repeat: int, since: float) -> Laps:
        """Return those of a batch that began with all repetitions on its first load."""
        none = np.zeros(activities, dtype=np.intp)
        return cls(np.full(activities, repeat), none, np.full(activities, since), none.copy())

    def several(self, load: int) -> BoolArray:
        """Return the ``(activities,)`` mask of those of which several repetitions are on the load at that place."""
        several: BoolArray = (self.now > 1) & (self.load == load)
        return several


@frozen(eq=False)
class Position:
    """Where repetitions are that were simulated as one.

    Args:
        done: ``(activities,)`` repetitions that are over.
        left: ``(F,)`` bytes that the current one has still to send.
        delays: ``(F,)`` seconds that their delivery takes, and the set-up of the next repetition if there is one.
    """

    done: IntArray
    left: FloatArray
    delays: FloatArray


class Lap:
    """One repetition of the flows of a load, as they drain without other flows on their links.

    Args:
        solver: Knows rates.
        bandwidths: ``(links,)`` bytes per second.
        load: The flows, with all their repetitions.
        volumes: ``(F,)`` bytes of one.
    """

    def __init__(self, solver: RateSolver, bandwidths: FloatArray, load: Load, volumes: FloatArray) -> None:
        self._solver = solver
        self._bandwidths = bandwidths
        self._routes, self._caps, self._priority = load.routes, load.caps, load.priority
        self._volumes = volumes
        self._transfer: FloatArray | None = None

    @property
    def transfer(self) -> FloatArray:
        """``(F,)`` seconds until each has drained; infinite for a flow without a rate."""
        if self._transfer is None:
            self._transfer, _ = self._replay(None)
        return self._transfer

    def left(self, within: FloatArray) -> FloatArray:
        """Return the ``(F,)`` bytes that each has still to send ``(F,)`` seconds after the beginning."""
        return self._replay(within)[1]

    def _replay(self, within: FloatArray | None) -> tuple[FloatArray, FloatArray]:
        """Let the flows drain, or as far as all that is asked for is known."""
        load = Load(routes=self._routes, volumes=self._volumes, caps=self._caps, priority=self._priority)
        table = flow_table(self._solver, Statistics())
        table.set_bandwidths(self._bandwidths)
        table.put(load, 0.0)
        count, time = len(self._volumes), 0.0
        transfer, left = np.full(count, math.inf), np.zeros(count)
        free = (self._volumes <= LEAST) | (np.diff(self._routes.offsets) == 0)
        if self._caps is not None:
            free &= (self._volumes <= LEAST) | np.isinf(self._caps)
        table.drop(load, np.flatnonzero(free))
        transfer[free] = 0.0
        last = math.inf if within is None else float(within.max(initial=0.0))
        while len(table) and time <= last:
            until = table.settle()
            if within is not None:
                asked = load.draining & (within >= time) & (within < until)
                left[asked] = table.remaining(load, within)[asked]
            if until == math.inf:
                break
            for _, flows in table.take_first():
                transfer[slice(None) if flows is None else flows] = until
            time = until
        return transfer, left


@frozen(eq=False)
class SteadyLap:
    """One repetition of flows whose links others use too: each drains at the mean rate that it has had.

    Args:
        volumes: ``(F,)`` bytes.
        rates: ``(F,)`` bytes per second while there were any to send.
    """

    volumes: FloatArray
    rates: FloatArray

    @property
    def transfer(self) -> FloatArray:
        """``(F,)`` seconds until each has drained; infinite for a flow without a rate."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.volumes > 0, self.volumes / self.rates, 0.0)

    def left(self, within: FloatArray) -> FloatArray:
        """Return the ``(F,)`` bytes that each has still to send ``(F,)`` seconds after the beginning."""
        return np.maximum(self.volumes - self.rates * within, 0.0)


def position(
    lap: Lap | SteadyLap,
    *,
    volumes: FloatArray,
    latencies: FloatArray,
    setup: float,
    activity: IntArray,
    elapsed: FloatArray,
    laps: IntArray,
) -> Position:
    """Return where repetitions are that were simulated as one.

    Args:
        lap: How the flows of one drain.
        volumes: ``(F,)`` bytes of one.
        latencies: ``(F,)`` seconds from the last byte's departure to its delivery.
        setup: Seconds between two.
        activity: ``(F,)`` activity of each flow.
        elapsed: ``(activities,)`` seconds since they began.
        laps: ``(activities,)`` how many there are.
    """
    transfer = lap.transfer
    seconds = np.zeros(len(laps))  # of a repetition, which the slowest flow says
    np.maximum.at(seconds, activity, transfer + latencies + setup)
    done = np.divide(elapsed, seconds, out=np.zeros(len(laps)), where=seconds > 0)
    done = np.minimum(np.floor(done * (1 + 1e-12)), laps - 1).astype(np.intp)
    over = np.multiply(done, seconds, out=np.zeros(len(laps)), where=done > 0)  # 0 of those without end
    within = np.maximum(elapsed - over, 0.0)[activity]
    left = lap.left(within)
    left[left <= _ROUNDING * volumes] = 0.0
    late = np.where(left > 0, 0.0, within - np.minimum(transfer, within))
    follows = (done + 1 < laps)[activity]
    return Position(done, left, np.maximum(latencies + setup * follows - late, 0.0))


def was_alone(lap: Lap, sent: FloatArray, volumes: FloatArray, elapsed: FloatArray, laps: IntArray) -> bool:
    """Return whether flows have sent what they would have sent alone.

    Args:
        lap: How one repetition drains alone.
        sent: ``(F,)`` bytes until now, of all repetitions, which drain as one.
        volumes: ``(F,)`` bytes of one.
        elapsed: ``(F,)`` seconds since they began.
        laps: ``(F,)`` how many there are.
    """
    alone = volumes - lap.left(elapsed / laps)
    return bool((np.abs(sent / laps - alone) <= _ALONE * volumes).all())
