"""All shortest paths at once, on any fabric, without a Python loop over flows."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from attrs import evolve, frozen

from fredfw import arrays, units
from fredfw.errors import UnsupportedError
from fredfw.fabric.fabric import Fabric, NodeKind
from fredfw.fabric.flows import Operation, Routes
from fredfw.fabric.routing import Router, ShortestPathRouter, by_source, merged, no_path, shortest_routes
from fredfw.typing import FloatArray, IntArray

_FLOWS = 1 << 15
"""Followed back at once: bounds the memory where they have many paths."""


@frozen
class MultipathRouter(Router):
    """Spreads the flow of each pair evenly over all its shortest paths, as packet spraying does. Fits every fabric.

    Each path of fewest hops carries the same share. A route takes as long as the slowest of its paths. Trees are those
    of the router ``shortest-path``.
    """

    name: ClassVar[str] = "multipath"

    through_npus: bool = units.flag(
        True, help="whether NPUs forward what is for others, or only where there is no other way"
    )

    def route(self, fabric: Fabric, sources: IntArray, destinations: IntArray) -> Routes:
        """See ``Router.route``; raises ``UnsupportedError`` where there is no path."""
        if self.through_npus:
            return self._spread(fabric, sources, destinations)
        apart, ends = fabric.derived(_with_ends)
        targets = np.where(sources == destinations, destinations, ends[destinations])
        try:
            return self._spread(apart, sources, targets)
        except UnsupportedError:
            lacking = shortest_routes(apart, sources, targets)[1]
        around, through = np.flatnonzero(~lacking), np.flatnonzero(lacking)
        first = self._spread(apart, sources[around], targets[around])
        return merged([first, self._spread(fabric, sources[through], destinations[through])], [around, through])

    @staticmethod
    def _spread(fabric: Fabric, sources: IntArray, destinations: IntArray) -> Routes:
        parts, found = [], []
        for roots, flows, rows in by_source(fabric, sources):
            search = _search(fabric, roots, destinations[flows])
            for low in range(0, len(flows), _FLOWS):
                part = slice(low, low + _FLOWS)
                parts.append(_routes_back(fabric, roots, *search, rows[part], destinations[flows[part]]))
                found.append(flows[part])
        return merged(parts, found)

    def tree(self, fabric: Fabric, sources: IntArray, destinations: IntArray, operation: Operation) -> Routes:
        return ShortestPathRouter().tree(fabric, sources, destinations, operation)


def _search(fabric: Fabric, roots: IntArray, leaves: IntArray) -> tuple[IntArray, FloatArray]:
    """Return the ``(roots, nodes)`` hops, -1 beyond all ``leaves``, and how many ways of so many there are."""
    nodes = len(fabric.kinds)
    hops, ways = np.full((len(roots), nodes), -1), np.zeros((len(roots), nodes))
    wanted = np.unique(leaves)
    row, node, far = np.arange(len(roots)), roots, 0
    hops[row, node], ways[row, node] = 0, 1.0
    while node.size and (hops[:, wanted] < 0).any():
        far += 1
        links, degree = arrays.rows_of(*fabric.leaving, node)
        cell = np.repeat(row, degree) * nodes + fabric.destinations[links]
        fresh = hops.ravel()[cell] < 0
        counts = np.repeat(ways[row, node], degree)[fresh]
        cell, of = np.unique(cell[fresh], return_inverse=True)
        row, node = np.divmod(cell, nodes)
        hops[row, node], ways[row, node] = far, arrays.totals(of, counts, len(cell))
    return hops, ways


def _routes_back(
    fabric: Fabric, roots: IntArray, hops: IntArray, ways: FloatArray, rows: IntArray, leaves: IntArray
) -> Routes:
    """Return the routes from ``roots[rows[f]]`` to ``leaves[f]``; the links of each are in the order of their way."""
    nodes, count = len(fabric.kinds), len(rows)
    lost = hops[rows, leaves] < 0
    if lost.any():
        raise no_path(fabric, roots[rows[lost][0]], leaves[lost][0])
    flow, node, share, seconds = np.arange(count), leaves, np.ones(count), np.zeros(count)
    latencies = np.zeros(count)
    none = np.zeros(0, dtype=np.intp)
    steps: list[tuple[IntArray, IntArray, FloatArray]] = [(none, none, np.zeros(0))]
    while True:
        there = hops[rows[flow], node] == 0
        latencies[flow[there]] = seconds[there]
        flow, node, share, seconds = (one[~there] for one in (flow, node, share, seconds))
        if not flow.size:
            break
        links, degree = arrays.rows_of(*fabric.entering, node)
        of = np.repeat(np.arange(len(flow)), degree)
        near = fabric.sources[links]
        row = rows[flow[of]]
        closer = hops[row, near] == hops[row, node[of]] - 1
        links, of, near, row = links[closer], of[closer], near[closer], row[closer]
        part = share[of] * ways[row, near] / ways[row, node[of]]
        steps.append((flow[of], links, part))
        cell, group = np.unique(flow[of] * nodes + near, return_inverse=True)
        longest = np.zeros(len(cell))
        np.maximum.at(longest, group, seconds[of] + fabric.latencies[links])
        flow, node = np.divmod(cell, nodes)
        share, seconds = arrays.totals(group, part, len(cell)), longest
    flows, found, shares = (np.concatenate(column) for column in zip(*reversed(steps), strict=True))
    along = np.argsort(flows, kind="stable")  # the last step was found first
    return Routes(arrays.offsets(np.bincount(flows, minlength=count)), found[along], latencies, shares[along])


def _with_ends(fabric: Fabric) -> tuple[Fabric, IntArray]:
    """Return links of which those into an NPU end at a node that none leaves, and where messages to each node go."""
    nodes, npus = len(fabric.kinds), fabric.npus
    ends = np.arange(nodes)
    ends[npus] = nodes + np.arange(len(npus))
    apart = evolve(
        fabric,
        kinds=np.append(fabric.kinds, np.full(len(npus), NodeKind.SWITCH)),
        destinations=ends[fabric.destinations],
        copies=np.append(fabric.copies, fabric.copies[npus]),
        reduces=np.append(fabric.reduces, fabric.reduces[npus]),
        node_names=lambda node: fabric.node_name(node if node < nodes else int(npus[node - nodes])),
    )
    return apart, ends
