"""Dimension-ordered routes and trees on a torus, without a Python loop over flows."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from attrs import frozen

from fredfw import Fabric, Operation, Router, Routes
from fredfw.errors import UnsupportedError
from fredfw.typing import BoolArray, IntArray
from fredfw_topology_torus.geometry import neighbours


@frozen
class DimensionOrderRouter(Router):
    """Routes along dimension 0, then 1, and so on, the shorter way around each ring; for tori.

    Exactly half way round, from an even position upwards and from an odd one downwards, so that these ties load both
    ways alike; one-way rings are always gone round upwards (dimension-order routing: Dally and Towles, "Principles and
    Practices of Interconnection Networks", 2004, section 8.4.2). A multicast or reduction is the union of such paths.
    """

    name: ClassVar[str] = "dimension-order"

    def route(self, fabric: Fabric, sources: IntArray, destinations: IntArray) -> Routes:
        """See ``Router.route``."""
        return fabric.paths(*fabric.derived(_Rings.of).walk(sources, destinations))

    def path(self, fabric: Fabric, source: int, destination: int) -> Routes:
        """See ``Router.path``."""
        return fabric.path(fabric.derived(_Rings.of).walk_one(source, destination))

    def tree(self, fabric: Fabric, sources: IntArray, destinations: IntArray, operation: Operation) -> Routes:
        """See ``Router.tree``; two of these paths with a common end never part and meet again, so they are a tree."""
        if operation is Operation.ALL_REDUCE:
            raise UnsupportedError(
                f"the dimension-order router has no all-reduce tree on fabric {fabric.name!r}",
                accepted="multicast or reduce",
            )
        paths = self.route(fabric, *np.broadcast_arrays(sources, destinations))
        return Routes.of([np.unique(paths.links)], [float(paths.latencies.max(initial=0.0))])


@frozen(eq=False)
class _Rings:
    """The geometry of a torus of ``d`` dimensions, as far as routes need it.

    Args:
        sizes: ``(d,)`` positions along each dimension.
        two_way: ``(d,)`` whether a dimension may be gone along downwards.
        coordinates: ``(d, nodes)`` position of each node.
        place: ``(nodes,)`` number of that position, with the first dimension fastest.
        links: Link ids, ``2 d`` tables one after the other, by place: to the next
            position along each dimension, then to the previous one along each.
    """

    sizes: IntArray
    two_way: BoolArray
    coordinates: IntArray
    place: IntArray
    links: IntArray

    @classmethod
    def of(cls, fabric: Fabric) -> _Rings:
        """Derive it from the levels and the coordinates."""
        levels, coordinates = fabric.levels, fabric.coordinates
        sizes = [level.size for level in levels]
        closed = all(level.kind == "ring" or (level.kind == "line" and level.size <= 2) for level in levels)
        full = coordinates is not None and len(fabric.kinds) == len(coordinates) == np.prod(sizes)
        if coordinates is None or not levels or not closed or not full:
            raise UnsupportedError(
                f"the dimension-order router cannot route fabric {fabric.name!r}",
                accepted="a torus: levels of rings (or lines of 2) full of NPUs, and no other nodes",
            )
        two_way = np.array([level.two_way for level in levels])
        place = np.ravel_multi_index(tuple(coordinates.T), sizes, order="F")
        nodes = np.empty(len(coordinates), dtype=np.intp)
        nodes[place] = fabric.npus
        links = np.full((2, len(sizes), len(nodes)), -1)
        for dimension, size in enumerate(sizes):
            for table, step in ((0, 1), (1, -1)):
                if size > 1 and (step == 1 or two_way[dimension]):
                    links[table, dimension] = fabric.links_between(nodes, nodes[neighbours(sizes, dimension, step)])
        return cls(np.array(sizes), two_way, np.ascontiguousarray(coordinates.T), place, links.ravel())

    def walk(self, sources: IntArray, destinations: IntArray) -> tuple[IntArray, IntArray]:
        """Return offsets and links of the dimension-ordered path of each pair of nodes."""
        nodes, dimensions = len(self.place), len(self.sizes)
        # A path is two arithmetic series in the table of links per dimension, up to where the ring closes and on from
        # there: first entry, step, length.
        series: list[tuple[IntArray, IntArray, IntArray]] = []
        place = self.place[sources]
        for dimension, size in enumerate(self.sizes.tolist()):
            start, end = self.coordinates[dimension, sources], self.coordinates[dimension, destinations]
            if np.array_equal(start, end):
                continue
            ahead = (end - start) % size
            back = size - ahead
            down = self.two_way[dimension] & ((back < ahead) | ((back == ahead) & (start % 2 == 1)))
            hops = np.where(down, back, ahead)
            until = np.minimum(hops, np.where(down, start + 1, size - start))
            stride = int(self.sizes[:dimension].prod())
            step = np.where(down, -stride, stride)
            first = (down * dimensions + dimension) * nodes + place
            series.append((first, step, until))
            if (until < hops).any():
                series.append((first + np.where(down, size - 1 - start, -start) * stride, step, hops - until))
            place += (end - start) * stride
        if not series:
            return np.zeros(len(sources) + 1, dtype=np.intp), self.links[:0]
        first, step, length = (np.array(part).T.ravel() for part in zip(*series, strict=True))
        finish = np.cumsum(length)
        # Entry k of a series that begins at b is first + (k - b) * step.
        entry = np.repeat(first - (finish - length) * step, length)
        entry += np.repeat(step, length) * np.arange(len(entry))
        return np.concatenate([[0], finish[len(series) - 1 :: len(series)]]), self.links[entry]

    def walk_one(self, source: int, destination: int) -> IntArray:
        """Return the links of the path of one pair of nodes, as ``walk`` does for many."""
        nodes, dimensions, stride = len(self.place), len(self.sizes), 1
        place, entry = int(self.place[source]), list[int]()
        starts, ends = self.coordinates[:, source].tolist(), self.coordinates[:, destination].tolist()
        ways = zip(self.sizes.tolist(), self.two_way.tolist(), starts, ends, strict=True)
        for dimension, (size, two_way, start, end) in enumerate(ways):
            ahead = (end - start) % size
            back = size - ahead
            if ahead and two_way and (back < ahead or (back == ahead and start % 2 == 1)):
                hops, until, step, table, around = back, start + 1, -stride, dimensions, size
            else:
                hops, until, step, table, around = ahead, size - start, stride, 0, -size
            first = (table + dimension) * nodes + place
            until = min(until, hops)
            entry += range(first, first + until * step, step)
            first += around * stride  # behind where the ring closes
            entry += range(first + until * step, first + hops * step, step)
            place += (end - start) * stride
            stride *= size
        return self.links[entry]
