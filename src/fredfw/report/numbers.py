"""Numbers as tables show them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Self

from attrs import frozen

from fredfw.experiment.metrics import Measured, Metric
from fredfw.units import Unit, render

NO_MFU = "MFU is omitted where compute_scale is below 1: computation may then exceed the NPU's peak"
"""What is said where a model's FLOPs are known, and their share of the peak is not."""
TIME_UNITS = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))  # with how many seconds each is
_MOST_DECIMALS = 3
MANY = 1000  # from here on there are no decimals


def count(value: float) -> str:
    return f"{value:,.15g}"


def share(part: float, whole: float = 1.0) -> str:
    """Return which share ``part`` is of ``whole``, with its sign; none of a whole that is 0."""
    return f"{100 * part / whole if whole else 0.0:.1f} %"


def metric(one: Metric, cell: Measured) -> str:
    """With a unit where a header does not say it; a share with three digits, all else with four or more; or a dash."""
    value = one.of(cell)
    if value is None:
        return "-"
    if one.unit in ("J", "B"):
        return render(value, Unit(one.unit))
    if not one.unit:
        return f"{100 * value:#.3g}"
    return f"{value:,.0f}" if value >= MANY else f"{value:#.4g}"


def unit_for(largest: float, units: Sequence[tuple[str, float]] = TIME_UNITS) -> tuple[str, float]:
    """Return the first of ``units``, which are in falling order, that ``largest`` has one of; or the last."""
    return next((one for one in units if largest >= one[1]), units[-1])


@frozen
class TimeScale:
    """How times are written that are added by eye: in one unit, with equal decimals."""

    unit: str
    seconds: float  # that it has
    decimals: int

    @classmethod
    def of(cls, seconds: Iterable[float]) -> Self:
        """Return the scale on which the longest time has four digits and the shortest three, with few decimals."""
        times = list(seconds)
        longest, shortest = max(times, default=0.0), min(times, default=0.0)
        units = TIME_UNITS[TIME_UNITS.index(unit_for(longest)) :]
        scales = [cls(name, unit, max(decimals(longest / unit), decimals(shortest / unit, 3))) for name, unit in units]
        return next((scale for scale in scales if scale.decimals <= _MOST_DECIMALS), scales[-1])

    def text(self, seconds: float) -> str:
        return f"{seconds / self.seconds:.{self.decimals}f}"

    def part(self, seconds: float) -> str:
        """Return a part of a time; nothing is a dash, so that what is there stands out."""
        return self.text(seconds) if seconds else "-"


def decimals(value: float, digits: int = 4) -> int:
    """Return the decimals that show ``value`` with ``digits`` significant digits, at least 0 and at most 6."""
    magnitude = math.floor(math.log10(value)) if value > 0 else 0
    return min(max(digits - 1 - magnitude, 0), 6)


def aligned(column: Sequence[float]) -> list[str]:
    """Return numbers with equal decimals: two, or as many as the smallest needs for four significant digits."""
    digits = max(2, decimals(min((value for value in column if value), default=1.0)))
    return [f"{value:.{digits}f}" for value in column]
