"""How far predictions are from measurements, in figures."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import frozen

from fredfw.validation.points import Point


@frozen
class Score:
    """Errors of predicted times; an error ``e`` is a factor of ``1 + e`` too long or too short.

    Args:
        points: How many there are.
        ratio: Median of predicted / measured.
        error: Geometric mean error, ``exp(mean(|ln(predicted / measured)|)) - 1``.
        p90: The error that nine of ten points do not exceed.
        worst: The largest error.
        absolute: Mean absolute error, ``mean(|predicted / measured - 1|)``.
    """

    points: int
    ratio: float
    error: float
    p90: float
    worst: float
    absolute: float

    @classmethod
    def of(cls, measured: Sequence[float], predicted: Sequence[float]) -> Score:
        """Return the score of ``predicted`` seconds, all above 0; raises ``ValueError`` where there are none."""
        if not len(measured):
            raise ValueError("no points")
        ratios = np.asarray(predicted) / np.asarray(measured)
        errors = np.abs(np.log(ratios))
        ratio, absolute = np.median(ratios), np.abs(ratios - 1).mean()
        error, p90, worst = np.expm1([errors.mean(), np.quantile(errors, 0.9), errors.max()])
        return cls(len(ratios), float(ratio), float(error), float(p90), float(worst), float(absolute))


def pooled(points: Iterable[Point]) -> Mapping[tuple[Any, ...], float]:
    """Return the median of all measured times of the same thing, by ``Point.same``.

    Its error is what the measurements leave to any model: none that does not know who measured can be nearer to them.
    """
    times: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    for point in points:
        times[point.same].append(point.seconds)
    return {same: statistics.median(listed) for same, listed in times.items()}
