"""What is checked of a sampler: its searches of small spaces, in which the best point is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import ClassVar

from attrs import frozen

from fredfw.experiment.study import samplers
from fredfw.plugin.sampler import Sampler, SearchSpace, Told, Trial
from fredfw.testing.conformance import NOTHING, ConformanceError, Faults, check_all, otherwise
from fredfw.testing.process import Deterministic

_MOST = 1000


def standard() -> tuple[SearchSpace, ...]:
    """Return the kit's own spaces: a single point, a line, a plane with a constraint, two cells, two objectives."""
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
    """Return the objectives of a point: a bowl with one lowest point, and a plane."""
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

    spaces: Sequence[SearchSpace] = otherwise(standard)

    @property
    def asked(self) -> Sequence[SearchSpace]:
        """See ``Deterministic.asked``."""
        return self.spaces

    def words(self, question: SearchSpace) -> str:
        """See ``Deterministic.words``."""
        return f"a search of {len(question)} points"

    def answer(self, question: SearchSpace) -> list[Trial]:
        """See ``Deterministic.answer``."""
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
    """Return all that a search of ``space`` asks for; where not ``feasible``, no point has a result.

    Raises:
        ConformanceError: It does not end.
        PluginError: It asks for what there is not.
    """
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


def check_sampler(
    sampler: Sampler,
    *,
    spaces: Sequence[SearchSpace] = (),
    plugin: object = None,
    expected_failures: Mapping[str, str] = NOTHING,
) -> None:
    """Check a configured sampler on searches of ``spaces``, or else of the kit's own; see ``check_topology``."""
    check_all("sampler", SamplerCase(subject=sampler, plugin=plugin, spaces=spaces), expected_failures)
