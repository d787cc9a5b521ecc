"""Routes on a fat tree, up to the lowest common level and down, without a Python loop over flows."""

from typing import ClassVar

import numpy as np
from attrs import frozen

from fredfw import Fabric, Operation, Router, Routes
from fredfw.errors import UnsupportedError
from fredfw.typing import IntArray
from fredfw_topology_fat_tree.structure import XGFT


class _UpDown(Router):
    """What both routers do with many-ended flows."""

    def tree(self, fabric: Fabric, sources: IntArray, destinations: IntArray, operation: Operation) -> Routes:
        # The union of the paths that lead by the switch of the top level to which the hash sends the root and its
        # lowest-numbered leaf; each turns where it can. What has one leaf is routed as a unicast.
        if operation is Operation.ALL_REDUCE:
            message = f"the {self.name} router has no all-reduce tree on fabric {fabric.name!r}"
            raise UnsupportedError(message, accepted="multicast or reduce")
        reverse = operation is Operation.REDUCE
        root, leaves = (destinations[:1], sources) if reverse else (sources[:1], destinations)
        leaves = np.unique(leaves[leaves != root])
        roots = np.broadcast_to(root, leaves.shape)
        starts, ends = (leaves, roots) if reverse else (roots, leaves)
        if len(leaves) <= 1:
            return self.route(fabric, starts, ends) if len(leaves) else fabric.path([])
        tree = fabric.derived(XGFT.of)
        path = np.broadcast_to(tree.hashed(starts[:1], ends[:1]), leaves.shape)
        paths = _paths(fabric, tree, starts, ends, path)
        none = paths.links[:0]
        both = (paths.links, none) if reverse else (none, paths.links)
        return fabric.tree(*both, paths.latencies.max())


@frozen
class EcmpRouter(_UpDown):
    """Equal-cost multi-path: each pair of hosts keeps to one shortest path, chosen by a hash of the two.

    Pairs may meet on a link although others are idle, as in a network that hashes. For fat trees.
    """

    name: ClassVar[str] = "ecmp"

    def route(self, fabric: Fabric, sources: IntArray, destinations: IntArray) -> Routes:
        tree = fabric.derived(XGFT.of)
        return _paths(fabric, tree, sources, destinations, tree.hashed(sources, destinations))

    def path(self, fabric: Fabric, source: int, destination: int) -> Routes:
        tree = fabric.derived(XGFT.of)
        return fabric.path(tree.climb(source, destination, tree.hashed(source, destination)))


@frozen
class SprayRouter(_UpDown):
    """Packet spraying: each flow is spread evenly over all k shortest paths, 1/k on each.

    Links of a level are taken to have the same latency, as they do in the topology ``fat-tree``. For fat trees.
    """

    name: ClassVar[str] = "spray"

    def route(self, fabric: Fabric, sources: IntArray, destinations: IntArray) -> Routes:
        tree = fabric.derived(XGFT.of)
        first, used = tree.walk(sources, destinations, np.zeros_like(sources))
        # At each level a flow has links to (or from) all tops of the subtree above, and those have consecutive numbers.
        width = np.broadcast_to(np.array([*tree.width[1:], *tree.width[:0:-1]], dtype=np.intp), first.shape)
        count = width[used]
        total = np.cumsum(count)
        links = np.repeat(first[used] - total + count, count) + np.arange(count.sum())
        offsets = np.concatenate([[0], np.cumsum(np.where(used, width, 0).sum(axis=1))])
        latencies = np.where(used, fabric.latencies[first], 0.0).sum(axis=1)
        return Routes(offsets, links, latencies, np.repeat(1 / count, count))

    def path(self, fabric: Fabric, source: int, destination: int) -> Routes:
        tree = fabric.derived(XGFT.of)
        first = tree.climb(source, destination, 0)
        fan = fabric.derived(_fans)[len(first) // 2]
        seconds = np.zeros(2 * tree.height)  # as in route, so that the sum is the same to the last bit
        seconds[fan.place] = fabric.latencies[first]
        links = np.repeat(np.array(first, dtype=np.intp), fan.width) + fan.within
        return Routes(np.array([0, len(links)]), links, seconds.sum(keepdims=True), fan.shares)


class _Fan:
    """What is the same for all sprayed flows that turn at one level."""

    def __init__(self, tree: XGFT, level: int) -> None:
        steps = np.arange(level)
        # ``(2 level,)`` links that a flow has up from each level, then down; and where those are in a row of all levels
        self.width = np.array([*tree.width[1 : level + 1], *tree.width[level:0:-1]], dtype=np.intp)
        self.place = np.concatenate([steps, 2 * tree.height - level + steps])
        # of each link, its number among those of the same level, and its share
        self.within = np.arange(self.width.sum()) - np.repeat(np.cumsum(self.width) - self.width, self.width)
        self.shares = np.repeat(1 / self.width, self.width)


def _fans(fabric: Fabric) -> list[_Fan]:
    """Return the fans of flows that turn at each level, from that of the hosts on."""
    tree = fabric.derived(XGFT.of)
    return [_Fan(tree, level) for level in range(tree.height + 1)]


def _paths(fabric: Fabric, tree: XGFT, sources: IntArray, destinations: IntArray, path: IntArray) -> Routes:
    links, used = tree.walk(sources, destinations, path)
    return fabric.paths(np.concatenate([[0], np.cumsum(used.sum(axis=1))]), links[used])
