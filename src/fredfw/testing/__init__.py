"""The conformance kit: proves that a plugin keeps the contract, or says what to mend.

One call checks one configuration, with or without pytest::

    from fredfw.testing import check_topology

    check_topology(Dragonfly(groups=3))

The classes make a pytest test of every check and configuration::

    from fredfw.testing import TopologyTests

    class TestDragonfly(TopologyTests):
        topologies = [Dragonfly(), Dragonfly(groups=3)]
        expected_failures = {"latency_is_symmetric": "the long links are one-way"}

A check is named after the property that it tests. What cannot hold is listed in ``expected_failures``, each with its
reason; the kit is strict about them: an empty reason, or a check that holds after all, is a failure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fredfw.testing.admission import check_admission
from fredfw.testing.collective import check_collective
from fredfw.testing.conformance import ConformanceError
from fredfw.testing.exporter import check_exporter
from fredfw.testing.placement import check_placement
from fredfw.testing.routes import check_router
from fredfw.testing.sampler import check_sampler
from fredfw.testing.sharing import check_sharing_policy
from fredfw.testing.topology import check_topology
from fredfw.testing.transport import check_transport
from fredfw.testing.workload import check_workload

if TYPE_CHECKING:
    from fredfw.testing.classes import (
        AdmissionTests,
        CollectiveTests,
        ExporterTests,
        PlacementTests,
        RouterTests,
        SamplerTests,
        SharingPolicyTests,
        TopologyTests,
        TransportTests,
        WorkloadTests,
    )

__all__ = [
    "AdmissionTests",
    "CollectiveTests",
    "ConformanceError",
    "ExporterTests",
    "PlacementTests",
    "RouterTests",
    "SamplerTests",
    "SharingPolicyTests",
    "TopologyTests",
    "TransportTests",
    "WorkloadTests",
    "check_admission",
    "check_collective",
    "check_exporter",
    "check_placement",
    "check_router",
    "check_sampler",
    "check_sharing_policy",
    "check_topology",
    "check_transport",
    "check_workload",
]


def __getattr__(name: str) -> Any:
    """Import the classes when they are asked for: they need pytest, the calls do not."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from fredfw.testing import classes

    return getattr(classes, name)
