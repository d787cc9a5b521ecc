"""The kit on samplers that are wrong in one way each, and on a sound one."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import count
from typing import ClassVar

import pytest
from attrs import define, frozen

from fredfw import Sampler, Search, SearchSpace, Told, Trial, units
from fredfw.testing import ConformanceError, check_sampler

# Each call of the kit starts another Python.
pytestmark = pytest.mark.slow

_COUNTER = count()


@frozen
class Faulty(Sampler):
    """All points, with one fault or none."""

    name: ClassVar[str] = "faulty"

    fault: str = units.option("none", help="which")

    def start(self, space: SearchSpace) -> Search:
        """See ``Sampler.start``."""
        return Faults(self.fault, len(space))


@define
class Faults(Search):
    fault: str
    size: int
    asked: bool = False
    fitting: bool = False

    def ask(self) -> Sequence[Trial]:
        """See ``Search.ask``."""
        match self.fault:
            case "endless":
                return [Trial(0)]
            case "beyond":
                return [Trial(self.size)]
            case "idle":
                return []
            case "stubborn" if self.asked and not self.fitting:
                return [Trial(0)]
        if self.asked:
            return []
        match self.fault:
            case "drifts":
                return [Trial(next(_COUNTER) % self.size)]
            case "chance":
                return [Trial(random.randrange(self.size))]
            case "hash":
                return [Trial(hash("fredfw") % self.size)]
        return [Trial(one) for one in range(self.size)]

    def tell(self, told: Sequence[Told]) -> None:
        """See ``Search.tell``."""
        self.asked = True
        self.fitting = any(one.feasible for one in told)
        if self.fault == "needy":
            min(one.losses for one in told if one.losses is not None)


@pytest.mark.parametrize(
    ("fault", "broken", "message"),
    [
        ("endless", "asks_for_points", "it must end"),
        ("beyond", "asks_for_points", "asks for the point 1; expected the number of a point, from 0 to 0"),
        ("idle", "asks_for_points", "asks for none"),
        ("stubborn", "ends_where_nothing_fits", "it must end"),
        ("needy", "ends_where_nothing_fits", "tell"),
        ("drifts", "is_deterministic", "started twice"),
        ("chance", "is_deterministic", "started twice"),
        ("hash", "is_the_same_in_another_process", "differs in another process"),
    ],
)
def test_a_fault_is_found(fault: str, broken: str, message: str) -> None:
    with pytest.raises(ConformanceError) as caught:
        check_sampler(Faulty(fault))
    assert broken in str(caught.value)
    assert message in str(caught.value)


def test_a_sound_sampler_passes() -> None:
    check_sampler(Faulty())
