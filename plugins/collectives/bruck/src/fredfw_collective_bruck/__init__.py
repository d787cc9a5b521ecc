"""The collective algorithm ``bruck``: all-to-all and all-gather in ceil(log2 n) steps, for any number of ranks."""

from typing import ClassVar

import numpy as np
from attrs import frozen

from fredfw import CollectiveAlgorithm, CollectiveRequest, GroupView, Pattern, Phase, Schedule, in_series

fredfw_contract = 2


@frozen
class Bruck(CollectiveAlgorithm):
    """Bruck's algorithm: few steps, for small messages; fits every group.

    - All-to-all: in step k every rank sends one message to the rank 2^k further: all blocks that have this digit in
      the distance from their origin to their owner, about n / 2 of them. Sizes may differ.
    - All-gather: in step k every rank sends the blocks that it has, 2^k or as many as are missing, to the rank 2^k
      before it; n - 1 blocks in all.

    (Bruck et al., "Efficient algorithms for all-to-all communications in multiport message-passing systems", IEEE TPDS
    1997.) A block of an all-to-all is a chunk, so that a schedule takes some 70 bytes of memory for each of n^2 blocks.
    """

    name: ClassVar[str] = "bruck"
    patterns: ClassVar[frozenset[Pattern]] = frozenset({Pattern.ALL_TO_ALL, Pattern.ALL_GATHER})
    proportional: ClassVar[bool] = True

    def schedule(self, request: CollectiveRequest, view: GroupView) -> Schedule:
        return _all_to_all(request) if request.pattern is Pattern.ALL_TO_ALL else _all_gather(request)


def _all_to_all(request: CollectiveRequest) -> Schedule:
    """Return the exchange; chunk ``y * n + d`` goes to rank ``y`` from the one ``d`` before it."""
    n = request.ranks
    phases = []
    for step in _powers(n):
        # The blocks at rank s with this digit: those for s + a, of distances a to a + step - 1, for each a.
        rank, start = (grid.ravel() for grid in np.meshgrid(np.arange(n), np.arange(step, n, 2 * step), indexing="ij"))
        count = np.minimum(step, n - start)
        phases.append(Phase.of(rank, (rank + step) % n, (rank + start) % n * n + start, count=count))
    owner, distance = np.divmod(np.arange(n * n), n)
    origin = (owner - distance) % n
    chunk_bytes = request.size / n if request.sizes is None else request.sizes[origin, owner]
    return Schedule(request.pattern, n, chunk_bytes, n * n, in_series(phases), owner=owner, origin=origin)


def _all_gather(request: CollectiveRequest) -> Schedule:
    """Return the all-gather; after a step of distance ``d`` rank ``s`` has the blocks ``s`` to ``s + 2 d - 1``."""
    n = request.ranks
    rank = np.arange(n)
    phases = [Phase.of(rank, (rank - step) % n, rank, count=min(step, n - step), modulus=n) for step in _powers(n)]
    return Schedule(request.pattern, n, request.size / n, n, in_series(phases), owner=rank)


def _powers(n: int) -> list[int]:
    return [1 << digit for digit in range((n - 1).bit_length())]
