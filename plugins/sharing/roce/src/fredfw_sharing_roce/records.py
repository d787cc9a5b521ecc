"""What a simulation tells of queues and pauses."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fredfw import Fabric, Samples
from fredfw.typing import BoolArray, FloatArray

_ROWS = 1024
_BUSIEST = 4


class Records:
    """Queues over time, of ``fabric``."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._seconds: list[float] = []
        self._largest: list[float] = []
        self._pause = np.zeros(len(fabric.bandwidths))
        self._times: list[float] = []
        self._rows: list[FloatArray] = []
        self._every, self._count = 1, 0

    def passed(self, begin: float, seconds: float, queues: FloatArray, paused: BoolArray) -> None:
        """Note that so many ``seconds`` passed, after which the ``(links,)`` queues are those."""
        self._seconds.append(seconds)
        self._largest.append(float(queues.max(initial=0.0)))
        self._pause += seconds * paused
        if self._count % self._every == 0 and not (self._times and begin + seconds <= self._times[-1]):
            self._times.append(begin + seconds)
            self._rows.append(queues.astype(np.float32))
            if len(self._rows) == _ROWS:  # then keep every other one
                self._times, self._rows = self._times[::2], self._rows[::2]
                self._every *= 2
        self._count += 1

    def figures(self, now: float) -> Mapping[str, float]:
        """Return numbers of the largest queue at each time, of the ``now`` seconds that the simulation took."""
        seconds, largest = np.array(self._seconds), np.array(self._largest)
        order = np.argsort(largest, kind="stable")[::-1]
        longer = np.cumsum(seconds[order]) > 0.01 * now  # the larger queues together last for a hundredth
        found = {
            "steps of the integration": float(len(seconds)),
            "largest queue, mean (B)": float((seconds * largest).sum() / now) if now > 0 else 0.0,
            "largest queue, P99 (B)": float(largest[order][longer.argmax()]) if longer.any() else 0.0,
            "largest queue, maximum (B)": float(largest.max(initial=0.0)),
        }
        if self._pause.any():
            found["pause of all links (s)"] = float(self._pause.sum())
            found["longest pause of a link (s)"] = float(self._pause.max())
        return found

    def samples(self) -> Mapping[str, Samples]:
        """Return the queues of the links that had the largest ones."""
        if not self._rows:
            return {}
        rows, times = np.array(self._rows, dtype=float), np.array(self._times)
        peaks = rows.max(axis=0)
        busiest = np.argsort(-peaks, kind="stable")[:_BUSIEST]
        return {
            f"queue of {self._fabric.link_name(int(link))}": Samples(times, rows[:, link], "B")
            for link in busiest
            if peaks[link] > 0
        }
