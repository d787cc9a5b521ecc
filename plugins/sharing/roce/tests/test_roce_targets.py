"""One bottleneck: what the published models come to, by their own equations and by integrations of others.

Sources of what tests quote: "ECN or Delay", CoNEXT 2016, and the parameters of its authors.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, expm1, log1p

import numpy as np
import pytest
from attrs import frozen

from fredfw import ActiveFlows, Fabric, Incidence
from fredfw.typing import FloatArray
from fredfw_sharing_roce import Dcqcn, Dctcp, Hpcc, Timely
from fredfw_sharing_roce.fluid import Fluid, FluidDynamics

GBPS = 1e9 / 8


@frozen(eq=False)
class Window:
    """What a bottleneck and its flows did between two times."""

    queue: FloatArray  # (T,) bytes
    rates: FloatArray  # (T, F) bytes per second that senders want
    carried: FloatArray  # (T,) bytes per second that come out


def funnel(flows: int, capacity: float) -> Fabric:
    """Hosts and one that they send to, around a switch; the last link leads to it."""
    sources = np.concatenate([np.arange(flows), [flows + 1]])
    destinations = np.concatenate([np.full(flows, flows + 1), [flows]])
    return Fabric("funnel", np.array([0] * (flows + 1) + [1]), sources, destinations, capacity, 5e-7, 0.0)


def endless(flows: int) -> ActiveFlows:
    """One from each host."""
    links = np.stack([np.arange(flows), np.full(flows, flows)], axis=1).ravel()
    return ActiveFlows(
        incidence=Incidence(np.arange(0, 2 * flows + 1, 2), links, None, None, np.zeros(flows, dtype=np.intp)),
        ids=np.arange(flows),
        births=np.zeros(flows),
        sizes=np.full(flows, 1e15),
        remaining=np.full(flows, 1e15),
        latencies=np.zeros(flows),
        labels=("",) * flows,
    )


def watched(policy: Fluid, flows: int, capacity: float, seconds: float, last: float) -> Window:
    """Let endless flows share the funnel; return what happened in the ``last`` of so many ``seconds``."""
    fabric, active = funnel(flows, capacity), endless(flows)
    dynamics = policy.begin(fabric)
    assert isinstance(dynamics, FluidDynamics)
    queue, rates, carried, now = [], [], [], 0.0
    while now < seconds:
        held = dynamics.rates(active, fabric.bandwidths, now)
        if now >= seconds - last:
            queue.append(float(dynamics.queues[-1]))
            rates.append(dynamics.state["rate"].copy())
            carried.append(float(held.rates.sum()))
        now = held.until
    return Window(np.array(queue), np.array(rates), np.array(carried))


def dcqcn_queue(flows: int, capacity: float) -> float:
    """Return the bytes of DCQCN's exact fixed point: a^2 alpha / ((b + d) (c + e)) = tau^2 R_AI R, by bisection."""
    rate, increase = capacity / flows / 1000, 40e6 / 8 / 1000
    tau, alpha_interval, counter, timer, recovery = 50e-6, 55e-6, 1e4, 55e-6, 5

    def excess(p: float) -> float:
        spared = log1p(-p)
        a, alpha = -expm1(tau * rate * spared), -expm1(alpha_interval * rate * spared)
        b, d = p / expm1(-counter * spared), p / expm1(-timer * rate * spared)
        c, e = b * exp(recovery * counter * spared), d * exp(recovery * timer * rate * spared)
        return a**2 * alpha / ((b + d) * (c + e)) - tau**2 * increase * rate

    low, high = 1e-9, 0.01
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if excess(middle) > 0 else (middle, high)
    return 5e3 + low / 0.01 * 195e3


def test_the_exact_fixed_point_is_below_the_approximate_one() -> None:
    # 23.0 and 158.0 KB are what the closed formula gives.
    assert [dcqcn_queue(flows, 40 * GBPS) for flows in (2, 10)] == pytest.approx([20.2e3, 122.6e3], rel=0.005)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flows", "start", "g", "seconds"),
    [
        # A larger gain of alpha comes sooner to the same.
        (2, (20.0,), 1 / 16, 0.01),
        (10, (4.0,), 1 / 32, 0.01),
        (2, (35.0, 5.0), 1 / 256, 0.1),
        (10, (40.0,), 1 / 256, 0.1),
    ],
)
def test_dcqcn_comes_to_equal_shares_and_to_its_queue(
    flows: int, start: Sequence[float], g: float, seconds: float
) -> None:
    policy = Dcqcn(delay=4e-6, start=tuple(one * GBPS for one in start), g=g)
    seen = watched(policy, flows, 40 * GBPS, seconds, 1e-3)
    assert seen.queue.mean() == pytest.approx(dcqcn_queue(flows, 40 * GBPS), rel=0.01)
    assert seen.rates[-1] == pytest.approx(40 * GBPS / flows, rel=0.01)
    assert seen.carried.mean() == pytest.approx(40 * GBPS, rel=1e-6)


@pytest.mark.slow
def test_dcqcn_swings_where_the_delay_is_long() -> None:
    # 79.1 KB and 0.949 over a window that is not stated.
    seen = watched(Dcqcn(delay=85e-6), 10, 40 * GBPS, 0.1, 0.05)
    assert seen.queue.std() > 40e3
    assert seen.carried.mean() / (40 * GBPS) == pytest.approx(0.949, abs=0.03)


@pytest.mark.slow
@pytest.mark.parametrize(("delay", "utilisation"), [(4e-6, 1.0), (85e-6, 0.863)])
def test_dcqcn_swings_where_flows_are_many(delay: float, utilisation: float) -> None:
    # The fixed point of 64 flows is above kmax.
    seen = watched(Dcqcn(delay=delay), 64, 40 * GBPS, 0.1, 0.05)
    assert seen.queue.std() > 10e3
    assert seen.carried.mean() / (40 * GBPS) == pytest.approx(utilisation, abs=0.03)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flows", "seconds", "mean", "least", "most"),
    [
        # Published nowhere: an integration of the model of Alizadeh et al. (SIGMETRICS 2011) with a step of 1 us.
        (2, 0.01, 58.8, 51.4, 67.2),
        (10, 0.04, 60.3, 44.1, 76.5),
        (60, 0.03, 86.9, 61.0, 113.8),
    ],
)
def test_dctcp_swings_about_its_threshold(flows: int, seconds: float, mean: float, least: float, most: float) -> None:
    policy = Dctcp(delay=100e-6, start=(10 * GBPS / flows,))
    seen = watched(policy, flows, 10 * GBPS, seconds, seconds / 2)
    packets = seen.queue / 1500
    assert packets.mean() == pytest.approx(mean, rel=0.03)
    assert packets.min() == pytest.approx(least, rel=0.05)
    assert packets.max() == pytest.approx(most, rel=0.05)
    assert seen.carried.mean() == pytest.approx(10 * GBPS, rel=1e-6)


def test_hpcc_keeps_a_link_below_its_capacity() -> None:
    capacity, starts = 100 * GBPS, tuple(one * GBPS for one in (100.0, 50.0, 10.0, 1.0))
    seen = watched(Hpcc(delay=8e-6, start=starts, increase=GBPS), 4, capacity, 3e-3, 1e-4)
    assert seen.rates[-1] == pytest.approx((0.95 * capacity + 4 * GBPS) / 4, rel=1e-3)
    assert seen.queue.max() < 1
    fabric, active = funnel(4, capacity), endless(4)
    fair = Hpcc(increase=GBPS).rates(active.incidence, fabric.bandwidths, fabric)
    assert fair == pytest.approx(seen.rates[-1], rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(("variant", "least", "most"), [("original", 2.2, 2.5), ("patched", 1.0, 1.8)])
def test_only_patched_timely_evens_out(variant: str, least: float, most: float) -> None:
    seen = watched(Timely(variant=variant, start=(7 * GBPS, 3 * GBPS)), 2, 10 * GBPS, 0.01, 1e-4)
    more, less = seen.rates[-1]
    assert least < more / less < most


@pytest.mark.slow
def test_patched_timely_comes_to_equal_shares_and_to_its_queue() -> None:
    seen = watched(Timely(start=(7 * GBPS, 3 * GBPS)), 2, 10 * GBPS, 0.2, 0.01)
    # C T_low (1 + N delta / (beta C))
    assert seen.queue.mean() == pytest.approx(62.5e3 * (1 + 2 * 10e6 / (0.008 * 10e9)), rel=1e-3)
    assert seen.rates[-1] == pytest.approx(5 * GBPS, rel=2e-3)


@pytest.mark.slow
def test_original_timely_stays_unfair() -> None:
    seen = watched(Timely(variant="original", start=(7 * GBPS, 3 * GBPS)), 2, 10 * GBPS, 0.2, 0.05)
    more, less = seen.rates.mean(axis=0)
    assert more > 2 * less
