"""The collective algorithm ``torus-ring``: rings along all dimensions of a torus and both ways round, all at once."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from attrs import evolve, frozen

from fredfw import (
    CollectiveAlgorithm,
    CollectiveRequest,
    GroupView,
    Level,
    LevelSteps,
    Pattern,
    Schedule,
    balanced_shares,
    parallel,
    pipelined,
    units,
)
from fredfw.typing import FloatArray

fredfw_contract = 2


@frozen
class TorusRing(CollectiveAlgorithm):
    """Rings along all dimensions at once: each part of the data starts along another dimension and direction.

    The part that starts along dimension s does reduce-scatters by rings along s, s + 1, ... and round to s - 1, then
    all-gathers in reverse. Where all dimensions are alike, parts never meet on a link, and an all-reduce takes the
    bandwidth bound 2 (n - 1) / n x size / (2 d x link bandwidth) (Jain and Sabharwal, "Optimal bucket algorithms for
    large MPI collectives on torus interconnects", ICS 2010). Where they differ, parts wait for each other, and a
    pipeline of more ``chunks`` comes closer to the bound.

    Fits groups that are a full product of closed rings, switches, fully connected levels and pairs. Both ways are used
    where all rings allow it; the two ways round a pair or a switch are the same links.
    """

    name: ClassVar[str] = "torus-ring"
    patterns: ClassVar[frozenset[Pattern]] = frozenset({Pattern.ALL_REDUCE, Pattern.REDUCE_SCATTER, Pattern.ALL_GATHER})
    proportional: ClassVar[bool] = True

    chunks: int = units.count(
        1, help="pieces of each part that follow each other in a pipeline, where the group has two or more levels"
    )
    shares: str = units.choice(
        ("balanced", "equal"),
        help="of the dimensions to start along: so that the busiest link carries its bytes soonest, or all alike",
    )

    @classmethod
    def variants(cls, pattern: Pattern) -> Sequence[CollectiveAlgorithm]:
        return [cls(chunks=chunks) for chunks in (1, 2, 4, 8, 16)]

    def refusal(self, request: CollectiveRequest, view: GroupView) -> str | None:
        if view.unstructured:
            return view.unstructured
        for level in view.levels:
            if level.kind == "line" and level.size > 2:
                return f"the group extends along a line of {level.size}, which is not a ring"
        return super().refusal(request, view)

    def equivalent(self, view: GroupView) -> CollectiveAlgorithm:
        """See ``CollectiveAlgorithm.equivalent``: with one level there is nothing to share or to overlap."""
        return type(self)() if len(view.levels) < 2 else self

    def undivided(self) -> CollectiveAlgorithm:
        return self if self.chunks == 1 else evolve(self, chunks=1)

    def schedule(self, request: CollectiveRequest, view: GroupView) -> Schedule:
        rings, count, ways = LevelSteps.of(view, "ring"), len(view.levels), _ways(view.levels)
        shares = balanced_shares(busy_times(view)) if self.shares == "balanced" else np.full(count, 1 / count)
        return parallel(
            [
                pipelined(
                    rings.schedule(request.pattern, request.size * share / len(ways), _order(count, start), way=way),
                    self.chunks if count > 1 else 1,
                )
                for start, share in enumerate(shares.tolist())
                for way in ways
                if share > 0
            ]
        )


def busy_times(view: GroupView) -> FloatArray:
    """Return ``(levels, levels)`` seconds per byte for which a reduce-scatter keeps the links of levels busy."""
    # Column s is that of a reduce-scatter that starts along level s, as both ways round as there are. An all-gather
    # mirrors it, and an all-reduce does both, which scales all times alike.
    count = len(view.levels)
    both = len(_ways(view.levels)) == 2
    steps = tuple("bidirectional-ring" if both and level.kind == "ring" else "ring" for level in view.levels)
    times = LevelSteps(view, steps).busy_times
    return np.array([times(_order(count, start)) for start in range(count)]).T


def _order(count: int, start: int) -> list[int]:
    """Return the levels from ``start`` on, and round to the one before it."""
    return [*range(start, count), *range(start)]


def _ways(levels: Sequence[Level]) -> tuple[int, ...]:
    """Return the ways round, 1 and perhaps -1, that are worth using."""
    rings = [level for level in levels if level.kind == "ring"]
    return (1, -1) if rings and all(level.two_way for level in rings) else (1,)
