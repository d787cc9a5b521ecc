import gc
import weakref
from functools import partial
from typing import Any

import numpy as np
import pytest
from small import ends, flows, pipe

from fredfw.fabric import FlowSet, Routes
from fredfw.simulation import FlowNetwork

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


def test_equal_times_run_by_priority_then_first_come() -> None:
    network = FlowNetwork(pipe())
    order: list[str] = []
    for name, priority in (("late", 1), ("a", 0), ("b", 0)):
        network.schedule(1.0, partial(order.append, name), priority=priority)
    network.advance()
    assert order == ["a", "b", "late"]
