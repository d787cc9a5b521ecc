"""Minimal routes on a dragonfly(+), spread evenly, without a Python loop over flows."""

from typing import ClassVar

import numpy as np
from attrs import frozen

from fredfw import Fabric, Operation, Router, Routes
from fredfw.errors import UnsupportedError
from fredfw.typing import BoolArray, FloatArray, IntArray
from fredfw_topology_dragonfly_plus.structure import Structure


@frozen
class DragonflyPlusRouter(Router):
    """Minimal routing: over one cable from group to group, each flow spread evenly over all that join the two.

    Between leaves of a group a flow is spread evenly over all spines, or takes the link between the two where there are
    none. A route takes as long as the slowest of its paths. For the topology ``dragonfly-plus``.
    """

    name: ClassVar[str] = "dragonfly-plus-minimal"

    def route(self, fabric: Fabric, sources: IntArray, destinations: IntArray) -> Routes:
        dragonfly = fabric.derived(Structure.of)
        if max(sources.max(initial=0), destinations.max(initial=0)) >= dragonfly.all_npus:
            raise UnsupportedError("paths begin and end at NPUs", accepted=f"nodes 0 to {dragonfly.all_npus - 1}")
        per_group = dragonfly.npus * dragonfly.leaves
        away = sources // per_group != destinations // per_group
        parts = [
            rule(fabric, dragonfly, sources[flows], destinations[flows])
            for rule, flows in ((_inside, ~away), (_across, away))
        ]
        order = np.concatenate([np.flatnonzero(~away), np.flatnonzero(away)])
        return Routes.concatenate(parts).select(np.argsort(order))

    def tree(self, fabric: Fabric, sources: IntArray, destinations: IntArray, operation: Operation) -> Routes:
        """See ``Router.tree``; switches neither copy nor combine, so only what has two ends is not an error."""
        reduces = operation is Operation.REDUCE
        root, leaves = (destinations[:1], sources) if reduces else (sources[:1], destinations)
        leaves = np.unique(leaves[leaves != root])
        if operation is Operation.ALL_REDUCE or len(leaves) > 1:
            raise UnsupportedError(f"the switches of fabric {fabric.name!r} neither copy nor combine streams")
        if not len(leaves):
            return fabric.path([])
        return self.route(fabric, *((leaves, root) if reduces else (root, leaves)))


def _inside(fabric: Fabric, dragonfly: Structure, sources: IntArray, destinations: IntArray) -> Routes:
    start, end = sources // dragonfly.npus, destinations // dragonfly.npus
    apart, far = (sources != destinations)[:, None], (start != end)[:, None]
    if dragonfly.spines:
        spine, share = np.arange(dragonfly.spines), 1 / dragonfly.spines
        up, down = dragonfly.up(start[:, None], spine), dragonfly.down(end[:, None], spine)
        between = [(up, far, share), (down, far, share)]
    else:
        between = [(dragonfly.up(start, end % dragonfly.leaves)[:, None], far, 1.0)]
    first, last = sources[:, None], dragonfly.all_npus + destinations[:, None]
    return _routes(fabric, [(first, apart, 1.0), *between, (last, apart, 1.0)])


def _across(fabric: Fabric, dragonfly: Structure, sources: IntArray, destinations: IntArray) -> Routes:
    start, end = sources // dragonfly.npus, destinations // dragonfly.npus
    group, other = (start // dragonfly.leaves)[:, None], (end // dragonfly.leaves)[:, None]
    number = np.arange(dragonfly.cables)
    leaves, enters = dragonfly.gateway(group, other, number), dragonfly.gateway(other, group, number)
    every = np.full((len(sources), 1), True)
    up, down = dragonfly.up(start[:, None], leaves), dragonfly.down(end[:, None], enters)
    if dragonfly.spines:
        climbs = falls = every
    else:
        climbs, falls = leaves != start[:, None] % dragonfly.leaves, enters != end[:, None] % dragonfly.leaves
    share, cable = 1 / dragonfly.cables, dragonfly.cable(group, other, number)
    middle = [(up, climbs, share), (cable, every, share), (down, falls, share)]
    first, last = sources[:, None], dragonfly.all_npus + destinations[:, None]
    return _routes(fabric, [(first, every, 1.0), *middle, (last, every, 1.0)])


def _routes(fabric: Fabric, hops: list[tuple[IntArray, BoolArray, float]]) -> Routes:
    """Return routes; a hop is ``(F, k)`` links of k paths (the same side by side), if they are used, and shares."""
    flows = len(hops[0][0])
    seconds: FloatArray = np.zeros((flows, 1))
    columns: list[tuple[IntArray, BoolArray, FloatArray]] = []
    for given, wanted, share in hops:
        used = np.broadcast_to(wanted, given.shape)
        links = np.where(used, given, 0)
        seconds = seconds + np.where(used, fabric.latencies[links], 0.0)
        first = used.copy()
        first[:, 1:] &= (links[:, 1:] != links[:, :-1]) | ~used[:, :-1]
        run = np.cumsum(first, axis=1) - 1  # of paths over one link, the first one has the share of all
        shares = np.zeros(links.shape)
        row = np.broadcast_to(np.arange(flows)[:, None], links.shape)
        np.add.at(shares, (row[used], run[used]), share)
        total = np.zeros(links.shape)
        total[first] = shares[row[first], run[first]]
        columns.append((links, first, total))
    links, kept, shares = (np.concatenate(parts, axis=1) for parts in zip(*columns, strict=True))
    offsets = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    return Routes(offsets, links[kept], seconds.max(axis=1, initial=0.0), shares[kept])
