"""The collective algorithm ``h-ring``: rings inside groups of consecutive ranks, then rings across the groups."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from attrs import frozen

from fredfw import CollectiveAlgorithm, CollectiveRequest, GroupView, Pattern, Schedule, ring_schedule, units

fredfw_contract = 2


@frozen
class HRing(CollectiveAlgorithm):
    """Hierarchical ring over groups of ``m`` consecutive ranks, whatever the fabric.

    A reduce-scatter is m - 1 steps of size / m in a ring inside each group, and then N / m - 1 steps of size / N in m
    rings across the groups, each of which joins the ranks with the same place in their groups. An all-gather goes the
    way back, an all-reduce both ways: 2 (m - 1) + 2 (N / m - 1) steps (as a baseline: Dai et al., ICPP 2023).
    """

    name: ClassVar[str] = "h-ring"
    patterns: ClassVar[frozenset[Pattern]] = frozenset({Pattern.ALL_REDUCE, Pattern.REDUCE_SCATTER, Pattern.ALL_GATHER})
    proportional: ClassVar[bool] = True

    m: int = units.count(4, help="ranks of a group; the group's size must be a multiple")

    @classmethod
    def variants(cls, pattern: Pattern) -> Sequence[CollectiveAlgorithm]:
        return [cls(m=2**exponent) for exponent in range(1, 7)]

    def refusal(self, request: CollectiveRequest, view: GroupView) -> str | None:
        if request.ranks > 1 and request.ranks % self.m:
            return f"m = {self.m} does not divide {request.ranks} ranks"
        return super().refusal(request, view)

    def schedule(self, request: CollectiveRequest, view: GroupView) -> Schedule:
        coordinates = np.stack(np.divmod(np.arange(request.ranks), self.m)[::-1], axis=1)
        return ring_schedule(request.pattern, request.size, coordinates)
