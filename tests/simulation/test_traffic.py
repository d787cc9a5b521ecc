"""Rates after a change: only what it reaches is solved again, and nobody can tell from the times."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import numpy as np
import pytest
from attrs import frozen

from fredfw.fabric import Fabric, FlowSet, Routes
from fredfw.simulation import FlowNetwork, Incidence, MaxMin, SharingPolicy, Statistics, StrictLinks
from fredfw.typing import FloatArray

ISLANDS, LINKS = 40, 5


@frozen
class Counting(SharingPolicy):
    """Another policy, and how many flows it was asked about in all."""

    name: ClassVar[str] = "counting"
    policy: SharingPolicy
    asked: list[int]

    def rates(self, incidence: Incidence, capacities: FloatArray, fabric: Fabric) -> FloatArray:
        self.asked.append(len(incidence))
        return self.policy.rates(incidence, capacities, fabric)


@frozen
class Local(Counting):
    name: ClassVar[str] = "counting-local"
    local: ClassVar[bool] = True


def islands() -> Fabric:
    """Pairs of NPUs that parallel links join, none with another pair."""
    pairs = np.repeat(np.arange(ISLANDS), LINKS)
    random = np.random.default_rng(1)
    count = len(pairs)
    return Fabric("islands", [0] * (2 * ISLANDS), 2 * pairs, 2 * pairs + 1, random.uniform(1, 9, count), 0.5, 0.0)


def arrivals(policy: SharingPolicy) -> tuple[FloatArray, Statistics]:
    """Send 400 flows over 1 to 3 links of an island each; return when they end."""
    fabric = islands()
    network = FlowNetwork(fabric, policy)
    random = np.random.default_rng(2)
    ends = np.full(400, np.nan)

    def ended(flow: int, activities: np.ndarray) -> None:
        del activities
        ends[flow] = network.now

    for flow in range(len(ends)):
        links = random.integers(ISLANDS) * LINKS + random.permutation(LINKS)[: random.integers(1, 4)]
        routes = Routes.of([links], [0.5])
        volume = random.uniform(1, 100)
        flows = FlowSet(routes, np.array([volume]), np.array([0]), 1, priority=int(random.integers(2)))
        network.schedule(random.uniform(0, 10), partial(network.start, flows, partial(ended, flow)))
    network.advance(12.0)
    network.set_bandwidths(np.arange(0, ISLANDS * LINKS, 7), np.full(-(-ISLANDS * LINKS // 7), 2.0))
    network.advance()
    assert network.idle
    return ends, network.statistics


@pytest.mark.parametrize("policy", [MaxMin(), StrictLinks()], ids=lambda policy: policy.name)
def test_a_policy_of_a_plugin_is_asked_and_the_times_are_the_same(policy: SharingPolicy) -> None:
    counting = Counting(policy, [])
    ends, statistics = arrivals(counting)
    expected, _ = arrivals(policy)
    assert ends == pytest.approx(expected, rel=1e-9)
    assert len(counting.asked) == statistics.solves


def test_a_policy_that_is_not_local_is_asked_about_all_flows() -> None:
    policy = Counting(MaxMin(), [])
    arrivals(policy)
    assert max(policy.asked) > 250


def test_passes_are_counted() -> None:
    # A chain: each link but the first has one flow more than the one before it can use.
    count = 30
    nodes = np.arange(count)
    fabric = Fabric("chain", [0] * (count + 1), nodes, nodes + 1, 2.0 ** (nodes + 1), 0.0, 0.0)
    links = [np.array([link, link + 1]) for link in range(count - 1)] + [np.array([0])]
    network = FlowNetwork(fabric, MaxMin())
    flows = FlowSet(Routes.of(links, np.zeros(count)), np.full(count, 1.0), np.arange(count), count)
    network.start(flows, lambda _: None)
    network.next_event_time()
    statistics = network.statistics
    assert (statistics.solves, statistics.passes, statistics.most_passes) == (1, count - 1, count - 1)


def test_counters_of_simulations_add_up_but_for_the_most() -> None:
    one, other = Statistics(events=1, passes=5, most_passes=5), Statistics(events=2, passes=4, most_passes=3)
    assert one + other == Statistics(events=3, passes=9, most_passes=5)
