"""Collective patterns, the schedules that carry them out, and the check that a schedule does what it promises."""

from fredfw.collectives.algorithm import CollectiveAlgorithm, CollectiveRequest
from fredfw.collectives.dimensions import LevelSteps, balanced_shares, ring_schedule
from fredfw.collectives.pattern import Pattern
from fredfw.collectives.schedule import Phase, Schedule, in_series, parallel, pipelined, sequence
from fredfw.collectives.semantics import check

__all__ = [
    "CollectiveAlgorithm",
    "CollectiveRequest",
    "LevelSteps",
    "Pattern",
    "Phase",
    "Schedule",
    "balanced_shares",
    "check",
    "in_series",
    "parallel",
    "pipelined",
    "ring_schedule",
    "sequence",
]
