"""Where workers go: the interface, and the placements that fit every fabric."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from attrs import frozen

from fredfw.answers import Asking
from fredfw.errors import InputError
from fredfw.fabric import Fabric
from fredfw.typing import IntArray
from fredfw.workloads.parallelism import Parallelism


class Placement(ABC):
    """Assigns worker ranks to NPUs; plugins derive attrs classes from it."""

    name: ClassVar[str]

    @abstractmethod
    def order(self, fabric: Fabric, parallelism: Parallelism) -> IntArray:
        """Return ``(workers or more,)`` NPU numbers: rank ``r`` goes to the ``r``-th. No NPU may appear twice."""

    def assign(self, fabric: Fabric, parallelism: Parallelism) -> IntArray:
        """Return the ``(workers,)`` NPU number of each rank.

        Raises:
            InputError: There are more workers than NPUs.
        """
        npus = len(fabric.npus)
        if parallelism.workers > npus:
            raise InputError(
                f"{parallelism} needs {parallelism.workers} NPUs, but fabric {fabric.name!r} has {npus}",
                accepted=f"MP x DP x PP of at most {npus}",
            )
        asked = Asking(self, "order")
        with asked:
            answer: object = self.order(fabric, parallelism)
        return check_places(asked, answer, parallelism.workers, npus)[: parallelism.workers]


def check_places(asked: Asking, answer: object, workers: int, npus: int) -> IntArray:
    """Return ``answer``, which must be ``(workers or more,)`` different NPU numbers; else ``PluginError``."""
    if not isinstance(answer, np.ndarray) or answer.ndim != 1 or answer.dtype.kind not in "iu":
        raise asked.unexpected(answer, "an array of NPU numbers")
    if len(answer) < workers:
        raise asked.wrong(f"returned {len(answer)} NPUs", f"{workers} or more, one for each rank")
    outside = answer[(answer < 0) | (answer >= npus)]
    if outside.size:
        raise asked.wrong(f"returned NPU {outside[0]}", f"NPUs 0 to {npus - 1}")
    numbers, counts = np.unique(answer, return_counts=True)
    if (counts > 1).any():
        raise asked.wrong(f"returned NPU {numbers[counts > 1][0]} twice", "every NPU at most once")
    return answer


@frozen
class LinearPlacement(Placement):
    """Rank r on NPU r: MP groups on consecutive NPUs, then pipeline stages, then replicas (FRED's placement)."""

    name: ClassVar[str] = "linear"

    def order(self, fabric: Fabric, parallelism: Parallelism) -> IntArray:
        """See ``Placement.order``."""
        del parallelism
        return np.arange(len(fabric.npus))


def placement_of(fabric: Fabric) -> Placement:
    """Return which NPUs of ``fabric`` workers are on, by its defaults."""
    return fabric.defaults.placement or LinearPlacement()


@frozen
class MegatronPlacement(Placement):
    """MP groups on consecutive NPUs, then data-parallel replicas, then pipeline stages (Megatron-LM's order)."""

    name: ClassVar[str] = "megatron"

    def order(self, fabric: Fabric, parallelism: Parallelism) -> IntArray:
        """See ``Placement.order``."""
        del fabric
        numbers = np.arange(parallelism.workers, dtype=np.intp)
        return numbers.reshape(parallelism.pp, parallelism.dp, parallelism.mp).swapaxes(0, 1).ravel()


@frozen
class SnakePlacement(Placement):
    """Ranks in a snake through the fabric's levels, so that consecutive ranks are neighbours.

    On a mesh this keeps MP groups (consecutive ranks) together. A fabric without levels is taken in NPU order.
    """

    name: ClassVar[str] = "snake"

    def order(self, fabric: Fabric, parallelism: Parallelism) -> IntArray:
        """See ``Placement.order``."""
        del parallelism
        if fabric.coordinates is None:
            return np.arange(len(fabric.npus))
        # Outermost level first; a level runs backwards wherever the (reflected) number so far is odd.
        position = np.zeros(len(fabric.npus), dtype=np.intp)
        for column in reversed(range(len(fabric.levels))):
            size = fabric.levels[column].size
            step = fabric.coordinates[:, column]
            position = position * size + np.where(position % 2 == 1, size - 1 - step, step)
        return np.argsort(position, kind="stable")
