"""How the nodes and links of a product of dimensions are numbered: shared by what builds them and what chooses them.

NPUs are numbered by place, dimension 0 fastest; links dimension by dimension, in an order that its class says.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from attrs import frozen

from fredfw.typing import IntArray

N = TypeVar("N", int, IntArray)
Series = tuple[N, N | int, N]
"""Of each flow, or of one, a run of links: the first, how much further the next one is, and how many there are."""


@frozen
class Axis(ABC):
    """The links along one dimension."""

    number: int  # which one it is, 0 for the innermost
    size: int  # positions along it
    stride: int  # difference of the places of neighbours
    npus: int  # number of places
    first: int  # number of its first link
    switch: int  # number of its first switch

    @property
    @abstractmethod
    def links(self) -> int:
        """How many it has."""

    @property
    def switches(self) -> int:
        return 0

    @property
    def position(self) -> IntArray:
        """``(NPUs,)`` position along it of each place."""
        return np.arange(self.npus) // self.stride % self.size

    @abstractmethod
    def ends(self) -> tuple[IntArray, IntArray]:
        """Return the ``(links,)`` nodes that its links leave and enter."""

    @abstractmethod
    def series(self, place: N, start: N, end: N) -> list[Series[N]]:
        """Return the links from one place at position ``start`` to position ``end``, or of many places likewise."""


@frozen
class _Ring(Axis):
    """A ring of 3 or more: the links up, by the place that they leave, then those down if it is ``two_way``.

    The shorter way is taken; half way round, up from even positions and down from odd ones, to load both alike.
    """

    two_way: bool

    @property
    def links(self) -> int:
        return self.npus * (2 if self.two_way else 1)

    def ends(self) -> tuple[IntArray, IntArray]:
        place, position = np.arange(self.npus), self.position
        around = (self.size - 1) * self.stride
        up = place + np.where(position == self.size - 1, -around, self.stride)
        if not self.two_way:
            return place, up
        down = place + np.where(position == 0, around, -self.stride)
        return np.concatenate([place, place]), np.concatenate([up, down])

    def series(self, place: N, start: N, end: N) -> list[Series[N]]:
        ahead = end - start
        ahead += (ahead < 0) * self.size
        down = (2 * ahead + (start & 1) > self.size) & self.two_way  # half way round it is up from an even position
        hops = ahead + down * (self.size - 2 * ahead)
        # To where the ring closes, and on from there.
        room = self.size - start + down * (2 * start + 1 - self.size)
        beyond = (hops - room) * (hops > room)
        step = self.stride * (1 - 2 * down)
        first = self.first + place + down * self.npus
        return [(first, step, hops - beyond), (first + (down * (self.size - 1) - start) * self.stride, step, beyond)]


@frozen
class _Line(Axis):
    """A line of 3 or more: the links up, by the place that they leave, then those back, in the same order."""

    @property
    def links(self) -> int:
        return self.npus // self.size * (self.size - 1) * 2

    def ends(self) -> tuple[IntArray, IntArray]:
        near = np.flatnonzero(self.position < self.size - 1)
        far = near + self.stride
        return np.concatenate([near, far]), np.concatenate([far, near])

    def series(self, place: N, start: N, end: N) -> list[Series[N]]:
        back = end < start
        # A place has that many places before it that have no link up.
        skipped = place // (self.size * self.stride) * self.stride
        first = self.first + place - skipped + back * (self.links // 2 - self.stride)
        return [(first, self.stride * (1 - 2 * back), abs(end - start))]


@frozen
class _Direct(Axis):
    """All joined to all, or two neighbours: links by the place that they leave, then by the position they lead to."""

    @property
    def links(self) -> int:
        return self.npus * (self.size - 1)

    def ends(self) -> tuple[IntArray, IntArray]:
        others = np.nonzero(~np.eye(self.size, dtype=bool))[1].reshape(self.size, self.size - 1)
        place, position = np.arange(self.npus), self.position
        ends = others[position]
        ends -= position[:, None]
        ends *= self.stride
        ends += place[:, None]
        return np.repeat(place, self.size - 1), ends.ravel()

    def series(self, place: N, start: N, end: N) -> list[Series[N]]:
        return [(self.first + place * (self.size - 1) + end - (end > start), 1, 1 * (end != start))]


@frozen
class _Switch(Axis):
    """A switch for each line of 2 or more places: the links up to it by place, then those down by place."""

    @property
    def links(self) -> int:
        return 2 * self.npus

    @property
    def switches(self) -> int:
        return self.npus // self.size

    def ends(self) -> tuple[IntArray, IntArray]:
        place = np.arange(self.npus)
        switch = self.switch + place // (self.stride * self.size) * self.stride + place % self.stride
        return np.concatenate([place, switch]), np.concatenate([switch, place])

    def series(self, place: N, start: N, end: N) -> list[Series[N]]:
        return [(self.first + place, self.npus + (end - start) * self.stride, 2 * (end != start))]


class Lattice:
    """A product of dimensions of a ``(kind, size, two_way)``; one of a single position has no links."""

    def __init__(self, dimensions: Sequence[tuple[str, int, bool]]) -> None:
        self.sizes = tuple(size for _, size, _ in dimensions)
        stride, first, axes = 1, 0, list[Axis]()
        self.npus = npus = switch = math.prod(self.sizes)
        for number, (kind, size, two_way) in enumerate(dimensions):
            where = number, size, stride, npus, first, switch
            axis: Axis
            if size == 1 or kind == "fully-connected" or (size == 2 and kind != "switch"):
                axis = _Direct(*where)
            elif kind == "ring":
                axis = _Ring(*where, two_way)
            else:
                axis = _Line(*where) if kind == "line" else _Switch(*where)
            axes.append(axis)
            stride, first, switch = stride * size, first + axis.links, switch + axis.switches
        self.axes = tuple(axes)  # one per dimension, innermost first
        self.links, self.switches = first, switch - npus  # the nodes of switches come after the NPUs

    def coordinates(self) -> IntArray:
        """Return the ``(NPUs, dimensions)`` positions of the places."""
        return np.stack(np.unravel_index(np.arange(self.npus), self.sizes, order="F"), axis=1)
