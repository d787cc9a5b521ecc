"""A network that is pickled or copied between two steps goes on as if nothing had been.

Messages and links that fail are in ``tests/engine/test_stops.py``.
"""

from __future__ import annotations

import copy
import math
import pickle
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from networks import FRAMEWORK, Network, mesh

from fredfw import CollectiveRequest, Pattern
from fredfw.errors import InputError


def client(topology: str, fidelity: str | None = None, **fields: Any) -> Network:
    return Network(FRAMEWORK.topology(topology, **fields).build(), fidelity=fidelity)


def all_reduce(ranks: int, size: float = 4e9) -> CollectiveRequest:
    return CollectiveRequest(Pattern.ALL_REDUCE, ranks, size)


def collectives(fidelity: str | None = None) -> Network:
    one = client("torus", fidelity, dimensions=[4, 4], link_bandwidth="1 GB/s", link_latency="1 ms")
    one.collective(all_reduce(16), one.log("channels"), algorithm="torus-ring")
    one.collective(all_reduce(4), one.log("ring"), group=[0, 1, 2, 3], algorithm="ring")
    one.collective(CollectiveRequest(Pattern.ALL_TO_ALL, 16, 1e9), one.log("auto"))
    return one


def conflicts(policy: str, fidelity: str | None = None) -> Network:
    """Three pairs on a switch that can route only two of them, and six that are one collective."""
    one = client(
        "fred", fidelity, arity=[8], bandwidths=["1 GB/s"], middle_switches=2, on_conflict=policy, io_controllers=0
    )
    for group in ([0, 2], [1, 4], [3, 5]) * 2:
        one.collective(all_reduce(2), one.log(tuple(group)), group=group, algorithm="in-network")
    return one


def wavelengths() -> Network:
    """Circuits that need more wavelengths than there are: they are split, and wait for each other."""
    one = client("optical-ring", npus=8, wavelengths=2, pay="on-change")
    for pattern in (Pattern.ALL_TO_ALL, Pattern.ALL_REDUCE):
        for number in range(2):
            one.collective(CollectiveRequest(pattern, 8, 1e9), one.log((pattern, number)))
    return one


SCENARIOS: dict[str, Callable[[], Network]] = {
    "collectives": collectives,
    "waiting": partial(conflicts, "block"),
    "decomposed": partial(conflicts, "decompose"),
    "wavelengths": wavelengths,
    "collectives, exact": partial(collectives, "exact"),
    "waiting, exact": partial(conflicts, "block", "exact"),
    "decomposed, exact": partial(conflicts, "decompose", "exact"),
}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_copy_goes_on_as_the_original_does(scenario: str) -> None:
    whole = SCENARIOS[scenario]()
    whole.run_until_idle()
    duration = whole.now
    assert len(whole.ends) > 1
    original = SCENARIOS[scenario]()
    copies = []
    for part in range(4):
        original.advance(duration * part / 4)
        pickled = pickle.dumps(original)
        for other in (pickle.loads(pickled), copy.deepcopy(original)):
            assert other is not original
            other.advance(duration * (part + 0.5) / 4)
            copies.append(pickle.loads(pickle.dumps(other)))
    original.run_until_idle()
    for other in copies:
        other.run_until_idle()
    names, times = zip(*whole.ends, strict=True)
    for other in (original, *copies):
        assert tuple(name for name, _ in other.ends) == names
        assert tuple(end for _, end in other.ends) == pytest.approx(times, rel=1e-9)
        assert other.notes() == original.notes()
        moved, expected = other.link_bytes(), original.link_bytes()
        assert {label: loads.sum() for label, loads in moved.items()} == {
            label: pytest.approx(loads.sum()) for label, loads in expected.items()
        }


class Locked:
    """Cannot be pickled."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def done(self) -> None:
        pass


def test_a_callback_that_cannot_be_pickled_is_named() -> None:
    network = mesh(1, 2)
    network.send(0, 1, 1.0, on_complete=network.log("fine"))
    handle = network.send(0, 1, 1.0, "tag", lambda: None)
    with pytest.raises(
        InputError, match=r"<lambda> at .*> of send 2 from 0 to 1, 1 bytes, tag 'tag' cannot be pickled"
    ):
        pickle.dumps(network)
    network.cancel(handle)
    network.receive(1, 0, "tag", Locked().done)
    with pytest.raises(InputError, match=r"Locked.* of receive 3 at 0 from 1, tag 'tag' cannot be pickled: .*lock"):
        pickle.dumps(network)
    network.schedule(0.0, lambda: None)
    network.cancel(handle := network.send(0, 1, 1.0))
    with pytest.raises(InputError, match="Locked"):
        copy.deepcopy(network)
    assert handle == 5
    network.advance(1.0)
    assert [name for name, _ in network.ends] == ["fine"]


def test_a_network_is_not_pickled_in_a_step() -> None:
    one = mesh(1, 2)
    one.schedule(1.0, partial(pickle.dumps, one))
    with pytest.raises(InputError, match="in the middle of a step"):
        one.run_until_idle()


def test_networks_that_know_each_other_are_pickled_together() -> None:
    one, other = mesh(1, 2), mesh(1, 2)
    one.send(0, 1, 1e9, on_complete=other.log("one"))
    other.send(0, 1, 1e9, on_complete=one.log("other"))
    copied, _ = pickle.loads(pickle.dumps((one, other)))
    copied.run_until_idle()
    assert copied.next_event_time() == math.inf
