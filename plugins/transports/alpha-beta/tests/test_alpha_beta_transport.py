from typing import Any

import pytest

import fredfw_transport_alpha_beta
from fredfw import Fabric, Framework
from fredfw.errors import InputError
from fredfw.testing import TransportTests
from fredfw_topology_cluster import Cluster
from fredfw_topology_switch import Switch
from fredfw_transport_alpha_beta import AlphaBeta

SIZE, BANDWIDTH, LATENCY = 8e6, 1e9, 1e-6


def star(npus: int, **fields: Any) -> Fabric:
    fabric = Switch(npus=npus, link_bandwidth=BANDWIDTH, link_latency=LATENCY / 2).build()
    return fabric.with_defaults(transport=AlphaBeta(**fields))


def duration(fabric: Fabric, algorithm: str = "ring", **options: Any) -> float:
    return Framework().simulate_collective(fabric, "all-reduce", size=SIZE, algorithm=algorithm, **options).duration


@pytest.mark.parametrize("fidelity", ["compressed", "exact"])
@pytest.mark.parametrize("npus", [2, 5, 8])
def test_a_ring_takes_launch_and_steps_and_bytes(npus: int, fidelity: str) -> None:
    fabric = star(npus, launch="10 us", step="3 us", message="2 us", efficiency=0.8)
    steps = 2 * (npus - 1)
    expected = 10e-6 + steps * (LATENCY + 3e-6 + 2e-6 + SIZE / npus / BANDWIDTH / 0.8)
    assert duration(fabric, fidelity=fidelity) == pytest.approx(expected, rel=1e-9)


def test_every_message_of_a_step_costs_and_caps_and_reductions_limit_flows() -> None:
    # In a direct exchange each NPU sends to all others: n - 1 messages in each of two steps.
    fabric = star(5, message="2 us")
    expected = 2 * (LATENCY + 4 * 2e-6 + 4 * SIZE / 5 / BANDWIDTH)
    assert duration(fabric, "direct") == pytest.approx(expected, rel=1e-9)
    capped = 2 * (4 * LATENCY + 4 * SIZE / 5 / 250e6)
    assert duration(star(5, cap="250 MB/s")) == pytest.approx(capped, rel=1e-9)
    reduced = 4 * (LATENCY + SIZE / 5 / 250e6) + 4 * (LATENCY + SIZE / 5 / BANDWIDTH)
    assert duration(star(5, reduction="250 MB/s")) == pytest.approx(reduced, rel=1e-9)


def test_tiers_have_values_of_their_own() -> None:
    cluster = Cluster(preset="dgx-a100", nodes=2).build()

    def ring(group: list[int], step: Any) -> float:
        return duration(cluster.with_defaults(transport=AlphaBeta(step=step)), group=group)

    inside, across = [0, 1], [0, 8]
    assert ring(inside, ["1 us", "5 us"]) - ring(inside, 0) == pytest.approx(2e-6, rel=1e-6)
    assert ring(across, ["1 us", "5 us"]) - ring(across, 0) == pytest.approx(10e-6, rel=1e-6)
    assert ring(across, ["5 us"]) == pytest.approx(ring(across, "5 us"), rel=1e-12)


def test_it_refuses_values_for_tiers_that_are_not_there() -> None:
    with pytest.raises(InputError, match="efficiency: there are none"):
        AlphaBeta(efficiency=[])  # type: ignore[arg-type]  # as in a file
    with pytest.raises(InputError, match="step: 2 values for the 1 tier of 'switch of 4'"):
        duration(star(4, step=["1 us", "2 us"]))


class TestAlphaBeta(TransportTests):
    plugin = fredfw_transport_alpha_beta
    transports = (AlphaBeta(), AlphaBeta(launch=1e-5, step=(1e-6,), message=(1e-6,), efficiency=(0.8,), cap=1e9))
