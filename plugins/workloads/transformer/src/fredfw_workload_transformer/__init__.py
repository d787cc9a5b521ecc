"""The workloads ``transformer``, 3D-parallel training, and ``inference``, prefill and decode."""

from __future__ import annotations

from collections.abc import Sequence

from fredfw import Workload, hookimpl
from fredfw_workload_transformer.inference import Inference, Latencies, latencies
from fredfw_workload_transformer.workload import Transformer

__all__ = ["Inference", "Latencies", "Transformer", "latencies"]

fredfw_contract = 2


@hookimpl
def fredfw_workloads() -> Sequence[type[Workload]]:
    """Register the workloads."""
    return [Transformer, Inference]
