"""The border of the engine: what is wrong is refused with one sentence, and never ends the process."""

from __future__ import annotations

import copy
import pickle
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import fredfw_engine
from fredfw.collectives import Pattern, Phase, Schedule
from fredfw.errors import SimulationError
from fredfw.fabric import Fabric, FlowSet, Routes
from fredfw.simulation import FlowNetwork, Lowering, ScheduleRun
from fredfw.simulation.engine import library, max_min


def pipe() -> Fabric:
    """Two NPUs with a link each way."""
    return Fabric("pipe", [0, 0], [0, 1], [1, 0], 100.0, 0.25, 0.0)


def flows(links: list[int], offsets: list[int], **fields: Any) -> FlowSet:
    count = len(offsets) - 1
    routes = Routes(np.array(offsets), np.array(links, dtype=np.intp), fields.pop("latencies", np.zeros(count)))
    volumes, activity = np.full(count, 100.0), np.zeros(count, dtype=np.intp)
    plain: dict[str, Any] = {"volumes": volumes, "activity": activity, "activities": 1}
    return FlowSet(routes, **(plain | fields))


@pytest.mark.parametrize(
    ("offsets", "links", "message"),
    [
        ([0, 1], [-1], r"link\[0\] is -1, accepted are 0 to 1"),
        ([0, 1], [2], r"link\[0\] is 2, accepted are 0 to 1"),
        ([1, 0], [0], "offsets begin at 0"),
        ([0, 1, 0], [0], r"offset\[2\]: offsets do not fall"),
    ],
)
def test_indices_that_are_not_there_are_refused(offsets: list[int], links: list[int], message: str) -> None:
    with pytest.raises(SimulationError, match=message):
        max_min(np.array(offsets), np.array(links), None, None, np.full(2, 100.0))
    network = FlowNetwork(pipe())
    with pytest.raises(SimulationError, match=message):
        network.start(flows(links, offsets), lambda _: None, checked=True)
    network.advance()
    assert network.idle


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"volumes": np.array([-1.0])}, r"volumes\[0\] is -1"),
        ({"volumes": np.array([np.nan])}, r"volumes\[0\] is"),
        ({"latencies": np.array([np.inf])}, r"latency\[0\] is inf"),
        ({"activity": np.array([1])}, r"activity\[0\] is 1, accepted are 0 to 0"),
        ({"caps": np.array([np.nan])}, r"caps\[0\] is nan, which is no rate"),
        ({"repeat": 0}, "repeat is 0, accepted are 1 to"),
    ],
)
def test_amounts_that_are_not_possible_are_refused(fields: dict[str, Any], message: str) -> None:
    network = FlowNetwork(pipe())
    with pytest.raises(SimulationError, match=message):
        network.start(flows([0], [0, 1], **fields), lambda _: None, checked=True)
    network.start(flows([0], [0, 1]), lambda _: None)
    network.advance()
    assert network.now == 1.0


def under_way() -> FlowNetwork:
    """Return a network in the middle of a schedule, of flows and of timers."""
    fabric = pipe()
    network = FlowNetwork(fabric)
    phase = Phase.of([0, 1], [1, 0], [0, 1], repeat=4)
    schedule = Schedule(Pattern.ALL_GATHER, 2, 50.0, 2, (phase,))
    ScheduleRun(network, Lowering(fabric), schedule, np.array([[0, 1]]), _nothing, fidelity="exact").start()
    network.start(flows([0, 1], [0, 1, 2], repeat=3), _nothing)
    network.schedule(2.0, _never)
    network.advance(0.75)
    return network


def _nothing(_: object) -> None:
    pass


def _never() -> None:
    pass


def test_a_copy_goes_on_with_the_same_bits() -> None:
    network = under_way()
    others = [copy.deepcopy(network), pickle.loads(pickle.dumps(network))]
    network.advance()
    for other in others:
        other.advance()
        assert other.now == network.now
        assert {name: load.tobytes() for name, load in other.link_bytes().items()} == {
            name: load.tobytes() for name, load in network.link_bytes().items()
        }


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_what_was_saved_and_then_damaged_is_refused(data: st.DataObject) -> None:
    state = under_way().__getstate__()
    saved = bytearray(state["saved"])
    if data.draw(st.booleans()):
        del saved[data.draw(st.integers(0, len(saved) - 1)) :]
    else:
        saved[data.draw(st.integers(0, len(saved) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(SimulationError, match="what was saved: it is cut off"):
        FlowNetwork.__new__(FlowNetwork).__setstate__(state | {"saved": bytes(saved)})


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(-3, 5), max_size=6), st.lists(st.integers(-3, 5), max_size=6))
def test_any_columns_are_a_program_or_refused(offsets: list[int], links: list[int]) -> None:
    network = FlowNetwork(pipe())
    if not offsets or offsets[-1] > len(links):
        return  # the engine is told no lengths of arrays
    try:
        network.start(flows(links, offsets), lambda _: None, checked=True)
    except SimulationError:
        assert network.idle
    else:
        network.advance()
        assert network.idle


def test_networks_run_in_threads_of_their_own() -> None:
    ends: list[float] = []

    def work() -> None:
        network = under_way()
        network.advance()
        ends.append(network.now)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(ends)) == 1
    assert len(ends) == 4


def test_the_header_is_beside_the_library() -> None:
    header = (fredfw_engine.INCLUDE / "fredfw.h").read_text(encoding="utf-8")
    assert f"#define FREDFW_ABI {library().abi()}\n" in header
