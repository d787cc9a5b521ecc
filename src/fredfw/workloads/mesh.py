"""Ranks along named axes, and the groups that they form."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from attrs import field, frozen

from fredfw import limits
from fredfw.errors import InputError, nearest
from fredfw.typing import IntArray
from fredfw.units import at_least

USUAL = "tp", "mp", "dp", "pp", "ep", "cp", "sp"  # axes that a mesh may be asked for whether it has them or not


def _copied(mapping: Mapping[str, int]) -> dict[str, int]:
    return dict(mapping)


@frozen
class DeviceMesh:
    """The ranks of a workload along named axes, such as ``{"tp": 8, "pp": 4, "dp": 2}``.

    Consecutive ranks differ along the first axis, the innermost, as in Megatron-LM's order (``tp-cp-ep-dp-pp``), not in
    PyTorch's. Names are the workload's own. Sizes below 1, too many ranks and unknown ones are an ``InputError``.

    Args:
        axes: Size by name, the innermost axis first.
        communicators: Other groups, such as those of a trace, by name: ``(groups, size)`` ranks each, for placements.
    """

    axes: Mapping[str, int] = field(converter=_copied, eq=lambda axes: tuple(axes.items()), validator=at_least(1))
    communicators: Mapping[str, IntArray] = field(factory=dict, eq=False)

    def __attrs_post_init__(self) -> None:
        for name, size in self.axes.items():
            if not str(name).isidentifier():
                raise InputError(f"{name!r} does not name an axis", key="axes", accepted="a word, such as 'tp'")
            if not isinstance(size, int):
                raise InputError(f"{size!r} is not a whole number", key=f"axes.{name}", accepted="1 or more")
        limits.check("nodes", self.ranks)
        for name, groups in self.communicators.items():
            if groups.ndim != 2 or (groups.size and not 0 <= groups.min() <= groups.max() < self.ranks):
                message = f"communicator {name!r} is not an array of groups of ranks"
                accepted = f"(groups, size) ranks from 0 to {self.ranks - 1}"
                raise InputError(message, key="communicators", accepted=accepted)

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return math.prod(self.axes.values())

    @property
    def grid(self) -> IntArray:
        """Rank by its coordinates, the outermost axis first."""
        return np.arange(self.ranks, dtype=np.intp).reshape(tuple(self.axes.values())[::-1])

    def size(self, axis: str) -> int:
        """Return how many ranks a group along ``axis`` has: 1 for a usual one that there is not; see ``groups``."""
        self._check_axis(axis)
        return self.axes.get(axis, 1)

    def members(self, **at: int) -> IntArray:
        """Return the ranks with these coordinates, ascending: ``members(pp=0)`` is the first pipeline stage."""
        return self._at(at).ravel()

    def groups(self, *along: str, **at: int) -> IntArray:
        """Return the ``(groups, size)`` ranks that differ ``along`` some axes alone, of those with coordinates ``at``.

        ``groups("tp", pp=0)`` are the tensor-parallel groups of the first pipeline stage. Members and groups are in the
        order of the mesh, the innermost axis first. A usual axis that the mesh does not have (``tp``, ``mp``, ``dp``,
        ``pp``, ``ep``, ``cp``, ``sp``) has groups of one rank; another one is an ``InputError``, as is a coordinate.
        """
        for axis in along:
            self._check_axis(axis)
        grid = self._at(at)
        names = [name for name in reversed(list(self.axes)) if name not in at]
        chosen = [position for position, name in enumerate(names) if name in along]
        grid = np.moveaxis(grid, chosen, range(grid.ndim - len(chosen), grid.ndim))
        return np.ascontiguousarray(grid.reshape(-1, math.prod(grid.shape[grid.ndim - len(chosen) :])))

    def _check_axis(self, axis: str) -> None:
        if axis not in self.axes and axis not in USUAL:
            message = f"the mesh has no axis {axis!r}{nearest(axis, self.axes)}"
            raise InputError(message, key="axis", accepted=", ".join(dict.fromkeys([*self.axes, *USUAL])))

    def _at(self, at: Mapping[str, int]) -> IntArray:
        for name, value in at.items():
            if name not in self.axes:
                message = f"there is no axis {name!r}{nearest(name, self.axes)}"
                raise InputError(message, key=name, accepted=", ".join(self.axes))
            if not 0 <= value < self.axes[name]:
                raise InputError(f"{value!r} is not a coordinate", key=name, accepted=f"0 to {self.axes[name] - 1}")
        index = tuple(at.get(name, slice(None)) for name in reversed(list(self.axes)))
        found: IntArray = self.grid[index]
        return found

    def __str__(self) -> str:
        return "-".join(f"{name.upper()}({size})" for name, size in self.axes.items()) or "one rank"
