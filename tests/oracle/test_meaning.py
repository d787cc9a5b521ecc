"""What docs/model.md says of ranks, messages, channels and memories, worked out by hand, of the engine and the oracle.

Links have 100 B/s and a latency of 0.5 s, so that 100 bytes have drained after 1 s and are delivered after 1.5 s.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from small import Fixed, executor

from fredfw.collectives import CollectiveAlgorithm, Pattern, Phase, Schedule
from fredfw.fabric import Fabric, MemoryTier, NodeKind, Transport, with_memories
from fredfw.fidelities import COMPRESSED, EXACT as BY_RANK, RENDEZVOUS, STEPWISE
from fredfw.framework import Framework
from fredfw.simulation.links import LinkEvent, LinkEvents
from fredfw.workloads import GraphBuilder, TaskGraph
from oracle import simulate

WAYS = COMPRESSED, STEPWISE, BY_RANK, RENDEZVOUS
WHOLE, RANKS = (COMPRESSED, STEPWISE), (BY_RANK, RENDEZVOUS)
DIRECT = Framework().plugins.collectives.get("direct")()
IN_NETWORK = Framework().plugins.collectives.get("in-network")()

Spans = Mapping[tuple[int, int], tuple[float, float]]  # start and end, by task and rank
Closed = tuple[tuple[float, int, int], ...]  # when which link closes (0) or opens (1), in order
Run = Callable[..., Spans]


def algorithms(schedule: Schedule | None) -> dict[Pattern | None, tuple[CollectiveAlgorithm, ...]]:
    one = IN_NETWORK if schedule is None else Fixed(schedule)
    return {Pattern.ALL_REDUCE: (one,), Pattern.REDUCE: (one,), None: (DIRECT,)}


def by_engine(
    graph: TaskGraph, fabric: Fabric, fidelity: str, schedule: Schedule | None = None, links: Closed = ()
) -> Spans:
    events = [LinkEvent(fabric.link_name(link), "restore" if share else "fail", at=at) for at, link, share in links]
    given: dict[str, Any] = {"fidelity": fidelity, "events": LinkEvents(events, fabric) if events else None}
    timeline = executor(graph, fabric, collectives=algorithms(schedule), **given).run()
    rows = timeline.task.tolist(), timeline.start.tolist(), timeline.end.tolist(), timeline.ranks
    return {
        (task, rank): (start, end) for task, start, end, ranks in zip(*rows, strict=True) for rank in ranks.tolist()
    }


def by_oracle(
    graph: TaskGraph, fabric: Fabric, fidelity: str, schedule: Schedule | None = None, links: Closed = ()
) -> Spans:
    changes = [(at, {link: share * float(fabric.bandwidths[link])}) for at, link, share in links]
    spans = simulate(graph, fabric, algorithms(schedule), fidelity=fidelity, changes=changes)
    assert spans is not None
    return {(span.task, rank): (span.start, span.end) for span in spans for rank in span.ranks}


@pytest.fixture(params=[by_engine, by_oracle], ids=["engine", "oracle"])
def run(request: pytest.FixtureRequest) -> Run:
    found: Run = request.param
    return found


def ends(spans: Spans, task: int) -> list[float]:
    return [end for (one, _), (_, end) in sorted(spans.items()) if one == task]


def wires(ranks: int, pairs: Iterable[tuple[int, int]], latencies: float | Sequence[float] = 0.5) -> Fabric:
    sources, destinations = np.array(sorted(pairs)).T
    return Fabric("wires", np.full(ranks, NodeKind.NPU), sources, destinations, 100.0, latencies, 0.0)


def phase(*rows: tuple[int, int, int], **fields: Any) -> Phase:
    """Return transfers from one rank to another of so many chunks, which have 50 bytes."""
    source, destination, count = zip(*rows, strict=True)
    return Phase.of(source, destination, 0, count=count, **fields)


def schedule_of(ranks: int, *phases: Phase, **fields: Any) -> Schedule:
    """Return a schedule of which nothing but the phases is of interest; its last chunk is empty."""
    sizes = np.array([50.0] * 8 + [0.0])
    return Schedule(Pattern.ALL_REDUCE, ranks, sizes, 9, phases, proof="none", **fields)


def wires_of(schedule: Schedule) -> Fabric:
    """Return a link for each two ranks, so that no two flows of a phase meet."""
    pairs = {
        (source, destination)
        for one in schedule.phases
        for source, destination in zip(one.source.tolist(), one.destination.tolist(), strict=True)
    }
    return wires(schedule.ranks, pairs)


def alpha_beta(**costs: Any) -> Transport:
    return Framework().plugins.transports.get("alpha-beta")(**costs)


def collective(ranks: int, late: Mapping[int, float] | None = None, size: float = 100.0) -> TaskGraph:
    """Return an all-reduce, as the last task, that ranks enter late whose computations come before."""
    builder = GraphBuilder(ranks)
    before = [builder.compute(str(rank), [rank], seconds=seconds) for rank, seconds in (late or {}).items()]
    builder.collective("reduce", Pattern.ALL_REDUCE, [range(ranks)], size, label="dp", after=before)
    return builder.build()


def test_a_rank_does_one_computation_at_a_time_as_they_get_ready(run: Run) -> None:
    builder = GraphBuilder(1)
    builder.compute("first", [0], seconds=2.0)
    late = builder.wait("late", [0], seconds=0.5)
    early = builder.wait("early", [0], seconds=0.25)
    third = builder.compute("third", [0], seconds=1.0, after=[late])
    second = builder.compute("second", [0], seconds=1.0, after=[early])
    # Those that wait for the same get ready in the order of their numbers.
    last = builder.compute("last", [0], seconds=1.0, after=[late])
    found = run(builder.build(), wires(2, [(0, 1)]), STEPWISE)
    assert [found[task, 0] for task in (0, second, third, last)] == [(0, 2), (2, 3), (3, 4), (4, 5)]


@pytest.mark.parametrize(("sender", "receiver"), [(0.0, 0.0), (2.0, 0.0), (0.0, 1.25), (1.0, 7.0)])
@pytest.mark.parametrize("fidelity", WAYS)
def test_a_message(run: Run, fidelity: str, sender: float, receiver: float) -> None:
    builder = GraphBuilder(2)
    ready = builder.compute("sender", [0], seconds=sender), builder.compute("receiver", [1], seconds=receiver)
    send = builder.send("send", 0, 1, 100.0, label="pp", after=[ready[0]])
    builder.receive("receive", send, after=[ready[1]])
    begins = max(sender, receiver) if fidelity == RENDEZVOUS else sender
    delivered = begins + 1.5
    sent = delivered if fidelity in WHOLE else begins + 1.0
    found = run(builder.build(), wires(2, [(0, 1)]), fidelity)
    assert (ends(found, 2), ends(found, 3)) == ([sent], [max(delivered, receiver)])


@pytest.mark.parametrize(
    ("fidelity", "sent", "received"), [(STEPWISE, 1.5, 1.5), (BY_RANK, 1.0, 1.5), (RENDEZVOUS, 6.0, 6.5)]
)
def test_receivers_of_a_transfer_enter_with_its_sender(run: Run, fidelity: str, sent: float, received: float) -> None:
    """A rendezvous waits for the receiver, which computes for 5 s."""
    builder = GraphBuilder(2)
    busy = builder.compute("work", [1], seconds=5.0)
    builder.transfer("send", [[0, 1]], 100.0, label="pp", after=[busy])
    found = run(builder.build(), wires(2, [(0, 1)]), fidelity)
    assert ends(found, 1) == [sent, received]


@pytest.mark.parametrize("fidelity", WAYS)
def test_messages_share_their_link(run: Run, fidelity: str) -> None:
    """300 and 100 bytes, at 50 B/s each until the small one has drained at 2 s."""
    builder = GraphBuilder(2)
    for size in (300.0, 100.0):
        send = builder.send(f"send {size}", 0, 1, size, label="pp")
        builder.receive(f"receive {size}", send)
    found = run(builder.build(), wires(2, [(0, 1)]), fidelity)
    sent = [4.5, 2.5] if fidelity in WHOLE else [4.0, 2.0]
    assert ends(found, 0) + ends(found, 2) == sent
    assert ends(found, 1) + ends(found, 3) == [4.5, 2.5]


# 100 bytes to rank 1 and 50 to rank 2, from rank 0.
TURNS = phase((0, 1, 2), channel=0), phase((0, 2, 1), channel=0)


@pytest.mark.parametrize("fidelity", WAYS)
@pytest.mark.parametrize(
    ("schedule", "whole", "by_rank", "rendezvous"),
    [
        # A step waits for what a rank itself sends and receives: what rank 0 sends has drained at 1 s, what rank 1
        # receives is delivered at 1.5 s, and so is the phase. Of a rendezvous ranks 2 and 3 are ready at once.
        (schedule_of(4, phase((0, 1, 2)), phase((0, 3, 2), (1, 2, 2), after=(0,))), 3.0, [2.0, 2.5, 3.0, 2.5], None),
        # A repetition is a step: no sender waits for the latency, but its group does, and a rendezvous.
        (schedule_of(2, phase((0, 1, 2), repeat=4)), 6.0, [4.0, 4.5], [5.5, 6.0]),
        # A rank without a part in a phase is done with it at once.
        (schedule_of(4, phase((0, 1, 2)), phase((2, 3, 2), after=(0,))), 3.0, [1.0, 1.5, 1.0, 1.5], None),
        # Rank 1 is ready for the second phase when what it sends in the first, which takes 2 s, has drained.
        (schedule_of(3, phase((1, 2, 4)), phase((0, 1, 2), after=(0,))), 4.0, [1.0, 2.0, 2.5], [3.0, 3.5, 2.5]),
        # A phase behind another waits for its bytes alone: rank 0 sends the second time from 1 s on.
        (schedule_of(3, phase((0, 1, 2)), phase((0, 2, 2), behind=(0,))), 2.5, [2.0, 1.5, 2.5], None),
        # Rank 1 has room when it is done with the first phase, where it receives until 1.5 s.
        (schedule_of(3, phase((0, 1, 2)), phase((2, 1, 2), room=(0,))), 3.0, [1.0, 3.0, 2.5], None),
        # A channel takes the turn that was ready first or the smallest, and a group holds it until this is delivered,
        # or has drained.
        (schedule_of(3, *TURNS), 2.5, [1.5, 1.5, 2.0], None),
        (schedule_of(3, *TURNS, policy="smallest-first"), 2.5, [1.5, 2.0, 1.0], None),
        (schedule_of(3, *TURNS, release="drained"), 2.0, [1.5, 1.5, 2.0], None),
    ],
)
def test_a_rank_waits_for_its_own_part_of_each_phase(
    run: Run, fidelity: str, schedule: Schedule, whole: float, by_rank: list[float], rendezvous: list[float] | None
) -> None:
    """Groups end as a whole; by rank each ends for itself, with a rendezvous as without it or otherwise."""
    found = ends(run(collective(schedule.ranks), wires_of(schedule), fidelity, schedule), 0)
    expected = {BY_RANK: by_rank, RENDEZVOUS: rendezvous or by_rank}.get(fidelity, [whole] * schedule.ranks)
    assert found == expected


@pytest.mark.parametrize("fidelity", WAYS)
def test_latencies_launches_and_messages_cost_their_time(run: Run, fidelity: str) -> None:
    # A barrier of two steps without bytes, from the time at which its last rank is ready, at 3 s.
    barrier = schedule_of(3, phase((0, 1, 1)), phase((1, 2, 1), after=(0,)))
    found = run(collective(3, {0: 3.0}, 0.0), wires_of(barrier), fidelity, evolve(barrier, chunk_bytes=0.0))
    assert ends(found, 1) == ([4.0] * 3 if fidelity in WHOLE else [3.0, 3.5, 4.0])
    # Launching takes 2 s: rank 0 from the start, rank 1 from 3 s on; of a whole group from when the last is ready.
    schedule = schedule_of(3, phase((0, 2, 2)), phase((1, 2, 2)))
    on = wires_of(schedule).with_defaults(transport=alpha_beta(launch=2.0))
    found = run(collective(3, {1: 3.0}), on, fidelity, schedule)
    assert ends(found, 1) == ([6.5] * 3 if fidelity in WHOLE else [3.0, 6.0, 6.5])
    # Two steps, rank 0 sends two messages of 50 bytes in each: a quarter second for each, and twice the bytes.
    schedule = schedule_of(3, phase((0, 1, 1), (0, 2, 1)), phase((1, 0, 1), (2, 0, 1), after=(0,)))
    transport = alpha_beta(launch=2.0, step=0.5, message=0.25, efficiency=0.5)
    found = run(collective(3), wires_of(schedule).with_defaults(transport=transport), fidelity, schedule)
    step = 0.5 + 2 * 0.25 + 0.5 + 50 / 0.5 / 100
    # Ranks 1 and 2 are through when what they send has drained.
    last = 2 + (2 * step if fidelity in WHOLE else step + 1.0)
    assert ends(found, 0) == pytest.approx([2 + 2 * step, last, last])


@pytest.mark.parametrize("fidelity", WAYS)
def test_ranks_enter_and_leave_a_collective_by_themselves(run: Run, fidelity: str) -> None:
    """Rank 0 is 3 s late. Rank 1 does not wait for it, and computes for 1 s when its bytes have left."""
    schedule = schedule_of(4, phase((1, 2, 2), (0, 3, 2)))
    builder = GraphBuilder(4)
    late = builder.compute("late", [0], seconds=3.0)
    reduce = builder.collective("reduce", Pattern.ALL_REDUCE, [range(4)], 100.0, label="dp", after=[late])
    builder.compute("next", range(4), seconds=1.0, after=[reduce])
    found = run(builder.build(), wires_of(schedule), fidelity, schedule)
    left = [4.5] * 4 if fidelity in WHOLE else [4.0, 1.0, 1.5, 4.5]
    assert ends(found, 1) == left
    assert ends(found, 2) == [end + 1.0 for end in left]


@pytest.mark.parametrize("fidelity", WAYS)
def test_a_stream_waits_for_all_of_its_sources(run: Run, fidelity: str) -> None:
    """Rank 1 is 4 s late. The sources of a reduction to rank 0 are through when their bytes have left."""
    switch = Framework().topology("switch", npus=3, in_network=True, link_bandwidth=100.0, link_latency=0.25).build()
    for pattern, through in ((Pattern.ALL_REDUCE, [5.5] * 3), (Pattern.REDUCE, [5.5, 5.0, 5.0])):
        builder = GraphBuilder(3)
        late = builder.compute("late", [1], seconds=4.0)
        builder.collective("stream", pattern, [range(3)], 100.0, label="dp", after=[late])
        found = ends(run(builder.build(), switch, fidelity), 1)
        assert found == ([5.5] * 3 if fidelity in WHOLE else through)


@pytest.mark.parametrize("fidelity", WAYS)
def test_a_span_begins_with_the_last_entry_that_its_ranks_wait_for(run: Run, fidelity: str) -> None:
    """Rank 0, which sends to both others, enters at 1 s, and rank 1 at 3 s."""
    schedule = schedule_of(3, phase((0, 1, 2), (0, 2, 2)))
    found = run(collective(3, {0: 1.0, 1: 3.0}), wires_of(schedule), fidelity, schedule)
    by_rank = [(1.0, 2.0), (3.0, 3.0), (1.0, 2.5)]
    # A rendezvous of rank 0 with rank 1 is over at 4 s.
    meeting = [(3.0, 4.0), (3.0, 4.5), (1.0, 2.5)]
    expected = {BY_RANK: by_rank, RENDEZVOUS: meeting}.get(fidelity, [(3.0, 4.5)] * 3)
    assert [found[2, rank] for rank in range(3)] == expected


@pytest.mark.parametrize("fidelity", [STEPWISE, *RANKS])
def test_messages_that_overtake_count_in_order(run: Run, fidelity: str) -> None:
    """The first message of rank 0 takes the way by rank 2, of 10 s, for its link is back only at 0.5 s.

    The second one is there at 2 s, without latency. Rank 1 passes on to rank 3 what it got first: at each step it sends
    once, and the second step begins when the first message is there.
    """
    pairs = [(0, 1), (0, 2), (1, 3), (2, 1)]
    on, closed = wires(4, pairs, [0.0, 5.0, 0.5, 5.0]), ((0.0, 0, 0), (0.5, 0, 1))
    schedule = schedule_of(4, phase((0, 1, 2), (1, 3, 2), repeat=2))
    found = ends(run(collective(4), on, fidelity, schedule, closed), 0)
    if fidelity == STEPWISE:  # the group waits for both, and the second takes 1 s and the latency to rank 3
        assert found == [12.5] * 4
    else:
        # With a rendezvous the second message waits until rank 1 is at its second step, and takes 1 s.
        assert found == [2.0 if fidelity == BY_RANK else 12.0, 12.0, 0.0, 12.5]


def test_turns_have_one_order_on_all_ranks_of_a_group(run: Run) -> None:
    """Turn A (to rank 2) is ready first, at rank 1; rank 0 enters at 0.25 s, and would have begun with B (to rank 3).

    Before them rank 0 sends to rank 4, which A waits for, and rank 1 to rank 5, which B waits for. So rank 0 sends A at
    1.25 s and B at 2.25 s, and rank 1 sends A at 0 s and B at 1 s.
    """
    a, b = (phase((0, to, 2), (1, to, 2), channel=0, after=(to - 2,)) for to in (2, 3))
    schedule = schedule_of(6, phase((0, 4, 2)), phase((1, 5, 2)), a, b)
    found = ends(run(collective(6, {0: 0.25}), wires_of(schedule), BY_RANK, schedule), 1)
    assert found == [3.25, 2.0, 2.75, 3.75, 1.75, 1.5]


@pytest.mark.parametrize("fidelity", WHOLE)
def test_channels_choose_when_all_that_ends_at_a_moment_has_ended(run: Run, fidelity: str) -> None:
    """At 1.5 s the turn to rank 1 is over, and one of 50 bytes to rank 3 gets ready, behind one of 200 to rank 2.

    The small one waits for what rank 0 gets from rank 4, and then for two messages without bytes and latency, the last
    of which comes up when the channel is free already. When it is delivered, rank 3 sends 300 bytes to rank 4.
    """
    schedule = schedule_of(
        5,
        phase((0, 1, 2), channel=0),
        phase((0, 2, 4), channel=0),
        phase((4, 0, 2)),
        Phase.of(1, 4, 8, after=(2,)),
        Phase.of(1, 4, 8, after=(3,)),
        phase((0, 3, 1), channel=0, after=(4,)),
        phase((3, 4, 6), after=(5,)),
        policy="smallest-first",
    )
    on = wires_of(schedule)
    on = evolve(on, latencies=np.where((on.sources == 1) & (on.destinations == 4), 0.0, 0.5))
    # The small turn takes 1 s, and the large message 3.5 s; meanwhile the turn of 200 bytes takes 2.5 s.
    assert ends(run(collective(5), on, fidelity, schedule), 0) == [1.5 + 1.0 + 3.5] * 5


def with_controller() -> Fabric:
    """Return two NPUs, each with links to and from a controller, which is node 2."""
    kinds = [NodeKind.NPU, NodeKind.NPU, NodeKind.CONTROLLER]
    return Fabric("controlled", np.array(kinds), [2, 2, 0, 1], [0, 1, 2, 2], 100.0, 0.5, 0.0)


@pytest.mark.parametrize("fidelity", WAYS)
@pytest.mark.parametrize("kind", ["load", "store"])
def test_streams_begin_when_all_ranks_of_their_group_are_ready(run: Run, fidelity: str, kind: str) -> None:
    """Rank 1 is 3 s late."""
    for groups, expected in (([[0, 1]], [4.5, 4.5]), ([[0], [1]], [1.5, 4.5])):
        builder = GraphBuilder(2)
        late = builder.compute("late", [1], seconds=3.0)
        getattr(builder, kind)("stream", [0] * len(groups), groups, 100.0, label="io", after=[late])
        assert ends(run(builder.build(), with_controller(), fidelity), 1) == expected


@pytest.mark.parametrize("fidelity", WAYS)
@pytest.mark.parametrize(("discipline", "expected"), [("shared", [2.5, 2.5]), ("one-at-a-time", [1.5, 3.0])])
def test_a_memory_is_shared_or_serves_one_after_the_other(
    run: Run, fidelity: str, discipline: str, expected: list[float]
) -> None:
    """Two loads of 100 bytes; the next begins when that before is delivered."""
    tier = MemoryTier(name="pool", bandwidth=100.0, latency=0.5, discipline=discipline)
    builder = GraphBuilder(2)
    builder.load("load", "pool", [[0], [1]], 100.0, label="io")
    assert ends(run(builder.build(), with_memories(wires(2, [(0, 1)]), [tier]), fidelity), 0) == expected
