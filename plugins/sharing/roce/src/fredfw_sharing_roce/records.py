"""What a simulation tells of queues and pauses."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fredfw import Fabric, Samples
from fredfw.typing import BoolArray, FloatArray

_ROWS = 1024
_BUSIEST = 4
_ROUNDING = 1e-9


class Records:
    """Queues over time, of ``fabric``."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._seconds: list[float] = []
        self._largest: list[float] = []
        self._pause = np.zeros(len(fabric.bandwidths))
        self._times: list[float] = []
        self._rows: list[FloatArray] = []
        self._pauses: list[FloatArray] = []
        self._peaks = np.zeros(len(fabric.bandwidths))
        self._every, self._count = 1, 0

    def passed(self, begin: float, seconds: float, queues: FloatArray, paused: BoolArray) -> None:
        """Note that so many ``seconds`` passed, after which the ``(links,)`` queues are those."""
        self._seconds.append(seconds)
        self._largest.append(float(queues.max(initial=0.0)))
        self._pause = self._pause + seconds * paused if paused.any() else self._pause
        np.maximum(self._peaks, queues, out=self._peaks)
        if self._count % self._every == 0 and not (self._times and begin + seconds <= self._times[-1]):
            self._times.append(begin + seconds)
            self._rows.append(queues.astype(np.float32))
            self._pauses.append(self._pause)
            if len(self._rows) == _ROWS:  # then keep every other one
                self._times, self._rows, self._pauses = self._times[::2], self._rows[::2], self._pauses[::2]
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
        for link in self._most(self._peaks):
            found[f"queue of {self._fabric.link_name(link)}, maximum (B)"] = float(self._peaks[link])
        for link in self._most(self._pause):
            found[f"pause of {self._fabric.link_name(link)} (s)"] = float(self._pause[link])
        return found

    def samples(self) -> Mapping[str, Samples]:
        """Return queues, and seconds of pauses so far, of the links that had the most."""
        times, name = np.array(self._times), self._fabric.link_name
        queues = {f"queue of {name(link)}": _column(times, self._rows, link, "B") for link in self._most(self._peaks)}
        pauses = {f"pause of {name(link)}": _column(times, self._pauses, link, "s") for link in self._most(self._pause)}
        return queues | pauses

    def _most(self, amounts: FloatArray) -> list[int]:
        order = np.argsort(-amounts, kind="stable")[:_BUSIEST]
        return [int(link) for link in order if amounts[link] > _ROUNDING]


def _column(times: FloatArray, rows: list[FloatArray], link: int, unit: str) -> Samples:
    return Samples(times, np.array([row[link] for row in rows], dtype=float), unit)
