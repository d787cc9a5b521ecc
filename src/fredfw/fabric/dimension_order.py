"""Dimension-ordered routes and trees on products of dimensions, without a Python loop over flows."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from attrs import frozen

from fredfw import arrays, units
from fredfw.errors import InputError, UnsupportedError
from fredfw.fabric.fabric import Fabric, NodeKind
from fredfw.fabric.flows import Operation, Routes
from fredfw.fabric.lattice import Axis, Lattice, Series
from fredfw.fabric.routing import Router, tree_of_paths
from fredfw.typing import IntArray

# Routes of so many links are laid out link by link.
_FEW = 8


@frozen
class DimensionOrderRouter(Router):
    """Routes along dimension 0, then 1, and so on; for products of rings, lines, full meshes and switches.

    A message goes the shorter way around each ring. Exactly half way round, it goes upwards from an even position and
    downwards from an odd one, so that these ties load both ways alike; one-way rings are always gone round upwards
    (dimension-order routing: Dally and Towles, "Principles and Practices of Interconnection Networks", 2004, section
    8.4.2). A multicast or reduction is the union of such paths. A controller or memory may be attached to an NPU by one
    link each way, which its messages cross at the beginning or the end.
    """

    name: ClassVar[str] = "dimension-order"

    order: tuple[int, ...] | None = units.option(
        None, help="dimensions in the order in which a message goes along them; default: 0, 1, 2, ..., innermost first"
    )

    def route(self, fabric: Fabric, sources: IntArray, destinations: IntArray) -> Routes:
        ways = fabric.derived(_Ways)
        return fabric.paths(*ways.walk(sources, destinations, self._axes(ways)))

    def path(self, fabric: Fabric, source: int, destination: int) -> Routes:
        ways = fabric.derived(_Ways)
        return fabric.path(ways.walk_one(source, destination, self._axes(ways)))

    def tree(self, fabric: Fabric, sources: IntArray, destinations: IntArray, operation: Operation) -> Routes:
        """See ``Router.tree``; two of these paths with a common end never part and meet again, so they are a tree."""
        if operation is Operation.ALL_REDUCE:
            message = f"the dimension-order router has no all-reduce tree on fabric {fabric.name!r}"
            raise UnsupportedError(message, accepted="multicast or reduce")
        paths = self.route(fabric, *np.broadcast_arrays(sources, destinations))
        return tree_of_paths(fabric, paths, sources, destinations, operation)

    def _axes(self, ways: _Ways) -> tuple[Axis, ...]:
        axes = ways.lattice.axes
        if self.order is None:
            return axes
        if sorted(self.order) != list(range(len(axes))):
            message = f"{list(self.order)} does not name each of the {len(axes)} dimensions once"
            raise InputError(message, key="order", accepted=f"the numbers 0 to {len(axes) - 1} in any order")
        return tuple(axes[number] for number in self.order)


class _Ways:
    """A fabric as a product of dimensions, as far as routes need it; ``UnsupportedError`` if it is something else."""

    def __init__(self, fabric: Fabric) -> None:
        levels, coordinates = fabric.levels, fabric.coordinates
        if coordinates is None or not levels:
            raise _not_a_product(fabric)
        self.lattice = lattice = Lattice([(level.kind, level.size, level.two_way) for level in levels])
        switches = np.flatnonzero(fabric.kinds == NodeKind.SWITCH)
        attached = np.flatnonzero((fabric.kinds != NodeKind.SWITCH) & (fabric.kinds != NodeKind.NPU))
        if (len(fabric.npus), len(switches)) != (lattice.npus, lattice.switches) or (
            len(fabric.sources) != lattice.links + 2 * len(attached)
        ):
            raise _not_a_product(fabric)
        # (nodes,) place of each NPU, or of the NPU that a controller or memory is attached to; -1 of a switch
        self.place = place = np.full(len(fabric.kinds), -1)
        place[fabric.npus] = np.ravel_multi_index(tuple(coordinates.T), lattice.sizes, order="F")
        nodes = np.empty(lattice.npus + lattice.switches, dtype=np.intp)
        nodes[place[fabric.npus]], nodes[lattice.npus :] = fabric.npus, switches
        # id of each link of the product, then of those from each gate and to each gate; None if these are the numbers
        self.links = _numbered(fabric, lattice, nodes)
        self.gate: IntArray | None = None  # (nodes,) number of the controller or memory, -1 for others; None without
        self.gates = len(attached)
        if self.gates:
            (first_out, out), (first_in, into) = fabric.leaving, fabric.entering
            if (np.diff(first_out)[attached] != 1).any() or (np.diff(first_in)[attached] != 1).any():
                raise _not_a_product(fabric)
            enter, leave = out[first_out[attached]], into[first_in[attached]]
            doors = fabric.destinations[enter]
            if (fabric.sources[leave] != doors).any() or (place[doors] < 0).any():
                raise _not_a_product(fabric)
            place[attached] = place[doors]
            self.gate = np.full(len(place), -1)
            self.gate[attached] = np.arange(self.gates)
            links = np.arange(lattice.links) if self.links is None else self.links
            self.links = np.concatenate([links, enter, leave])
        # (dimensions, nodes) where the place is along each dimension
        self.position = np.stack([place // axis.stride % axis.size for axis in lattice.axes])

    def walk(self, sources: IntArray, destinations: IntArray, axes: tuple[Axis, ...]) -> tuple[IntArray, IntArray]:
        """Return offsets and links of the path of each pair of nodes, along ``axes`` in that order."""
        place = self.place[sources]
        if self.lattice.switches and min(place.min(initial=0), self.place[destinations].min(initial=0)) < 0:
            raise UnsupportedError("the dimension-order router routes no messages of switches", accepted="NPUs")
        runs = self._at_gates(sources, destinations, self.lattice.links)
        for axis in axes:
            position = self.position[axis.number]
            start, end = position[sources], position[destinations]
            if (start == end).all():
                continue
            runs += [run for run in axis.series(place, start, end) if run[2].any()]
            place = place + (end - start) * axis.stride
        runs += self._at_gates(destinations, sources, self.lattice.links + self.gates)
        offsets, numbers = _joined(runs, len(sources))
        return offsets, numbers if self.links is None else self.links[numbers]

    def _at_gates(self, nodes: IntArray, others: IntArray, first: int) -> list[Series[IntArray]]:
        """Return the links between ``nodes`` that are gates and their NPUs, on the ways between them and ``others``."""
        if self.gate is None:
            return []
        gate = self.gate[nodes]
        used = gate >= 0
        return [(first + gate, 1, 1 * (used & (nodes != others)))] if used.any() else []

    def walk_one(self, source: int, destination: int, axes: tuple[Axis, ...]) -> IntArray:
        place, goal, gate = self.place.item(source), self.place.item(destination), self.gate
        if place < 0 or goal < 0:
            return self.walk(np.array([source]), np.array([destination]), axes)[1]
        numbers = list[int]()
        if gate is not None and source != destination and (enters := gate.item(source)) >= 0:
            numbers.append(self.lattice.links + enters)
        for axis in axes:
            stride, size = axis.stride, axis.size
            start, end = place // stride % size, goal // stride % size
            if start != end:
                for first, step, count in axis.series(place, start, end):
                    numbers += range(first, first + step * count, step)
                place += (end - start) * stride
        if gate is not None and source != destination and (leaves := gate.item(destination)) >= 0:
            numbers.append(self.lattice.links + self.gates + leaves)
        links = np.array(numbers, dtype=np.intp)
        return links if self.links is None else self.links[links]


def _numbered(fabric: Fabric, lattice: Lattice, nodes: IntArray) -> IntArray | None:
    """Return the id of each link of the product whose nodes are ``nodes``, or ``None`` if it is its number."""
    counted = np.array_equal(nodes, np.arange(len(nodes)))
    ids = []
    for axis in lattice.axes:
        part = slice(axis.first, axis.first + axis.links)
        near, far = axis.ends()
        if not counted:
            near, far = nodes[near], nodes[far]
        elif np.array_equal(near, fabric.sources[part]) and np.array_equal(far, fabric.destinations[part]):
            ids.append(np.arange(part.start, part.stop))
            continue
        counted = False
        try:
            ids.append(fabric.links_between(near, far))
        except InputError:
            raise _not_a_product(fabric) from None
    return None if counted else np.concatenate(ids)


def _not_a_product(fabric: Fabric) -> UnsupportedError:
    accepted = "levels full of NPUs whose links are exactly those of rings, lines, full meshes and switches"
    return UnsupportedError(f"the dimension-order router cannot route fabric {fabric.name!r}", accepted=accepted)


def _joined(runs: list[Series[IntArray]], flows: int) -> tuple[IntArray, IntArray]:
    """Return the offsets of ``flows`` and their links: of each, those of ``runs`` one after the other."""
    if not runs:
        return np.zeros(flows + 1, dtype=np.intp), np.zeros(0, dtype=np.intp)
    columns = _columns(runs)
    if columns is not None:
        return np.arange(0, flows * len(columns) + 1, len(columns)), np.stack(columns, axis=1).ravel()
    first, step, count = (np.empty((flows, len(runs)), dtype=np.intp) for _ in range(3))
    for number, run in enumerate(runs):
        first[:, number], step[:, number], count[:, number] = run
    offsets = arrays.offsets(count.sum(axis=1))
    used = count > 0
    first, step, count = first[used], step[used], count[used]
    # Running totals of differences: the step within a run, the way from its end to the next one between them.
    links = np.repeat(step, count)
    begin = np.cumsum(count) - count
    links[begin] = first
    links[begin[1:]] -= first[:-1] + (count[:-1] - 1) * step[:-1]
    return offsets, np.cumsum(links, out=links)


def _columns(runs: list[Series[IntArray]]) -> list[IntArray] | None:
    """Return the links of flows, first to last, if all have as many in each of ``runs``, and few; else ``None``."""
    columns: list[IntArray] = []
    for first, step, count in runs:
        each = int(count[0])
        if not 0 < each + len(columns) <= _FEW or (count != each).any():
            return None
        columns += [first + step * link if link else first for link in range(each)]
    return columns
