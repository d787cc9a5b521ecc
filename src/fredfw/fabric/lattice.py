"""How the nodes and links of a product of dimensions are numbered: shared by what builds them and what chooses them.

NPUs are numbered with dimension 0 fastest, and their number is their place. The links come dimension by dimension; the
class of a dimension says in which order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
from attrs import frozen

from fredfw.typing import IntArray

Series = tuple[IntArray, IntArray | int, IntArray]
"""Of each flow, a run of links: the first, how much further the next one is, and how many there are."""


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
        """How many it has."""
        return 0

    @property
    def position(self) -> IntArray:
        """``(NPUs,)`` position along it of each place."""
        return np.arange(self.npus) // self.stride % self.size

    @abstractmethod
    def ends(self) -> tuple[IntArray, IntArray]:
        """Return the ``(links,)`` nodes that its links leave and enter."""

    @abstractmethod
    def series(self, place: IntArray, start: IntArray, end: IntArray) -> list[Series]:
        """Return the links from ``(F,)`` places at position ``start`` to position ``end``."""

    @abstractmethod
    def hops(self, place: int, start: int, end: int) -> Iterable[int]:
        """Return the links from ``place`` at position ``start`` to another position, as ``series`` does for many."""


@frozen
class _Ring(Axis):
    """A ring of 3 or more: the links up, by the place that they leave, then those down if it is ``two_way``.

    The shorter way is taken. Exactly half way round it is up from an even position and down from an odd one, so that
    these ties load both ways alike.
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

    def series(self, place: IntArray, start: IntArray, end: IntArray) -> list[Series]:
        # Up to where the ring closes, and on from there.
        ahead = end - start
        ahead += (ahead < 0) * self.size
        if not self.two_way:
            until = np.minimum(ahead, self.size - start)
            first = self.first + place
            return _wrapped(first, self.stride, until, first - start * self.stride, ahead - until)
        down = 2 * ahead + (start & 1) > self.size  # half way round it is up from an even position
        hops = np.where(down, self.size - ahead, ahead)
        until = np.minimum(hops, np.where(down, start + 1, self.size - start))
        step = np.where(down, -self.stride, self.stride)
        first = self.first + place + down * self.npus
        again = first + (np.where(down, self.size - 1, 0) - start) * self.stride
        return _wrapped(first, step, until, again, hops - until)

    def hops(self, place: int, start: int, end: int) -> Iterable[int]:
        ahead, stride, size, first = (end - start) % self.size, self.stride, self.size, self.first + place
        if self.two_way and 2 * ahead + (start & 1) > size:
            first += self.npus
            last = first - (size - ahead) * stride
            if end <= start:
                return range(first, last, -stride)
            closes = first - (start + 1) * stride
            around = size * stride
            return (*range(first, closes, -stride), *range(closes + around, last + around, -stride))
        last = first + ahead * stride
        if end >= start:
            return range(first, last, stride)
        closes = first + (size - start) * stride
        around = size * stride
        return (*range(first, closes, stride), *range(closes - around, last - around, stride))


def _wrapped(first: IntArray, step: IntArray | int, until: IntArray, again: IntArray, beyond: IntArray) -> list[Series]:
    series: list[Series] = [(first, step, until)]
    return [*series, (again, step, beyond)] if beyond.any() else series


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

    def series(self, place: IntArray, start: IntArray, end: IntArray) -> list[Series]:
        ahead = end - start
        way = np.sign(ahead)
        # A place has that many places before it that have no link up.
        skipped = place // (self.size * self.stride) * self.stride
        first = self.first + place - skipped + (way < 0) * (self.links // 2 - self.stride)
        return [(first, way * self.stride, np.abs(ahead))]

    def hops(self, place: int, start: int, end: int) -> Iterable[int]:
        stride = self.stride
        first = self.first + place - place // (self.size * stride) * stride
        if end > start:
            return range(first, first + (end - start) * stride, stride)
        first += self.npus // self.size * (self.size - 1) - stride
        return range(first, first + (end - start) * stride, -stride)


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

    def series(self, place: IntArray, start: IntArray, end: IntArray) -> list[Series]:
        first = self.first + place * (self.size - 1) + end - (end > start)
        return [(first, 0, (end != start).astype(np.intp))]

    def hops(self, place: int, start: int, end: int) -> Iterable[int]:
        return (self.first + place * (self.size - 1) + end - (end > start),)


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

    def series(self, place: IntArray, start: IntArray, end: IntArray) -> list[Series]:
        apart = end - start
        return [(self.first + place, self.npus + apart * self.stride, 2 * (apart != 0).astype(np.intp))]

    def hops(self, place: int, start: int, end: int) -> Iterable[int]:
        up = self.first + place
        return up, up + self.npus + (end - start) * self.stride


@frozen
class Lattice:
    """A product of dimensions."""

    axes: tuple[Axis, ...]  # one per dimension, innermost first

    @classmethod
    def of(cls, dimensions: Sequence[tuple[str, int, bool]]) -> Lattice:
        """Return the product of dimensions of a ``(kind, size, two_way)``; one of a single position has no links."""
        npus, stride, first, axes = 1, 1, 0, list[Axis]()
        for _, size, _ in dimensions:
            npus *= size
        switch = npus
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
        return cls(tuple(axes))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Positions along each dimension."""
        return tuple(axis.size for axis in self.axes)

    @property
    def npus(self) -> int:
        """Number of NPUs."""
        return self.axes[0].npus

    @property
    def switches(self) -> int:
        """Number of switches, which are the nodes after the NPUs."""
        return sum(axis.switches for axis in self.axes)

    @cached_property
    def links(self) -> int:
        """Number of links."""
        return sum(axis.links for axis in self.axes)

    def coordinates(self) -> IntArray:
        """Return the ``(NPUs, dimensions)`` positions of the places."""
        return np.stack(np.unravel_index(np.arange(self.npus), self.sizes, order="F"), axis=1)
