"""Routes through a cluster: inside of a node as its own router says, between nodes up to a switch and down."""

from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from typing import ClassVar

import numpy as np
from attrs import evolve, frozen

from fredfw import Fabric, Operation, Router, Routes, Topology
from fredfw.errors import UnsupportedError
from fredfw.typing import IntArray
from fredfw_topology_cluster.network import Layout, Network
from fredfw_topology_fat_tree.structure import N


@frozen
class ClusterRouter(Router):
    """Routes of one cluster: in a node as its own router says, between nodes through NICs and switches.

    An NPU with several NICs sends the same share through each. Of several shortest paths between two NICs a hash of the
    two chooses one (equal-cost multi-path, ECMP). With ``pxn``, and where rails are not connected, a flow to another
    rail first goes to an NPU of its own node that is on that rail.
    """

    name: ClassVar[str] = "cluster"

    node: Topology  # the inside of each node
    network: Network  # what connects the NICs
    sharing: int  # as of ``Layout``
    pxn: bool  # whether flows change rails inside of their node although rails are connected
    sharp: bool  # whether the switches between nodes combine and copy streams

    @cached_property
    def layout(self) -> Layout:
        """Where nodes and links are."""
        return Layout(self.node.build(), self.network, self.sharing)

    def route(self, fabric: Fabric, sources: IntArray, destinations: IntArray) -> Routes:
        """See ``Router.route``; raises ``UnsupportedError`` for other fabrics, and from node to node for switches."""
        layout = self._layout(fabric)
        inside, npus = layout.inside, layout.npus
        start, near = np.divmod(sources, len(inside.kinds))
        end, far = np.divmod(destinations, len(inside.kinds))
        away = np.flatnonzero(start != end)
        source, destination = layout.numbers[near[away]], layout.numbers[far[away]]
        for ends, numbers in ((sources, source), (destinations, destination)):
            if (numbers < 0).any():
                lost = fabric.node_name(int(ends[away[numbers < 0]][0]))
                raise UnsupportedError(f"{lost} of fabric {fabric.name!r} is not reached from other nodes")
        leaves = self._exits(source, destination)
        far[away] = inside.npus[leaves]
        local = inside.defaults.router.route(inside, near, far)
        local = evolve(local, links=local.links + np.repeat(start * len(inside.sources), np.diff(local.offsets)))
        if not len(away):
            return local
        sent, received = start[away] * npus + leaves, end[away] * npus + destination
        return _in_series(local, away, self._between(fabric, sent, received))

    def path(self, fabric: Fabric, source: int, destination: int) -> Routes:
        layout = self._layout(fabric)
        inside, npus = layout.inside, layout.npus
        start, near = divmod(source, len(inside.kinds))
        end, far = divmod(destination, len(inside.kinds))
        if start == end:
            local = inside.defaults.router.path(inside, near, far)
            return evolve(local, links=local.links + start * len(inside.sources))
        number, last = int(layout.numbers[near]), int(layout.numbers[far])
        if number < 0 or last < 0:
            return self.route(fabric, np.array([source]), np.array([destination]))  # which says why not
        leaving = self._exits(number, last)
        local = inside.defaults.router.path(inside, near, int(inside.npus[leaving]))
        sent, received = start * npus + leaving, end * npus + last
        up, between, down = self._way(sent, received)
        links = np.array([*up, *chain.from_iterable(chain.from_iterable(between)), *down], dtype=np.intp)
        shares = None
        if local.coefficients is not None or layout.own > 1:
            before = np.ones(len(local.links)) if local.coefficients is None else local.coefficients
            split = np.full(len(links) - len(up) - len(down), 1 / layout.own)
            shares = np.concatenate([before, np.ones(len(up)), split, np.ones(len(down))])
        common = sum(fabric.latencies[link] for link in (*up, *down))
        ways = (chain.from_iterable(parts) for parts in zip(*between, strict=True))
        seconds = max(sum(fabric.latencies[link] for link in way) for way in ways)
        return Routes(
            np.array([0, len(local.links) + len(links)]),
            np.concatenate([local.links + start * len(inside.sources), links]),
            local.latencies + common + seconds,
            shares,
        )

    def _way(self, sent: int, received: int) -> tuple[list[int], list[list[list[int]]], list[int]]:
        # First what all of the flow crosses, then part by part and NIC by NIC the links between, then those behind.
        layout, network = self.layout, self.network
        first, last = sent // layout.users * layout.own, received // layout.users * layout.own
        common, attached = layout.steps[:2], layout.steps[2:]  # to NICs, of which an NPU may have several
        trunks, ups, downs = list[list[int]](), list[list[int]](), list[list[int]]()
        for nic, other in zip(range(first, first + layout.own), range(last, last + layout.own), strict=True):
            tree, place = network.places(nic)
            _, end = network.places(other)
            path = network.tree.hashed(nic, other)
            trunks.append(layout.trunks[tree, network.tree.climb(place, end, path)].tolist())
            ups.append([step.up(step.cables(sent, nic)) for step in attached])
            downs.append([step.down(step.cables(received, other)) for step in attached])
        up = [step.up(step.cables(sent, first)) for step in common]
        down = [step.down(step.cables(received, last)) for step in reversed(common)]
        return up, [ups, trunks, downs], down

    def tree(self, fabric: Fabric, sources: IntArray, destinations: IntArray, operation: Operation) -> Routes:
        """See ``Router.tree``: inside of a node as its own router has them, with SHARP among NPUs of as many nodes."""
        inside = self._layout(fabric).inside
        ends = np.unique(np.concatenate([sources, destinations]))
        nodes = np.unique(ends // len(inside.kinds))
        if len(nodes) > 1:
            return self._between_nodes(fabric, ends, sources, destinations, operation)
        first = nodes[0] * len(inside.kinds)
        local = inside.defaults.router.tree(inside, sources - first, destinations - first, operation)
        return evolve(local, links=local.links + nodes[0] * len(inside.sources))

    def _between_nodes(
        self, fabric: Fabric, ends: IntArray, sources: IntArray, destinations: IntArray, operation: Operation
    ) -> Routes:
        """Return the tree among NPUs of as many nodes, ``ends``: up to the first switch above all, and down."""
        layout, tree = self.layout, self.network.tree
        if not self.sharp:
            message = f"the switches between the nodes of fabric {fabric.name!r} neither copy nor combine streams"
            raise UnsupportedError(message, accepted="trees inside of a node; with sharp = true others, too")
        node, near = np.divmod(ends, len(layout.inside.kinds))
        npus = node * layout.npus + layout.numbers[near]
        trees, places = self.network.places(npus // layout.users)
        if len(np.unique(node)) < len(ends) or len(np.unique(trees)) > 1 or (layout.numbers[near] < 0).any():
            where = "among several NPUs of a node, or of rails that are not connected"
            accepted = "one NPU of each node, on the same rail"
            raise UnsupportedError(f"fabric {fabric.name!r} has no tree {where}", accepted=accepted)
        height = next(one for one in range(1, tree.height + 1) if len(np.unique(places // tree.below[one])) == 1)
        path = tree.hashed(places[:1], places[-1:])
        rise = np.stack([tree.up(level, places // tree.below[level], path) for level in range(height)], axis=1)
        cables = [(step, step.cables(npus, npus // layout.users)) for step in layout.steps]
        up, down = [step.up(numbers) for step, numbers in cables], [step.down(numbers) for step, numbers in cables]
        rising, falling = (
            np.hstack([*(one[:, None] for one in own), layout.trunks[trees[:, None], trunks]])[np.isin(ends, some)]
            for own, trunks, some in ((up, rise, sources), (down, rise + tree.first_links[-1], destinations))
        )
        if operation is Operation.MULTICAST:
            first = places[ends == sources[0]]  # what a switch on the way up has below it need not come from above
            apart = [places // below != first // below for below in tree.below[:height]]
            kept = np.stack([places != first] * len(down) + apart, axis=1)[np.isin(ends, destinations)]
        else:
            kept = np.ones(falling.shape, dtype=bool)
        seconds = fabric.latencies[rising].sum(axis=1).max(initial=0.0)
        seconds += (fabric.latencies[falling] * kept).sum(axis=1).max(initial=0.0)
        return Routes.of([np.concatenate([np.unique(rising), np.unique(falling[kept])])], [float(seconds)])

    def _layout(self, fabric: Fabric) -> Layout:
        layout = self.layout
        if len(fabric.kinds) != layout.first_switch + layout.switches * self.network.trees:
            message = f"the cluster router cannot route fabric {fabric.name!r}"
            raise UnsupportedError(message, accepted="the cluster that it was made for")
        return layout

    def _exits(self, source: N, destination: N) -> N:
        """Return the NPU of its node, by number, at which a flow (or each of many) leaves the node."""
        if self.network.trees == 1 and not self.pxn:
            return source
        layout, rails = self.layout, self.network.rails
        first, last = source // layout.users * layout.own, destination // layout.users * layout.own
        return (first - first % rails + last % rails) // layout.own * layout.users + source % layout.users

    def _between(self, fabric: Fabric, sent: IntArray, received: IntArray) -> list[Routes]:
        layout, own = self.layout, self.layout.own
        near, far = sent[:, None], received[:, None]
        nics, others = (npu // layout.users * own + np.arange(own) for npu in (near, far))
        into = [_alike(fabric, step.up(step.cables(near, nics))) for step in layout.steps]
        out = [_alike(fabric, step.down(step.cables(far, others))) for step in reversed(layout.steps)]
        return [*into, self._trunks(fabric, nics, others), *out]

    def _trunks(self, fabric: Fabric, nics: IntArray, others: IntArray) -> Routes:
        layout, network, tree = self.layout, self.network, self.network.tree
        trees, places = network.places(nics.ravel())
        _, ends = network.places(others.ravel())
        steps, used = tree.walk(places, ends, tree.hashed(nics.ravel(), others.ravel()))
        ids = layout.trunks[trees[:, None], steps]
        seconds = np.where(used, fabric.latencies[ids], 0.0).sum(axis=1)
        counts = used.sum(axis=1)
        shares = None if layout.own == 1 else np.full(counts.sum(), 1 / layout.own)
        offsets = np.concatenate([[0], np.cumsum(counts.reshape(nics.shape).sum(axis=1))])
        return Routes(offsets, ids[used], seconds.reshape(nics.shape).max(axis=1), shares)


def _alike(fabric: Fabric, links: IntArray) -> Routes:
    """Return the ways of ``F`` flows over ``(F, n)`` links side by side, which all carry the same."""
    count = links.shape[1]
    shares = None if count == 1 else np.full(links.size, 1 / count)
    return Routes(np.arange(0, links.size + 1, count), links.ravel(), fabric.latencies[links[:, 0]], shares)


def _in_series(first: Routes, flows: IntArray, parts: Sequence[Routes]) -> Routes:
    """Return routes that begin as ``first``; those numbered ``flows`` go on along ``parts``, one after the other."""
    counts = np.zeros((1 + len(parts), len(first)), dtype=np.intp)
    counts[0] = np.diff(first.offsets)
    latencies = first.latencies.copy()
    for row, part in zip(counts[1:], parts, strict=True):
        row[flows] = np.diff(part.offsets)
        latencies[flows] += part.latencies
    offsets = np.concatenate([[0], np.cumsum(counts.sum(axis=0))])
    starts = offsets[:-1] + np.cumsum(counts, axis=0) - counts
    links, shares = np.empty(offsets[-1], dtype=np.intp), np.ones(offsets[-1])
    for part, start, count in zip((first, *parts), starts, counts, strict=True):
        place = np.repeat(start - np.cumsum(count) + count, count) + np.arange(len(part.links))
        links[place] = part.links
        if part.coefficients is not None:
            shares[place] = part.coefficients
    whole = all(part.coefficients is None for part in (first, *parts))
    return Routes(offsets, links, latencies, None if whole else shares)
