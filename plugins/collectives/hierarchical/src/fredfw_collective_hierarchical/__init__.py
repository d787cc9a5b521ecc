"""The collective algorithm ``hierarchical``: rings inside every level of the group, one level after the other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import ClassVar

import numpy as np
from attrs import evolve, frozen

from fredfw import (
    CollectiveAlgorithm,
    CollectiveRequest,
    GroupView,
    Level,
    Pattern,
    Schedule,
    hookimpl,
    parallel,
    pipelined,
    ring_schedule,
    units,
)
from fredfw.typing import FloatArray

fredfw_contract = 1


@frozen
class Hierarchical(CollectiveAlgorithm):
    """Reduce-scatter along each level in turn, then all-gather along the levels in reverse.

    The rings of a level join the ranks that differ in that level alone, by their coordinate. One channel per level, so
    that pieces and parts take turns on it. Fits groups that are a full product of positions (Cho et al., "BlueConnect",
    MLSys 2019; two parts in opposite orders: FRED's baseline mesh, ISCA 2025).
    """

    name: ClassVar[str] = "hierarchical"
    patterns: ClassVar[frozenset[Pattern]] = frozenset({Pattern.ALL_REDUCE, Pattern.REDUCE_SCATTER, Pattern.ALL_GATHER})
    proportional: ClassVar[bool] = True

    chunks: int = units.option(
        1,
        validator=units.whole(1),
        help="pieces of the data that follow each other in a pipeline, where the group has two or more levels",
    )
    orders: str = units.option(
        "forward",
        validator=units.one_of("forward", "reverse", "opposite"),
        help="order of the levels in a reduce-scatter: innermost first, outermost first, or one part each at once",
    )
    shares: str = units.option(
        "balanced",
        validator=units.one_of("balanced", "equal"),
        help="share of each of the two opposite parts: so that all levels finish together as far as they can, or half",
    )

    @classmethod
    def variants(cls, pattern: Pattern) -> Sequence[CollectiveAlgorithm]:
        """See ``CollectiveAlgorithm.variants``: every order, in one piece and in pipelines of 2 to 16."""
        del pattern
        orders = ("forward", "reverse", "opposite")
        return [cls(chunks=chunks, orders=one) for one in orders for chunks in (1, 2, 4, 8, 16)]

    def refusal(self, request: CollectiveRequest, view: GroupView) -> str | None:
        """See ``CollectiveAlgorithm.refusal``."""
        if view.coordinates is None:
            return "the group is not a full product of positions in the fabric's levels"
        return super().refusal(request, view)

    def equivalent(self, view: GroupView) -> CollectiveAlgorithm:
        """See ``CollectiveAlgorithm.equivalent``: one level has one order and nothing to overlap."""
        return type(self)() if len(view.levels) < 2 else self

    def undivided(self) -> CollectiveAlgorithm:
        """See ``CollectiveAlgorithm.undivided``."""
        return self if self.chunks == 1 else evolve(self, chunks=1)

    def schedule(self, request: CollectiveRequest, view: GroupView) -> Schedule:
        """See ``CollectiveAlgorithm.schedule``."""
        forward = tuple(range(len(view.levels)))
        backward = forward[::-1]
        parts = [(backward if self.orders == "reverse" else forward, 1.0)]
        if self.orders == "opposite" and forward != backward:
            share = balanced_share(view.levels) if self.shares == "balanced" else 0.5
            parts = [(forward, share), (backward, 1 - share)]
        # With one level there is nothing to take turns with, and nothing that the pieces of a pipeline could overlap.
        several = len(forward) > 1
        return parallel(
            [
                pipelined(
                    ring_schedule(
                        request.pattern, request.size * share, view.require_levels(), order, channels=several
                    ),
                    self.chunks if several else 1,
                )
                for order, share in parts
                if share > 0
            ]
        )


@hookimpl
def fredfw_collectives() -> Sequence[type[CollectiveAlgorithm]]:
    """Register ``hierarchical``."""
    return [Hierarchical]


def balanced_share(levels: Sequence[Level]) -> float:
    """Return the share of the data to do innermost level first, the rest outermost first.

    It makes the busiest level's time as short as possible. That time is the upper envelope of one line per level over
    the share, so its lowest point is at an end or where two lines cross. An all-gather mirrors a reduce-scatter and an
    all-reduce does both, which scales all lines alike.
    """
    ahead, behind = _busy_times(levels), _busy_times(levels[::-1])[::-1]
    slopes = ahead - behind
    crossings = [
        float((behind[j] - behind[i]) / (slopes[i] - slopes[j]))
        for i, j in combinations(range(len(levels)), 2)
        if slopes[i] != slopes[j]
    ]
    times = [(float((behind + share * slopes).max()), share) for share in (0.0, 1.0, *crossings) if 0 <= share <= 1]
    return min(times)[1]


def _busy_times(levels: Sequence[Level]) -> FloatArray:
    """Return the seconds per byte that a reduce-scatter keeps each level busy, in the order of ``levels``."""
    sizes = np.array([level.size for level in levels])
    bandwidths = np.array([level.bandwidth for level in levels])
    blocks = 1 / np.cumprod(sizes)
    times: FloatArray = (sizes - 1) * blocks / bandwidths
    return times
