"""Messages are single flows without flow sets: all that a program sees is what it would be with them."""

from __future__ import annotations

import copy
import math
from functools import partial
from random import Random

import numpy as np
import pytest
from attrs import define, field, frozen
from hypothesis import given, strategies as st

from fredfw import CollectiveRequest, Fabric, Framework, Pattern, Router, Routes
from fredfw.embed import Handle, NetworkBackend
from fredfw.embed.matching import Matching
from fredfw.embed.paths import Paths
from fredfw.errors import UnsupportedError
from fredfw.fabric import Operation, answers
from fredfw.simulation import FlowNetwork
from fredfw.simulation.admission import Completion
from fredfw.simulation.messages import Way, flows_of
from fredfw.typing import FloatArray, IntArray

FRAMEWORK = Framework()


def built(name: str, latency: float, **fields: object) -> Fabric:
    return FRAMEWORK.topology(name, link_bandwidth="1 GB/s", link_latency=latency, **fields).build()


FABRICS = [
    built("mesh2d", 0.0, rows=2, columns=2, io_controllers=False),
    built("torus", 0.125, dimensions=[4]),
    built("fat-tree", 0.25, npus=4, radix=4, levels=2),  # each message is spread over several paths
    built("fat-tree", 0.0, npus=4, radix=4, levels=2, routing="ecmp"),
]
# Few, so that much happens at once.
SIZES = st.sampled_from([0.0, 0.25e9, 0.5e9, 1e9]) | st.floats(1e6, 1e9)
TIMES = st.sampled_from([0.0, 0.5, 1.0]) | st.floats(0.0, 3.0)
ENDS = st.integers(0, 3)
SENDS = st.tuples(st.just("send"), ENDS, ENDS, SIZES, st.integers(0, 3))
ACTIONS = st.one_of(
    *[SENDS] * 6,
    st.tuples(st.just("cancel"), st.integers(0, 9)),
    st.tuples(st.just("bandwidth"), st.integers(0, 7), st.sampled_from([0.5e9, 1e9, 2e9])),
    st.tuples(st.just("fail"), st.integers(0, 7)),
    st.tuples(st.just("restore")),
    st.tuples(st.just("collective"), st.sampled_from([1e8, 2e9])),
    st.tuples(st.just("look")),
    st.tuples(st.just("copy")),
)
PROGRAMS = st.lists(st.tuples(TIMES, ACTIONS), min_size=1, max_size=14)


@define
class Program:
    """What a program does, and what it sees."""

    network: NetworkBackend
    seen: list[tuple[object, float]] = field(factory=list)
    handles: list[Handle] = field(factory=list)
    failed: list[int] = field(factory=list)
    links: list[FloatArray] = field(factory=list)

    def do(self, number: int, action: tuple) -> None:  # type: ignore[type-arg]
        what, *rest = action
        network = self.network
        if what == "send":
            self.send(number, *rest)
        elif what == "collective":
            request = CollectiveRequest(Pattern.ALL_REDUCE, 4, rest[0])
            network.collective(request, partial(self.note, ("collective", number)), algorithm="ring")
        elif what == "cancel":
            pending = network.pending()
            mine = [handle for handle in self.handles if handle in pending]
            if mine:
                network.cancel(mine[rest[0] % len(mine)])
        elif what == "bandwidth":
            network.set_bandwidth(*rest)
        elif what == "fail" and rest[0] not in self.failed:
            self.failed.append(rest[0])
            network.fail_link(rest[0])
        elif what == "restore" and self.failed:
            network.restore_link(self.failed.pop())
        elif what == "look":
            self.links.append(sum(network.link_bytes().values(), np.zeros(len(network.fabric.bandwidths))))
            self.seen.append((tuple(network.stalled()), network.next_event_time()))

    def send(self, number: int, source: int, destination: int, size: float, more: int) -> None:
        ended = partial(self.ended, number, source, destination, size, more)
        if more == 2:
            self.network.send(source, destination, size, number, ended)
            self.network.receive(source, destination, number, partial(self.note, ("received", number)))
        else:
            self.handles.append(self.network.send(source, destination, size, on_complete=ended))

    def ended(self, number: int, source: int, destination: int, size: float, more: int) -> None:
        """Send on, as often as there is ``more``."""
        self.note((number, more))
        if more:
            self.network.schedule(0.0, partial(self.note, ("timer", number)))
            self.send(number, destination, (source + more) % 4, size, more - 1)

    def note(self, name: object) -> None:
        self.seen.append((name, self.network.now))


@frozen
class Case:
    """A fabric, how closely collectives are simulated on it, and what a program does, each after a delay."""

    fabric: Fabric
    fidelity: str
    steps: list[tuple[float, tuple]]  # type: ignore[type-arg]


CASES = st.builds(Case, st.sampled_from(FABRICS), st.sampled_from(["compressed", "exact"]), PROGRAMS)


class Sets(FlowNetwork):
    """Makes a flow set of each message."""

    def send(self, way: Way, volume: float, on_complete: Completion, priority: int = 0, label: str = "") -> int:
        return self.start(flows_of(way, volume, priority, label), on_complete, checked=True)


def run(case: Case, *, plain: bool) -> Program:
    """Do all that a program does, with messages, or with flow sets for them."""
    program = Program(NetworkBackend(case.fabric, plugins=FRAMEWORK.plugins, fidelity=case.fidelity))
    if not plain:
        program.network._network.__class__ = Sets
    for number, (delay, action) in enumerate(case.steps):
        program.network.advance(program.network.now + delay)
        if action[0] == "copy":
            program = copy.deepcopy(program)
        program.do(number, action)
    for link in program.failed:
        program.network.restore_link(link)
    program.network.run_until_idle()
    program.do(len(case.steps), ("look",))
    return program


@given(CASES)
def test_messages_end_as_flow_sets_do(case: Case) -> None:
    program, expected = run(case, plain=True), run(case, plain=False)
    assert program.seen == expected.seen  # to the last bit, and in this order
    for mine, theirs in zip(program.links, expected.links, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12)
    counts, others = program.network.statistics(), expected.network.statistics()
    for name in ("events", "batches", "flows", "met", "waits"):
        assert counts[name] == others[name]


# --- which links they take


class Counting(Router):
    """Routes round a ring, one way, and knows no way from NPU 7 to itself the long way; counts what it is asked."""

    name = "counting"

    def __init__(self) -> None:
        self.asked: list[int] = []

    def route(self, fabric: Fabric, sources: IntArray, destinations: IntArray) -> Routes:
        self.asked.append(len(sources))
        return fabric.defaults.router.route(fabric, sources, destinations)

    def tree(self, fabric: Fabric, sources: IntArray, destinations: IntArray, operation: Operation) -> Routes:
        raise UnsupportedError("no trees")


def test_a_program_that_sends_much_has_routes_found_together() -> None:
    fabric = built("torus", 0.5, dimensions=[8, 8])
    router = Counting()
    paths = Paths(fabric, router)
    for source in range(64):
        for destination in range(64):
            routes = paths.way(source, destination).routes
            expected = answers.path(fabric.defaults.router, fabric, source, destination)
            assert routes.links.tolist() == expected.links.tolist()
            assert routes.latencies.tolist() == expected.latencies.tolist()
            assert paths.way(source, destination) is paths.way(source, destination)
    alone = [asked for asked in router.asked if asked == 1]
    assert len(alone) < 40
    assert len(router.asked) - len(alone) < 10
    assert sum(router.asked) == len(alone) + 64 * 64
    assert max(router.asked) <= 1024 * len(alone)


class Broken(Counting):
    """Knows no way to NPU 7."""

    def route(self, fabric: Fabric, sources: IntArray, destinations: IntArray) -> Routes:
        if (destinations == 7).any():
            raise UnsupportedError("no way to NPU 7")
        return super().route(fabric, sources, destinations)


def test_a_pair_that_nobody_asks_for_is_no_error() -> None:
    fabric = built("torus", 0.5, dimensions=[8])
    paths = Paths(fabric, Broken())
    for source in range(8):
        for destination in range(7):
            assert len(paths.way(source, destination).routes.links) <= 4
    with pytest.raises(UnsupportedError, match="no way to NPU 7"):
        paths.way(0, 7)


def test_a_message_to_a_node_that_is_no_npu_is_routed_alone() -> None:
    fabric = FRAMEWORK.topology("mesh2d", rows=2, columns=2, link_latency="1 us").build()
    controller = next(node for node in range(len(fabric.kinds)) if fabric.node_name(node) == "controller0")
    paths = Paths(fabric, fabric.defaults.router)
    for npu in range(4):
        for _ in range(8):
            for ends in ((npu, controller), (controller, npu), (npu, (npu + 1) % 4)):
                expected = answers.path(fabric.defaults.router, fabric, *ends)
                assert paths.way(*ends).routes.links.tolist() == expected.links.tolist()
    assert math.isfinite(paths.way(0, 1).routes.latencies.max())


MATCHES = st.sampled_from(["send", "receive", "deliver", "withdraw"])


@given(st.lists(st.tuples(MATCHES, st.sampled_from("ab")), max_size=40), st.randoms(use_true_random=False))
def test_the_nth_receive_gets_the_nth_message_when_that_is_there(
    actions: list[tuple[str, str]], random: Random
) -> None:
    """A message that is withdrawn, or a receive, lets the next move up; what was served is no longer under way."""
    matching = Matching()
    messages: dict[str, list[int]] = {"a": [], "b": []}
    receives: dict[str, list[int]] = {"a": [], "b": []}
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
