"""The results that the runner returns: plain data for reports, JSON and embedding programs."""

from fredfw.experiment.results.comparison import (
    Cell,
    Comparison,
    Failure,
    Row,
    Saving,
    SavingClaim,
    SavingGroup,
    Status,
    TierLoad,
)
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
from fredfw.experiment.results.runs import (
    CollectiveResult,
    CollectiveSweep,
    GraphResult,
    JobResult,
    RunResult,
    Spread,
    Throughput,
)

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
