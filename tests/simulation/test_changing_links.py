"""Links that get slower, close and come back, and flows that are cancelled, while flows are on their way."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, strategies as st
from small import Log, flows, joined, started

from fredfw.collectives import Pattern, ring_schedule
from fredfw.errors import InputError
from fredfw.fabric import Admission, AlwaysStart, Decision, Fabric, FlowSet, LiveRouter, Router, Routes, Start
from fredfw.simulation import FlowNetwork


def square(latency: float, **fields: Any) -> Fabric:
    """NPUs 0, 1, 3, 2 on a ring of links of 1 B/s in both directions."""
    pairs = [(0, 1), (1, 3), (3, 2), (2, 0)]
    return joined(pairs + [(to, back) for back, to in pairs], latency=latency, **fields)


def send(network: FlowNetwork, source: int, destination: int, volume: float, **fields: Any) -> tuple[int, Log]:
    def route(router: Router) -> Routes:
        return router.route(network.fabric, np.array([source]), np.array([destination]))

    routes = route(network.fabric.defaults.router)
    given: dict[str, Any] = {"label": f"{source} to {destination}", "again": route, **fields}
    log = Log(network)
    return network.start(FlowSet(routes, np.array([volume]), np.array([0]), 1, **given), log), log


def close(network: FlowNetwork, link: int) -> tuple[int, tuple[str, ...]]:
    network.set_bandwidths(np.array([link]), np.array([0.0]))
    done = network.reroute(LiveRouter(network.fabric.defaults.router, network.bandwidths > 0))
    return done.moved, done.stranded


def test_what_is_under_way_can_be_cancelled_until_it_is_delivered() -> None:
    network = FlowNetwork(joined([(0, 1)], latency=5.0))
    (cancelled, log), (ended, _) = send(network, 0, 1, 10.0), send(network, 0, 1, 12.0)
    network.advance(21.0)  # the first has drained at 20 s, and the second does at 22 s
    network.cancel(cancelled)
    network.advance()
    assert (network.now, log.each) == (27.0, {})
    for ticket in (cancelled, ended, ended + 1):
        with pytest.raises(InputError, match=f"nothing runs for {ticket}"):
            network.cancel(ticket)


def test_each_activity_is_in_a_repetition_of_its_own() -> None:
    network = FlowNetwork(joined([(0, 1), (2, 3), (4, 5)]))
    network.set_bandwidths(np.array([0]), np.array([2.0]))
    log = Log(network)
    network.start(flows([10.0, 10.0], [[0], [1]], 0.0, repeat=2), log)
    for moment in (0.0, 7.0, 12.0):
        network.advance(moment)
        network.set_bandwidths(np.array([2]), np.array([5.0 + moment]))
    network.advance()
    # At 7 s one is in its second repetition, the other in its first; both of these end at 10 s.
    assert log.each == {0: 10.0, 1: 20.0}
    assert network.idle


def test_what_begins_as_a_link_fails_goes_the_other_way_with_all_repetitions() -> None:
    network = FlowNetwork(square(latency=1.0))
    _, log = send(network, 0, 1, 10.0, repeat=3)
    assert close(network, 0) == (1, ())
    network.advance(15.0)
    network.set_bandwidths(np.array([1]), np.array([0.5]))
    network.advance()
    assert log.each == {0: 3 * 13.0}


class SetUp(Admission):
    """Takes a second and a half to set up flows; where circuits stay, only those before which there were others."""

    def __init__(self, stays: bool) -> None:
        self.stays = stays
        self.last: Routes | None = None

    def admit(self, flows: FlowSet, active: Sequence[FlowSet]) -> Decision:
        there, self.last = self.last is flows.routes, flows.routes
        return Start(0.0 if self.stays and there else 1.5, setup_once=self.stays)


some_links = st.lists(st.integers(0, 2), min_size=1, max_size=3, unique=True)


@given(
    st.lists(st.tuples(some_links, st.integers(0, 8), st.floats(0.0, 2.0)), min_size=1, max_size=4),
    st.integers(1, 5),
    st.sampled_from([None, False, True]),
    st.lists(st.tuples(st.floats(0.0, 1.0), st.integers(0, 2), st.floats(0.1, 8.0)), max_size=2),
)
def test_set_ups_and_flows_that_end_apart_are_where_they_would_be_step_by_step(
    given: list[tuple[list[int], int, float]], repeat: int, stays: bool | None, changes: list[tuple[float, int, float]]
) -> None:
    where, volumes, latencies = map(list, zip(*given, strict=True))
    work = flows(volumes, where, latencies, apart=False)
    admission = AlwaysStart if stays is None else partial(SetUp, stays)

    def run(count: int, times: int, changes: list[tuple[float, int, float]]) -> tuple[float, list[np.ndarray]]:
        network = FlowNetwork(joined([(0, 1), (2, 3), (4, 5)], admission=admission))
        left, ends, seen = count, [], []

        def go(_: object = None) -> None:
            nonlocal left
            left -= 1
            if left >= 0:
                network.start(evolve(work, repeat=times), go)
            else:
                ends.append(network.now)

        go()
        for moment, link, bandwidth in changes:
            network.advance(moment)
            seen.append(network.link_bytes().get("", np.zeros(3)))
            network.set_bandwidths(np.array([link]), np.array([bandwidth]))
        network.advance()
        return ends[0], [*seen, network.link_bytes().get("", np.zeros(3))]

    whole, _ = run(repeat, 1, [])
    moments = [(share * whole, link, bandwidth) for share, link, bandwidth in sorted(changes)]
    (compressed, bytes_compressed), (stepwise, bytes_stepwise) = run(1, repeat, moments), run(repeat, 1, moments)
    assert compressed == pytest.approx(stepwise, rel=1e-9)
    for one, other in zip(bytes_compressed, bytes_stepwise, strict=True):
        assert one == pytest.approx(other, rel=1e-9, abs=1e-6)


@pytest.mark.parametrize("moment", [0.5, 2.0, 4.0, 6.25, 9.0, 12.5])
def test_a_ring_that_is_set_up_at_each_step_goes_on_round_a_link_that_fails(moment: float) -> None:
    ends, schedule = [], ring_schedule(Pattern.ALL_REDUCE, 8.0, np.arange(4)[:, None])
    for fidelity in ("compressed", "stepwise"):
        network = FlowNetwork(square(latency=0.25, admission=partial(SetUp, False)))
        log = started(network, schedule, np.array([[0, 1, 3, 2]]), fidelity)
        network.advance(moment)
        close(network, 0)
        network.advance()
        ends.append(log.each[0])
    assert ends[0] == pytest.approx(ends[1], rel=1e-12)


def test_a_phase_that_has_met_others_is_split_at_its_mean_rate() -> None:
    network = FlowNetwork(joined([(0, 1)]))
    log = Log(network)
    network.start(flows([10.0], latency=1.0, repeat=4, label="repeated"), log)
    send(network, 0, 1, 5.0)
    network.advance(18.0)
    # The other flow has taken half of the link for 10 s: 13 bytes in 18 s, so a repetition takes 10 / (13 / 18) + 1 s.
    rate = 13 / 18
    within = 18 - (10 / rate + 1)
    assert network.link_bytes()["repeated"] == pytest.approx([10 + rate * within])
    network.set_bandwidths(np.array([0]), np.array([2.0]))
    network.advance()
    assert log.each == {0: pytest.approx(18 + (10 - rate * within) / 2 + 1 + 2 * 6)}


@pytest.mark.parametrize("moment", [0.5, 2.5, 7.0])
def test_an_activity_without_flows_ends_with_its_last_set_up(moment: float) -> None:
    network = FlowNetwork(joined([(0, 1)]))
    log = Log(network)
    network.start(flows([4.0], latency=0.0, activities=2, repeat=3, setup=1.0), log)
    network.advance(moment)
    network.set_bandwidths(np.array([0]), np.array([4.0]))
    network.advance()
    assert log.each[1] == 3.0
