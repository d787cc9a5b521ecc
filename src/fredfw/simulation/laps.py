"""Repetitions that are simulated as one, and where they are when something changes on the way."""

from __future__ import annotations

import numpy as np
from attrs import define

from fredfw.typing import BoolArray, FloatArray, IntArray


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


def current_laps(
    volumes: FloatArray,
    latencies: FloatArray,
    rates: FloatArray,
    activity: IntArray,
    elapsed: FloatArray,
    laps: IntArray,
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return where repetitions are that were simulated as one.

    Args:
        volumes: ``(F,)`` bytes of a repetition.
        latencies: ``(F,)`` seconds of a repetition.
        rates: ``(F,)`` mean bytes per second while there were any to send.
        activity: ``(F,)`` activity of each flow.
        elapsed: ``(activities,)`` seconds since they began.
        laps: ``(activities,)`` how many there are.

    Returns:
        ``(activities,)`` repetitions that are over, and ``(F,)`` bytes that the current one has still to send and
        seconds that their delivery takes.
    """
    with np.errstate(divide="ignore", invalid="ignore"):  # a flow that stands still has an endless repetition
        transfer = np.where(volumes > 0, volumes / rates, 0.0)
        lap = np.zeros(len(laps))  # seconds of a repetition, which the slowest flow says
        np.maximum.at(lap, activity, transfer + latencies)
        done = np.where(lap > 0, elapsed / lap, 0.0)
        done = np.minimum(np.floor(done * (1 + 1e-12)), laps - 1).astype(np.intp)
        within = np.maximum(elapsed - np.where(done > 0, done * lap, 0.0), 0.0)[activity]
    left = np.where(within < transfer, volumes - rates * within, 0.0)
    left[left <= 1e-11 * volumes] = 0.0
    late = np.where(left > 0, 0.0, within - np.minimum(transfer, within))
    return done, left, np.maximum(latencies - late, 0.0)
