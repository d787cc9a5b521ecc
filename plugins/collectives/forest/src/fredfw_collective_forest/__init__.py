"""The collective algorithm ``forest``: packed trees over the links among a group, in lock step."""

from typing import ClassVar

import numpy as np
from attrs import evolve, frozen

from fredfw import CollectiveAlgorithm, CollectiveRequest, GroupView, Pattern, Schedule, units
from fredfw_collective_forest.packing import components
from fredfw_collective_forest.trees import Edges, Network, rooted, spanning

__all__ = ["Forest"]

fredfw_contract = 2

# Largest groups: with spanning trees, with trees from one rank, from each rank, and these where there are switches.
MOST_RANKS, MOST_ONE_ROOT, MOST_ROOTS, MOST_SWITCHED = 256, 128, 36, 16


@frozen
class Forest(CollectiveAlgorithm):
    """Trees over the links among the members of a group that leave no link idle that has to work.

    An all-reduce among NPUs without switches goes up and down edge-disjoint spanning trees, with as many copies of each
    link as it takes for the trees to use all of them (matroid union). No schedule in which NPUs alone add is faster.
    Everything else goes over out-trees, as many from each root, at the rate of the thinnest cut: switches are replaced
    by links between their neighbours (Zhao et al., "ForestColl", 2024). An all-reduce over switches goes up the trees
    to each root and down again. Each tree carries an equal share, in pieces, all trees in lock step. It supposes that
    NPUs add at line rate on all links at once.

    A group has up to 256 members for an all-reduce without switches, 128 for a broadcast or a reduce, 36 for an
    all-gather or a reduce-scatter, and 16 for anything over switches.
    """

    name: ClassVar[str] = "forest"
    patterns: ClassVar[frozenset[Pattern]] = frozenset(
        {Pattern.ALL_REDUCE, Pattern.REDUCE_SCATTER, Pattern.ALL_GATHER, Pattern.BROADCAST, Pattern.REDUCE}
    )
    reads_links: ClassVar[bool] = True

    pieces: int = units.count(
        0, minimum=0, help="pieces of each tree's share; 0: as many as are fastest, by latency and size"
    )

    def undivided(self) -> CollectiveAlgorithm:
        return self if self.pieces == 1 else evolve(self, pieces=1)

    def refusal(self, request: CollectiveRequest, view: GroupView) -> str | None:
        reason = super().refusal(request, view)
        if reason is not None or request.ranks == 1:
            return reason
        if request.ranks > MOST_RANKS:
            return f"it finds trees for groups of up to {MOST_RANKS}"
        if view.links is None:
            return "the links among the group are not known"
        network = Network.of(view.links)
        if request.pattern is Pattern.ALL_REDUCE and network.direct:
            one, other, _ = network.two_way()
            if any(components(network.nodes, list(zip(one.tolist(), other.tolist(), strict=True)))):
                return "the members of the group are not joined among themselves by links both ways"
            return None
        most = MOST_ONE_ROOT if request.pattern.rooted else MOST_ROOTS
        most = most if network.direct else MOST_SWITCHED
        if request.ranks > most:
            return f"it finds out-trees for groups of up to {most}{' with switches' * (not network.direct)}"
        if not network.direct and not network.symmetric:
            return "the links to or from a switch among the group are not the same both ways"
        return None if view.links.joined else "the members of the group are not joined among themselves"

    def schedule(self, request: CollectiveRequest, view: GroupView) -> Schedule:
        assert view.links is not None  # as was checked
        network, pattern = Network.of(view.links), request.pattern
        up, down = pattern in _UP, pattern in _DOWN
        if pattern is Pattern.ALL_REDUCE and network.direct:
            packing = spanning(network)
        else:
            root = request.root if pattern in (Pattern.BROADCAST, Pattern.REDUCE) else None
            packing = rooted(network, root, against=not down)
        edges, share = Edges.of(packing, up=up, down=down), request.size / len(packing.trees)
        pieces = self.pieces or edges.pieces(share, np.array(list(packing.bandwidths.values())), network.latency)
        owner = np.repeat([tree[0][0] for tree in packing.trees], pieces) if pattern.owned else None
        chunks = len(packing.trees) * pieces
        return Schedule(pattern, request.ranks, share / pieces, chunks, edges.phases(pieces), owner, root=request.root)


_UP = frozenset({Pattern.ALL_REDUCE, Pattern.REDUCE_SCATTER, Pattern.REDUCE})
_DOWN = frozenset({Pattern.ALL_REDUCE, Pattern.ALL_GATHER, Pattern.BROADCAST})
