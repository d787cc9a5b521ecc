"""What is checked of placements, transports and samplers: what they answer to many questions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import ClassVar

import numpy as np
from attrs import evolve, frozen

from fredfw.collectives import Pattern
from fredfw.errors import FredfwError, InputError, PluginError, UnsupportedError
from fredfw.experiment.study import samplers
from fredfw.fabric import Call, Costs, Fabric, Transport
from fredfw.plugin.sampler import Sampler, SearchSpace, Told, Trial
from fredfw.simulation import answers
from fredfw.testing.conformance import NOTHING, ConformanceError, Faults, _Tests, check_all, otherwise
from fredfw.testing.fabrics import standard
from fredfw.testing.process import Deterministic
from fredfw.typing import IntArray
from fredfw.workloads import DeviceMesh, Placement
from fredfw.workloads.answers import places

PARALLELISMS = tuple(
    DeviceMesh({"mp": mp, "pp": pp, "dp": dp})
    for mp, pp, dp in ((1, 1, 1), (2, 1, 1), (1, 1, 3), (2, 2, 1), (2, 2, 2), (1, 1, 8), (3, 1, 3), (4, 5, 1))
)
_OTHERS = "direct", "ring", "tree"  # algorithms that transports are asked about where they name none
_MOST = 1000  # questions of a search


@frozen(eq=False, kw_only=True)
class PlacementCase(Deterministic[Placement, tuple[Fabric, DeviceMesh], IntArray | str]):
    """A placement, the fabrics on which it is to place workers, and those, where there are NPUs for them."""

    shows: ClassVar[str] = "where workers go"
    mend: ClassVar[str] = "random numbers need a seed that is a field"

    fabrics: Sequence[Fabric] = otherwise(standard)
    meshes: Sequence[DeviceMesh] = PARALLELISMS

    @property
    def asked(self) -> list[tuple[Fabric, DeviceMesh]]:
        return [one for one in product(self.fabrics, self.meshes) if one[1].ranks <= len(one[0].npus)]

    def answer(self, question: tuple[Fabric, DeviceMesh]) -> IntArray | str:
        try:
            return self.subject.order(*question)
        except FredfwError as error:
            return str(error)

    def words(self, question: tuple[Fabric, DeviceMesh]) -> str:
        fabric, mesh = question
        return f"{mesh} on {fabric.name}"

    def no_npu_is_used_twice(self) -> Faults:
        """Every worker gets an NPU of its own that exists."""
        found = self.refused(lambda question: places(self.subject, *question), PluginError)
        return (f"{question}: {error}" for question, error in found)

    def too_many_workers_are_refused(self) -> Faults:
        """More workers than NPUs are an ``InputError``."""
        for fabric in self.fabrics:
            too_many = DeviceMesh({"dp": len(fabric.npus) + 1})
            try:
                self.subject.assign(fabric, too_many)
            except InputError:
                continue
            yield f"{too_many} is placed on {fabric.name} all the same; leave that to Placement.assign"


class PlacementTests(_Tests, case=PlacementCase, subjects="placements"):
    """Tests of the configured ``placements``, for ``meshes`` on ``fabrics`` with room, by default the kit's own."""

    placements: ClassVar[Sequence[Placement]] = ()
    fabrics: ClassVar[Sequence[Fabric]] = ()
    meshes: ClassVar[Sequence[DeviceMesh]] = PARALLELISMS


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


@frozen(eq=False, kw_only=True)
class TransportCase(Deterministic[Transport, tuple[Call, Fabric], Costs | None]):
    """A transport, and the small fabrics on which it is asked."""

    shows: ClassVar[str] = "what it costs"
    mend: ClassVar[str] = "costs follow from the fields"

    fabrics: Sequence[Fabric] = otherwise(standard)

    @property
    def asked(self) -> list[tuple[Call, Fabric]]:
        """Calls on all fabrics, and on the first once more with every other link in an outer tier."""
        first = self.fabrics[0]
        tiers = np.arange(len(first.sources)) % 2
        fabrics = (*self.fabrics, evolve(first, name=f"{first.name} in two tiers", tiers=tiers))
        return [(call, fabric) for fabric in fabrics for call in calls(self.subject)]

    def answer(self, question: tuple[Call, Fabric]) -> Costs | None:
        try:
            return answers.costs(self.subject, *question)
        except UnsupportedError:
            return None

    def words(self, question: tuple[Call, Fabric]) -> str:
        call, fabric = question
        return f"{call} on a {fabric.name}"

    def costs_can_be_used(self) -> Faults:
        """Times are finite and not negative, rates above 0, an efficiency is at most 1, with a number for each tier."""
        return (f"{question}: {error}" for question, error in self.refused(self.answer, PluginError))

    def some_calls_have_costs(self) -> Faults:
        """It does not refuse everything."""
        if all(costs is None for _, costs in self.answers):
            yield f"all of {len(self.answers)} calls are refused"

    def refusals_have_reasons(self) -> Faults:
        """A call that it knows no costs for is refused with a reason in words."""
        found = self.refused(lambda question: answers.costs(self.subject, *question), UnsupportedError)
        return (f"{question} is refused without a reason" for question, error in found if not error.message.strip())


def calls(transport: Transport) -> Iterator[Call]:
    for pattern in Pattern:
        library = answers.algorithms(transport, str(pattern))
        for algorithm in dict.fromkeys(one.partition("(")[0] for one in library or _OTHERS):
            for ranks in (2,) if pattern is Pattern.POINT_TO_POINT else (2, 3, 8):
                for size in (1.0, 1e3, 1e6, 1e9):
                    yield Call(str(pattern), algorithm, ranks, size, nodes=1, steps=ranks - 1)
                    yield Call(str(pattern), algorithm, ranks, size, nodes=2, steps=2 * (ranks - 1))


class TransportTests(_Tests, case=TransportCase, subjects="transports"):
    """Tests of the configured ``transports``, on calls of all patterns on ``fabrics``, by default the kit's own."""

    transports: ClassVar[Sequence[Transport]] = ()
    fabrics: ClassVar[Sequence[Fabric]] = ()


def check_transport(
    transport: Transport,
    *,
    fabrics: Sequence[Fabric] = (),
    plugin: object = None,
    expected_failures: Mapping[str, str] = NOTHING,
) -> None:
    """Check a configured transport, on ``fabrics`` or else on small ones of the kit; see ``check_topology``."""
    check_all("transport", TransportCase(subject=transport, plugin=plugin, fabrics=fabrics), expected_failures)


def _spaces() -> tuple[SearchSpace, ...]:
    numbers = tuple(range(6))
    plane = tuple(one for one in product(numbers, numbers) if sum(one) <= len(numbers))
    cells = tuple((0, number, None) for number in numbers) + tuple((1, None, number) for number in numbers)
    return (
        SearchSpace(("x",), (("alone",),), ((0,),)),
        SearchSpace(("x",), (numbers,), tuple((number,) for number in numbers)),
        SearchSpace(("x", "y"), (numbers, tuple(f"{one} GB/s" for one in numbers)), plane),
        SearchSpace(("fabric", "x", "y"), (("mesh", "ring"), numbers, numbers), cells),
        SearchSpace(("x", "y"), (numbers, numbers), plane, objectives=2),
    )


def losses(space: SearchSpace, point: int) -> tuple[float, ...]:
    choice = [number or 0 for number in space.points[point]]
    bowl = sum((number - 2.2 - place) ** 2 for place, number in enumerate(choice))
    return (bowl, float(sum(choice)))[: space.objectives]


@frozen(eq=False, kw_only=True)
class SamplerCase(Deterministic[Sampler, SearchSpace, list[Trial]]):
    """A sampler, and the small spaces that it searches."""

    shows: ClassVar[str] = "what it asks for"
    mend: ClassVar[str] = (
        "random numbers come from a generator of its own with a seed among the fields, and what was told is kept in "
        "the Search, not in the Sampler"
    )

    spaces: Sequence[SearchSpace] = otherwise(_spaces)

    @property
    def asked(self) -> Sequence[SearchSpace]:
        return self.spaces

    def words(self, question: SearchSpace) -> str:
        return f"a search of {len(question)} points"

    def answer(self, question: SearchSpace) -> list[Trial]:
        return search(self.subject, question)

    def asks_for_points(self) -> Faults:
        """Searches ask for points of the space, one at least, and end."""
        for space, trials in self.answers:
            if not trials:
                yield f"{self.words(space)} asks for none of them"

    def ends_where_nothing_fits(self) -> Faults:
        """A search ends where no point has a result."""
        for space in self.spaces:
            search(self.subject, space, feasible=False)
        yield from ()


def search(sampler: Sampler, space: SearchSpace, *, feasible: bool = True) -> list[Trial]:
    """Return all that a search asks for; where not ``feasible``, no point has a result."""
    running = samplers.start(sampler, space)
    found: list[Trial] = []
    for _ in range(_MOST):
        asked = samplers.ask(running, space)
        if not asked:
            return found
        found += asked
        told = [Told(one, losses(space, one.point) if feasible else None, feasible) for one in asked]
        samplers.tell(running, told)
    raise ConformanceError(f"a search of {len(space)} points asks {_MOST} times; it must end and return nothing then")


class SamplerTests(_Tests, case=SamplerCase, subjects="samplers"):
    """Tests of the configured ``samplers``, each on searches of all ``spaces``, by default the kit's own."""

    samplers: ClassVar[Sequence[Sampler]] = ()
    spaces: ClassVar[Sequence[SearchSpace]] = ()


def check_sampler(
    sampler: Sampler,
    *,
    spaces: Sequence[SearchSpace] = (),
    plugin: object = None,
    expected_failures: Mapping[str, str] = NOTHING,
) -> None:
    """Check a configured sampler on searches of ``spaces``, or else of the kit's own; see ``check_topology``."""
    check_all("sampler", SamplerCase(subject=sampler, plugin=plugin, spaces=spaces), expected_failures)
