"""The workload ``dlrm``: training of deep learning recommendation models."""

from __future__ import annotations

from collections.abc import Sequence

from fredfw import Workload, hookimpl
from fredfw_workload_dlrm.workload import Dlrm

__all__ = ["Dlrm"]

fredfw_contract = 2


@hookimpl
def fredfw_workloads() -> Sequence[type[Workload]]:
    """Register the workload."""
    return [Dlrm]
