"""The workload ``gnmt``: data-parallel training of LSTM translation models."""

from __future__ import annotations

from collections.abc import Sequence

from fredfw import Workload, hookimpl
from fredfw_workload_gnmt.workload import Gnmt

__all__ = ["Gnmt"]

fredfw_contract = 2


@hookimpl
def fredfw_workloads() -> Sequence[type[Workload]]:
    """Register the workload."""
    return [Gnmt]
