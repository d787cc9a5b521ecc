"""The collective algorithm ``ring``: every rank sends to its next neighbour in the group's order only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from attrs import evolve, frozen

from fredfw import (
    CollectiveAlgorithm,
    CollectiveRequest,
    GroupView,
    Pattern,
    Phase,
    Schedule,
    hookimpl,
    in_series,
    limits,
    ring_schedule,
    units,
)

fredfw_contract = 2


@frozen
class Ring(CollectiveAlgorithm):
    """Ring: rank ``x`` sends to rank ``x + 1``, the last rank to rank 0; fits every group.

    - Reduce-scatter and all-gather: n - 1 steps of one block each; an all-reduce is one after the other (Patarasuk and
      Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009).
    - Broadcast and reduce: a pipeline of ``chunks`` pieces along the chain that starts (ends) at the root;
      n - 2 + ``chunks`` steps.
    - Scatter and gather: blocks follow each other along the same chain, each stops at (starts from) its owner; n - 1
      steps.
    - All-to-all: blocks are handed on until they arrive; in step t every rank passes on the n - 1 - t blocks that have
      further to go. This is the one that keeps to the neighbours; it loads a ring of links no more than sending each
      block directly would, but a switch (n - 1) / 2 times.
    """

    name: ClassVar[str] = "ring"
    patterns: ClassVar[frozenset[Pattern]] = frozenset(Pattern) - {Pattern.POINT_TO_POINT}
    proportional: ClassVar[bool] = True

    chunks: int = units.option(
        16, validator=units.whole(1), help="pieces of a broadcast or reduce that follow each other along the chain"
    )

    @classmethod
    def variants(cls, pattern: Pattern) -> Sequence[CollectiveAlgorithm]:
        """See ``CollectiveAlgorithm.variants``: pipelines of 1 to 256 pieces where there is one."""
        if pattern in (Pattern.BROADCAST, Pattern.REDUCE):
            return [cls(chunks=chunks) for chunks in (1, 4, 16, 64, 256)]
        return [cls()]

    def undivided(self) -> CollectiveAlgorithm:
        """See ``CollectiveAlgorithm.undivided``."""
        return self if self.chunks == 1 else evolve(self, chunks=1)

    def schedule(self, request: CollectiveRequest, view: GroupView) -> Schedule:
        """See ``CollectiveAlgorithm.schedule``."""
        del view
        match request.pattern:
            case Pattern.ALL_REDUCE | Pattern.REDUCE_SCATTER | Pattern.ALL_GATHER:
                return ring_schedule(request.pattern, request.size, np.arange(request.ranks)[:, None])
            case Pattern.ALL_TO_ALL:
                return _all_to_all(request)
            case _:
                return _chain(request, self.chunks)


@hookimpl
def fredfw_collectives() -> Sequence[type[CollectiveAlgorithm]]:
    """Register ``ring``."""
    return [Ring]


def _all_to_all(request: CollectiveRequest) -> Schedule:
    """Return the exchange; chunk ``x * n + d`` goes from rank ``x`` to the one ``d`` further."""
    n = request.ranks
    rank = np.arange(n)
    origin, distance = np.divmod(np.arange(n * n), n)
    owner = (origin + distance) % n
    phases = [
        Phase.of(rank, (rank + 1) % n, step + 1, base=(rank - step) % n * n, count=n - 1 - step)
        for step in range(n - 1)
    ]
    chunk_bytes = request.size / n if request.sizes is None else request.sizes[origin, owner]
    return Schedule(request.pattern, n, chunk_bytes, n * n, in_series(phases), owner=owner, origin=origin)


def _chain(request: CollectiveRequest, pieces: int) -> Schedule:
    """Return a rooted pattern along the chain of all ranks; hop ``h`` joins its members ``h`` and ``h + 1``."""
    n, pattern = request.ranks, request.pattern
    inwards = pattern in (Pattern.REDUCE, Pattern.GATHER)
    if not pattern.owned:
        limits.check("phases", n - 2 + pieces, key="chunks")
        limits.check("transfers", (n - 1) * pieces, key="chunks")
    order = (request.root + inwards + np.arange(n)) % n
    chunks, steps = (n, n - 1) if pattern.owned else (pieces, n - 2 + pieces)
    owner = order if inwards else order[::-1]
    hop = np.arange(n - 1)
    phases = []
    for step in range(steps):
        chunk = hop - step if pattern is Pattern.GATHER else step - hop
        busy = hop[(chunk >= 0) & (chunk < chunks)]
        reduce = pattern is Pattern.REDUCE
        phases.append(Phase.of(order[busy], order[busy + 1], chunk[busy], reduce=reduce))
    owned = owner if pattern.owned else None
    return Schedule(pattern, n, request.size / chunks, chunks, in_series(phases), owner=owned, root=request.root)
