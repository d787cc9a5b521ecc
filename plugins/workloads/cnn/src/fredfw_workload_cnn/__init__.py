"""The workload ``cnn``: data-parallel training of convolutional networks."""

from __future__ import annotations

from collections.abc import Sequence

from fredfw import Workload, hookimpl
from fredfw_workload_cnn.workload import Cnn

__all__ = ["Cnn"]

fredfw_contract = 2


@hookimpl
def fredfw_workloads() -> Sequence[type[Workload]]:
    """Register the workload."""
    return [Cnn]
