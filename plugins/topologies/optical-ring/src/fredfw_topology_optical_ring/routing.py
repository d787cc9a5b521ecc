"""Shortest arcs on a ring of two directions, without a Python loop over flows."""

from typing import ClassVar

import numpy as np
from attrs import evolve, frozen

from fredfw import Fabric, Operation, Router, Routes, units
from fredfw.errors import UnsupportedError
from fredfw.typing import IntArray


def ring_links(nodes: int) -> tuple[IntArray, IntArray]:
    """Return the ends of links: ``i`` is from node ``i`` to ``i + 1``, ``nodes + i`` from node ``i`` to ``i - 1``."""
    node = np.arange(nodes)
    return np.tile(node, 2), np.concatenate([(node + 1) % nodes, (node - 1) % nodes])


@frozen
class ShortestArcRouter(Router):
    """Routes the shorter way around; flows to the opposite node alternate in order of source.

    The first of them goes clockwise. Always clockwise would load one direction alone: an all-to-all among eight would
    need 10 wavelengths instead of 8.
    """

    name: ClassVar[str] = "shortest-arc"

    oeo_latency: float = units.duration(0.0, help="of a transfer's conversions between electrical and optical")

    def route(self, fabric: Fabric, sources: IntArray, destinations: IntArray) -> Routes:
        nodes = fabric.derived(_nodes)
        ahead = (destinations - sources) % nodes
        clockwise = 2 * ahead < nodes
        tied = np.flatnonzero(2 * ahead == nodes)
        clockwise[tied[np.argsort(sources[tied], kind="stable")][::2]] = True
        hops = np.where(clockwise, ahead, nodes - ahead)
        offsets = np.zeros(len(hops) + 1, dtype=np.intp)
        np.cumsum(hops, out=offsets[1:])
        # Step k of a path leaves node source + k or source - k.
        step = np.arange(offsets[-1]) - np.repeat(offsets[:-1], hops)
        step *= np.repeat(np.where(clockwise, 1, -1), hops)
        links = (np.repeat(sources, hops) + step) % nodes + np.repeat(np.where(clockwise, 0, nodes), hops)
        routes = fabric.paths(offsets, links)
        return evolve(routes, latencies=routes.latencies + self.oeo_latency * (hops > 0))

    def tree(self, fabric: Fabric, sources: IntArray, destinations: IntArray, operation: Operation) -> Routes:
        """See ``Router.tree``; a circuit has two ends, so a tree must be a single path."""
        if len(sources) != 1 or len(destinations) != 1:
            which = f"{operation.value} tree from {len(sources)} to {len(destinations)} nodes of {fabric.name!r}"
            raise UnsupportedError(f"the shortest-arc router has no {which}", accepted="one source and one destination")
        return self.route(fabric, sources, destinations)


def _nodes(fabric: Fabric) -> int:
    nodes = len(fabric.kinds)
    expected = ring_links(nodes)
    actual = fabric.sources, fabric.destinations
    if not all(np.array_equal(one, other) for one, other in zip(actual, expected, strict=True)):
        accepted = "a ring of clockwise and then counter-clockwise links, as optical-ring builds it"
        raise UnsupportedError(f"the shortest-arc router cannot route fabric {fabric.name!r}", accepted=accepted)
    return nodes
