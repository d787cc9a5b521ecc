"""The collective algorithm ``themis``: chunks go along the levels in orders that keep all levels equally loaded."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from attrs import evolve, frozen

from fredfw import CollectiveAlgorithm, CollectiveRequest, GroupView, LevelSteps, Pattern, Schedule, parallel, units

fredfw_contract = 2

_THRESHOLD = 1 / 16
"""Share of a chunk whose time on the least loaded level is the least difference of loads that counts (section 5)."""


@frozen
class Themis(CollectiveAlgorithm):
    """Chunks that go along the levels in orders of their own, so that all levels are equally loaded.

    A load tracker has one load per level, which begins as the latency of its steps. A chunk's reduce-scatter visits the
    levels by load, least first, and its all-gather goes the way back; where the loads differ by less than a threshold,
    it takes them as they come. Then the time of each stage is added to its level's load. The step algorithm fits the
    kind of each level: both ways round a ring, direct where all are connected, halving-doubling on a switch (Rashidi et
    al., "Themis: A Network Bandwidth-Aware Collective Scheduling Policy for Distributed Training of DL Models", ISCA
    2022, sections 4 and 5). A level goes on with the next stage as soon as the bytes of one have left, for the paper
    runs several chunks at once in a level to cover the latencies. With ``hierarchical``, steps by kind and the same
    chunks do as its baseline does.

    Fits groups that are a full product of positions in two or more levels.
    """

    name: ClassVar[str] = "themis"
    patterns: ClassVar[frozenset[Pattern]] = frozenset({Pattern.ALL_REDUCE, Pattern.REDUCE_SCATTER, Pattern.ALL_GATHER})

    chunks: int = units.count(64, help="chunks of equal size that the data is divided into")
    policy: str = units.choice(
        ("fifo", "smallest-first"),
        "smallest-first",
        help="what a level takes next of the stages that are ready: the one that was ready first, or the smallest",
    )

    @classmethod
    def variants(cls, pattern: Pattern) -> Sequence[CollectiveAlgorithm]:
        return [cls(chunks=chunks) for chunks in (32, 64)]

    def refusal(self, request: CollectiveRequest, view: GroupView) -> str | None:
        if view.unstructured:
            return view.unstructured
        if len(view.levels) < 2:
            return "the group extends along one level, which leaves no order to choose"
        return super().refusal(request, view)

    def schedule(self, request: CollectiveRequest, view: GroupView) -> Schedule:
        steps, size = LevelSteps.of(view, "by-kind"), request.size / self.chunks
        stages: dict[tuple[int, ...], Schedule] = {}
        parts = []
        for order in orders(steps, request.pattern, size, self.chunks):
            if order not in stages:
                whole = steps.schedule(request.pattern, size, order)
                stages[order] = evolve(whole, policy=self.policy, release="drained")
            parts.append(stages[order])
        return parallel(parts)


def orders(steps: LevelSteps, pattern: Pattern, size: float, chunks: int) -> list[tuple[int, ...]]:
    """Return for each of ``chunks`` of ``size`` bytes the levels in the order of its reduce-scatter."""
    ahead = tuple(range(len(steps.steps)))
    times = 2 if pattern is Pattern.ALL_REDUCE else 1
    loads = times * steps.latencies()
    # What each level would take for the whole chunk, before any other has made it smaller.
    alone = np.array([steps.busy_times((level,))[level] for level in ahead])
    found = []
    for _ in range(chunks):
        threshold = _THRESHOLD * size * alone[loads.argmin()]
        even = loads.max() - loads.min() < threshold
        order = ahead if even else tuple(np.argsort(loads, kind="stable").tolist())
        loads = loads + size * steps.busy_times(order, pattern)
        found.append(order)
    return found
