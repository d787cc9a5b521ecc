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
AWAY, EARLY = evolve(WHOLE.routes, links=np.array([0, 2])), evolve(WHOLE.routes, latencies=np.array([1.0, -1.0]))


NO_SHARING = "sharing: 'max-min' is refused (accepted: a fredfw.SharingPolicy, or None"


def start(given: Any) -> dict[int, float]:
    return {activity: time for time, done in ends(FlowNetwork(PAIR), given) for activity in done}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"volumes": np.array([4, 0])}, {0: 2.0, 1: 1.0}),
        ({"activity": np.zeros(2, dtype=np.int32), "activities": 1}, {0: 3.0}),
    ],
)
def test_what_fits_is_carried(changes: dict[str, Any], expected: dict[int, float]) -> None:
    assert start(evolve(WHOLE, **changes)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"volumes": np.array([-1.0, 1.0])}, "volumes: -1.0 is refused (accepted: an array of 2 finite bytes, 0 or m"),
        ({"volumes": np.array([1.0, np.inf])}, "volumes: inf is refused"),
        ({"volumes": [1.0, 1.0]}, "volumes: [1.0, 1.0] is refused (accepted: an array"),
        ({"volumes": np.ones(2, dtype=complex)}, "volumes: "),
        ({"activity": np.array([0, 2])}, "activity: a flow of activity 2 (accepted: activities from 0 to 1)"),
        ({"activity": np.array([0.0, 1.0])}, "activity: array([0., 1.]) is refused"),
        ({"activities": 0}, "activities: 0 is refused (accepted: a whole number of at least 1)"),
        ({"activities": 1.5}, "activities: 1.5 is refused"),
        ({"repeat": 0}, "repeat: 0 is refused (accepted: a whole number of at least 1)"),
        ({"priority": -1}, "priority: -1 is refused (accepted: a whole number of at least 0)"),
        ({"setup": -1.0}, "setup: -1.0 is refused (accepted: seconds, finite and not negative)"),
        ({"label": 5}, "label: 5 is refused (accepted: text)"),
        ({"caps": np.array([0.0, 1.0])}, "caps: 0.0 is refused (accepted: an array of 2 bytes per second above 0)"),
        ({"caps": np.array([1.0, np.nan])}, "caps: nan is refused"),
        ({"routes": None}, "routes: None is refused (accepted: fredfw.Routes)"),
        ({"routes": AWAY}, "routes: routes with link 2 (accepted: links 0 to 1 of 'links')"),
        ({"routes": EARLY}, "routes: routes with latency -1.0 (accepted: seconds, finite and not negative)"),
    ],
)
def test_flows_that_do_not_fit_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        start(evolve(WHOLE, **changes))
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda network: network.advance("1 s"), "until: cannot advance from 0.0 to '1 s'"),
        (lambda network: network.advance(-1.0), "until: cannot advance from 0.0 to -1.0 (accepted: not in the past)"),
        (lambda network: network.schedule(-1.0, print), "delay: a delay of -1.0 (accepted: seconds, finite"),
        (lambda network: network.schedule(math.inf, print), "delay: a delay of inf"),
        (lambda network: network.start(WHOLE, None), "on_complete: None cannot be called (accepted: a function)"),
        (lambda network: network.start(5, print), "flows: 5 is refused (accepted: a fredfw.FlowSet"),
        (lambda network: network.set_bandwidths([0.9], [1.0]), "links: [0.9] is refused (accepted: an array of num"),
        (lambda network: network.set_bandwidths([0, 1], [1.0]), "values: [1.0] is refused (accepted: an array of 2 b"),
        (lambda network: network.set_bandwidths([0], ["1"]), "values: ['1'] is refused (accepted: an array of 1 bytes"),
        (lambda network: network.set_bandwidths([2], [1.0]), "links: 'links' has no link 2 (accepted: 0 to 1)"),
        (lambda network: network.set_bandwidths([-1], [1.0]), "links: 'links' has no link -1"),
        (lambda network: network.set_bandwidths([0], [-1.0]), "values: a bandwidth of -1.0"),
        (lambda network: network.set_bandwidths([0], [math.nan]), "values: a bandwidth of nan"),
        (lambda _: FlowNetwork(None), "fabric: None is not a fabric"),  # type: ignore[arg-type]  # that is the fault
        (lambda _: FlowNetwork(PAIR, "max-min"), NO_SHARING),  # type: ignore[arg-type]  # likewise
    ],
)
def test_what_cannot_be_asked_for_is_refused(call: Callable[[FlowNetwork], object], message: str) -> None:
    network = FlowNetwork(PAIR)
    with pytest.raises(InputError) as caught:
        call(network)
    assert str(caught.value).startswith(message)
    assert network.bandwidths.tolist() == [4.0, 4.0]
