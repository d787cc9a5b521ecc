"""The flow-level simulation: bandwidth sharing, the event engine, and the execution of task graphs on it."""

from fredfw.simulation.bounds.collectives import Bound, LowerBounds, lower_bound
from fredfw.simulation.choice import Planner, Simulator
from fredfw.simulation.links import LinkEvent
from fredfw.simulation.lowering import Lowering, ScheduleRun
from fredfw.simulation.network import FlowNetwork
from fredfw.simulation.record import Statistics, Timeline
from fredfw.simulation.run import Executor
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
from fredfw.simulation.variation import Jitter, Stragglers, Variation

__all__ = [
    "ActiveFlows",
    "Bound",
    "CircuitPreempt",
    "Dynamics",
    "Executor",
    "FlowNetwork",
    "HeldRates",
    "Incidence",
    "Jitter",
    "LinkEvent",
    "LowerBounds",
    "Lowering",
    "MaxMin",
    "Planner",
    "Samples",
    "ScheduleRun",
    "SharingPolicy",
    "Simulator",
    "StatefulSharing",
    "Statistics",
    "Stragglers",
    "StrictLinks",
    "Timeline",
    "Variation",
    "WeightedMaxMin",
    "lower_bound",
    "max_min",
]
