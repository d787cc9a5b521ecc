import gc
import math
import weakref
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from small import ends, flows, pipe

from fredfw.errors import InputError
from fredfw.fabric import FlowSet, Routes
from fredfw.simulation import FlowNetwork
from fredfw.simulation.messages import Ways
from fredfw.typing import IntArray


def test_two_flows_share_and_the_rest_speeds_up() -> None:
    # 100 and 200 bytes at 50 B/s each until 2 s, then the second alone at 100 B/s until 3 s.
    network = FlowNetwork(pipe())
    assert ends(network, flows([100.0, 200.0])) == [(2.5, [0]), (3.5, [1])]
    assert network.statistics.solves == 2


ONCE: dict[str, Any] = {"repeat": 4, "setup": 3.0, "setup_once": True}
NOTHING = FlowSet(Routes.of([], []), np.zeros(0), np.zeros(0, dtype=np.intp), 2)


@pytest.mark.parametrize(
    ("flow_set", "expected"),
    [
        pytest.param(flows([100.0, 100.0]), [(2.5, [0, 1])], id="those that end together are one call"),
        pytest.param(flows([200.0], **ONCE), [(3.0 + 4 * 2.5, [0])], id="set up once"),
        pytest.param(flows([200.0], **(ONCE | {"setup_once": False})), [(4 * (3.0 + 2.5), [0])], id="set up each time"),
        pytest.param(flows([200.0], caps=np.array([10.0])), [(20.5, [0])], id="a cap"),
        pytest.param(flows([0.0]), [(0.5, [0])], id="no bytes take the latency"),
        pytest.param(NOTHING, [(0.0, [0, 1])], id="no flows"),
    ],
)
def test_when_activities_end(flow_set: FlowSet, expected: list[tuple[float, list[int]]]) -> None:
    assert ends(FlowNetwork(pipe()), flow_set) == expected


@given(st.lists(st.tuples(st.floats(0.0, 5.0), st.floats(1.0, 1e6)), min_size=1, max_size=8), st.floats(1.0, 1e9))
def test_pipe_is_work_conserving(arrivals: list[tuple[float, float]], bandwidth: float) -> None:
    # Whatever the order, the last byte leaves when a single queue with the same arrivals would be empty.
    network = FlowNetwork(pipe(bandwidth, 0.0))
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
    network = FlowNetwork(pipe())
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
    network = FlowNetwork(pipe(latency=0.0))
    done: list[float] = []

    def note(activities: IntArray) -> None:
        done.append(network.now)
        if len(done) == 1:
            raise RuntimeError("of the caller's")

    network.start(flows([100.0, 200.0], latency=0.0), note)
    with pytest.raises(RuntimeError, match="of the caller's"):
        network.advance()
    # At 2 s the first flow has drained and the second has 100 bytes left, whatever else happens then.
    network.schedule(0.0, lambda: None)
    network.advance()
    assert done == [2.0, 3.0]


def test_flows_that_have_ended_are_forgotten_without_a_search_for_rings_of_references() -> None:
    network, flow_set = FlowNetwork(pipe()), flows([200.0, 400.0], repeat=3)
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
    on, seen = FlowNetwork(pipe(1.0)), list[tuple[str, float]]()

    def note(name: str, _: object) -> None:
        seen.append((name, on.now))

    routes = flows([1.0], latency=0.0).routes
    way = Ways(routes, lambda flow, router: routes).way(0)
    on.schedule(4.0, partial(note, "timer", None))
    if first:
        on.send(way, 1.0, partial(note, "single"))
    on.start(flows([1.0, 1.0], latency=0.0, apart=False), partial(note, "set"))
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
    network = FlowNetwork(pipe())
    network.advance(1.0)
    for bad in (0.5, math.nan):
        with pytest.raises(InputError, match="cannot advance"):
            network.advance(bad)
    for bad in (-1.0, math.inf, math.nan):
        with pytest.raises(InputError, match="delay"):
            network.schedule(bad, lambda: None)


def test_equal_times_run_by_priority_then_first_come() -> None:
    network = FlowNetwork(pipe())
    order: list[str] = []
    network.schedule(1.0, lambda: order.append("late"), priority=1)
    network.schedule(1.0, lambda: order.append("a"))
    network.schedule(1.0, lambda: order.append("b"))
    network.advance()
    assert order == ["a", "b", "late"]
