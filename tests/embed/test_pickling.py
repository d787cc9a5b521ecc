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
from attrs import define, field

from fredfw import CollectiveRequest, Framework, Pattern
from fredfw.embed import NetworkBackend
from fredfw.errors import InputError

FRAMEWORK = Framework()


@define
class Client:
    """Notes when things end; its methods can be pickled."""

    network: NetworkBackend
    ends: list[tuple[object, float]] = field(factory=list)

    def note(self, name: object) -> None:
        self.ends.append((name, self.network.now))

    def log(self, name: object) -> Callable[[], None]:
        return partial(self.note, name)


def client(topology: str, fidelity: str | None = None, **fields: Any) -> Client:
    fabric = FRAMEWORK.topology(topology, **fields).build()
    return Client(NetworkBackend(fabric, plugins=FRAMEWORK.plugins, fidelity=fidelity))


def all_reduce(ranks: int, size: float = 4e9) -> CollectiveRequest:
    return CollectiveRequest(Pattern.ALL_REDUCE, ranks, size)


def collectives(fidelity: str | None = None) -> Client:
    one = client("torus", fidelity, dimensions=[4, 4], link_bandwidth="1 GB/s", link_latency="1 ms")
    one.network.collective(all_reduce(16), one.log("channels"), algorithm="torus-ring")
    one.network.collective(all_reduce(4), one.log("ring"), group=[0, 1, 2, 3], algorithm="ring")
    one.network.collective(CollectiveRequest(Pattern.ALL_TO_ALL, 16, 1e9), one.log("auto"))
    return one


def conflicts(policy: str, fidelity: str | None = None) -> Client:
    """Three pairs on a switch that can route only two of them, and six that are one collective."""
    one = client(
        "fred", fidelity, arity=[8], bandwidths=["1 GB/s"], middle_switches=2, on_conflict=policy, io_controllers=0
    )
    for group in ([0, 2], [1, 4], [3, 5]) * 2:
        one.network.collective(all_reduce(2), one.log(tuple(group)), group=group, algorithm="in-network")
    return one


def wavelengths() -> Client:
    """Circuits that need more wavelengths than there are: they are split, and wait for each other."""
    one = client("optical-ring", npus=8, wavelengths=2, pay="on-change")
    for pattern in (Pattern.ALL_TO_ALL, Pattern.ALL_REDUCE):
        for number in range(2):
            one.network.collective(CollectiveRequest(pattern, 8, 1e9), one.log((pattern, number)))
    return one


SCENARIOS: dict[str, Callable[[], Client]] = {
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
    whole.network.run_until_idle()
    duration = whole.network.now
    assert len(whole.ends) > 1
    original = SCENARIOS[scenario]()
    copies = []
    for part in range(4):
        original.network.advance(duration * part / 4)
        pickled = pickle.dumps(original)
        for other in (pickle.loads(pickled), copy.deepcopy(original)):
            assert other.network is not original.network
            other.network.advance(duration * (part + 0.5) / 4)
            copies.append(pickle.loads(pickle.dumps(other)))
    original.network.run_until_idle()
    for other in copies:
        other.network.run_until_idle()
    names, times = zip(*whole.ends, strict=True)
    for other in (original, *copies):
        assert tuple(name for name, _ in other.ends) == names
        assert tuple(end for _, end in other.ends) == pytest.approx(times, rel=1e-9)
        assert other.network.notes() == original.network.notes()
        moved, expected = other.network.link_bytes(), original.network.link_bytes()
        assert {label: loads.sum() for label, loads in moved.items()} == {
            label: pytest.approx(loads.sum()) for label, loads in expected.items()
        }


def test_handles_stay_valid_in_a_copy() -> None:
    one = client("mesh2d", rows=1, columns=2, link_bandwidth="1 GB/s")
    handle = one.network.send(0, 1, 1e9, on_complete=one.log("sent"))
    one.network.advance(0.5)
    other = copy.deepcopy(one)
    other.network.cancel(handle)
    other.network.run_until_idle()
    assert other.ends == []
    one.network.run_until_idle()
    assert len(one.ends) == 1


class Locked:
    """Cannot be pickled."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def done(self) -> None:
        pass


def test_a_callback_that_cannot_be_pickled_is_named() -> None:
    one = client("mesh2d", rows=1, columns=2)
    network = one.network
    network.send(0, 1, 1.0, on_complete=one.log("fine"))
    handle = network.send(0, 1, 1.0, "tag", lambda: None)
    with pytest.raises(
        InputError, match=r"<lambda> at .*> of send 2 from 0 to 1, 1 bytes, tag 'tag' cannot be pickled"
    ):
        pickle.dumps(one)
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
    assert [name for name, _ in one.ends] == ["fine"]


def test_a_network_is_not_pickled_in_a_step() -> None:
    one = client("mesh2d", rows=1, columns=2)
    one.network.schedule(1.0, partial(pickle.dumps, one.network))
    with pytest.raises(InputError, match="in the middle of a step"):
        one.network.run_until_idle()


def test_networks_that_know_each_other_are_pickled_together() -> None:
    one, other = client("mesh2d", rows=1, columns=2), client("mesh2d", rows=1, columns=2)
    one.network.send(0, 1, 1e9, on_complete=other.log("one"))
    other.network.send(0, 1, 1e9, on_complete=one.log("other"))
    copied, _ = pickle.loads(pickle.dumps((one, other)))
    copied.network.run_until_idle()
    assert copied.network.next_event_time() == math.inf
