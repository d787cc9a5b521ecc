"""Sharing policies, with and without state, that are wrong on purpose: the kit finds each and says what to mend."""

import itertools
import math
import re
from typing import ClassVar

import numpy as np
import pytest
from attrs import frozen
from kit import found

from fredfw import ActiveFlows, Dynamics, Fabric, HeldRates, Incidence, SharingPolicy, StatefulSharing, max_min, units
from fredfw.testing.sharing import SharingCase
from fredfw.typing import FloatArray

_everywhere = itertools.count(1)


@frozen
class Unfair(SharingPolicy):
    """Max-min, with one fault."""

    name: ClassVar[str] = "unfair"
    fault: str = units.option("none", help="which")

    def rates(self, incidence: Incidence, capacities: FloatArray, fabric: Fabric) -> FloatArray:
        rates = max_min(incidence, capacities)
        places = np.arange(len(rates))
        if self.fault == "spoiler":
            capacities /= 2
        wrong = {
            "overload": 1.5 * rates,
            "waste": 0.5 * rates,
            "nobody": 0.0 * places,
            "by number": rates * np.linspace(0.5, 1.0, len(rates)),
            "negative": np.where(places == 0, -1.0, rates),
            "moody": rates * np.random.uniform(0.9, 1.0),
            "caps": np.where(np.diff(incidence.offsets) == 0, 7.0, rates),
        }
        return wrong.get(self.fault, rates)


@frozen
class Braked(Unfair):
    """Flows slow each other down a little, wherever they are; but it says that they do not."""

    name: ClassVar[str] = "braked"
    local: ClassVar[bool] = True
    max_min_in_class: ClassVar[bool] = True

    def rates(self, incidence: Incidence, capacities: FloatArray, fabric: Fabric) -> FloatArray:
        return max_min(incidence, capacities) / (1 + 1e-6 * len(incidence))


class Opening(Dynamics):
    """Flows get half of their fair rates at first, then ever more of the rest, with one fault or none."""

    def __init__(self, fault: str) -> None:
        self.fault = fault
        self.asked = 0
        self.secret = (lambda: 0) if fault == "secret" else None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "asked": 0} if self.fault == "forgetful" else self.__dict__

    def rates(self, flows: ActiveFlows, capacities: FloatArray, now: float) -> HeldRates:
        self.asked = next(_everywhere) if self.fault == "shared" else self.asked + 1
        rates = (1 - 0.5**self.asked) * max_min(flows.incidence, capacities)
        rates *= {"overload": 1.5, "short": 0.9}.get(self.fault, 1.0)
        if self.fault == "numbers":
            rates[flows.ids == flows.ids.min()] *= 0.5
        rates[0] = {"negative": -1.0, "endless": math.nan}.get(self.fault, rates[0])
        return HeldRates(rates, now if self.fault == "still" else now + 1e-6)


@frozen
class Open(StatefulSharing):
    """Opens up."""

    name: ClassVar[str] = "open"
    converges: ClassVar[bool] = True

    fault: str = units.option("none", help="which")

    def begin(self, fabric: Fabric) -> Dynamics:
        return Opening(self.fault)


@pytest.mark.parametrize(
    ("policy", "check", "expected"),
    [
        (Unfair("overload"), "capacity_is_never_exceeded", "a flow loads a link with its rate times its coefficient"),
        (Unfair("waste"), "no_capacity_is_wasted", "could be faster: no link on its way is full, it is below its cap"),
        (Unfair("nobody"), "somebody_moves", "of .* flows on a star of 8, none has a rate; they would wait for ever"),
        (Unfair("by number"), "order_does_not_matter", "where the same flows come in another order; rates must not"),
        (Unfair("negative"), "rates_are_numbers", "one each, finite and not negative"),
        (Unfair("caps"), "rates_are_numbers", "a flow without links runs at its cap, or at an infinite rate where it"),
        (Unfair("spoiler"), "is_deterministic", r"rates\(\) changes the arrays it is given; copy what has to change"),
        (Unfair("moody"), "is_deterministic", "asked twice, what flows get is .* a policy keeps nothing between cal"),
        (Braked(), "is_local_if_it_says_so", "of [0-9]+ flows on a .* leave out `local = True`"),
        (Braked(), "is_max_min_in_a_class_if_it_says_so", "all of one class, .* leave out `max_min_in_class = True`"),
        (Open("overload"), "rates_in_time_fit_the_links", r"endless flows on a .* put .* B/s on .*, which carries"),
        (Open("negative"), "rates_in_time_fit_the_links", "one each, finite and not negative"),
        (Open("endless"), "rates_in_time_fit_the_links", "one each, finite and not negative"),
        (Open("still"), "rates_in_time_fit_the_links", "rates hold until 0.0 at 0.0; later than that"),
        (Open("numbers"), "order_does_not_matter_in_time", "rates must not depend on numbers or on their order"),
        (Open("shared"), "simulations_are_apart", r"begin\(\) returns a state of its own each time"),
        (Open("secret"), "a_copy_goes_on_alike", "the state of a simulation cannot be pickled"),
        (Open("forgetful"), "a_copy_goes_on_alike", "get other rates from a copy of the state"),
        (Open("short"), "converges_if_it_says_so", "are still 10 % away from what rates.. returns .* leave out `conv"),
    ],
)
def test_wrong_ones_are_found(policy: SharingPolicy, check: str, expected: str) -> None:
    assert re.search(expected, found(SharingCase(subject=policy), check), re.DOTALL)


def test_only_what_says_that_it_converges_has_to_and_lasting_rates_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Open, "converges", False)
    assert not found(SharingCase(subject=Open("short")), "converges_if_it_says_so")

    class Fair(Opening):
        def rates(self, flows: ActiveFlows, capacities: FloatArray, now: float) -> HeldRates:
            return HeldRates(np.asarray(max_min(flows.incidence, capacities)))

    @frozen
    class Constant(Open):
        """Fair at once."""

        def begin(self, fabric: Fabric) -> Dynamics:
            return Fair(self.fault)

    for name in ("rates_in_time_fit_the_links", "simulations_are_apart", "converges_if_it_says_so"):
        assert not found(SharingCase(subject=Constant()), name)
