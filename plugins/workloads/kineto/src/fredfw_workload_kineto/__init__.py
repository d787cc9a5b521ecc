"""The workload ``kineto``: traces of the PyTorch profiler."""

from __future__ import annotations

from collections.abc import Sequence

from fredfw import Workload, hookimpl
from fredfw_workload_kineto.measures import uncovered
from fredfw_workload_kineto.workload import Kineto

__all__ = ["Kineto", "uncovered"]

fredfw_contract = 2


@hookimpl
def fredfw_workloads() -> Sequence[type[Workload]]:
    """Register the workload."""
    return [Kineto]
