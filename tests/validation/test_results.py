import json
import math
from collections.abc import Sequence
from typing import Any

import pytest
import showing
from attrs import astuple, evolve
from command_line import words

from fredfw.drawing import Curves, Dots, pictures_of
from fredfw.fabric import IdealTransport, Transport
from fredfw.validation import points, report
from fredfw.validation.points import CollectivePoint, Fold, Part, find_system, folds, part_of, splits, systems
from fredfw.validation.results import Prediction, Score, Validation, pooled

EVEN_POWERS = "even powers of two"
NODE: dict[str, Any] = {"system": find_system("h100-node", 1), "nodes": 1, "ranks": 8}
POINT = CollectivePoint(**NODE, source="us", pattern="all-reduce", seconds=1.0, size=4.0**10, table="theirs")


def prediction(
    size: float, measured: float, predicted: float, *, part: Part = Part.HELD_OUT, pattern: str = "all-reduce"
) -> Prediction:
    system = find_system("a100-node", 1)
    facts: dict[str, Any] = {"system": system, "source": "vtrain", "pattern": pattern, "ranks": 4, "table": ""}
    return Prediction(evolve(POINT, **facts, seconds=measured, size=size), predicted, 0.1 * measured, part)


@pytest.fixture
def validation() -> Validation:
    return Validation(
        {"a100-node": {"name": "fitted", "rate": 2.0}},
        (
            prediction(4.0**10, 1e-5, 2e-5, part=Part.FITTED),
            prediction(2.0**21, 1e-5, 1e-5),
            prediction(2.0**21, 3e-5, 1e-5),
            prediction(2.0**26, 1e-3, 1e-3),
            prediction(2.0**21, 2e-5, 1e-5, pattern="all-gather"),
        ),
        {
            Fold("fitted", "system", "a100-node", {}): (
                prediction(2.0**21, 1e-5, 4e-5),
                prediction(2.0**26, 1e-3, 4e-3),
            ),
            Fold("fitted", "source", "vtrain", {}): (prediction(2.0**21, 1e-5, 3e-5),),
        },
        ("mi300x", "tpu-v4"),
    )


def printed(validation: Validation) -> list[str]:
    return [" ".join(line) for line in words(showing.printed(report.validation_report(validation), 120))]


def test_fitted_points_and_those_held_out_are_never_scored_together(validation: Validation) -> None:
    found = {(one.pattern, one.sizes, one.part): one for one in validation.groups()}
    assert [(*key, one.score.points) for key, one in found.items()] == [
        ("all-gather", "1 to 32 MiB", Part.HELD_OUT, 1),
        ("all-reduce", "64 KiB to 1 MiB", Part.FITTED, 1),
        ("all-reduce", "1 to 32 MiB", Part.HELD_OUT, 2),
        ("all-reduce", "above 32 MiB", Part.HELD_OUT, 1),
        ("all-reduce", "all", Part.FITTED, 1),
        ("all-reduce", "all", Part.HELD_OUT, 3),
    ]
    both = found["all-reduce", "1 to 32 MiB", Part.HELD_OUT]
    assert both.score.error == pytest.approx(3**0.5 - 1)
    # The median of 10 and 30 us is 20 us: factors 2 and 2/3.
    assert both.pooled == pytest.approx(3**0.5 - 1)
    assert found["all-reduce", "above 32 MiB", Part.HELD_OUT].pooled == 0


def test_the_document_has_the_points_and_the_table_what_was_fitted_or_predicted(validation: Validation) -> None:
    document = json.loads(validation.to_json())
    assert document["transports"] == {"a100-node": {"name": "fitted", "rate": 2.0}}
    assert document["points"][0] == {
        "kind": "collective",
        "system": "a100-node",
        "source": "vtrain",
        "pattern": "all-reduce",
        "nodes": 1,
        "ranks": 4,
        "size": 4.0**10,
        "library": "",
        "measured": 1e-5,
        "predicted": 2e-5,
        "ideal": pytest.approx(1e-6),
        "part": "fitted",
        "status": "calibrated",
    }
    assert document["scores"][1]["score"]["ratio"] == pytest.approx(2.0)
    assert document["no_validation_data"] == ["mi300x", "tpu-v4"]
    system, source = document["left_out"]
    assert (system["by"], system["name"], len(system["points"]), len(system["scores"])) == ("system", "a100-node", 2, 1)
    assert source["scores"][0]["score"]["error"] == pytest.approx(2.0)
    lines = printed(validation)
    assert "A100 node all-reduce 64 KiB to 1 MiB calibrated 1 2 100 100 100 100 0.0 900" in lines
    assert "A100 node all-reduce 1 to 32 MiB predicted 2 0.667 73.2 169 200 33.3 73.2 900" in lines
    assert "predicted: held out: follows from constants fitted to other points" in lines
    assert "measured by vtrain: VIA-Research/vTrain@f8dda84: trace/*/AR_GPUn" in lines
    assert "no validation data: mi300x, tpu-v4" in lines
    assert not any(line.startswith("simulated:") for line in lines)
    assert any(line.startswith("ideal: ") for line in lines)
    title = lines.index("Predictions of a system by a fit without it")
    assert "a100-node A100 node all-reduce 2 4 300 300 300 300 41.4 900" in lines[title:]
    title = lines.index("Predictions of a source by a fit without it")
    # The median of all who measured that, 20 us, is twice the time of the one that is left out.
    assert "vtrain A100 node all-reduce 1 3 200 200 200 200 100 900" in lines[title:]
    alone = evolve(validation, transports={"a100-node": {"name": "ideal"}}, left_out={})
    assert not any("ideal" in line for line in printed(alone)[1:])


def test_pictures_have_times_by_status_and_bus_bandwidths_over_sizes(validation: Validation) -> None:
    fitted, held, rates = pictures_of(validation)[1]
    assert isinstance(fitted, Dots)
    assert isinstance(held, Dots)
    assert [(dot.x, dot.y) for dot in fitted.dots] == [(1e-5, 2e-5)]
    assert len(held.dots) == 4
    assert fitted.diagonal
    assert isinstance(rates, Curves)
    assert rates.title == "A100 node, 4 ranks: busbw"
    # busbw of an all-reduce among 4 is 3/2 of size / time.
    (reduce,) = (one for one in rates.series if one.name == "all-reduce")
    assert len(reduce.measured) == 4
    assert reduce.measured[-1] == pytest.approx((2**26, 1.5 * 2**26 / 1e-3 / 1e9))
    assert reduce.points[-1] == reduce.measured[-1]


@pytest.mark.parametrize(
    ("measured", "predicted", "score"),
    [
        # Factors 2, 1/2, 1 and 4: |ln| is ln 2 times 1, 1, 0 and 2, whose mean is ln 2; its quantile is 7/10 of the way
        # from the third to the fourth.
        ([1.0, 2.0, 3.0, 1.0], [2.0, 1.0, 3.0, 4.0], Score(4, 1.5, 1.0, 2**1.7 - 1, 3.0, (1 + 0.5 + 0 + 3) / 4)),
        ([1e-6, 2.0], [1e-6, 2.0], Score(2, 1.0, 0.0, 0.0, 0.0, 0.0)),
        # Too fast is as wrong as too slow.
        ([1.0], [3.0], Score(1, 3.0, 2.0, 2.0, 2.0, 2.0)),
        ([3.0], [1.0], Score(1, 1 / 3, 2.0, 2.0, 2.0, 2 / 3)),
    ],
)
def test_closed_form_of_the_errors(measured: list[float], predicted: list[float], score: Score) -> None:
    assert astuple(Score.of(measured, predicted)) == pytest.approx(astuple(score))


def test_no_prediction_is_nearer_than_the_pooled_median_of_the_same_thing() -> None:
    measured = [1.0, 2.0, 7.0]
    same = [prediction(1024.0, seconds, 1.0).point for seconds in measured]
    other = evolve(same[0], ranks=8, seconds=9.0)
    assert pooled([*same, other]) == {same[0].same: 2.0, other.same: 9.0}
    least = Score.of(measured, [2.0] * 3).error
    assert all(Score.of(measured, [step / 10] * 3).error >= least - 1e-12 for step in range(1, 100))
    assert least == pytest.approx(math.exp((math.log(2) + math.log(3.5)) / 3) - 1)


# --- What is fitted to, and what is held out.


def fitted(called: str) -> Transport:
    """Return a transport of that name that was fitted to the table of ``POINT``."""

    class Fitted(IdealTransport):
        name = called

        def fitted_to(self) -> Sequence[str]:
            return ("other", POINT.table)

    return Fitted()


@pytest.mark.parametrize(("size", "even"), [(2**20, True), (2**21, False), (2**24 - 64, True), (1_500_000, False)])
def test_every_other_power_of_two(size: float, even: bool) -> None:
    assert points.is_even_power(size) is even


@pytest.fixture
def entries(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = {"scale": "node", "patterns": ["all-reduce", "all-gather"], "sizes": EVEN_POWERS}
    without = {"field": "without", "system": ["h100-node"], "source": ["us", "them"]}
    given = {"some": {"fitted": [rule], "without": without}, "every": {"fitted": [{}]}}
    monkeypatch.setattr(points, "splits", lambda: given)


@pytest.mark.usefixtures("entries")
def test_what_no_rule_takes_is_held_out_and_fits_are_without_a_system_or_a_source() -> None:
    assert part_of(POINT, IdealTransport()) is Part.UNFITTED
    assert part_of(POINT, fitted("some")) is Part.FITTED
    assert part_of(evolve(POINT, size=2.0**21), fitted("some")) is Part.HELD_OUT
    assert part_of(evolve(POINT, pattern="all-to-all"), fitted("some")) is Part.HELD_OUT
    assert part_of(evolve(POINT, system=find_system("h100-cluster", 2)), fitted("some")) is Part.HELD_OUT
    assert part_of(evolve(POINT, size=2.0**21), fitted("every")) is Part.FITTED
    # Nothing was fitted to somebody's own table.
    assert part_of(evolve(POINT, table="own"), fitted("every")) is Part.HELD_OUT
    assert part_of(evolve(POINT, source="own.csv"), fitted("every")) is Part.FITTED
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
