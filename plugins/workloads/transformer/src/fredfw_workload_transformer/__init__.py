"""The workload ``transformer``: 3D-parallel training of GPT-like models, weights stationary or streaming."""

from __future__ import annotations

from collections.abc import Sequence

from fredfw import Workload, hookimpl
from fredfw_workload_transformer.workload import Transformer

__all__ = ["Transformer"]

fredfw_contract = 2


@hookimpl
def fredfw_workloads() -> Sequence[type[Workload]]:
    """Register the workload."""
    return [Transformer]
