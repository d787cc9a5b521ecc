"""The collective algorithm ``swing``: exchanges at distances 1, 1, 3, 5, 11, ... that swing from side to side."""

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
    units,
)
from fredfw.typing import IntArray

fredfw_contract = 2


@frozen
class Swing(CollectiveAlgorithm):
    """Halving and doubling with partners that are nearer on a ring or torus than those at powers of two.

    At step s a rank exchanges with the one at distance (1 - (-2)^(s + 1)) / 3: 1, -1, 3, -5, 11, ... to the right of an
    even position, to the left of an odd one. A reduce-scatter takes log2 n steps, an all-gather goes the way back, an
    all-reduce is both, or (``latency``) exchanges all data at each of log2 n steps. On a torus of D dimensions the
    steps go through the dimensions in turn; 2 D parts of the data start at each dimension and in both directions, so
    that all links of a rank are in use. Fits groups with a power of two of positions in each dimension (De Sensi et
    al., "Swing: Short-cutting Rings for Higher Bandwidth Allreduce", NSDI 2024; the parts here go in lock step).
    """

    name: ClassVar[str] = "swing"
    patterns: ClassVar[frozenset[Pattern]] = frozenset({Pattern.ALL_REDUCE, Pattern.REDUCE_SCATTER, Pattern.ALL_GATHER})
    proportional: ClassVar[bool] = True

    method: str = units.option(
        "bandwidth",
        validator=units.one_of("bandwidth", "latency"),
        help="of an all-reduce: bandwidth moves the fewest bytes, latency takes the fewest steps",
    )

    @classmethod
    def variants(cls, pattern: Pattern) -> Sequence[CollectiveAlgorithm]:
        """See ``CollectiveAlgorithm.variants``: both methods of an all-reduce."""
        return [cls(), cls(method="latency")] if pattern is Pattern.ALL_REDUCE else [cls()]

    def served_patterns(self) -> frozenset[Pattern]:
        """See ``CollectiveAlgorithm.served_patterns``."""
        return self.patterns if self.method == "bandwidth" else frozenset({Pattern.ALL_REDUCE})

    def refusal(self, request: CollectiveRequest, view: GroupView) -> str | None:
        """See ``CollectiveAlgorithm.refusal``."""
        if view.unstructured:
            return view.unstructured
        for level in view.levels:
            if level.size & (level.size - 1):
                return f"the group has {level.size} positions in a level, which is not a power of two"
        return super().refusal(request, view)

    def schedule(self, request: CollectiveRequest, view: GroupView) -> Schedule:
        """See ``CollectiveAlgorithm.schedule``."""
        n, coordinates = request.ranks, view.require_levels()
        parts = [_partners(coordinates, first, way) for first in range(coordinates.shape[1]) for way in (1, -1)]
        steps = len(parts[0])
        if self.method == "latency":
            chunk = np.repeat(np.arange(len(parts)), n)
            whole = [_exchange(parts, step, chunk, 1, reduce=True) for step in range(steps)]
            return Schedule(request.pattern, n, request.size / len(parts), len(parts), in_series(whole))
        rank = np.arange(n)
        places = [_places(part) for part in parts]
        scatters, gathers = [], []
        for step in range(steps):
            count = n >> step + 1
            kept = [number * n + place // count * count for number, place in enumerate(places)]
            # A partner is sent what it keeps of what both have until then.
            sent = [block[part[step]] for block, part in zip(kept, parts, strict=True)]
            scatters.append(_exchange(parts, step, np.concatenate(sent), count, reduce=True))
            gathers.append(_exchange(parts, step, np.concatenate(kept), count, reduce=False))
        phases = {
            Pattern.REDUCE_SCATTER: scatters,
            Pattern.ALL_GATHER: gathers[::-1],
            Pattern.ALL_REDUCE: scatters + gathers[::-1],
        }[request.pattern]
        owner = np.empty((len(parts), n), dtype=np.intp)
        for number, place in enumerate(places):
            owner[number, place] = rank
        return Schedule(
            request.pattern,
            n,
            request.size / owner.size,
            owner.size,
            in_series(phases),
            owner=None if request.pattern is Pattern.ALL_REDUCE else owner.ravel(),
        )


@hookimpl
def fredfw_collectives() -> Sequence[type[CollectiveAlgorithm]]:
    """Register ``swing``."""
    return [Swing]


def _exchange(parts: Sequence[Sequence[IntArray]], step: int, chunk: IntArray, count: int, *, reduce: bool) -> Phase:
    """Return a step of all parts: each rank sends ``count`` chunks from ``chunk`` on to its partner."""
    n = len(parts[0][step])
    source = np.tile(np.arange(n), len(parts))
    return Phase.of(source, np.concatenate([part[step] for part in parts]), chunk, count=count, reduce=reduce)


def _partners(coordinates: IntArray, first: int, way: int) -> list[IntArray]:
    """Return the ``(ranks,)`` partners at each step, from dimension ``first`` on and first that ``way`` around."""
    sizes = coordinates.max(axis=0) + 1
    rank_at = np.empty(sizes, dtype=np.intp)
    rank_at[tuple(coordinates.T)] = np.arange(len(coordinates))
    done = np.zeros(len(sizes), dtype=np.intp)
    partners: list[IntArray] = []
    dimension = first
    while len(partners) < int(np.log2(sizes).sum().round()):
        size, step = int(sizes[dimension]), int(done[dimension])
        if 1 << step < size:
            distance = way * ((1 - (-2) ** (step + 1)) // 3)
            place = coordinates.copy()
            turn = np.where(place[:, dimension] % 2 == 0, distance, -distance)
            place[:, dimension] = (place[:, dimension] + turn) % size
            partners.append(rank_at[tuple(place.T)])
            done[dimension] += 1
        dimension = (dimension + 1) % len(sizes)
    return partners


def _places(partners: Sequence[IntArray]) -> IntArray:
    """Return the place of each rank in an order in which what it exchanges from any step on is one run.

    The ranks that are joined by the exchanges from a step on are half of those joined from the step before on.
    """
    n = len(partners[0])
    group = np.arange(n)  # the lowest rank of those that are joined from a step on
    names = [group]
    for partner in reversed(partners):
        group = np.minimum(group, group[partner])
        names.append(group)
    # Those joined from step 1 on are sorted first, then those from step 2 on within them, and so on.
    order = np.lexsort(names[:-1])
    place = np.empty(n, dtype=np.intp)
    place[order] = np.arange(n)
    return place
