"""The algorithm that fits every fabric: all ranks send all their data at once."""

from typing import ClassVar

import numpy as np
from attrs import frozen

from fredfw import limits
from fredfw.collectives.algorithm import CollectiveAlgorithm, CollectiveRequest
from fredfw.collectives.pattern import Pattern
from fredfw.collectives.schedule import Phase, Schedule, sequence
from fredfw.fabric.view import GroupView


@frozen
class DirectAlgorithm(CollectiveAlgorithm):
    """Every pair of ranks that has something to exchange does so at once, in one phase.

    An all-reduce is a direct reduce-scatter and then a direct all-gather; in a rooted pattern the root exchanges with
    all others. Pairs without bytes in an all-to-all-v are left out.
    """

    name: ClassVar[str] = "direct"
    patterns: ClassVar[frozenset[Pattern]] = frozenset(Pattern)
    proportional: ClassVar[bool] = True

    def refusal(self, request: CollectiveRequest, view: GroupView) -> str | None:
        pairs = 1 if request.pattern.rooted else request.ranks * (request.ranks - 1)
        return limits.excess("flows", pairs) or super().refusal(request, view)

    def schedule(self, request: CollectiveRequest, view: GroupView) -> Schedule:
        match request.pattern:
            case Pattern.ALL_REDUCE:
                first = _everyone(request, Pattern.REDUCE_SCATTER)
                return sequence(first, _everyone(request, Pattern.ALL_GATHER), Pattern.ALL_REDUCE)
            case Pattern.REDUCE_SCATTER | Pattern.ALL_GATHER:
                return _everyone(request, request.pattern)
            case Pattern.ALL_TO_ALL:
                return _all_to_all(request)
            case _:
                return _rooted(request)


def _everyone(request: CollectiveRequest, pattern: Pattern) -> Schedule:
    """Return a reduce-scatter (block ``y`` goes to ``y``) or an all-gather (block ``x`` comes from ``x``)."""
    n = request.ranks
    x, y = np.nonzero(~np.eye(n, dtype=bool))
    reduce = pattern is Pattern.REDUCE_SCATTER
    phase = Phase.of(x, y, y if reduce else x, reduce=reduce)
    return Schedule(pattern, n, request.size / n, n, (phase,), owner=np.arange(n))


def _all_to_all(request: CollectiveRequest) -> Schedule:
    n = request.ranks
    sends = ~np.eye(n, dtype=bool)
    if request.sizes is not None:
        sends &= request.sizes > 0
    x, y = np.nonzero(sends)
    origin, owner = np.divmod(np.arange(n * n), n)
    chunk_bytes = request.size / n if request.sizes is None else request.sizes.ravel()
    phase = Phase.of(x, y, x * n + y)
    return Schedule(request.pattern, n, chunk_bytes, n * n, (phase,), owner=owner, origin=origin)


def _rooted(request: CollectiveRequest) -> Schedule:
    n, root, pattern = request.ranks, request.root, request.pattern
    others = np.delete(np.arange(n), root)
    source, destination = (others, root) if pattern in (Pattern.REDUCE, Pattern.GATHER) else (root, others)
    phase = Phase.of(source, destination, others if pattern.owned else 0, reduce=pattern is Pattern.REDUCE)
    chunks = n if pattern.owned else 1
    owner = np.arange(n) if pattern.owned else None
    return Schedule(pattern, n, request.size / chunks, chunks, (phase,), owner=owner, root=root)
