from __future__ import annotations

from collections.abc import Sequence

import pytest
from attrs import evolve

from fredfw.fabric import IdealTransport, Transport
from fredfw.validation import points
from fredfw.validation.points import (
    CollectivePoint,
    Part,
    find_system,
    folds,
    is_even_power,
    part_of,
    splits,
    systems,
)

EVEN_POWERS = "even powers of two"
POINT = CollectivePoint(
    system=find_system("h100-node", 1),
    source="us",
    pattern="all-reduce",
    nodes=1,
    ranks=8,
    seconds=1.0,
    size=4.0**10,
    table="theirs",
)


def fitted(called: str) -> Transport:
    """Return a transport of that name that was fitted to the table of ``POINT``."""

    class Fitted(IdealTransport):
        name = called

        def fitted_to(self) -> Sequence[str]:
            return ("other", POINT.table)

    return Fitted()


@pytest.mark.parametrize(
    ("size", "even"),
    [(1024, True), (2048, False), (2**20, True), (2**21, False), (2**24 - 64, True), (1_500_000, False), (3, False)],
)
def test_every_other_power_of_two(size: float, even: bool) -> None:
    assert is_even_power(size) is even


@pytest.fixture
def entries(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = {"scale": "node", "patterns": ["all-reduce", "all-gather"], "sizes": EVEN_POWERS}
    without = {"field": "without", "system": ["h100-node"], "source": ["us", "them"]}
    given = {"some": {"fitted": [rule], "without": without}, "every": {"fitted": [{}]}}
    monkeypatch.setattr(points, "splits", lambda: given)


@pytest.mark.usefixtures("entries")
def test_what_no_rule_takes_is_held_out_and_without_rules_nothing_is_fitted() -> None:
    assert part_of(POINT, IdealTransport()) is Part.UNFITTED
    assert part_of(POINT, fitted("some")) is Part.FITTED
    assert part_of(evolve(POINT, size=2.0**21), fitted("some")) is Part.HELD_OUT
    assert part_of(evolve(POINT, pattern="all-to-all"), fitted("some")) is Part.HELD_OUT
    assert part_of(evolve(POINT, system=find_system("h100-cluster", 2)), fitted("some")) is Part.HELD_OUT
    assert part_of(evolve(POINT, size=2.0**21), fitted("every")) is Part.FITTED
    # Nothing was fitted to somebody's own table.
    assert part_of(evolve(POINT, table="own"), fitted("every")) is Part.HELD_OUT
    assert part_of(evolve(POINT, source="own.csv"), fitted("every")) is Part.FITTED


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


def test_the_rules_and_folds_name_what_there_is() -> None:
    for entry in splits().values():
        for rule in entry["fitted"]:
            assert rule.get("scale", "node") in ("node", "cluster")
            assert rule.get("sizes", EVEN_POWERS) == EVEN_POWERS
    assert {one.name for one in folds({"nccl"}) if one.by == "system"} <= set(systems())
