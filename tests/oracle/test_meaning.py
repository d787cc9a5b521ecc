"""What docs/model.md says of tasks and ranks, in cases small enough to be worked out by hand.

A link moves one unit of bytes in one unit of time, a millisecond, and has a latency of one, if nothing else is said.
Each case runs by the engine and by the oracle.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from attrs import evolve, frozen

sys.path.insert(0, str(Path(__file__).parent))

from fredfw import (
    CollectiveAlgorithm,
    CollectiveRequest,
    Fabric,
    Framework,
    GraphBuilder,
    GroupView,
    LinkEvent,
    MemoryTier,
    Pattern,
    Phase,
    Schedule,
    TaskGraph,
    hookimpl,
    with_memories,
)
from oracle import Algorithms, simulate


@frozen
class Turns(CollectiveAlgorithm):
    """Sends of 1, 6 and 3 units from rank 0 to 1 take turns on a channel; rank 2 is before and behind the first."""

    name: ClassVar[str] = "turns"
    patterns: ClassVar[frozenset[Pattern]] = frozenset({Pattern.BROADCAST})

    policy: str = "fifo"
    release: str = "delivered"

    def schedule(self, request: CollectiveRequest, view: GroupView) -> Schedule:
        phases = (
            Phase.of([2], [0], [3]),
            Phase.of([0], [1], [0], channel=0, after=(0,)),
            Phase.of([0], [1], [1], channel=0),
            Phase.of([0], [1], [2], channel=0),
            Phase.of([1], [2], [4], after=(1,)),
        )
        sizes = np.array([1, 6, 3, 1, 10]) * BYTES
        ways: dict[str, Any] = {"policy": self.policy, "release": self.release, "proof": "none"}
        return Schedule(request.pattern, request.ranks, sizes, 5, phases, **ways)


class Own:
    @hookimpl
    def fredfw_collectives(self) -> Sequence[type[CollectiveAlgorithm]]:
        return [Turns]


FRAMEWORK = Framework()
FRAMEWORK.plugins.register(Own(), "own")
WHOLE, EAGER, MEETING = ("compressed", "stepwise"), "per-rank", "per-rank-rendezvous"
ALL = *WHOLE, EAGER, MEETING
UNIT, BYTES = 1e-3, 1e6
LINKS = {"link_bandwidth": "1 GB/s", "link_latency": "1 ms"}
Ends = Mapping[tuple[int, int], float]
"""When ranks end tasks, in units."""
Changes = Sequence[tuple[float, str, str]]
"""When, what happens, and to which link."""
Simulator = Callable[..., Ends]


def by_engine(
    graph: TaskGraph, fabric: Fabric, fidelity: str, algorithm: str = "direct", changes: Changes = (), **options: str
) -> Ends:
    events = [LinkEvent(links=link, action=action, at=at * UNIT) for at, action, link in changes]
    result = FRAMEWORK.simulate_graph(
        graph, fabric, collectives={"default": {"name": algorithm, **options}}, fidelity=fidelity, events=events
    )
    line = result.timeline
    return {
        (task, rank): end / UNIT
        for task, end, ranks in zip(line.task.tolist(), line.end.tolist(), line.ranks, strict=True)
        for rank in ranks.tolist()
    }


def by_oracle(
    graph: TaskGraph, fabric: Fabric, fidelity: str, algorithm: str = "direct", changes: Changes = (), **options: str
) -> Ends:
    names = [fabric.link_name(link) for link in range(len(fabric.bandwidths))]
    happening = [
        (at * UNIT, {names.index(link): float(fabric.bandwidths[names.index(link)]) * (action == "restore")})
        for at, action, link in changes
    ]
    algorithms: Algorithms = {None: [FRAMEWORK.plugins.collectives.get(algorithm)(**options)]}
    spans = simulate(graph, fabric, algorithms, fidelity=fidelity, changes=happening)
    assert spans is not None
    return {(span.task, rank): span.end / UNIT for span in spans for rank in span.ranks}


@pytest.fixture(params=[by_engine, by_oracle])
def run(request: pytest.FixtureRequest) -> Simulator:
    simulator: Simulator = request.param
    return simulator


def connected(ranks: int, **fields: Any) -> Fabric:
    """Return a fabric with a link from each NPU to each other."""
    return FRAMEWORK.topology("fully-connected", npus=ranks, **{**LINKS, **fields}).build()


def ready(builder: GraphBuilder, *times: float) -> list[int]:
    """Have each rank compute until a time; return the tasks."""
    return [builder.compute(f"until {one}", [rank], seconds=one * UNIT) for rank, one in enumerate(times)]


def both(sender: float, receiver: float) -> TaskGraph:
    """Return a message of 3 units, as tasks 2 and 3, whose ends get ready at some times."""
    builder = GraphBuilder(2)
    first, second = ready(builder, sender, receiver)
    send = builder.send("send", 0, 1, 3 * BYTES, label="mp", after=[first])
    builder.receive("receive", send, after=[second])
    return builder.build()


# The message begins when, the send ends when, the receive ends when: the table of "Tasks of a rank".
@pytest.mark.parametrize(
    ("fidelity", "sender", "receiver", "sent", "received"),
    [
        *((whole, 2, 1, 2 + 3 + 1, 2 + 3 + 1) for whole in WHOLE),
        *((whole, 2, 10, 2 + 3 + 1, 10) for whole in WHOLE),
        (EAGER, 2, 1, 2 + 3, 2 + 3 + 1),
        (EAGER, 2, 10, 2 + 3, 10),
        (MEETING, 2, 1, 2 + 3, 2 + 3 + 1),
        (MEETING, 2, 10, 10 + 3, 10 + 3 + 1),
    ],
)
def test_a_message(run: Simulator, fidelity: str, sender: float, receiver: float, sent: float, received: float) -> None:
    ends = run(both(sender, receiver), connected(2), fidelity)
    assert (ends[2, 0], ends[3, 1]) == pytest.approx((sent, received))


@pytest.mark.parametrize(
    ("fidelity", "sender", "receiver", "sent", "received"),
    [
        *((whole, 2, 1, 2 + 3 + 1, 2 + 3 + 1) for whole in WHOLE),
        (EAGER, 2, 1, 2 + 3, 2 + 3 + 1),
        (MEETING, 2, 10, 10 + 3, 10 + 3 + 1),
    ],
)
def test_a_transfer(
    run: Simulator, fidelity: str, sender: float, receiver: float, sent: float, received: float
) -> None:
    builder = GraphBuilder(2)
    builder.transfer("transfer", [[0, 1]], 3 * BYTES, label="mp", after=ready(builder, sender, receiver))
    ends = run(builder.build(), connected(2), fidelity)
    assert (ends[2, 0], ends[2, 1]) == pytest.approx((sent, received))


def ring(size: float, pattern: str = "all-gather") -> TaskGraph:
    """Return a collective of three ranks, as task 3, the last of which is ready at 4."""
    builder = GraphBuilder(3)
    builder.collective("ring", pattern, [[0, 1, 2]], size * BYTES, label="mp", after=ready(builder, 0, 0, 4))
    return builder.build()


# Two steps of 3 units, in which each rank sends to the next. Whole phases take 3 + 1 each, from 4 on. By rank the
# second step begins at max(4 + 3 + 1, 3), max(3 + 1, 3) and max(3 + 1, 4 + 3). With a rendezvous the first one begins
# at 0 from rank 0 to 1 and at 4 elsewhere, so that ranks are done with it at 8, 7 and 8; all of the second begins at 8.
@pytest.mark.parametrize(
    ("fidelity", "expected"),
    [*((whole, (12, 12, 12)) for whole in WHOLE), (EAGER, (11, 12, 10)), (MEETING, (12, 12, 12))],
)
def test_steps_of_a_ring(run: Simulator, fidelity: str, expected: tuple[float, ...]) -> None:
    ends = run(ring(9), connected(3), fidelity, "ring")
    assert [ends[3, rank] for rank in range(3)] == pytest.approx(expected)


@pytest.mark.parametrize("fidelity", WHOLE)
def test_a_collective_of_no_bytes_is_a_barrier(run: Simulator, fidelity: str) -> None:
    ends = run(ring(0), connected(3), fidelity, "ring")
    assert [ends[3, rank] for rank in range(3)] == pytest.approx([4 + 2 * 1] * 3)


@pytest.mark.parametrize("fidelity", ALL)
def test_a_stream_begins_when_all_its_sources_are_ready(run: Simulator, fidelity: str) -> None:
    switch = FRAMEWORK.topology("switch", npus=3, in_network=True, **LINKS).build()
    ends = run(ring(3, "all-reduce"), switch, fidelity, "in-network")
    assert [ends[3, rank] for rank in range(3)] == pytest.approx([4 + 3 + 2 * 1] * 3)


@pytest.mark.parametrize("fidelity", ALL)
@pytest.mark.parametrize("kind", ["load", "store"])
def test_loads_and_stores_begin_when_all_ranks_are_ready(run: Simulator, fidelity: str, kind: str) -> None:
    memory = MemoryTier(name="dram", scope="npu", bandwidth=BYTES / UNIT, latency=UNIT)
    builder = GraphBuilder(2)
    getattr(builder, kind)("stream", "dram", [[0, 1]], 3 * BYTES, label="mp", after=ready(builder, 0, 4))
    ends = run(builder.build(), with_memories(connected(2), [memory]), fidelity)
    assert (ends[2, 0], ends[2, 1]) == pytest.approx((4 + 3 + 1, 4 + 3 + 1))


# A ring all-reduce takes launch + 2 (n - 1) x (step + message + latency + S / n / (efficiency x B)).
@pytest.mark.parametrize("fidelity", ALL)
def test_a_transport_adds_its_costs(run: Simulator, fidelity: str) -> None:
    costs = {"launch": "2 ms", "step": "500 us", "message": "250 us", "efficiency": 0.5}
    transport = FRAMEWORK.plugins.transports.get("alpha-beta")(**costs)
    builder = GraphBuilder(3)
    builder.collective("ring", "all-reduce", [[0, 1, 2]], 9 * BYTES, label="mp")
    ends = run(builder.build(), connected(3).with_defaults(transport=transport), fidelity, "ring")
    assert [ends[0, rank] for rank in range(3)] == pytest.approx([2 + 4 * (0.5 + 0.25 + 1 + 3 / 0.5)] * 3)


# The first message from 0 to 1 goes round by 2 and arrives at 1 + 8. The link is back when the second one is sent at 1,
# which arrives at 1 + 1 + 1. Rank 1 goes on at 9 all the same, and sends until 10.
@pytest.mark.parametrize("fidelity", [EAGER])
def test_messages_do_not_overtake_each_other(run: Simulator, fidelity: str) -> None:
    fabric = connected(3)
    latencies = {(0, 1): 1.0, (0, 2): 4.0, (2, 1): 4.0}
    ends = zip(fabric.sources.tolist(), fabric.destinations.tolist(), strict=True)
    fabric = evolve(fabric, latencies=np.array([latencies.get(pair, 0.0) for pair in ends]) * UNIT)
    builder = GraphBuilder(3)
    builder.collective("ring", "all-gather", [[0, 1, 2]], 3 * BYTES, label="mp")
    [link] = [
        fabric.link_name(one)
        for one, pair in enumerate(zip(fabric.sources.tolist(), fabric.destinations.tolist(), strict=True))
        if pair == (0, 1)
    ]
    found = run(builder.build(), fabric, fidelity, "ring", [(0, "fail", link), (0.5, "restore", link)])
    assert [found[0, rank] for rank in range(3)] == pytest.approx([2, 10, 10])


@pytest.mark.parametrize("fidelity", ALL)
def test_computations_come_in_the_order_in_which_they_get_ready(run: Simulator, fidelity: str) -> None:
    builder = GraphBuilder(2)
    wait = builder.wait("wait", [0], seconds=1 * UNIT)
    builder.compute("first", [0], seconds=3 * UNIT)
    builder.compute("third", [0], seconds=1 * UNIT, after=[wait])
    builder.compute("second", [0], seconds=2 * UNIT)
    ends = run(builder.build(), connected(2), fidelity)
    assert [ends[task, 0] for task in range(4)] == pytest.approx([1, 3, 3 + 2 + 1, 3 + 2])


@pytest.mark.parametrize("fidelity", [EAGER])
def test_messages_on_one_link_share_it(run: Simulator, fidelity: str) -> None:
    builder = GraphBuilder(2)
    for size in (3, 1):
        builder.receive(f"receive {size}", builder.send(f"send {size}", 0, 1, size * BYTES, label="mp"))
    ends = run(builder.build(), connected(2), fidelity)
    assert [ends[task, rank] for task, rank in ((0, 0), (1, 1), (2, 0), (3, 1))] == pytest.approx([4, 5, 2, 3])


# At 0 the sends of 6 and 3 units are ready, and at 1 + 1 that of 1 unit. The one ready first begins, or the smallest.
# Each takes 1 more until it is delivered, unless the channel is free once it has drained. Rank by rank that is so
# anyway at a rank that sends, but a rendezvous waits for the channel of rank 1.
FIFO = {"delivered": (6 + 1) + (3 + 1) + (1 + 1), "drained": 6 + 3 + 1 + 1}
SMALLEST = {"delivered": (3 + 1) + (1 + 1), "drained": 3 + 1 + 1}


@pytest.mark.parametrize("fidelity", ALL)
@pytest.mark.parametrize("release", ["delivered", "drained"])
@pytest.mark.parametrize(("policy", "arrival"), [("fifo", FIFO), ("smallest-first", SMALLEST)])
def test_channels_take_turns(
    run: Simulator, fidelity: str, release: str, policy: str, arrival: Mapping[str, float]
) -> None:
    builder = GraphBuilder(3)
    builder.collective("turns", "broadcast", [[0, 1, 2]], 21 * BYTES, label="mp")
    ends = run(builder.build(), connected(3), fidelity, "turns", policy=policy, release=release)
    arrived = arrival["drained" if fidelity == EAGER else release]
    assert ends[0, 2] == pytest.approx(arrived + 10 + 1)  # what rank 1 then sends to rank 2
