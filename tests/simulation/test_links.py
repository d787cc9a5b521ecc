"""Links that fail and come back, on two ways between two NPUs."""

from __future__ import annotations

import numpy as np
import pytest

from fredfw import Framework
from fredfw.fabric import LiveRouter
from fredfw.simulation import FlowNetwork
from fredfw.simulation.links import LiveLinks
from fredfw.simulation.sharing import MaxMin
from fredfw.typing import FloatArray, IntArray


def test_links_that_are_down_have_no_bandwidth_and_flows_avoid_them(monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = Framework().topology("torus", dimensions=[4], link_bandwidth="1 GB/s").build()
    network, links = FlowNetwork(fabric, MaxMin()), LiveLinks(fabric)
    changed: dict[int, float] = {}
    set_bandwidths = network.set_bandwidths

    def recorded(which: IntArray, bandwidths: FloatArray) -> None:
        changed.update(zip(which.tolist(), bandwidths.tolist(), strict=True))
        set_bandwidths(which, bandwidths)

    monkeypatch.setattr(network, "set_bandwidths", recorded)
    one = np.array([0])
    links.up[one] = False
    links.reroute(network, one)
    assert isinstance(links.router, LiveRouter)
    assert changed == {0: 0.0}
    source, destination = fabric.sources[one], fabric.destinations[one]
    around = links.router.route(fabric, source, destination)
    assert 0 not in around.links
    assert len(around.links) == 3
    assert links.left == 1
    links.bandwidths[one] = 5e8  # while it is down
    links.widen(network, one)
    assert changed == {0: 0.0}
    links.up[one] = True
    links.reroute(network, one)
    assert links.router is fabric.defaults.router
    assert changed == {0: pytest.approx(5e8)}
    assert links.left == 1  # what was counted is not forgotten
