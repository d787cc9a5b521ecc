"""Rings along the dimensions of a group: the building block of ring, hierarchical and torus algorithms."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from fredfw.collectives.pattern import Pattern
from fredfw.collectives.schedule import Phase, Schedule, in_series
from fredfw.errors import ScheduleError
from fredfw.typing import IntArray


def ring_schedule(
    pattern: Pattern,
    size: float,
    coordinates: IntArray,
    order: Sequence[int] | None = None,
    *,
    step: int = 1,
    channels: bool = False,
) -> Schedule:
    """Return an all-reduce, reduce-scatter or all-gather by rings along each dimension in turn.

    A ring joins the ranks that differ in one coordinate alone. A reduce-scatter goes along the dimensions in ``order``,
    each time on the block that the one before has left, an all-gather in reverse order; an all-reduce is one after the
    other. In a ring of k, a phase of k - 1 steps passes one block per step on to the neighbour (Patarasuk and Yuan,
    "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009; several dimensions: Cho et al.,
    "BlueConnect", MLSys 2019).

    Args:
        pattern: One of the three.
        size: Bytes of the per-rank buffer.
        coordinates: ``(ranks, dimensions)`` position of each rank, ``0 .. k - 1`` in each; every combination once.
        order: Dimensions in the order of the reduce-scatter; by default as they come.
        step: 1 to pass to the next position, -1 to the previous one.
        channels: Whether the phases of dimension ``d`` name channel ``d``, to take turns with other schedules' on it.

    Raises:
        ScheduleError: Another pattern, or coordinates that are not a full product.
    """
    if pattern not in (Pattern.ALL_REDUCE, Pattern.REDUCE_SCATTER, Pattern.ALL_GATHER):
        raise ScheduleError(f"rings do not do {pattern}")
    n, dimensions = coordinates.shape
    order = range(dimensions) if order is None else order
    sizes = coordinates.max(axis=0) + 1
    place = np.ravel_multi_index(tuple(coordinates.T), tuple(sizes))
    if int(np.prod(sizes)) != n or np.bincount(place).max() > 1:
        raise ScheduleError(f"{n} ranks are not a full product of {sizes.tolist()} positions")
    rank = np.arange(n)
    rank_at = np.empty(sizes, dtype=np.intp)
    rank_at.ravel()[place] = rank
    # The blocks are numbered by coordinates, those of the first dimension most significant: what a dimension still has
    # to scatter is then always one run of chunks from ``base``, cut into one block per position.
    base = np.zeros(n, dtype=np.intp)
    block = n
    scatters, gathers = [], []
    for dimension in order:
        positions = int(sizes[dimension])
        if positions == 1:
            continue
        block //= positions
        x = np.ascontiguousarray(coordinates[:, dimension])
        ring = partial(
            Phase.of,
            rank,
            np.roll(rank_at, -step, axis=dimension).ravel()[place],
            base=base,
            count=block,
            stride=-step * block,
            modulus=positions * block,
            repeat=positions - 1,
            channel=dimension if channels else -1,
        )
        own = x * block
        if pattern is not Pattern.ALL_GATHER:
            # A block that is reduced starts its way just behind its owner, so that it gets there last.
            behind = (np.arange(positions) - step) % positions * block
            scatters.append(ring(behind[x], reduce=True))
        if pattern is not Pattern.REDUCE_SCATTER:
            gathers.append(ring(own))
        base = base + own
    owner = None if pattern is Pattern.ALL_REDUCE else rank_at.transpose(tuple(order)).ravel()
    return Schedule(pattern, n, size / n, n, in_series(scatters + gathers[::-1]), owner=owner)
