"""Workloads: training iterations as task graphs."""

from fredfw.workloads.buckets import GradientBuckets
from fredfw.workloads.compute import Npu
from fredfw.workloads.graph import GraphBuilder, TaskGraph
from fredfw.workloads.kernels import Attention, AttentionModel, Gemm, KernelModel, Kernels
from fredfw.workloads.kinds import TaskKind
from fredfw.workloads.mesh import DeviceMesh
from fredfw.workloads.placement import LinearPlacement, MegatronPlacement, NestedPlacement, Placement, SnakePlacement
from fredfw.workloads.workload import (
    Label,
    MemoryUse,
    System,
    TraceCalls,
    TraceInfo,
    TraceWorkload,
    Work,
    Workload,
    samples_per_replica,
)

__all__ = [
    "Attention",
    "AttentionModel",
    "DeviceMesh",
    "Gemm",
    "GradientBuckets",
    "GraphBuilder",
    "KernelModel",
    "Kernels",
    "Label",
    "LinearPlacement",
    "MegatronPlacement",
    "MemoryUse",
    "NestedPlacement",
    "Npu",
    "Placement",
    "SnakePlacement",
    "System",
    "TaskGraph",
    "TaskKind",
    "TraceCalls",
    "TraceInfo",
    "TraceWorkload",
    "Work",
    "Workload",
    "samples_per_replica",
]
