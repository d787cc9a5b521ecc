"""Rings along the dimensions of a group: the building block of ring and h-ring."""

from __future__ import annotations

from collections.abc import Sequence

from fredfw.collectives.dimensions import dimension_schedule
from fredfw.collectives.pattern import Pattern
from fredfw.collectives.schedule import Schedule
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
    "BlueConnect", MLSys 2019). ``LevelSteps`` does the same with other step algorithms.

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
    return dimension_schedule(pattern, size, coordinates, order, way=step, channels=channels)
