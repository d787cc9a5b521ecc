"""The flow-level simulation: bandwidth sharing, the event engine, and the execution of task graphs on it."""

from fredfw.simulation.bounds import Bound, LowerBounds, lower_bound
from fredfw.simulation.detours import Rerouting
from fredfw.simulation.dynamics import ActiveFlows, Dynamics, HeldRates, Samples, StatefulSharing
from fredfw.simulation.executor import Executor
from fredfw.simulation.lowering import Lowering
from fredfw.simulation.network import FlowNetwork
from fredfw.simulation.planner import Plan, Planner
from fredfw.simulation.schedules import ScheduleRun
from fredfw.simulation.sharing import (
    CircuitPreempt,
    Incidence,
    MaxMin,
    SharingPolicy,
    StrictLinks,
    WeightedMaxMin,
    max_min,
)
from fredfw.simulation.simulator import Simulator
from fredfw.simulation.statistics import Statistics
from fredfw.simulation.timeline import Timeline

__all__ = [
    "ActiveFlows",
    "Bound",
    "CircuitPreempt",
    "Dynamics",
    "Executor",
    "FlowNetwork",
    "HeldRates",
    "Incidence",
    "LowerBounds",
    "Lowering",
    "MaxMin",
    "Plan",
    "Planner",
    "Rerouting",
    "Samples",
    "ScheduleRun",
    "SharingPolicy",
    "Simulator",
    "StatefulSharing",
    "Statistics",
    "StrictLinks",
    "Timeline",
    "WeightedMaxMin",
    "lower_bound",
    "max_min",
]
