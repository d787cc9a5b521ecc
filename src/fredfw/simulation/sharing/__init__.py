"""How flows share links: interfaces of sharing policies, and those of the core."""

from fredfw.simulation.sharing.policies import (
    CircuitPreempt,
    Incidence,
    MaxMin,
    SharingPolicy,
    StrictLinks,
    WeightedMaxMin,
    max_min,
    sharing_of,
)
from fredfw.simulation.sharing.stateful import ActiveFlows, Dynamics, HeldRates, Samples, StatefulSharing

__all__ = [
    "ActiveFlows",
    "CircuitPreempt",
    "Dynamics",
    "HeldRates",
    "Incidence",
    "MaxMin",
    "Samples",
    "SharingPolicy",
    "StatefulSharing",
    "StrictLinks",
    "WeightedMaxMin",
    "max_min",
    "sharing_of",
]
