from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import fredfw_topology_optical_ring
from fredfw.testing import AdmissionTests, RouterTests, TopologyTests
from fredfw_topology_optical_ring import OpticalRing, ShortestArcRouter


class TestOddRing(TopologyTests):
    plugin = fredfw_topology_optical_ring
    topologies = (
        OpticalRing(npus=9, hop_latency=5e-9, oeo_latency=1e-8, waveguides=2, stripe=True),
        OpticalRing(npus=7, wavelengths=2, pay="on-change", laser_power=10.0, receiver_sensitivity=-20.0),
    )


class TestEvenRing(TopologyTests):
    plugin = fredfw_topology_optical_ring
    topologies = (OpticalRing(), OpticalRing(npus=2), OpticalRing(npus=8, shortage="refuse"))
    expected_failures: ClassVar[Mapping[str, str]] = {
        "routes_do_not_depend_on_the_batch": "flows half way round alternate, so that both directions are used alike"
    }


class TestWavelengths(AdmissionTests):
    plugin = fredfw_topology_optical_ring
    topologies = (
        OpticalRing(npus=12, wavelengths=4, stripe=True),
        OpticalRing(npus=16, wavelengths=1, pay="on-change"),
        OpticalRing(npus=12, wavelengths=1, shortage="refuse"),
    )


class TestShortestArc(RouterTests):
    plugin = fredfw_topology_optical_ring
    routers = (ShortestArcRouter(), ShortestArcRouter(oeo_latency=1e-6))
    fabrics = (OpticalRing(npus=11).build(),)
