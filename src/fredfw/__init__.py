"""Flow-level simulation of collective communication in distributed DNN training, on pluggable interconnects.

This is the public API. Programs start with ``Framework``. Plugins derive from the interfaces (``Topology``,
``Router``, ``CollectiveAlgorithm``, ``Workload``, ``Placement``, ``SharingPolicy``, ``Exporter``, ``Sampler``) and
register their classes with ``hookimpl``. The modules ``errors``, ``limits``, ``tables``, ``units``, ``typing``,
``testing`` (the conformance kit), ``cli`` (what commands of plugins need), ``drawing`` (what exporters draw) and
``embed`` (the network for other simulators) are public as well.
"""

import warnings
from importlib import import_module
from typing import Any

import lazy_loader

__version__ = "0.1.0"

# What the stub beside this file names is imported when it is used.
_public, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ = [name for name in __all__ if name not in ("errors", "tables", "typing")]  # other modules

# Names that were public here until their modules were; they go with 1.0.
_MOVED = {
    name: module
    for module, names in (
        ("fredfw.fabric", ("AlwaysStart", "Decision", "IdealTransport", "MemoryTier", "Price", "ValiantRouter")),
        ("fredfw.fabric", ("with_memories",)),
        ("fredfw.workloads", ("LinearPlacement", "MegatronPlacement", "NestedPlacement")),
        ("fredfw.simulation", ("Bound", "FlowNetwork", "MaxMin", "StrictLinks", "WeightedMaxMin", "lower_bound")),
        ("fredfw.simulation", ("Jitter", "LinkEvent", "Stragglers", "Variation")),
        ("fredfw.experiment.results", ("CollectiveSweep", "CriticalPath", "GraphResult", "Improvement", "PathStep")),
        ("fredfw.experiment.results", ("Row", "Spread", "Status", "WhatIf")),
        ("fredfw.experiment.why", ("LinkLoad", "TierShare", "critical_path", "tier_shares")),
        ("fredfw.experiment.study.results", ("Objective", "RungCount", "RungError", "StudyPoint", "StudyResult")),
        ("fredfw.plugin.manager", ("Switches",)),
    )
    for name in names
}


def __getattr__(name: str) -> Any:
    if name not in _MOVED:
        return _public(name)
    warnings.warn(f"fredfw.{name} is {_MOVED[name]}.{name} now", DeprecationWarning, stacklevel=2)
    return getattr(import_module(_MOVED[name]), name)
