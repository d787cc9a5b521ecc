"""The collective algorithm ``scatter-allgather``: a broadcast of pieces, which all ranks then put together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from attrs import frozen
from fredfw import (
    CollectiveAlgorithm,
    CollectiveRequest,
    GroupView,
    Pattern,
    Phase,
    Schedule,
    hookimpl,
    in_series,
    ring_schedule,
    sequence,
)

fredfw_contract = 2


@frozen
class ScatterAllGather(CollectiveAlgorithm):
    """Broadcast: the root scatters blocks down a binomial tree, then a ring all-gather; a reduce is the way back.

    For large sizes: a rank sends and receives 2 (n - 1) / n of the size whatever n is, where a binomial tree sends the
    whole size log2 n times. It takes n - 1 steps of the ring and ceil(log2 n) of the tree (van de Geijn's broadcast:
    Barnett et al., "Interprocessor collective communication library (InterCom)", SHPCC 1994; the steps and bytes:
    Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005,
    section 4.2). Fits every group.
    """

    name: ClassVar[str] = "scatter-allgather"
    patterns: ClassVar[frozenset[Pattern]] = frozenset({Pattern.BROADCAST, Pattern.REDUCE})

    def schedule(self, request: CollectiveRequest, view: GroupView) -> Schedule:
        """See ``CollectiveAlgorithm.schedule``; block ``r`` is that of rank ``r``."""
        del view
        ring = np.arange(request.ranks)[:, None]
        if request.pattern is Pattern.BROADCAST:
            gather = ring_schedule(Pattern.ALL_GATHER, request.size, ring)
            return sequence(_binomial(request, Pattern.SCATTER), gather, Pattern.BROADCAST)
        scatter = ring_schedule(Pattern.REDUCE_SCATTER, request.size, ring)
        return sequence(scatter, _binomial(request, Pattern.GATHER), Pattern.REDUCE)


@hookimpl
def fredfw_collectives() -> Sequence[type[CollectiveAlgorithm]]:
    """Register ``scatter-allgather``."""
    return [ScatterAllGather]


def _binomial(request: CollectiveRequest, pattern: Pattern) -> Schedule:
    """Return a scatter from the root, or a gather to it.

    Seen from the root, place ``v`` with lowest bit ``d`` gets the blocks of the places ``v`` to ``v + d - 1`` from
    place ``v - d``, and passes on all but its own: the largest ``d`` first. A gather goes the way back.
    """
    n, root = request.ranks, request.root
    phases = []
    for bit in reversed(range((n - 1).bit_length())):
        distance = 1 << bit
        place = np.arange(distance, n, 2 * distance)
        above, below = (place - distance + root) % n, (place + root) % n
        source, destination = (above, below) if pattern is Pattern.SCATTER else (below, above)
        count = np.minimum(distance, n - place)
        phases.append(Phase.of(source, destination, below, count=count, modulus=n))
    if pattern is Pattern.GATHER:
        phases.reverse()
    return Schedule(pattern, n, request.size / n, n, in_series(phases), owner=np.arange(n), root=root)
