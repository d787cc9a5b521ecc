from __future__ import annotations

import pytest
from attrs import evolve

from fredfw.validation.points import CollectivePoint
from fredfw.validation.splits import EVEN_POWERS, Part, Rule, is_even_power, part_of, rules
from fredfw.validation.systems import find, known

POINT = CollectivePoint(
    system=find("h100-node", 1), source="us", pattern="all-reduce", nodes=1, ranks=8, seconds=1.0, size=4.0**10
)


@pytest.mark.parametrize(
    ("size", "even"),
    [(1024, True), (2048, False), (2**20, True), (2**21, False), (2**24 - 64, True), (1_500_000, False), (3, False)],
)
def test_every_other_power_of_two(size: float, even: bool) -> None:
    assert is_even_power(size) is even


def test_a_transport_without_rules_is_fitted_to_nothing() -> None:
    assert part_of(POINT, "ideal", {}) is Part.UNFITTED


def test_what_no_rule_takes_is_held_out() -> None:
    given = {"fitted": (Rule(("h100-node",), ("all-reduce", "all-gather"), EVEN_POWERS),)}
    assert part_of(POINT, "fitted", given) is Part.FITTED
    assert part_of(evolve(POINT, size=2.0**21), "fitted", given) is Part.HELD_OUT
    assert part_of(evolve(POINT, pattern="all-to-all"), "fitted", given) is Part.HELD_OUT
    assert part_of(evolve(POINT, system=find("h200-node", 1)), "fitted", given) is Part.HELD_OUT
    assert part_of(evolve(POINT, size=2.0**21), "fitted", {"fitted": (Rule(),)}) is Part.FITTED


def test_the_rules_name_systems_that_there_are() -> None:
    named = {name for listed in rules().values() for rule in listed for name in rule.systems}
    assert named <= set(known())


def test_sizes_that_are_not_known_are_refused() -> None:
    with pytest.raises(ValueError, match="odd"):
        Rule(sizes="odd")
