"""Workloads: training iterations as task graphs."""

from fredfw.workloads.compute import Npu
from fredfw.workloads.graph import GraphBuilder, TaskGraph, TaskKind
from fredfw.workloads.kernels import Gemm, Kernels
from fredfw.workloads.parallelism import Parallelism
from fredfw.workloads.placement import LinearPlacement, MegatronPlacement, Placement, SnakePlacement
from fredfw.workloads.workload import MemoryUse, System, Work, Workload

__all__ = [
    "Gemm",
    "GraphBuilder",
    "Kernels",
    "LinearPlacement",
    "MegatronPlacement",
    "MemoryUse",
    "Npu",
    "Parallelism",
    "Placement",
    "SnakePlacement",
    "System",
    "TaskGraph",
    "TaskKind",
    "Work",
    "Workload",
]
