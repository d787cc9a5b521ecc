from __future__ import annotations

import pytest
from attrs import evolve

from fredfw.validation import splits
from fredfw.validation.points import CollectivePoint
from fredfw.validation.splits import EVEN_POWERS, Part, Rule, folds, is_even_power, part_of, rules
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


@pytest.fixture
def entries(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = {"systems": ["h100-node"], "patterns": ["all-reduce", "all-gather"], "sizes": EVEN_POWERS}
    without = {"field": "without", "system": ["h100-node"], "source": ["us", "them"]}
    own = [POINT.source]
    given = {"some": {"sources": own, "fitted": [rule], "without": without}, "every": {"sources": own, "fitted": [{}]}}
    monkeypatch.setattr(splits, "_entries", lambda: given)


def test_a_transport_without_rules_is_fitted_to_nothing() -> None:
    assert part_of(POINT, "ideal") is Part.UNFITTED


@pytest.mark.usefixtures("entries")
def test_what_no_rule_takes_is_held_out() -> None:
    assert part_of(POINT, "some") is Part.FITTED
    assert part_of(evolve(POINT, size=2.0**21), "some") is Part.HELD_OUT
    assert part_of(evolve(POINT, pattern="all-to-all"), "some") is Part.HELD_OUT
    assert part_of(evolve(POINT, system=find("h200-node", 1)), "some") is Part.HELD_OUT
    assert part_of(evolve(POINT, size=2.0**21), "every") is Part.FITTED
    # Nothing was fitted to somebody's own table.
    assert part_of(evolve(POINT, source="own.csv"), "every") is Part.HELD_OUT


@pytest.mark.usefixtures("entries")
def test_fits_without_a_system_or_a_source() -> None:
    found = list(folds({"some", "every"}))
    assert [(one.by, one.name, dict(one.fields)) for one in found] == [
        ("system", "h100-node", {"without": "h100-node"}),
        ("source", "us", {"without": "us"}),
        ("source", "them", {"without": "them"}),
    ]
    assert [one.leaves_out(POINT) for one in found] == [True, True, False]
    assert not list(folds({"every"}))


def test_the_rules_name_systems_that_there_are() -> None:
    named = {name for listed in rules().values() for rule in listed for name in rule.systems}
    assert named <= set(known())


def test_sizes_that_are_not_known_are_refused() -> None:
    with pytest.raises(ValueError, match="odd"):
        Rule(sizes="odd")
