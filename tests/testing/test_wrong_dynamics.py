"""Sharing policies with state that are wrong on purpose: the kit finds each and says what to mend."""

from __future__ import annotations

import itertools
import math
import re
from typing import ClassVar

import numpy as np
import pytest
from attrs import frozen
from kit import found

from fredfw import ActiveFlows, Dynamics, Fabric, HeldRates, StatefulSharing, max_min, units
from fredfw.testing.fabrics import standard
from fredfw.testing.sharing import SharingCase
from fredfw.typing import FloatArray

IN_TIME = (
    "rates_in_time_fit_the_links",
    "order_does_not_matter_in_time",
    "simulations_are_apart",
    "a_copy_goes_on_alike",
    "converges_if_it_says_so",
)
_everywhere = itertools.count(1)


class Opening(Dynamics):
    """Flows get half of their fair rates at first, then ever more of the rest, with one fault or none."""

    def __init__(self, fault: str) -> None:
        self.fault = fault
        self.asked = 0
        self.secret = (lambda: 0) if fault == "secret" else None

    def __getstate__(self) -> dict[str, object]:
        state = self.__dict__.copy()
        if self.fault == "forgetful":
            state["asked"] = 0
        return state

    def rates(self, flows: ActiveFlows, capacities: FloatArray, now: float) -> HeldRates:
        self.asked = next(_everywhere) if self.fault == "shared" else self.asked + 1
        share = 1 - 0.5**self.asked
        rates = share * max_min(flows.incidence, capacities)
        match self.fault:
            case "overload":
                rates = 1.5 * rates
            case "negative":
                rates[0] = -1.0
            case "endless":
                rates[0] = math.nan
            case "numbers":
                rates[flows.ids == flows.ids.min()] *= 0.5
            case "short":
                rates *= 0.9
        return HeldRates(rates, now if self.fault == "still" else now + 1e-6)


@frozen
class Open(StatefulSharing):
    """Opens up."""

    name: ClassVar[str] = "open"
    converges: ClassVar[bool] = True

    fault: str = units.option("none", help="which")

    def begin(self, fabric: Fabric) -> Dynamics:
        del fabric
        return Opening(self.fault)


def case(policy: Open) -> SharingCase:
    return SharingCase(subject=policy, fabrics=standard())


@pytest.mark.parametrize("check", IN_TIME)
def test_a_sound_one_passes(check: str) -> None:
    assert not found(case(Open()), check)


@pytest.mark.parametrize(
    ("fault", "check", "expected"),
    [
        ("overload", "rates_in_time_fit_the_links", r"endless flows on a .* put .* B/s on .*, which carries"),
        ("negative", "rates_in_time_fit_the_links", "one each, finite and not negative"),
        ("endless", "rates_in_time_fit_the_links", "one each, finite and not negative"),
        ("still", "rates_in_time_fit_the_links", "rates hold until 0.0 at 0.0; later than that"),
        ("numbers", "order_does_not_matter_in_time", "rates must not depend on numbers or on their order"),
        ("shared", "simulations_are_apart", r"begin\(\) returns a state of its own each time"),
        ("secret", "a_copy_goes_on_alike", "the state of a simulation cannot be pickled"),
        ("forgetful", "a_copy_goes_on_alike", "get other rates from a copy of the state"),
        ("short", "converges_if_it_says_so", "are still 10 % away from what rates.. returns .* leave out `converges"),
    ],
)
def test_wrong_ones_are_found(fault: str, check: str, expected: str) -> None:
    assert re.search(expected, found(case(Open(fault)), check))


def test_only_what_says_that_it_converges_has_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Open, "converges", False)
    assert not found(case(Open("short")), "converges_if_it_says_so")


def test_rates_that_hold_for_ever_are_enough() -> None:
    class Fair(Opening):
        def rates(self, flows: ActiveFlows, capacities: FloatArray, now: float) -> HeldRates:
            return HeldRates(np.asarray(max_min(flows.incidence, capacities)))

    @frozen
    class Constant(Open):
        """Fair at once."""

        def begin(self, fabric: Fabric) -> Dynamics:
            return Fair(self.fault)

    for name in ("rates_in_time_fit_the_links", "simulations_are_apart", "converges_if_it_says_so"):
        assert not found(case(Constant()), name)
