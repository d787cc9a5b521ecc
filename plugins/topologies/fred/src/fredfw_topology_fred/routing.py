"""Routes and in-network trees on a tree of switches, without a Python loop over flows."""

from typing import ClassVar

import numpy as np
from attrs import frozen

from fredfw import Fabric, NodeKind, Operation, Router, Routes
from fredfw.errors import UnsupportedError
from fredfw.typing import IntArray


@frozen
class UpDownRouter(Router):
    """Routes through the lowest common ancestor of a tree; the root is the highest-numbered switch.

    A multicast and a reduction use the links of their unicast routes. An all-reduce is combined on the way up to the
    lowest common ancestor of all its ends, and copied from there. The source of a multicast is not sent its own data;
    the contribution of a reduction's own destination goes up to its switch like any other.
    """

    name: ClassVar[str] = "up-down"

    def route(self, fabric: Fabric, sources: IntArray, destinations: IntArray) -> Routes:
        tree = fabric.derived(_Tree)
        up, down = tree.ways(sources, destinations, _shared(tree.line[sources], tree.line[destinations]))
        ways = np.hstack([up[:, ::-1], down])
        used = ways >= 0
        return fabric.paths(np.concatenate([[0], np.cumsum(used.sum(axis=1))]), ways[used])

    def path(self, fabric: Fabric, source: int, destination: int) -> Routes:
        tree = fabric.derived(_Tree)
        lines = zip(tree.line[source].tolist(), tree.line[destination].tolist(), strict=True)
        shared = sum(one == other >= 0 for one, other in lines)
        ways = tree.up[source, shared:].tolist()[::-1] + tree.down[destination, shared:].tolist()
        return fabric.path([link for link in ways if link >= 0])

    def tree(self, fabric: Fabric, sources: IntArray, destinations: IntArray, operation: Operation) -> Routes:
        tree = fabric.derived(_Tree)
        if operation is Operation.MULTICAST:
            destinations = destinations[destinations != sources[0]]
        line, other = tree.line[sources], tree.line[destinations]
        if operation is Operation.ALL_REDUCE:
            ends = np.concatenate([line, other])
            shared = np.array(_shared(ends, ends[:1]).min())
            pairs = max(len(sources), len(destinations))
            sources, destinations = np.resize(sources, pairs), np.resize(destinations, pairs)
        else:
            # What a destination contributes itself turns at its switch.
            shared = np.minimum(_shared(line, other), (other >= 0).sum(axis=1) - 1)
            sources, destinations = np.broadcast_arrays(sources, destinations)
        up, down = tree.ways(sources, destinations, np.broadcast_to(shared, sources.shape))
        rise, fall = (np.where(ways >= 0, fabric.latencies[ways], 0.0).sum(axis=1) for ways in (up, down))
        together = operation is Operation.ALL_REDUCE
        latency = rise.max(initial=0.0) + fall.max(initial=0.0) if together else (rise + fall).max(initial=0.0)
        return fabric.tree(up[up >= 0], down[down >= 0], latency)


class _Tree:
    """The tree seen from its root; ``D`` is the largest depth of a node, the root's being 0."""

    def __init__(self, fabric: Fabric) -> None:
        nodes = len(fabric.kinds)
        switches = np.flatnonzero(fabric.kinds == NodeKind.SWITCH)
        seen = np.zeros(nodes, dtype=bool)
        parent, downlink = np.full((2, nodes), -1)
        tiers = [switches[-1:]]
        while tiers[-1].size:
            seen[tiers[-1]] = True
            ahead = np.zeros(nodes, dtype=bool)
            ahead[tiers[-1]] = True
            links = np.flatnonzero(ahead[fabric.sources] & ~seen[fabric.destinations])
            children = fabric.destinations[links]
            parent[children], downlink[children] = fabric.sources[links], links
            tiers.append(children)
        # As many links as a tree has, and every node reached: each node has one parent.
        if not seen.all() or len(fabric.sources) != 2 * (nodes - 1):
            message = f"the up-down router cannot route fabric {fabric.name!r}"
            raise UnsupportedError(message, accepted="a tree of switches")
        # ``(nodes, D + 1)`` ancestor at each depth, the node itself at its own; link from that ancestor to its parent,
        # and the one back; all -1 below the node, and links -1 at the root
        self.line, self.up, self.down = np.full((3, nodes, len(tiers) - 1), -1)
        self.line[tiers[0], 0] = tiers[0]
        for depth, tier in enumerate(tiers[1:-1], start=1):
            above = parent[tier]
            uplink = fabric.links_between(tier, above)
            for table, own in ((self.line, tier), (self.up, uplink), (self.down, downlink[tier])):
                table[tier] = table[above]
                table[tier, depth] = own

    def ways(self, sources: IntArray, destinations: IntArray, shared: IntArray) -> tuple[IntArray, IntArray]:
        """Return the ``(F, D + 1)`` links up from and down to below the ``(F,)`` ``shared`` ancestors, by depth."""
        below = np.arange(self.line.shape[1]) >= shared[:, None]
        return np.where(below, self.up[sources], -1), np.where(below, self.down[destinations], -1)


def _shared(line: IntArray, other: IntArray) -> IntArray:
    """Return ``(rows,)`` how many ancestors two lines share; those are the ones nearest to the root."""
    shared: IntArray = ((line == other) & (line >= 0)).sum(axis=1)
    return shared
