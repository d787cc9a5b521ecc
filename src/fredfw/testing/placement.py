"""What is checked of a placement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np
from attrs import field, frozen

from fredfw.errors import FredfwError, InputError
from fredfw.fabric import Fabric
from fredfw.testing.conformance import NOTHING, ConformanceError, check_all, seeded
from fredfw.testing.fabrics import or_standard
from fredfw.testing.process import Elsewhere, digest
from fredfw.workloads import DeviceMesh, Placement

PARALLELISMS = tuple(
    DeviceMesh({"mp": mp, "pp": pp, "dp": dp})
    for mp, pp, dp in ((1, 1, 1), (2, 1, 1), (1, 1, 3), (2, 2, 1), (2, 2, 2), (1, 1, 8), (3, 1, 3), (4, 5, 1))
)


@frozen(eq=False, kw_only=True)
class PlacementCase(Elsewhere[Placement]):
    """A placement, the fabrics on which it is to place workers, and those, where there are NPUs for them."""

    shows: ClassVar[str] = "where workers go"

    fabrics: Sequence[Fabric] = field(default=(), converter=or_standard)
    meshes: Sequence[DeviceMesh] = PARALLELISMS

    def asked(self) -> Iterator[tuple[Fabric, DeviceMesh, str]]:
        """Yield what the placement is asked, and that in words."""
        for fabric in self.fabrics:
            for one in self.meshes:
                if one.ranks <= len(fabric.npus):
                    yield fabric, one, f"{one} on {fabric.name}"

    def observed(self) -> str:
        """See ``Elsewhere.observed``."""
        places: list[object] = []
        for fabric, mesh, _ in self.asked():
            try:
                places.append(self.subject.order(fabric, mesh))
            except FredfwError as error:  # a placement may be for certain fabrics
                places.append(str(error))
        return digest(places)

    def no_npu_is_used_twice(self) -> None:
        """Every worker gets an NPU of its own that exists."""
        for fabric, mesh, what in self.asked():
            npus = self.subject.order(fabric, mesh)
            if npus.ndim != 1 or not np.issubdtype(npus.dtype, np.integer) or len(npus) < mesh.ranks:
                raise ConformanceError(
                    f"{what}: order() returns {npus.dtype} of shape {npus.shape}; NPU numbers, one for each of "
                    f"{mesh.ranks} workers or more"
                )
            numbers, counts = np.unique(npus, return_counts=True)
            if (counts > 1).any():
                twice = numbers[counts > 1][0]
                raise ConformanceError(f"{what}: NPU {twice} is used twice; order() returns {npus.tolist()}")
            if numbers[0] < 0 or numbers[-1] >= len(fabric.npus):
                raise ConformanceError(f"{what}: order() returns {npus.tolist()}, there are {len(fabric.npus)} NPUs")

    def too_many_workers_are_refused(self) -> None:
        """More workers than NPUs are an ``InputError``."""
        for fabric in self.fabrics:
            too_many = DeviceMesh({"dp": len(fabric.npus) + 1})
            try:
                self.subject.assign(fabric, too_many)
            except InputError:
                continue
            raise ConformanceError(
                f"{too_many} is placed on {fabric.name} all the same; leave that to Placement.assign"
            )

    def is_deterministic(self) -> None:
        """It gives the same NPUs when it is asked again."""
        for seed, (fabric, mesh, what) in enumerate(self.asked()):
            first = self.subject.order(fabric, mesh)
            with seeded(seed):
                second = self.subject.order(fabric, mesh)
            if not np.array_equal(first, second):
                raise ConformanceError(
                    f"{what}: order() returns {first.tolist()} and then {second.tolist()}; random numbers need a seed "
                    "that is a field"
                )


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
