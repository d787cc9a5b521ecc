"""The results that the runner returns: plain data for reports, JSON and embedding programs."""

from fredfw.experiment.results.cells import Cell, Failure, TierLoad
from fredfw.experiment.results.comparison import Comparison, Row, Saving, SavingClaim, SavingGroup, Status
from fredfw.experiment.results.jobs import JobResult, Spread, Throughput
from fredfw.experiment.results.reasons import (
    CriticalPath,
    Effect,
    Flip,
    Improvement,
    Interval,
    PathStep,
    Sensitivity,
    WhatIf,
)
from fredfw.experiment.results.runs import CollectiveResult, CollectiveSweep, GraphResult, RunResult

__all__ = [
    "Cell",
    "CollectiveResult",
    "CollectiveSweep",
    "Comparison",
    "CriticalPath",
    "Effect",
    "Failure",
    "Flip",
    "GraphResult",
    "Improvement",
    "Interval",
    "JobResult",
    "PathStep",
    "Row",
    "RunResult",
    "Saving",
    "SavingClaim",
    "SavingGroup",
    "Sensitivity",
    "Spread",
    "Status",
    "Throughput",
    "TierLoad",
    "WhatIf",
]
