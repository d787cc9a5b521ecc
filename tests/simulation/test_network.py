import gc
import math
import weakref
from collections.abc import Sequence
from functools import partial

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, strategies as st

from fredfw.errors import InputError, SimulationError
from fredfw.fabric import Admission, Decision, Fabric, FlowSet, Refuse, Routes, Start, Wait
from fredfw.simulation import FlowNetwork, MaxMin
from fredfw.simulation.messages import Ways
from fredfw.testing.fabrics import Admitting
from fredfw.typing import IntArray


def pipe(bandwidth: float = 100.0, latency: float = 0.5) -> Fabric:
    """One link from NPU 0 to NPU 1."""
    return Fabric("pipe", np.array([0, 0]), np.array([0]), np.array([1]), bandwidth, latency, 0.0)


def flows(volumes: Sequence[float], *, latency: float = 0.5, activities: bool = False, **fields: object) -> FlowSet:
    count = len(volumes)
    routes = Routes.of([np.array([0])] * count, [latency] * count)
    activity = np.arange(count) if activities else np.zeros(count, dtype=np.intp)
    flow_set = FlowSet(routes, np.array(volumes, dtype=float), activity, count if activities else 1)
    return evolve(flow_set, **fields)  # type: ignore[arg-type]  # any of the remaining fields


def ends(network: FlowNetwork, flow_set: FlowSet) -> list[tuple[float, list[int]]]:
    seen: list[tuple[float, list[int]]] = []

    def note(done: IntArray) -> None:
        seen.append((network.now, done.tolist()))

    network.start(flow_set, note)
    network.advance()
    return seen


def test_two_flows_share_and_the_rest_speeds_up() -> None:
    # 100 and 200 bytes at 50 B/s each until 2 s, then the second alone at 100 B/s until 3 s.
    network = FlowNetwork(pipe(), MaxMin())
    assert ends(network, flows([100.0, 200.0], activities=True)) == [(2.5, [0]), (3.5, [1])]
    assert network.statistics.solves == 2


def test_activities_that_end_together_are_one_call() -> None:
    assert ends(FlowNetwork(pipe(), MaxMin()), flows([100.0, 100.0], activities=True)) == [(2.5, [0, 1])]


@pytest.mark.parametrize(("once", "expected"), [(True, 3.0 + 4 * 2.5), (False, 4 * (3.0 + 2.5))])
def test_setup_policies(once: bool, expected: float) -> None:
    flow_set = flows([200.0], repeat=4, setup=3.0, setup_once=once)
    assert ends(FlowNetwork(pipe(), MaxMin()), flow_set) == [(expected, [0])]


def test_cap_limits_the_rate() -> None:
    assert ends(FlowNetwork(pipe(), MaxMin()), flows([200.0], caps=np.array([10.0]))) == [(20.5, [0])]


def test_nothing_to_send_still_takes_the_latency() -> None:
    assert ends(FlowNetwork(pipe(), MaxMin()), flows([0.0])) == [(0.5, [0])]


def test_activity_without_flows_ends_at_once() -> None:
    empty = FlowSet(Routes.of([], []), np.zeros(0), np.zeros(0, dtype=np.intp), 2)
    assert ends(FlowNetwork(pipe(), MaxMin()), empty) == [(0.0, [0, 1])]


def test_link_bytes_are_what_was_sent() -> None:
    network = FlowNetwork(pipe(), MaxMin())
    ends(network, flows([100.0, 50.0], repeat=3, label="a"))
    assert {label: load.tolist() for label, load in network.link_bytes().items()} == {"a": [450.0]}


@given(st.lists(st.tuples(st.floats(0.0, 5.0), st.floats(1.0, 1e6)), min_size=1, max_size=8), st.floats(1.0, 1e9))
def test_pipe_is_work_conserving(arrivals: list[tuple[float, float]], bandwidth: float) -> None:
    # Whatever the order, the last byte leaves when a single queue with the same arrivals would be empty.
    network = FlowNetwork(pipe(bandwidth, 0.0), MaxMin())
    last = [0.0]
    for time, volume in arrivals:

        def begin(volume: float = volume) -> None:
            network.start(flows([volume], latency=0.0), lambda _: last.append(network.now))

        network.schedule(time, begin)
    network.advance()
    free = 0.0
    for time, volume in sorted(arrivals):
        free = max(free, time) + volume / bandwidth
    assert math.isclose(max(last), free, rel_tol=1e-9)
    assert len(last) == len(arrivals) + 1
    assert network.idle


def test_advance_stops_exactly_and_goes_on() -> None:
    network = FlowNetwork(pipe(), MaxMin())
    done: list[float] = []
    network.start(flows([200.0]), lambda _: done.append(network.now))
    assert network.next_event_time() == 2.0
    network.advance(0.7)
    assert network.now == 0.7
    network.advance(1.9)
    network.start(flows([100.0]), lambda _: done.append(network.now))
    network.advance(100.0)
    # 10 bytes are left at 1.9 s; both at 50 B/s until 2.1 s, then 90 bytes alone.
    assert done == pytest.approx([2.6, 3.5], rel=1e-12)
    assert network.now == 100.0


def test_callback_that_raises_leaves_the_other_flows_as_they_were() -> None:
    network = FlowNetwork(pipe(latency=0.0), MaxMin())
    done: list[float] = []

    def note(activities: IntArray) -> None:
        done.append(network.now)
        if len(done) == 1:
            raise RuntimeError("of the caller's")

    network.start(flows([100.0, 200.0], latency=0.0, activities=True), note)
    with pytest.raises(RuntimeError, match="of the caller's"):
        network.advance()
    # At 2 s the first flow has drained and the second has 100 bytes left, whatever else happens then.
    network.schedule(0.0, lambda: None)
    network.advance()
    assert done == [2.0, 3.0]


def test_flows_that_have_ended_are_forgotten_without_a_search_for_rings_of_references() -> None:
    network, flow_set = FlowNetwork(pipe(), MaxMin()), flows([200.0, 400.0], repeat=3)
    gone = weakref.ref(flow_set)
    gc.disable()
    try:
        ends(network, flow_set)
        del flow_set
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("first", [True, False])
def test_single_flows_and_flow_sets_that_end_together_end_as_they_came(first: bool) -> None:
    on, seen = FlowNetwork(pipe(1.0), MaxMin()), list[tuple[str, float]]()

    def note(name: str, _: object) -> None:
        seen.append((name, on.now))

    routes = flows([1.0], latency=0.0).routes
    way = Ways(routes, lambda flow, router: routes).way(0)
    on.schedule(4.0, partial(note, "timer", None))
    if first:
        on.send(way, 1.0, partial(note, "single"))
    on.start(flows([1.0, 1.0], latency=0.0), partial(note, "set"))
    if not first:
        on.send(way, 1.0, partial(note, "single"))
    on.send(way, 1.0, partial(note, "last"))
    on.advance()
    # Four of a byte share a byte per second; what they end with becomes known later than the timer.
    names = ["single", "set"] if first else ["set", "single"]
    assert seen == [(name, 4.0) for name in ("timer", *names, "last")]
    assert on.statistics.events == 1
    assert on.link_bytes()[""].tolist() == [4.0]


def test_past_and_nonsense_times_are_refused() -> None:
    network = FlowNetwork(pipe(), MaxMin())
    network.advance(1.0)
    for bad in (0.5, math.nan):
        with pytest.raises(InputError, match="cannot advance"):
            network.advance(bad)
    for bad in (-1.0, math.inf, math.nan):
        with pytest.raises(InputError, match="delay"):
            network.schedule(bad, lambda: None)


def test_equal_times_run_by_priority_then_first_come() -> None:
    network = FlowNetwork(pipe(), MaxMin())
    order: list[str] = []
    network.schedule(1.0, lambda: order.append("late"), priority=1)
    network.schedule(1.0, lambda: order.append("a"))
    network.schedule(1.0, lambda: order.append("b"))
    network.advance()
    assert order == ["a", "b", "late"]


class OneAtATime(Admission):
    def admit(self, flows: FlowSet, active: Sequence[FlowSet]) -> Decision:
        if flows.label == "never":
            return Refuse("it is never allowed")
        return Wait("busy") if active else Start(setup=1.0)


def test_admission_makes_flows_wait_sets_up_and_refuses() -> None:
    network = FlowNetwork(pipe().with_defaults(admission=Admitting(OneAtATime)), MaxMin())
    done: list[float] = []
    for _ in range(2):
        network.start(flows([200.0]), lambda _: done.append(network.now))
    network.advance()
    assert done == [3.5, 7.0]
    with pytest.raises(SimulationError, match="never allowed"):
        network.start(flows([1.0], label="never"), lambda _: None)
