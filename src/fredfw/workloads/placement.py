"""Where workers go: the interface, and the placements that fit every fabric."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from attrs import frozen

from fredfw.answers import Asking, Kind, Method
from fredfw.errors import InputError, nearest
from fredfw.fabric import Fabric
from fredfw.typing import IntArray
from fredfw.units import counted, option
from fredfw.workloads.mesh import DeviceMesh


class Placement(ABC):
    """Assigns worker ranks to NPUs; plugins derive attrs classes from it."""

    name: ClassVar[str]

    @abstractmethod
    def order(self, fabric: Fabric, mesh: DeviceMesh) -> IntArray:
        """Return ``(workers or more,)`` NPU numbers: rank ``r`` goes to the ``r``-th. No NPU may appear twice."""

    def assign(self, fabric: Fabric, mesh: DeviceMesh) -> IntArray:
        """Return the ``(workers,)`` NPU number of each rank; ``InputError`` where there are more workers than NPUs."""
        npus = len(fabric.npus)
        if mesh.ranks > npus:
            message = f"{mesh} needs {counted(mesh.ranks, 'NPU')}, but fabric {fabric.name!r} has {npus}"
            raise InputError(message, accepted=f"axes whose product is at most {npus}")
        return _order(self, fabric, mesh)[: mesh.ranks]


def check_places(asked: Asking, answer: IntArray, _: Placement, fabric: Fabric, mesh: DeviceMesh) -> None:
    workers, npus = mesh.ranks, len(fabric.npus)
    if len(answer) < workers:
        raise asked.wrong(f"returned {counted(len(answer), 'NPU')}", f"{workers} or more, one for each rank")
    outside = answer[(answer < 0) | (answer >= npus)]
    if outside.size:
        raise asked.wrong(f"returned NPU {outside[0]}", f"NPUs 0 to {npus - 1}")
    numbers, counts = np.unique(answer, return_counts=True)
    if (counts > 1).any():
        raise asked.wrong(f"returned NPU {numbers[counts > 1][0]} twice", "every NPU at most once")


NPUS = Kind[IntArray](
    "an array of NPU numbers",
    lambda answer: isinstance(answer, np.ndarray) and answer.ndim == 1 and answer.dtype.kind in "iu",
)
_order = Method(Placement.order, NPUS, check_places)


def places_within(placement: Placement, fabric: Fabric, mesh: DeviceMesh, npus: IntArray) -> IntArray:
    """Return the ``(workers,)`` NPU number of each rank of ``mesh`` by ``placement``, all among sorted ``npus``.

    In its order, where that has enough of them; else the k-th lowest NPU that it would use is the k-th of ``npus``.
    """
    order = _order(placement, fabric, mesh)
    inside = order[np.isin(order, npus)]
    if len(inside) >= mesh.ranks:
        return inside[: mesh.ranks]
    used = order[: mesh.ranks]
    places: IntArray = npus[np.searchsorted(np.sort(used), used)]
    return places


@frozen
class LinearPlacement(Placement):
    """Rank r on NPU r: MP groups on consecutive NPUs, then pipeline stages, then replicas (FRED's placement)."""

    name: ClassVar[str] = "linear"

    def order(self, fabric: Fabric, mesh: DeviceMesh) -> IntArray:
        return np.arange(len(fabric.npus))


def placement_of(fabric: Fabric) -> Placement:
    return fabric.defaults.placement or LinearPlacement()


@frozen
class MegatronPlacement(Placement):
    """Pipeline stages outermost, all other axes in their order: MP groups, then replicas (Megatron-LM's order)."""

    name: ClassVar[str] = "megatron"

    def order(self, fabric: Fabric, mesh: DeviceMesh) -> IntArray:
        return np.argsort(mesh.groups(*(axis for axis in mesh.axes if axis != "pp")).ravel())


@frozen
class NestedPlacement(Placement):
    """Axes of the workload nested in another order, such as data-parallel groups on consecutive NPUs."""

    name: ClassVar[str] = "nested"

    axes: tuple[str, ...] = option(help="axes of the workload, the innermost first; others follow in their own order")

    def __attrs_post_init__(self) -> None:
        if not self.axes:
            raise InputError("names no axis", key="axes", accepted='axes of the workload, such as ["dp", "mp"]')

    def order(self, fabric: Fabric, mesh: DeviceMesh) -> IntArray:
        """Raise ``InputError`` where the workload has no such axis, or one is named twice."""
        for index, axis in enumerate(self.axes):
            if axis not in mesh.axes:
                message = f"the workload has no axis {axis!r}{nearest(axis, mesh.axes)}"
                raise InputError(message, key=f"axes[{index}]", accepted=", ".join(mesh.axes) or "no axes")
            if axis in self.axes[:index]:
                raise InputError(f"{axis!r} is named twice", key=f"axes[{index}]", accepted="each axis once")
        outermost = list(mesh.axes)[::-1]
        nested = [*(axis for axis in outermost if axis not in self.axes), *reversed(self.axes)]
        return np.argsort(mesh.grid.transpose([outermost.index(axis) for axis in nested]).ravel())


@frozen
class SnakePlacement(Placement):
    """Ranks in a snake through the fabric's levels, so that consecutive ranks are neighbours.

    On a mesh this keeps MP groups (consecutive ranks) together. A fabric without levels is taken in NPU order.
    """

    name: ClassVar[str] = "snake"

    def order(self, fabric: Fabric, mesh: DeviceMesh) -> IntArray:
        if fabric.coordinates is None:
            return np.arange(len(fabric.npus))
        # Outermost level first; a level runs backwards wherever the (reflected) number so far is odd.
        position = np.zeros(len(fabric.npus), dtype=np.intp)
        for column in reversed(range(len(fabric.levels))):
            size = fabric.levels[column].size
            step = fabric.coordinates[:, column]
            position = position * size + np.where(position % 2 == 1, size - 1 - step, step)
        return np.argsort(position, kind="stable")
