"""Where a number comes from."""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """Where a number comes from."""

    REFERENCE = "reference"
    """Published by another source."""
    MEASURED = "measured"
    """Timed on hardware by another source."""
    SIMULATED = "simulated"
    """Nothing was fitted."""
    CALIBRATED = "calibrated"
    """The cell that a scalar was fitted to."""
    PREDICTED = "predicted"
    """Another cell of a workload that has a fitted scalar."""
