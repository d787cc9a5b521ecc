"""Messages are single flows without flow sets: all that a program sees is what it would be with them."""

from collections import defaultdict
from itertools import product
from random import Random

import numpy as np
import pytest
from hypothesis import given, strategies as st
from networks import SEEDS, client, finish

from fredfw import Fabric, Framework, Router, Routes
from fredfw.embed.matching import Matching
from fredfw.embed.paths import Paths
from fredfw.errors import UnsupportedError
from fredfw.fabric import Operation, answers
from fredfw.simulation import FlowNetwork
from fredfw.simulation.admission import Completion
from fredfw.simulation.ways import Way, flows_of
from fredfw.typing import IntArray

FRAMEWORK = Framework()


def torus(*dimensions: int) -> Fabric:
    fields = {"link_bandwidth": "1 GB/s", "link_latency": 0.5}
    return FRAMEWORK.topology("torus", dimensions=list(dimensions), **fields).build()


class Sets(FlowNetwork):
    def send(self, way: Way, volume: float, on_complete: Completion, priority: int = 0, label: str = "") -> int:
        return self.start(flows_of(way, volume, priority, label), on_complete, checked=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_messages_end_as_flow_sets_do(seed: int) -> None:
    one, other = client(seed), client(seed)
    other.network._network.__class__ = Sets
    (ends, now, _, *rest), expected = finish(one), finish(other)
    assert (ends, now, *rest) == (*expected[:2], *expected[3:])  # to the last bit, and in this order
    moved, there = one.network.link_bytes(), other.network.link_bytes()
    assert moved.keys() == there.keys()
    for label, load in moved.items():
        assert load == pytest.approx(there[label], rel=1e-12)
    counts, others = one.network.statistics(), other.network.statistics()
    for name in ("events", "batches", "flows", "met", "waits"):
        assert counts[name] == others[name]


# --- which links they take


class Counting(Router):
    """Counts what it is asked, and knows no way to one NPU."""

    name = "counting"

    def __init__(self, cut_off: int = -1) -> None:
        self.asked, self.cut_off = list[int](), cut_off

    def route(self, fabric: Fabric, sources: IntArray, destinations: IntArray) -> Routes:
        if self.cut_off in destinations:
            raise UnsupportedError(f"no way to NPU {self.cut_off}")
        self.asked.append(len(sources))
        return fabric.defaults.router.route(fabric, sources, destinations)

    def tree(self, fabric: Fabric, sources: IntArray, destinations: IntArray, operation: Operation) -> Routes:
        raise UnsupportedError("no trees")


def test_a_program_that_sends_much_has_routes_found_together() -> None:
    fabric, router = torus(8, 8), Counting()
    paths = Paths(fabric, router)
    for ends in product(range(64), repeat=2):
        routes, expected = paths.way(*ends).routes, answers.path(fabric.defaults.router, fabric, *ends)
        assert routes.links.tolist() == expected.links.tolist()
        assert routes.latencies.tolist() == expected.latencies.tolist()
        assert paths.way(*ends) is paths.way(*ends)
    alone = [asked for asked in router.asked if asked == 1]
    assert len(alone) < 40
    assert len(router.asked) - len(alone) < 10
    assert sum(router.asked) == len(alone) + 64 * 64
    assert max(router.asked) <= 1024 * len(alone)


def test_a_pair_that_nobody_asks_for_is_no_error() -> None:
    paths = Paths(torus(8), Counting(cut_off=7))
    for ends in product(range(8), range(7)):
        assert len(paths.way(*ends).routes.links) <= 4
    with pytest.raises(UnsupportedError, match="no way to NPU 7"):
        paths.way(0, 7)


def test_a_message_to_a_node_that_is_no_npu_is_routed_alone() -> None:
    fabric = FRAMEWORK.topology("mesh2d", rows=2, columns=2, link_latency="1 us").build()
    controller = int(fabric.controllers[0])
    paths = Paths(fabric, fabric.defaults.router)
    for npu in np.repeat(range(4), 8).tolist():
        for ends in ((npu, controller), (controller, npu), (npu, (npu + 1) % 4)):
            expected = answers.path(fabric.defaults.router, fabric, *ends)
            assert paths.way(*ends).routes.links.tolist() == expected.links.tolist()


MATCHES = st.sampled_from(["send", "receive", "deliver", "withdraw"])


@given(st.lists(st.tuples(MATCHES, st.sampled_from("ab")), max_size=40), st.randoms(use_true_random=False))
def test_the_nth_receive_gets_the_nth_message_when_that_is_there(
    actions: list[tuple[str, str]], random: Random
) -> None:
    """A message that is withdrawn, or a receive, lets the next move up; what was served is no longer under way."""
    matching = Matching()
    messages, receives = defaultdict[str, list[int]](list), defaultdict[str, list[int]](list)
    there: set[int] = set()
    for number, (action, envelope) in enumerate(actions):
        sent, waiting = messages[envelope], receives[envelope]
        late = [one for one in sent if one not in there]
        served: list[int] = []
        if action == "send":
            matching.send(number, envelope)
            sent.append(number)
        elif action == "receive":
            waiting.append(number)
            served = matching.receive(number, envelope)
        elif action == "deliver" and late:
            there.add(one := random.choice(late))
            served = matching.deliver(one)
        elif action == "withdraw" and (under_way := [*sent, *waiting]):
            one = random.choice(under_way)
            served = matching.withdraw(one)
            (sent if one in sent else waiting).remove(one)
        pairs = [pair for pair in zip(sent, waiting, strict=False) if pair[0] in there]
        assert served == [receive for _, receive in pairs]
        for message, receive in pairs:
            sent.remove(message)
            waiting.remove(receive)
    assert matching.deliver(len(actions)) == matching.withdraw(len(actions)) == []  # of no interest to anyone
