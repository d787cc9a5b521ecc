"""Which worker holds which neuron: balanced assignments of least cost."""

from __future__ import annotations

import numpy as np
import scipy  # its parts load when they are used
from attrs import field, frozen

from fredfw.errors import InputError
from fredfw.typing import FloatArray, IntArray

_SWEEPS = 5


@frozen(eq=False)
class Workers:
    """The workers of a layer, and how many neurons each may hold."""

    shares: FloatArray  # `(workers,)` compute power of each, relative to the others
    tolerance: float = field(default=0.0)  # how far the neurons of a worker may be from its share, relative to that

    def __len__(self) -> int:
        return len(self.shares)

    def share(self, neurons: int) -> FloatArray:
        """Return ``(workers,)`` neurons of each, as fractions."""
        fair: FloatArray = neurons * self.shares / self.shares.sum()
        return fair

    def bounds(self, neurons: int) -> tuple[IntArray, IntArray]:
        """Return ``(workers,)`` least and most neurons of each."""
        # A share that is whole, but for rounding, allows exactly that.
        fair = np.round(self.share(neurons), 9)
        lower = np.floor(fair * (1 - self.tolerance)).astype(np.intp)
        upper = np.ceil(fair * (1 + self.tolerance)).astype(np.intp)
        return lower, np.minimum(upper, neurons)

    def contiguous(self, neurons: int) -> IntArray:
        """Return ``(neurons,)`` workers of the neurons in their own order."""
        ends = np.round(np.cumsum(self.share(neurons)) - 1e-9)
        return np.searchsorted(ends, np.arange(neurons), side="right")

    def assigned(self, costs: FloatArray) -> IntArray:
        """Return the assignment of least cost that keeps the bounds.

        It is a linear sum assignment (Munkres) of neurons to places: a worker has as many as it may hold neurons.

        Args:
            costs: ``(neurons, workers)`` cost of each neuron on each worker.

        Returns:
            ``(neurons,)`` worker of each.

        Raises:
            InputError: There are more workers than neurons.
        """
        neurons = len(costs)
        self.check(neurons)
        lower, upper = self.bounds(neurons)
        # The same on all places of a worker, prices change no optimum. With them most neurons are at home at once.
        prices = _prices(costs, self.share(neurons))
        reduced = costs - prices
        wanted: IntArray = np.argmin(reduced, axis=1)
        if (lower == upper).all() and (np.bincount(wanted, minlength=len(self)) == upper).all():
            return wanted
        places = np.repeat(np.arange(len(self)), upper)
        matrix = np.empty((len(places), len(places)))
        np.take(reduced, places, axis=1, out=matrix[:neurons])
        # The other rows are empty places, which are not among those that must be filled.
        first = np.concatenate([np.arange(count) for count in upper])
        matrix[neurons:] = np.where(first < lower[places], np.inf, -prices[places])
        chosen: IntArray = places[scipy.optimize.linear_sum_assignment(matrix)[1][:neurons]]
        return chosen

    def check(self, neurons: int) -> None:
        """Make sure that there is a neuron for each worker.

        Raises:
            InputError: There is not.
        """
        if len(self) > neurons:
            message = f"{len(self)} workers for a layer of {neurons} neurons"
            raise InputError(message, key="workers", accepted=f"at most {neurons}")


def _prices(costs: FloatArray, places: FloatArray) -> FloatArray:
    """Return ``(workers,)`` prices at which about ``places`` neurons want each worker."""
    prices = np.zeros(costs.shape[1])
    if costs.shape[1] == 1:
        return prices
    for _ in range(_SWEEPS):
        for worker, count in enumerate(places):
            others = costs - prices
            others[:, worker] = np.inf
            gaps = np.sort(costs[:, worker] - others.min(axis=1))
            last = min(max(round(count), 1), len(gaps) - 1)
            prices[worker] = (gaps[last - 1] + gaps[last]) / 2
    return prices
