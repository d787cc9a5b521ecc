"""The collective algorithm ``in-network``: switches combine and copy the data on its way."""

from typing import ClassVar

import numpy as np
from attrs import frozen

from fredfw import CollectiveAlgorithm, CollectiveRequest, GroupView, Pattern, Phase, Schedule, in_series, limits

fredfw_contract = 2

# What the network must be able to do, by its name in ``Capabilities``.
_NEEDS: dict[Pattern, tuple[str, ...]] = {
    Pattern.ALL_REDUCE: ("reduces", "multicasts"),
    Pattern.REDUCE_SCATTER: ("reduces",),
    Pattern.REDUCE: ("reduces",),
    Pattern.ALL_GATHER: ("multicasts",),
    Pattern.BROADCAST: ("multicasts",),
}
_VERBS = {"reduces": "combine", "multicasts": "copy"}


@frozen
class InNetwork(CollectiveAlgorithm):
    """In-network collectives: switches combine and copy the data (FRED's flows, ISCA 2025).

    Simple patterns are one transfer: all-reduce n -> n, reduce n -> 1, broadcast 1 -> n, point-to-point 1 -> 1.
    Compound ones are several, one after the other: reduce-scatter n reductions, all-gather n multicasts, all-to-all
    n - 1 permutations (every rank to the one ``d`` further, d = 1 .. n - 1), gather and scatter n - 1 unicasts. All
    ranks are sources of a reduction, also the one it ends at: no NPU adds anything.
    """

    name: ClassVar[str] = "in-network"
    patterns: ClassVar[frozenset[Pattern]] = frozenset(Pattern)
    proportional: ClassVar[bool] = True

    def refusal(self, request: CollectiveRequest, view: GroupView) -> str | None:
        for capability in _NEEDS.get(request.pattern, ()):
            if not getattr(view.capabilities, capability):
                refusal = f"the network does not {_VERBS[capability]} streams for this group"
                return f"{refusal} (the topologies switch and fred do with in_network = true)"
        streams = request.ranks if request.pattern in (Pattern.REDUCE_SCATTER, Pattern.ALL_GATHER) else 1
        return limits.excess("transfers", streams * request.ranks) or super().refusal(request, view)

    def schedule(self, request: CollectiveRequest, view: GroupView) -> Schedule:
        if request.pattern is Pattern.ALL_TO_ALL:
            return _all_to_all(request)
        n, pattern = request.ranks, request.pattern
        chunks = n if pattern.owned else 1
        owner = np.arange(n) if pattern.owned else None
        phases = in_series(_transfers(pattern, n, request.root))
        return Schedule(pattern, n, request.size / chunks, chunks, phases, owner=owner, root=request.root)


def _transfers(pattern: Pattern, n: int, root: int) -> list[Phase]:
    everyone = np.arange(n)
    others = np.delete(everyone, root)
    match pattern:
        case Pattern.ALL_REDUCE:
            return [Phase.of(everyone, everyone, 0, stream=0)]
        case Pattern.REDUCE:
            return [Phase.of(everyone, root, 0, stream=0)]
        case Pattern.BROADCAST:
            return [Phase.of(root, others, 0, stream=0)]
        case Pattern.REDUCE_SCATTER:
            return [Phase.of(everyone, rank, rank, stream=0) for rank in everyone]
        case Pattern.ALL_GATHER:
            return [Phase.of(rank, np.delete(everyone, rank), rank, stream=0) for rank in everyone]
        case Pattern.GATHER:
            return [Phase.of(rank, root, rank) for rank in others]
        case Pattern.SCATTER:
            return [Phase.of(root, rank, rank) for rank in others]
        case _:
            return [Phase.of(root, others, 0)]


def _all_to_all(request: CollectiveRequest) -> Schedule:
    """Return the permutations; the chunk from ``x`` to ``y`` is number ``x * ranks + y``."""
    n = request.ranks
    x = np.arange(n)
    phases = []
    for distance in range(1, n):
        y = (x + distance) % n
        sends = np.ones(n, dtype=bool) if request.sizes is None else request.sizes[x, y] > 0
        if sends.any():
            phases.append(Phase.of(x[sends], y[sends], (x * n + y)[sends]))
    origin, owner = np.divmod(np.arange(n * n), n)
    chunk_bytes = request.size / n if request.sizes is None else request.sizes.ravel()
    return Schedule(request.pattern, n, chunk_bytes, n * n, in_series(phases), owner=owner, origin=origin)
