"""How flows share links: interfaces of sharing policies, and those of the core."""

from fredfw.simulation.sharing.policies import (
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
    sharing_of,
)

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
