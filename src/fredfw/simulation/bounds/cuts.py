"""Candidate cuts of a fabric for a group of NPUs, and what their links carry at most.

Any set of nodes is a valid side; good ones are tight. NPUs are cut by their positions in each level and by numbers;
other nodes go with the NPUs that are nearest to them in hops.
"""

from collections.abc import Iterator
from functools import cached_property, partial
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from fredfw.arrays import totals
from fredfw.fabric import Fabric
from fredfw.keeping import kept
from fredfw.typing import BoolArray, FloatArray, IntArray

_POSITIONS = 128  # that are told apart along a dimension that is cut in two; longer ones are taken in runs


@frozen(eq=False)
class Parts:
    """Disjoint sets of nodes, each with one or more ranks of a group."""

    part: IntArray  # (ranks,) part of each rank, 0 .. count - 1
    enter: FloatArray  # (count,) bytes per second that links carry into each part
    leave: FloatArray  # (count,) bytes per second that links carry out of each part
    receive: float  # enter of all parts together, and that of all other nodes that may combine streams, as one
    send: float  # leave of all parts together, and that of all other nodes that may copy streams, as one

    def between(self, source: int, destination: int) -> float:
        """Return bytes per second, infinite if they are in one part."""
        here, there = self.part[source], self.part[destination]
        return np.inf if here == there else float(min(self.leave[here], self.enter[there]))


@frozen(eq=False)
class Halves:
    """Cuts in two along one dimension; cut ``p`` is between positions below ``p + 1`` and all others."""

    position: IntArray  # (ranks,) of each rank, 0 .. cuts
    up: FloatArray  # (cuts,) bytes per second that links carry from below each cut to above it
    down: FloatArray  # (cuts,) bytes per second the other way

    def between(self, source: int, destination: int) -> float:
        """Return bytes per second, infinite if no cut lies between them."""
        here, there = self.position[source], self.position[destination]
        return float(np.concatenate([self.up[here:there], self.down[there:here]]).min(initial=np.inf))


class Cuts:
    """The candidates of one fabric; what does not depend on the group is worked out once."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        numbers = np.arange(len(fabric.npus))[:, None]
        # The last dimension is the number of the NPU, which is all there is to go by on a fabric without levels.
        self._positions = numbers if fabric.coordinates is None else np.hstack([fabric.coordinates, numbers])
        self._low, self._high = _extents(fabric, self._positions)
        self._sets: dict[tuple[int, ...], tuple[NDArray[Any], FloatArray, FloatArray]] = {}

    def ends(self, nodes: IntArray) -> Parts:
        """Return each rank as a part, with the other nodes that only lead to it."""
        return self._parts((self._positions.shape[1] - 1,), nodes)

    def parts(self, nodes: IntArray) -> Iterator[Parts]:
        """Yield the parts of equal position in one level, and in one level and all that are further out."""
        levels = self._positions.shape[1] - 1
        for first in range(levels):
            yield self._parts((first,), nodes)
            if 0 < first < levels - 1:
                yield self._parts(tuple(range(first, levels)), nodes)

    def halves(self, nodes: IntArray) -> Iterator[Halves]:
        for position, up, down in self._halves:
            yield Halves(position[nodes], up, down)

    @cached_property
    def _halves(self) -> list[tuple[IntArray, FloatArray, FloatArray]]:
        """``(nodes,)`` positions along every dimension, and what crosses the cuts between them."""
        fabric, cuts = self._fabric, []
        for dimension in range(self._positions.shape[1]):
            size = int(self._positions[:, dimension].max()) + 1
            # A node in the middle of a dimension goes with the larger share of its NPUs, if they are spread evenly.
            middle = (self._low[:, dimension] + self._high[:, dimension] + 1) // 2
            runs = min(size, _POSITIONS)
            position = middle * runs // size
            narrow = position.astype(np.min_scalar_type(runs))
            ends = narrow[fabric.sources], narrow[fabric.destinations]
            cuts.append((position, *across(*ends, fabric.bandwidths, runs)))
        return cuts

    def _parts(self, dimensions: tuple[int, ...], nodes: IntArray) -> Parts:
        fabric = self._fabric
        label, enter, leave = kept(self._sets, dimensions, partial(self._divided, dimensions))
        used = np.zeros(len(enter) + 1, dtype=bool)
        used[label[nodes]] = True
        enter, leave = enter[used[:-1]], leave[used[:-1]]
        receive, send = float(enter.sum()), float(leave.sum())
        offers = fabric.offered_to_some(nodes)
        if offers.reduces or offers.multicasts:
            other = ~used[label]
            combining = other & fabric.reduces & offers.reduces
            copying = other & fabric.copies & offers.multicasts
            receive += _between(fabric, ~combining, combining)
            send += _between(fabric, copying, ~copying)
        return Parts((np.cumsum(used) - 1)[label[nodes]], enter, leave, receive, send)

    def _divided(self, dimensions: tuple[int, ...]) -> tuple[NDArray[Any], FloatArray, FloatArray]:
        """Return the set of each node, one more than there are for none, and what links carry into and out of each."""
        low, high, fabric = self._low[:, dimensions], self._high[:, dimensions], self._fabric
        sizes = tuple(self._positions[:, dimensions].max(axis=0) + 1)
        sets = int(np.prod(sizes))
        label = np.where((low == high).all(axis=1), np.ravel_multi_index(tuple(low.T), sizes), sets)
        label = label.astype(np.min_scalar_type(sets))  # few bytes, for they are looked up for every link
        start, end = label[fabric.sources], label[fabric.destinations]
        apart = start != end
        enter, leave = (totals(one[apart], fabric.bandwidths[apart], sets + 1)[:sets] for one in (end, start))
        return label, enter, leave


def across(starts: IntArray, ends: IntArray, amounts: FloatArray, positions: int) -> tuple[FloatArray, FloatArray]:
    """Return what ``(k,)`` amounts put on each of ``positions - 1`` cuts, only added: differences may be rounding."""
    crosses = starts != ends
    cells = starts[crosses].astype(np.intp) * positions + ends[crosses]
    table = totals(cells, amounts[crosses], positions**2).reshape(positions, positions)
    cut = np.arange(positions - 1)
    up, down = (one.cumsum(axis=0)[:, ::-1].cumsum(axis=1)[:, ::-1][cut, cut + 1] for one in (table, table.T))
    return up, down


def _between(fabric: Fabric, starts: BoolArray, ends: BoolArray) -> float:
    return float(fabric.bandwidths[starts[fabric.sources] & ends[fabric.destinations]].sum())


def _extents(fabric: Fabric, positions: IntArray) -> tuple[IntArray, IntArray]:
    """Return the ``(nodes, dimensions)`` lowest and highest position of the NPUs nearest to each node."""
    nodes = len(fabric.kinds)
    low = np.zeros((nodes, positions.shape[1]), dtype=np.intp)
    high = low.copy()
    low[fabric.npus] = high[fabric.npus] = positions
    known = np.zeros(nodes, dtype=bool)
    known[fabric.npus] = True
    joins = ~(known[fabric.sources] & known[fabric.destinations])
    sources, destinations = fabric.sources[joins], fabric.destinations[joins]
    near, far = np.concatenate([sources, destinations]), np.concatenate([destinations, sources])
    while (steps := known[near] & ~known[far]).any():
        here, there = near[steps], far[steps]
        low[there] = np.iinfo(np.intp).max
        for dimension in range(positions.shape[1]):
            np.minimum.at(low[:, dimension], there, low[here, dimension])
            np.maximum.at(high[:, dimension], there, high[here, dimension])
        known[there] = True
    return low, high
