"""The collective algorithm ``tacos``: an all-gather synthesised for the links among a group."""

from collections.abc import Sequence
from typing import ClassVar

from attrs import frozen

from fredfw import CollectiveAlgorithm, CollectiveRequest, GroupView, Pattern, Schedule, limits, sequence, units
from fredfw_collective_tacos.synthesis import Ways, gathered, scattered, synthesised

__all__ = ["Tacos"]

fredfw_contract = 2

# Ranks of the largest groups for which little effort is enough; where links differ, or are behind switches, each chunk
# is a phase. Over switches that are filled, others are faster.
_SMALL, _SMALL_MIXED = 64, 16


@frozen
class Tacos(CollectiveAlgorithm):
    """An all-gather synthesised for the links among a group, whatever they are: greedily, by chance, the best of some.

    Each link takes one chunk at a time, latency and bytes, and the next when that has arrived. A reduce-scatter is an
    all-gather against the links, backwards; an all-reduce is both. Over switches a chunk goes from rank to rank, by the
    fewest links, and has them for itself. Links of different speed are used as they come (Won et al., "TACOS:
    Topology-Aware Collective Algorithm Synthesizer for Distributed Machine Learning", MICRO 2024).
    """

    name: ClassVar[str] = "tacos"
    patterns: ClassVar[frozenset[Pattern]] = frozenset({Pattern.ALL_REDUCE, Pattern.REDUCE_SCATTER, Pattern.ALL_GATHER})
    reads_links: ClassVar[bool] = True

    chunks: int = units.count(1, help="chunks of each rank's block")
    seeds: int = units.count(20, help="syntheses of which the best is taken")
    effort: str = units.choice(
        ("any", "small"), help="small: only for groups for which a tenth of a second is enough; auto tries no others"
    )

    @classmethod
    def variants(cls, pattern: Pattern) -> Sequence[CollectiveAlgorithm]:
        return [cls(effort="small")]

    def refusal(self, request: CollectiveRequest, view: GroupView) -> str | None:
        reason = super().refusal(request, view)
        if reason is not None or request.ranks == 1:
            return reason
        if (excess := limits.excess("transfers", request.ranks**2 * self.chunks)) is not None:
            return excess
        small = self.effort == "small"
        if small and request.ranks > _SMALL:
            return f"with little effort it is done for groups of up to {_SMALL}"
        if view.links is None:
            return "the links among the group are not known"
        if small and not view.links.direct and (request.ranks > _SMALL_MIXED or not view.unstructured):
            return f"with little effort it is done over switches for up to {_SMALL_MIXED} that fill no levels"
        ways = Ways.of(view.links)
        if small and request.ranks > _SMALL_MIXED and not ways.alike:
            return f"with little effort it is done for up to {_SMALL_MIXED} where links differ"
        return None if view.links.joined else "the members of the group are not joined among themselves"

    def schedule(self, request: CollectiveRequest, view: GroupView) -> Schedule:
        assert view.links is not None  # as was checked
        ways, size = Ways.of(view.links), request.size / request.ranks / self.chunks
        seconds = ways.seconds(size)
        asked = self.chunks, self.seeds, seconds.tobytes()
        if request.pattern is Pattern.ALL_GATHER:
            return gathered(ways, synthesised(view.links, *asked, against=False), seconds, self.chunks, size)
        first = scattered(ways, synthesised(view.links, *asked, against=True), seconds, self.chunks, size)
        if request.pattern is Pattern.REDUCE_SCATTER:
            return first
        second = gathered(ways, synthesised(view.links, *asked, against=False), seconds, self.chunks, size)
        return sequence(first, second, Pattern.ALL_REDUCE)
