"""The border of the engine: what is wrong is refused with one sentence, and never ends the process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

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


def test_the_header_is_beside_the_library() -> None:
    header = (fredfw_engine.INCLUDE / "fredfw.h").read_text(encoding="utf-8")
    assert f"#define FREDFW_ABI {library().abi()}\n" in header
