"""How far several runs are apart."""

from __future__ import annotations

from attrs import frozen


@frozen
class Spread:
    """The iteration times of several runs.

    Args:
        runs: How many there are.
        mean: Seconds.
        p50: The median, in seconds.
        p99: What 99 of 100 runs do not exceed, in seconds, interpolated between runs.
        standard_error: Of the mean, in seconds: the standard deviation of the runs over the root of their number.
        seconds: Of each run.
    """

    runs: int
    mean: float
    p50: float
    p99: float
    standard_error: float
    seconds: tuple[float, ...]
