from __future__ import annotations

import math

import pytest

from fredfw.validation.points import CollectivePoint
from fredfw.validation.results import Score, pooled
from fredfw.validation.systems import find


def point(seconds: float, *, source: str = "a", size: float = 1024.0, ranks: int = 8) -> CollectivePoint:
    system = find("a100-node", 1)
    return CollectivePoint(
        system=system, source=source, pattern="all-reduce", nodes=1, ranks=ranks, seconds=seconds, size=size
    )


def test_closed_form_of_the_errors() -> None:
    # Factors 2, 1/2, 1 and 4: |ln| is ln 2 times 1, 1, 0 and 2, whose mean is ln 2.
    score = Score.of([1.0, 2.0, 3.0, 1.0], [2.0, 1.0, 3.0, 4.0])
    assert score.points == 4
    assert score.error == pytest.approx(1.0)
    assert score.worst == pytest.approx(3.0)
    assert score.ratio == pytest.approx(1.5)
    # The quantile is 7/10 of the way from the third to the fourth: 2^1.7.
    assert score.p90 == pytest.approx(2**1.7 - 1)
    assert score.absolute == pytest.approx((1 + 0.5 + 0 + 3) / 4)


def test_too_fast_is_as_wrong_as_too_slow() -> None:
    assert Score.of([1.0], [3.0]).error == pytest.approx(Score.of([3.0], [1.0]).error) == pytest.approx(2.0)


def test_exact_predictions_have_no_error() -> None:
    assert Score.of([1e-6, 2.0], [1e-6, 2.0]) == Score(2, 1.0, 0.0, 0.0, 0.0, 0.0)


def test_the_pooled_median_is_that_of_the_same_thing() -> None:
    same = [point(1.0), point(2.0, source="b"), point(4.0, source="c")]
    other = point(9.0, ranks=4)
    medians = pooled([*same, other])
    assert medians == {same[0].same: 2.0, other.same: 9.0}


def test_no_prediction_is_nearer_than_the_pooled_median() -> None:
    measured = [1.0, 2.0, 7.0]
    (median,) = pooled(point(one) for one in measured).values()
    least = Score.of(measured, [median] * 3).error
    for step in range(1, 100):
        assert Score.of(measured, [step / 10] * 3).error >= least - 1e-12
    assert least == pytest.approx(math.exp((math.log(2) + math.log(3.5)) / 3) - 1)
