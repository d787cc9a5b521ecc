"""The collective algorithm ``forest``: packed trees over the links among a group, in lock step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from attrs import evolve, frozen

from fredfw import CollectiveAlgorithm, CollectiveRequest, GroupView, Pattern, Schedule, hookimpl, units
from fredfw_collective_forest.graph import Network, joined
from fredfw_collective_forest.trees import MOST_RANKS, all_reduce

fredfw_contract = 1


@frozen
class Forest(CollectiveAlgorithm):
    """Trees over the links among the members of a group that leave no link idle that has to work.

    An all-reduce among NPUs without switches goes up and down edge-disjoint spanning trees, with as many copies of each
    link as it takes for the trees to use all of them (matroid union). No schedule in which NPUs alone add is faster.
    Each tree carries an equal share, in pieces, all trees in lock step. It supposes that NPUs add at line rate on all
    links at once.
    """

    name: ClassVar[str] = "forest"
    patterns: ClassVar[frozenset[Pattern]] = frozenset({Pattern.ALL_REDUCE})
    reads_links: ClassVar[bool] = True

    pieces: int = units.option(
        0, validator=units.whole(0), help="pieces of each tree's share; 0: as many as are fastest, by latency and size"
    )

    def undivided(self) -> CollectiveAlgorithm:
        """See ``CollectiveAlgorithm.undivided``."""
        return self if self.pieces == 1 else evolve(self, pieces=1)

    def refusal(self, request: CollectiveRequest, view: GroupView) -> str | None:
        """See ``CollectiveAlgorithm.refusal``."""
        reason = super().refusal(request, view)
        if reason is not None or request.ranks == 1:
            return reason
        if request.ranks > MOST_RANKS:
            return f"it finds trees for groups of up to {MOST_RANKS}"
        if view.links is None:
            return "the links among the group are not known"
        network = Network.of(view.links)
        if not network.direct:
            return "there are switches among the group"
        one, other, _ = network.two_way()
        if not joined(network.nodes, np.append(one, other), np.append(other, one)):
            return "the members of the group are not joined among themselves by links both ways"
        return None

    def schedule(self, request: CollectiveRequest, view: GroupView) -> Schedule:
        """See ``CollectiveAlgorithm.schedule``."""
        assert view.links is not None  # as was checked
        network = Network.of(view.links)
        edges, trees = all_reduce(network)
        share = request.size / trees
        pieces = self.pieces or edges.pieces(share, network.bandwidths, network.latency)
        return Schedule(request.pattern, request.ranks, share / pieces, trees * pieces, edges.phases(pieces))


@hookimpl
def fredfw_collectives() -> Sequence[type[CollectiveAlgorithm]]:
    """Register ``forest``."""
    return [Forest]
