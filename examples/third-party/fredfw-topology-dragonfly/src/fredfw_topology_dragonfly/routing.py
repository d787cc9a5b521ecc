"""Minimal routes on a dragonfly, without a Python loop over flows."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from attrs import frozen
from fredfw import Fabric, Operation, Router, Routes
from fredfw.errors import UnsupportedError
from fredfw.typing import IntArray

from fredfw_topology_dragonfly.structure import Structure


@frozen
class DragonflyMinimalRouter(Router):
    """Minimal routing: a local link to the router with a link to the other group, that link, a local link; or fewer.

    So a flow crosses one global link at most (MIN in section 4.1 of Kim, Dally, Scott and Abts, "Technology-driven,
    highly-scalable dragonfly topology", ISCA 2008). Where several links join two groups, a pair of NPUs keeps to one of
    them, the same both ways. For dragonflies.
    """

    name: ClassVar[str] = "dragonfly-minimal"

    def route(self, fabric: Fabric, sources: IntArray, destinations: IntArray) -> Routes:
        """See ``Router.route``."""
        dragonfly = Structure.of(fabric)
        npus, p, a, cables = dragonfly.npus, dragonfly.p, dragonfly.a, dragonfly.cables
        if max(sources.max(initial=0), destinations.max(initial=0)) >= npus:
            raise UnsupportedError("paths begin and end at NPUs", accepted=f"nodes 0 to {npus - 1}")
        start, end = sources // p, destinations // p
        group, goal = start // a, end // a
        away = group != goal
        # Which of several links: the lower NPU's place in its group decides, and a little the other's. So an all-to-all
        # uses all of them alike, and so do rings through the groups, with one NPU of a group each.
        low, high = np.minimum(sources, destinations), np.maximum(sources, destinations)
        number = (low % (p * a) + high % (p * a) // cables) % cables
        crossing = np.where(away, dragonfly.global_link(group, goal, number), 0)
        leaves = np.where(away, fabric.sources[crossing] - npus, end)
        enters = np.where(away, fabric.destinations[crossing] - npus, end)
        apart = sources != destinations
        ways = [
            (sources, apart),
            (dragonfly.local_link(start, leaves), start != leaves),
            (crossing, away),
            (dragonfly.local_link(enters, end), enters != end),
            (npus + destinations, apart),
        ]
        links, used = (np.stack(columns, axis=1) for columns in zip(*ways, strict=True))
        return fabric.paths(np.concatenate([[0], np.cumsum(used.sum(axis=1))]), links[used])

    def tree(self, fabric: Fabric, sources: IntArray, destinations: IntArray, operation: Operation) -> Routes:
        """See ``Router.tree``; routers neither copy nor combine, so only what has two ends is not an error."""
        reduces = operation is Operation.REDUCE
        root, leaves = (destinations[:1], sources) if reduces else (sources[:1], destinations)
        leaves = np.unique(leaves[leaves != root])
        if operation is Operation.ALL_REDUCE or len(leaves) > 1:
            raise UnsupportedError(f"the routers of fabric {fabric.name!r} neither copy nor combine streams")
        root = root[: len(leaves)]
        one = self.route(fabric, *((leaves, root) if reduces else (root, leaves)))
        return Routes.of([one.links], [float(one.latencies.sum())])
