"""Flow-level simulation of collective communication in distributed DNN training, on pluggable interconnects.

This is the public API. Programs start with ``Framework``. Plugins derive from the interfaces (``Topology``,
``Router``, ``CollectiveAlgorithm``, ``Workload``, ``Placement``, ``SharingPolicy``, ``Exporter``) and register their
classes with ``hookimpl``. The modules ``errors``, ``units``, ``typing``, ``testing`` (the conformance kit), ``cli``
(what commands of plugins need) and ``embed`` (the network for other simulators) are public as well.
"""

from fredfw import errors, typing, units
from fredfw.collectives import (
    CollectiveAlgorithm,
    CollectiveRequest,
    Pattern,
    Phase,
    Schedule,
    check,
    in_series,
    parallel,
    pipelined,
    ring_schedule,
    sequence,
)
from fredfw.experiment.results import CollectiveResult, Comparison, Row, RunResult, Status
from fredfw.experiment.spec import Experiment
from fredfw.fabric import (
    Admission,
    AlwaysStart,
    Capabilities,
    Decision,
    Decompose,
    Fabric,
    FlowSet,
    GroupView,
    Level,
    NodeKind,
    Operation,
    Refuse,
    Router,
    Routes,
    ShortestPathRouter,
    Split,
    Start,
    Topology,
    Wait,
)
from fredfw.framework import Framework
from fredfw.plugin import CONTRACT_VERSION, hookimpl
from fredfw.plugin.exporter import Exporter
from fredfw.plugin.manager import PluginManager, Switches
from fredfw.simulation import Bound, FlowNetwork, Incidence, SharingPolicy, Timeline, lower_bound, max_min
from fredfw.workloads import (
    GraphBuilder,
    MemoryUse,
    Npu,
    Parallelism,
    Placement,
    System,
    TaskGraph,
    TaskKind,
    Work,
    Workload,
)

__version__ = "0.1.0"

__all__ = [
    "CONTRACT_VERSION",
    "Admission",
    "AlwaysStart",
    "Bound",
    "Capabilities",
    "CollectiveAlgorithm",
    "CollectiveRequest",
    "CollectiveResult",
    "Comparison",
    "Decision",
    "Decompose",
    "Experiment",
    "Exporter",
    "Fabric",
    "FlowNetwork",
    "FlowSet",
    "Framework",
    "GraphBuilder",
    "GroupView",
    "Incidence",
    "Level",
    "MemoryUse",
    "NodeKind",
    "Npu",
    "Operation",
    "Parallelism",
    "Pattern",
    "Phase",
    "Placement",
    "PluginManager",
    "Refuse",
    "Router",
    "Routes",
    "Row",
    "RunResult",
    "Schedule",
    "SharingPolicy",
    "ShortestPathRouter",
    "Split",
    "Start",
    "Status",
    "Switches",
    "System",
    "TaskGraph",
    "TaskKind",
    "Timeline",
    "Topology",
    "Wait",
    "Work",
    "Workload",
    "__version__",
    "check",
    "errors",
    "hookimpl",
    "in_series",
    "lower_bound",
    "max_min",
    "parallel",
    "pipelined",
    "ring_schedule",
    "sequence",
    "typing",
    "units",
]
