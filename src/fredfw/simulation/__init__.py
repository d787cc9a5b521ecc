"""The flow-level simulation: bandwidth sharing, the event engine, and the execution of task graphs on it."""

from fredfw.simulation.bounds import Bound, LowerBounds, lower_bound
from fredfw.simulation.core.loads import Statistics
from fredfw.simulation.executor import Executor
from fredfw.simulation.lowering import Lowering
from fredfw.simulation.network import FlowNetwork
from fredfw.simulation.planner import Plan, Planner
from fredfw.simulation.progress import ScheduleRun
from fredfw.simulation.rates import RateSolver
from fredfw.simulation.rerouting import Rerouting
from fredfw.simulation.sharing import CircuitPreempt, Incidence, MaxMin, SharingPolicy, StrictLinks, max_min
from fredfw.simulation.simulator import Simulator
from fredfw.simulation.timeline import Timeline

__all__ = [
    "Bound",
    "CircuitPreempt",
    "Executor",
    "FlowNetwork",
    "Incidence",
    "LowerBounds",
    "Lowering",
    "MaxMin",
    "Plan",
    "Planner",
    "RateSolver",
    "Rerouting",
    "ScheduleRun",
    "SharingPolicy",
    "Simulator",
    "Statistics",
    "StrictLinks",
    "Timeline",
    "lower_bound",
    "max_min",
]
