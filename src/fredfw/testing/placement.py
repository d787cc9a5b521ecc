"""What is checked of a placement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import ClassVar

import numpy as np
from attrs import frozen

from fredfw.errors import FredfwError, InputError
from fredfw.fabric import Fabric
from fredfw.testing.conformance import NOTHING, Faults, check_all, otherwise
from fredfw.testing.fabrics import standard
from fredfw.testing.process import Deterministic
from fredfw.typing import IntArray
from fredfw.workloads import DeviceMesh, Placement

PARALLELISMS = tuple(
    DeviceMesh({"mp": mp, "pp": pp, "dp": dp})
    for mp, pp, dp in ((1, 1, 1), (2, 1, 1), (1, 1, 3), (2, 2, 1), (2, 2, 2), (1, 1, 8), (3, 1, 3), (4, 5, 1))
)


@frozen(eq=False, kw_only=True)
class PlacementCase(Deterministic[Placement, tuple[Fabric, DeviceMesh], IntArray | str]):
    """A placement, the fabrics on which it is to place workers, and those, where there are NPUs for them."""

    shows: ClassVar[str] = "where workers go"
    mend: ClassVar[str] = "random numbers need a seed that is a field"

    fabrics: Sequence[Fabric] = otherwise(standard)
    meshes: Sequence[DeviceMesh] = PARALLELISMS

    @property
    def asked(self) -> list[tuple[Fabric, DeviceMesh]]:
        """See ``Deterministic.asked``."""
        return [one for one in product(self.fabrics, self.meshes) if one[1].ranks <= len(one[0].npus)]

    def answer(self, question: tuple[Fabric, DeviceMesh]) -> IntArray | str:
        """See ``Deterministic.answer``; a placement may be for certain fabrics."""
        try:
            return self.subject.order(*question)
        except FredfwError as error:
            return str(error)

    def words(self, question: tuple[Fabric, DeviceMesh]) -> str:
        """See ``Deterministic.words``."""
        fabric, mesh = question
        return f"{mesh} on {fabric.name}"

    def no_npu_is_used_twice(self) -> Faults:
        """Every worker gets an NPU of its own that exists."""
        for fabric, mesh in self.asked:
            what, npus = self.words((fabric, mesh)), self.subject.order(fabric, mesh)
            if npus.ndim != 1 or not np.issubdtype(npus.dtype, np.integer) or len(npus) < mesh.ranks:
                yield (
                    f"{what}: order() returns {npus.dtype} of shape {npus.shape}; NPU numbers, one for each of "
                    f"{mesh.ranks} workers or more"
                )
            numbers, counts = np.unique(npus, return_counts=True)
            if (counts > 1).any():
                twice = numbers[counts > 1][0]
                yield f"{what}: NPU {twice} is used twice; order() returns {npus.tolist()}"
            if numbers[0] < 0 or numbers[-1] >= len(fabric.npus):
                yield f"{what}: order() returns {npus.tolist()}, there are {len(fabric.npus)} NPUs"

    def too_many_workers_are_refused(self) -> Faults:
        """More workers than NPUs are an ``InputError``."""
        for fabric in self.fabrics:
            too_many = DeviceMesh({"dp": len(fabric.npus) + 1})
            try:
                self.subject.assign(fabric, too_many)
            except InputError:
                continue
            yield f"{too_many} is placed on {fabric.name} all the same; leave that to Placement.assign"


def check_placement(
    placement: Placement,
    *,
    fabrics: Sequence[Fabric] = (),
    meshes: Sequence[DeviceMesh] = PARALLELISMS,
    plugin: object = None,
    expected_failures: Mapping[str, str] = NOTHING,
) -> None:
    """Check a configured placement, on ``fabrics`` or else on small ones of the kit; see ``check_topology``."""
    case = PlacementCase(subject=placement, plugin=plugin, fabrics=fabrics, meshes=meshes)
    check_all("placement", case, expected_failures)
