"""A synthesis as a schedule that takes as long: what starts and ends together is a phase, after what it waits for.

A chunk waits until it is at its source, and until the chunk before it has left the links of its way.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import evolve

from fredfw import Pattern, Phase, Schedule
from fredfw.typing import FloatArray, IntArray
from fredfw_collective_tacos.synthesis import Synthesis, Ways


def gathered(ways: Ways, found: Synthesis, seconds: FloatArray, chunks: int, size: float) -> Schedule:
    """Return the all-gather that was ``found``, of so many ``chunks`` of each rank, of ``size`` bytes each."""
    phase, count = _grouped(found, seconds)
    after = _waits(ways, found, phase, count)
    rows = np.split(np.argsort(phase, kind="stable"), np.cumsum(np.bincount(phase, minlength=count))[:-1])
    phases = [
        Phase.of(ways.source[found.way[row]], ways.destination[found.way[row]], found.chunk[row], after=tuple(before))
        for row, before in zip(rows, after, strict=True)
    ]
    owner = np.repeat(np.arange(ways.ranks), chunks)
    return Schedule(Pattern.ALL_GATHER, ways.ranks, size, len(owner), phases, owner=owner)


def scattered(ways: Ways, found: Synthesis, seconds: FloatArray, chunks: int, size: float) -> Schedule:
    """Return the reduce-scatter: an all-gather that was synthesised against the ``ways``, backwards."""
    forward = gathered(ways.reversed, found, seconds, chunks, size)
    behind: list[list[int]] = [[] for _ in forward.phases]
    for index, one in enumerate(forward.phases):
        for before in one.after:
            behind[before].append(index)
    # What ends last comes first; it may have started before others.
    phase, count = _grouped(found, seconds)
    end = np.zeros(count)
    end[phase] = found.start + seconds[found.way]
    order = np.argsort(-end, kind="stable")
    place = np.argsort(order, kind="stable")
    phases = [
        evolve(
            one,
            source=one.destination,
            destination=one.source,
            reduce=np.ones(len(one), dtype=bool),
            after=tuple(sorted(int(place[before]) for before in behind[index])),
        )
        for index, one in ((index, forward.phases[index]) for index in order.tolist())
    ]
    return evolve(forward, pattern=Pattern.REDUCE_SCATTER, phases=_one_by_one(phases, forward.chunks))


def _grouped(found: Synthesis, seconds: FloatArray) -> tuple[IntArray, int]:
    """Return the ``(transfers,)`` phase of each, by start and then by length, and how many there are."""
    took = seconds[found.way]
    order = np.lexsort((took, found.start))
    start, took = found.start[order], took[order]
    new = np.append(False, (np.diff(start) > 0) | (np.diff(took) > 0))[: len(order)]
    phase = np.empty(len(order), dtype=np.intp)
    phase[order] = np.cumsum(new)
    return phase, int(phase.max()) + 1


def _waits(ways: Ways, found: Synthesis, phase: IntArray, count: int) -> list[list[int]]:
    """Return the phases that each waits for."""
    if len(np.unique(found.start)) == count:
        took = np.diff(np.unique(found.start))
        if not len(took) or took.max() <= took.min() * (1 + 1e-9):
            return [[index - 1] if index else [] for index in range(count)]  # in step
    after: list[set[int]] = [set() for _ in range(count)]
    arrived: dict[tuple[int, int], int] = {}
    used: dict[int, int] = {}
    source, destination = ways.source.tolist(), ways.destination.tolist()
    for way, chunk, own in zip(found.way.tolist(), found.chunk.tolist(), phase.tolist(), strict=True):
        before = [arrived.get((source[way], chunk), -1), *(used.get(link, -1) for link in ways.links[way])]
        after[own].update(one for one in before if one >= 0)
        arrived[destination[way], chunk] = own
        used.update(dict.fromkeys(ways.links[way], own))
    return [sorted(one) for one in after]


def _one_by_one(phases: Sequence[Phase], chunks: int) -> tuple[Phase, ...]:
    """Return ``phases``, which say that what adds to the same chunk of a rank is done in the order of their starts."""
    latest: dict[int, int] = {}
    ordered = []
    for index, phase in enumerate(phases):
        cells = (phase.destination * chunks + phase.base + phase.offset).tolist()
        before = {latest[cell] for cell in cells if cell in latest}
        latest.update(dict.fromkeys(cells, index))
        ordered.append(evolve(phase, after=tuple(sorted({*phase.after, *before}))) if before else phase)
    return tuple(ordered)
