"""The flow-level simulation: bandwidth sharing, the event engine, and the execution of task graphs on it."""

from fredfw.simulation.bounds import Bound, LowerBounds, lower_bound
from fredfw.simulation.choice import Plan, Planner
from fredfw.simulation.lowering import Lowering
from fredfw.simulation.network import FlowNetwork
from fredfw.simulation.record import Statistics, Timeline
from fredfw.simulation.rerouting import Rerouting
from fredfw.simulation.run import Executor
from fredfw.simulation.schedules import ScheduleRun
from fredfw.simulation.sharing import (
    ActiveFlows,
    CircuitPreempt,
    Dynamics,
    HeldRates,
    Incidence,
    MaxMin,
    Samples,
    SharingPolicy,
    StatefulSharing,
    StrictLinks,
    WeightedMaxMin,
    max_min,
)
from fredfw.simulation.simulator import Simulator

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
