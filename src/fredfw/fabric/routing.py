"""How transfers become links: the interface, and the shortest-path router that fits every fabric."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from fredfw import arrays
from fredfw.errors import UnsupportedError
from fredfw.fabric import answers
from fredfw.fabric.flows import Operation, Routes
from fredfw.typing import BoolArray, IntArray

if TYPE_CHECKING:
    from fredfw.fabric.fabric import Fabric


class Router(ABC):
    """Chooses links; stateless and deterministic, so that routes may be cached."""

    name: ClassVar[str]

    @abstractmethod
    def route(self, fabric: Fabric, sources: IntArray, destinations: IntArray) -> Routes:
        """Return one route per pair of ``(F,)`` nodes; a node and itself have no links between them."""

    def path(self, fabric: Fabric, source: int, destination: int) -> Routes:
        """Return what ``route`` returns for one pair of nodes, without the cost of arrays.

        A class that implements ``route`` and not ``path`` is asked for its ``route``, whatever it inherits.
        """
        return self.route(fabric, np.array([source]), np.array([destination]))

    @abstractmethod
    def tree(self, fabric: Fabric, sources: IntArray, destinations: IntArray, operation: Operation) -> Routes:
        """Return one flow over the links that join all ``sources`` to all ``destinations``.

        A multicast has one source, a reduction one end. ``UnsupportedError``: no tree that nodes may branch (or join).
        """


@frozen
class ShortestPathRouter(Router):
    """Routes over the fewest hops; ties go to the lowest-numbered node and link. Fits every fabric."""

    name: ClassVar[str] = "shortest-path"

    def route(self, fabric: Fabric, sources: IntArray, destinations: IntArray) -> Routes:
        """See ``Router.route``; raises ``UnsupportedError`` where there is no path."""
        routes, missing = shortest_routes(fabric, sources, destinations)
        if missing.any():
            raise no_path(fabric, sources[missing][0], destinations[missing][0])
        return routes

    def path(self, fabric: Fabric, source: int, destination: int) -> Routes:
        """See ``Router.path``; raises ``UnsupportedError`` where there is no path."""
        if len(fabric.kinds) > _REMEMBERED:
            return super().path(fabric, source, destination)
        reached = _searched(fabric, source)
        links, node = list[int](), destination
        while node != source:
            link = int(reached[node])
            if link < 0:
                return super().path(fabric, source, destination)  # which says that there is none
            links.append(link)
            node = int(fabric.sources[link])
        return fabric.path(links[::-1])

    def tree(self, fabric: Fabric, sources: IntArray, destinations: IntArray, operation: Operation) -> Routes:
        """See ``Router.tree``; the union of shortest paths that branch only where a node may copy or reduce.

        An all-reduce meets at one node that does both: a reduction to it, and a multicast from it. Of the nodes that
        have such trees it is the one with the fewest hops up and down, then the least latency, then the lowest number.
        """
        if operation is Operation.ALL_REDUCE:
            return self._all_reduce(fabric, sources, destinations)
        return self._one_way(fabric, sources, destinations, operation)

    def _all_reduce(self, fabric: Fabric, sources: IntArray, destinations: IntArray) -> Routes:
        able = np.flatnonzero(fabric.copies & fabric.reduces)
        refusals = []
        for node in _nearest(fabric, able, sources, destinations):
            middle = np.array([node])
            try:
                up = self._one_way(fabric, sources, middle, Operation.REDUCE)
                down = self._one_way(fabric, middle, destinations, Operation.MULTICAST)
            except UnsupportedError as error:
                refusals.append(error.message)
                continue
            if not np.intersect1d(up.links, down.links).size:
                return Routes.of([np.concatenate([up.links, down.links])], up.latencies + down.latencies)
            refusals.append(f"the ways to and from {fabric.node_name(int(node))} share a link")
        # What the nearest node lacks says most.
        reason = (*refusals, "no node that they all reach both combines and copies streams")[0]
        message = f"the shortest-path router has no all-reduce tree on fabric {fabric.name!r}: {reason}"
        raise UnsupportedError(message, accepted="multicast or reduce")

    def _one_way(self, fabric: Fabric, sources: IntArray, destinations: IntArray, operation: Operation) -> Routes:
        reverse = operation is Operation.REDUCE
        root, leaves = (destinations[:1], sources) if reverse else (sources[:1], destinations)
        rows = np.zeros(len(leaves), dtype=np.intp)
        offsets, walked, missing = _shortest(fabric, root, rows, leaves, reverse=reverse)
        if missing.any():
            leaf, end = leaves[missing][0], root[0]
            raise no_path(fabric, leaf, end) if reverse else no_path(fabric, end, leaf)
        return tree_of_paths(fabric, fabric.paths(offsets, walked), sources, destinations, operation)


def no_path(fabric: Fabric, source: np.intp, destination: np.intp) -> UnsupportedError:
    ends = f"from {fabric.node_name(int(source))} to {fabric.node_name(int(destination))}"
    return UnsupportedError(f"fabric {fabric.name!r} has no path {ends}")


def tree_of_paths(
    fabric: Fabric, paths: Routes, sources: IntArray, destinations: IntArray, operation: Operation
) -> Routes:
    """Return one flow over ``paths`` that form a tree; raises where a node may not copy (reduce) its branches."""
    reverse = operation is Operation.REDUCE
    root, leaves = (destinations[:1], sources) if reverse else (sources[:1], destinations)
    links = np.unique(paths.links)
    nodes = (fabric.destinations if reverse else fabric.sources)[links]
    # A leaf in the middle also branches: it keeps the data (or adds its own) and passes it on.
    nodes = np.append(nodes, np.intersect1d(nodes, leaves))
    fabric.require(nodes[nodes != root], reduces=reverse)
    return Routes.of([links], [float(paths.latencies.max(initial=0.0))])


class LiveRouter(Router):
    """Routes as a rule says, and over the fewest live links what would cross a dead one, if there is a way."""

    name: ClassVar[str] = "live"

    def __init__(self, rule: Router, live: BoolArray) -> None:
        self.rule = rule
        self._left: set[object] = set()
        self._live = live
        self._links = np.flatnonzero(live)
        self._whole: Fabric | None = None
        self._remaining: Fabric  # of the fabric that it was asked about last

    @property
    def left(self) -> int:
        """How many routes and trees did not follow the rule, however often they were asked for."""
        return len(self._left)

    def route(self, fabric: Fabric, sources: IntArray, destinations: IntArray) -> Routes:
        ruled = answers.route(self.rule, fabric, sources, destinations)
        flows = np.flatnonzero(arrays.reduced(np.logical_or, ~self._live[ruled.links], ruled.offsets, False))
        if not len(flows):
            return ruled
        around, missing = shortest_routes(self._remains(fabric), sources[flows], destinations[flows])
        around, flows = around.select(np.flatnonzero(~missing)), flows[~missing]
        if not len(flows):
            return ruled
        self._left.update(zip(sources[flows].tolist(), destinations[flows].tolist(), strict=True))
        others = np.delete(np.arange(len(ruled)), flows)
        return merged([self._of_whole(around), ruled.select(others)], [flows, others])

    def path(self, fabric: Fabric, source: int, destination: int) -> Routes:
        ruled = answers.path(self.rule, fabric, source, destination)
        find = partial(ShortestPathRouter().path, source=source, destination=destination)
        return self._around(fabric, ruled, find, (source, destination))

    def tree(self, fabric: Fabric, sources: IntArray, destinations: IntArray, operation: Operation) -> Routes:
        ruled = answers.tree(self.rule, fabric, sources, destinations, operation)
        find = partial(ShortestPathRouter().tree, sources=sources, destinations=destinations, operation=operation)
        return self._around(fabric, ruled, find, (sources.tobytes(), destinations.tobytes(), operation))

    def _around(self, fabric: Fabric, ruled: Routes, find: Callable[[Fabric], Routes], key: object) -> Routes:
        if self._live[ruled.links].all():
            return ruled
        try:
            around = find(self._remains(fabric))
        except UnsupportedError:
            return ruled
        self._left.add(key)
        return self._of_whole(around)

    def _remains(self, fabric: Fabric) -> Fabric:
        if self._whole is not fabric:
            # Links of memories have numbers behind those of the network that is routed.
            links = self._links[: np.searchsorted(self._links, len(fabric.sources))]
            columns = {name: getattr(fabric, name)[links] for name in _OF_LINKS}
            self._whole, self._remaining = fabric, evolve(fabric, **columns)
        return self._remaining

    def _of_whole(self, routes: Routes) -> Routes:
        return evolve(routes, links=self._links[routes.links])


_OF_LINKS = ("sources", "destinations", "bandwidths", "latencies", "energies", "tiers")

SEARCH_CELLS = 1 << 22
"""Nodes times sources searched at once: bounds the memory to some 40 MB."""

_REMEMBERED = 1 << 12
"""On a fabric of at most so many nodes searches are remembered, which takes 64 MB if there is one from each."""


def _searched(fabric: Fabric, source: int) -> NDArray[np.int32]:
    """Return the ``(nodes,)`` link by which a search from ``source`` first reaches each node, -1 where none does."""
    known = fabric.derived(_searches)
    reached = known.get(source)
    if reached is None:
        leaves = np.arange(len(fabric.kinds))
        found = _search(fabric, np.array([source]), np.zeros_like(leaves), leaves, reverse=False)
        reached = known[source] = found[0].astype(np.int32)
    return reached


def _searches(_fabric: Fabric) -> dict[int, NDArray[np.int32]]:
    return {}


def shortest_routes(fabric: Fabric, sources: IntArray, destinations: IntArray) -> tuple[Routes, BoolArray]:
    """Return shortest paths, and the ``(F,)`` mask of pairs that have none, whose path is empty."""
    parts, found, lacking = [], [], np.zeros(len(sources), dtype=bool)
    for roots, flows, rows in by_source(fabric, sources):
        offsets, links, lacking[flows] = _shortest(fabric, roots, rows, destinations[flows])
        parts.append(fabric.paths(offsets, links))
        found.append(flows)
    return merged(parts, found), lacking


def merged(parts: list[Routes], flows: list[IntArray]) -> Routes:
    """Return the routes of which ``flows[i]`` are those of ``parts[i]``; together they are all."""
    if not parts:
        return Routes.of([], [])
    order = np.concatenate(flows)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return Routes.concatenate(parts).select(place)


def by_source(fabric: Fabric, sources: IntArray) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
    """Yield distinct sources that are searched at once, the flows that leave them, and which of them each leaves."""
    order = np.argsort(sources, kind="stable")
    roots, first = np.unique(sources[order], return_index=True)
    bounds = np.append(first, len(order))
    block = max(1, SEARCH_CELLS // len(fabric.kinds))
    for low in range(0, len(roots), block):
        edges = bounds[low : low + block + 1]
        rows = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
        yield roots[low : low + block], order[edges[0] : edges[-1]], rows


def _nearest(fabric: Fabric, nodes: IntArray, sources: IntArray, destinations: IntArray) -> IntArray:
    """Return ``nodes`` that join all ends, nearest first: by hops to the farthest two ends, then latencies, number."""
    hops, latencies = np.zeros(len(nodes), dtype=np.intp), np.zeros(len(nodes))
    reachable = np.ones(len(nodes), dtype=bool)
    for leaves, reverse in ((sources, True), (destinations, False)):
        block = max(1, SEARCH_CELLS // (len(fabric.kinds) + len(leaves)))
        for low in range(0, len(nodes), block):
            part = slice(low, low + block)
            count = len(nodes[part])
            rows, ends = np.repeat(np.arange(count), len(leaves)), np.tile(leaves, count)
            offsets, walked, missing = _shortest(fabric, nodes[part], rows, ends, reverse=reverse)
            paths = fabric.paths(offsets, walked)
            hops[part] += np.diff(offsets).reshape(count, -1).max(axis=1)
            latencies[part] += paths.latencies.reshape(count, -1).max(axis=1)
            reachable[part] &= ~missing.reshape(count, -1).any(axis=1)
    order = np.lexsort((nodes, latencies, hops))
    return nodes[order[reachable[order]]]


def _shortest(
    fabric: Fabric, roots: IntArray, rows: IntArray, leaves: IntArray, *, reverse: bool = False
) -> tuple[IntArray, IntArray, BoolArray]:
    """Return offsets and links of shortest paths from ``roots[rows[f]]`` to ``leaves[f]`` or back, and which lack."""
    near = fabric.destinations if reverse else fabric.sources
    reached = _search(fabric, roots, rows, leaves, reverse=reverse)
    missing: BoolArray = (reached[rows, leaves] < 0) & (roots[rows] != leaves)
    flows = np.flatnonzero(~missing)
    nodes = leaves[flows]
    steps: list[tuple[IntArray, IntArray]] = []
    hops = np.zeros(len(rows), dtype=np.intp)
    while True:
        under_way = nodes != roots[rows[flows]]
        flows, nodes = flows[under_way], nodes[under_way]
        if not flows.size:
            break
        links = reached[rows[flows], nodes]
        steps.append((flows, links))
        hops[flows] += 1
        nodes = near[links]
    offsets = arrays.offsets(hops)
    path = np.empty(offsets[-1], dtype=np.intp)
    for step, (flows, links) in enumerate(steps):
        # The walk goes from leaf to root, the data the other way unless reversed.
        path[offsets[flows] + step if reverse else offsets[flows + 1] - 1 - step] = links
    return offsets, path, missing


def _search(fabric: Fabric, roots: IntArray, rows: IntArray, leaves: IntArray, *, reverse: bool) -> IntArray:
    """Return the ``(roots, nodes)`` link that first reaches each node (backwards if ``reverse``), -1 for none."""
    nodes = len(fabric.kinds)
    far, near = (fabric.sources, fabric.entering) if reverse else (fabric.destinations, fabric.leaving)
    reached = np.full((len(roots), nodes), -1, dtype=np.intp)
    seen = np.zeros(reached.shape, dtype=bool)
    row, node = np.arange(len(roots)), roots
    seen[row, node] = True
    # They end once each has found its leaves, so that traffic among neighbours stays cheap on a large fabric.
    while node.size and not seen[rows, leaves].all():
        links, degree = arrays.rows_of(*near, node)
        cell = np.repeat(row, degree) * nodes + far[links]
        fresh = ~seen.ravel()[cell]
        # The frontier is sorted, so the first link into a cell comes from the lowest node and is its lowest.
        cell, first = np.unique(cell[fresh], return_index=True)
        row, node = np.divmod(cell, nodes)
        reached[row, node] = links[fresh][first]
        seen[row, node] = True
    return reached
