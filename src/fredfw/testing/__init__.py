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

from fredfw.testing.admission import AdmissionTests, check_admission
from fredfw.testing.collective import CollectiveTests, check_collective
from fredfw.testing.conformance import ConformanceError
from fredfw.testing.exporter import ExporterTests, check_exporter
from fredfw.testing.models import (
    PlacementTests,
    SamplerTests,
    TransportTests,
    check_placement,
    check_sampler,
    check_transport,
)
from fredfw.testing.routes import RouterTests, check_router
from fredfw.testing.sharing import SharingPolicyTests, check_sharing_policy
from fredfw.testing.topology import TopologyTests, check_topology
from fredfw.testing.workload import WorkloadTests, check_workload

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
