"""The placement ``routable``: workers where FRED's switches can route all their groups at once."""

from collections.abc import Callable, Iterator
from itertools import permutations
from math import perm
from typing import ClassVar

import numpy as np
from attrs import frozen

from fredfw import DeviceMesh, Fabric, Placement, units
from fredfw.errors import UnsupportedError
from fredfw.typing import IntArray
from fredfw_topology_fred.feasibility import conflict_finder, phases

_EXHAUSTIVE = 5040  # how many orders are few enough to try them all


@frozen
class RoutablePlacement(Placement):
    """Searches for a placement whose MP, DP and PP groups meet no routing conflict on FRED's switches.

    It tries NPU order (FRED's own placement) and the other nestings of the axes, such as MP, DP and PP. From the best
    of these it exchanges pairs of NPUs in a fixed pseudo-random order, and keeps an exchange that does not add
    conflicts. If there are few enough orders, it tries all of them; then a failed search proves that there is no such
    placement.
    """

    name: ClassVar[str] = "routable"

    exchanges: int = units.count(500, minimum=0, help="exchanges of two NPUs to try")
    seed: int = units.count(0, minimum=0, help="seed of their order")

    def order(self, fabric: Fabric, mesh: DeviceMesh) -> IntArray:
        """See ``Placement.order``; raises ``UnsupportedError`` where no such placement was found."""
        conflict_of, asked = conflict_finder(fabric), list(phases(mesh))

        def count(order: IntArray) -> int:
            return sum(conflict_of(streams, order) is not None for _, streams in asked)

        npus = len(fabric.npus)
        best, left = np.arange(npus), len(asked) + 1
        for order in _nestings(mesh, npus):
            if (found := count(order)) < left:
                best, left = order, found
            if not left:
                return best
        if perm(npus, mesh.ranks) <= _EXHAUSTIVE:
            for places in permutations(range(npus), mesh.ranks):
                if not count(np.array(places)):
                    return np.array(places)
            raise self._nothing(fabric, mesh, "there is no placement")
        best, left = self._exchanged(best, left, mesh.ranks, count)
        if left:
            raise self._nothing(fabric, mesh, f"no placement found in {self.exchanges} exchanges")
        return best

    def _exchanged(
        self, order: IntArray, left: int, workers: int, count: Callable[[IntArray], int]
    ) -> tuple[IntArray, int]:
        random = np.random.default_rng(self.seed)
        for _ in range(self.exchanges):
            if not left:
                break
            one, other = int(random.integers(workers)), int(random.integers(len(order)))
            changed = order.copy()
            changed[[one, other]] = order[[other, one]]
            if (found := count(changed)) <= left:
                order, left = changed, found
        return order, left

    @staticmethod
    def _nothing(fabric: Fabric, mesh: DeviceMesh, what: str) -> UnsupportedError:
        return UnsupportedError(
            f"{what} of {mesh} on {fabric.name!r} without routing conflicts",
            accepted="more middle switches, or another placement with on_conflict 'block' or 'decompose'",
        )


def _nestings(mesh: DeviceMesh, npus: int) -> Iterator[IntArray]:
    """Yield the orders in which the axes are nested in every way, that of the mesh itself first."""
    shape = mesh.grid.shape
    for axes in permutations(range(len(shape))):
        sizes = [shape[axis] for axis in axes]
        grid = np.arange(mesh.ranks).reshape(sizes).transpose(np.argsort(axes))
        yield np.concatenate([grid.ravel(), np.arange(mesh.ranks, npus)])
