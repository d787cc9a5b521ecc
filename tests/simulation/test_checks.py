from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from small import ends, flows, joined

from fredfw.errors import InputError
from fredfw.simulation import FlowNetwork

# A link of 4 bytes a second each way, of which each carries 8 bytes.
PAIR = joined([(0, 1), (1, 0)], 4.0, 1.0)
WHOLE = flows([8.0, 8.0], [[0], [1]], 1.0)


def start(given: Any) -> dict[int, float]:
    """Return when each activity ends."""
    return {activity: time for time, done in ends(FlowNetwork(PAIR), given) for activity in done}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {0: 3.0, 1: 3.0}),
        ({"volumes": np.array([4, 0])}, {0: 2.0, 1: 1.0}),
        ({"activity": np.zeros(2, dtype=np.int32), "activities": 1}, {0: 3.0}),
        ({"caps": np.array([2.0, np.inf])}, {0: 5.0, 1: 3.0}),
    ],
)
def test_what_fits_is_carried(changes: dict[str, Any], expected: dict[int, float]) -> None:
    assert start(evolve(WHOLE, **changes)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"volumes": np.array([-1.0, 1.0])},
            "volumes: -1.0 is refused (accepted: an array of 2 finite bytes, 0 or more",
        ),
        ({"volumes": np.array([1.0, np.nan])}, "volumes: nan is refused"),
        ({"volumes": np.array([1.0, np.inf])}, "volumes: inf is refused"),
        ({"volumes": [1.0, 1.0]}, "volumes: [1.0, 1.0] is refused (accepted: an array"),
        ({"volumes": np.ones(3)}, "volumes: array([1., 1., 1.]) is refused"),
        ({"volumes": np.ones(2, dtype=complex)}, "volumes: "),
        ({"activity": np.array([0, 2])}, "activity: a flow of activity 2 (accepted: activities from 0 to 1)"),
        ({"activity": np.array([0, -1])}, "activity: -1 is refused"),
        ({"activity": np.array([0.0, 1.0])}, "activity: array([0., 1.]) is refused"),
        ({"activity": np.array([0])}, "activity: array([0]) is refused"),
        ({"activities": 0}, "activities: 0 is refused (accepted: a whole number of at least 1)"),
        ({"activities": 1.5}, "activities: 1.5 is refused"),
        ({"repeat": 0}, "repeat: 0 is refused (accepted: a whole number of at least 1)"),
        ({"priority": -1}, "priority: -1 is refused (accepted: a whole number of at least 0)"),
        ({"setup": -1.0}, "setup: -1.0 is refused (accepted: seconds, finite and not negative)"),
        ({"setup": np.nan}, "setup: nan is refused"),
        ({"label": 5}, "label: 5 is refused (accepted: text)"),
        ({"caps": np.array([0.0, 1.0])}, "caps: 0.0 is refused (accepted: an array of 2 bytes per second above 0)"),
        ({"caps": np.array([1.0, np.nan])}, "caps: nan is refused"),
        ({"caps": np.ones(1)}, "caps: array([1.]) is refused"),
        ({"routes": None}, "routes: None is refused (accepted: fredfw.Routes)"),
    ],
)
def test_flows_that_do_not_fit_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        start(evolve(WHOLE, **changes))
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"links": np.array([0, 2])}, "routes with link 2 (accepted: links 0 to 1 of 'links')"),
        ({"latencies": np.array([1.0, -1.0])}, "routes with latency -1.0 (accepted: seconds, finite and not negative)"),
    ],
)
def test_routes_of_no_network_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        start(evolve(WHOLE, routes=evolve(WHOLE.routes, **changes)))
    assert str(caught.value).startswith(f"routes: {message}")


def test_what_is_no_flow_set_or_no_fabric_is_refused() -> None:
    with pytest.raises(InputError, match=r"^flows: 5 is refused .accepted: a fredfw.FlowSet"):
        start(5)
    with pytest.raises(InputError, match=r"^fabric: None is not a fabric"):
        FlowNetwork(None)  # type: ignore[arg-type]  # that is the fault


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda network: network.advance("1 s"), "until: cannot advance from 0.0 to '1 s'"),
        (lambda network: network.advance(-1.0), "until: cannot advance from 0.0 to -1.0 (accepted: not in the past)"),
        (lambda network: network.advance(math.nan), "until: cannot advance from 0.0 to nan"),
        (lambda network: network.schedule(None, print), "delay: a delay of None"),
        (lambda network: network.schedule(-1.0, print), "delay: a delay of -1.0 (accepted: seconds, finite"),
        (lambda network: network.schedule(math.inf, print), "delay: a delay of inf"),
        (lambda network: network.start(WHOLE, None), "on_complete: None cannot be called (accepted: a function)"),
        (
            lambda network: network.set_bandwidths([0.9], [1.0]),
            "links: [0.9] is refused (accepted: an array of numbers",
        ),
        (
            lambda network: network.set_bandwidths([0, 1], [1.0]),
            "values: [1.0] is refused (accepted: an array of 2 bytes",
        ),
        (lambda network: network.set_bandwidths([0], ["1"]), "values: ['1'] is refused (accepted: an array of 1 bytes"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(call: Callable[[FlowNetwork], object], message: str) -> None:
    with pytest.raises(InputError) as caught:
        call(FlowNetwork(PAIR))
    assert str(caught.value).startswith(message)


def test_a_name_is_no_sharing_policy() -> None:
    with pytest.raises(InputError, match=r"^sharing: 'max-min' is refused .accepted: a fredfw.SharingPolicy, or None"):
        FlowNetwork(PAIR, "max-min")  # type: ignore[arg-type]  # that is the fault
