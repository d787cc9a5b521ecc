"""Turns on channels: policies, turns of several phases, and channels that are released early."""

from __future__ import annotations

import heapq
from itertools import count
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings, strategies as st

from fredfw import Fabric, Level, NodeKind
from fredfw.collectives import Pattern, Phase, Schedule, parallel
from fredfw.collectives.dimensions import dimension_schedule
from fredfw.collectives.schedule import POLICIES, RELEASES
from fredfw.errors import ScheduleError
from fredfw.fidelities import COMPRESSED, EXACT, RENDEZVOUS, STEPWISE
from fredfw.simulation import FlowNetwork, Lowering, MaxMin, ScheduleRun
from fredfw.typing import IntArray

WAYS = (COMPRESSED, STEPWISE, EXACT, RENDEZVOUS)

BANDWIDTHS, LATENCIES = (4.0, 2.0), (0.5, 2.0)


def product(sizes: tuple[int, int]) -> Fabric:
    """Return NPUs with a link to each other one that differs in one of two dimensions, a bandwidth for each."""
    place = np.stack(np.unravel_index(np.arange(np.prod(sizes)), sizes, order="F"), axis=1)
    differs = place[:, None] != place[None]
    sources, destinations = np.nonzero(differs.sum(axis=2) == 1)
    dimension = differs[sources, destinations].argmax(axis=1)
    return Fabric(
        name="product",
        kinds=np.full(len(place), NodeKind.NPU),
        sources=sources,
        destinations=destinations,
        bandwidths=np.array(BANDWIDTHS)[dimension],
        latencies=np.array(LATENCIES)[dimension],
        energies=0.0,
        levels=tuple(
            Level(size, "fully-connected", bandwidth, latency)
            for size, bandwidth, latency in zip(sizes, BANDWIDTHS, LATENCIES, strict=True)
        ),
        coordinates=place,
    )


def simulated(schedule: Schedule, fabric: Fabric, fidelity: str) -> float:
    """Return the seconds of ``schedule`` alone."""
    network, ended = FlowNetwork(fabric, MaxMin()), list[IntArray]()
    ScheduleRun(network, Lowering(fabric), schedule, fabric.npus[None, :], ended.append, fidelity=fidelity).start()
    network.advance()
    assert len(ended) == 1
    assert network.idle
    return network.now


def expected(schedule: Schedule) -> float:
    """Return the same by a list of jobs on two machines: each phase moves the same bytes over every link it uses.

    A repetition takes its bytes over its channel's bandwidth, and is delivered a latency later.
    """
    numbers, keeps = count(), schedule.release == "delivered"
    turns: dict[Any, list[int]] = {}
    turn_of = []
    for index, phase in enumerate(schedule.phases):
        turn_of.append(index if phase.turn < 0 else (phase.channel, phase.turn))
        turns.setdefault(turn_of[-1], []).append(index)
    total = {
        turn: sum(
            float(schedule.row_bytes(schedule.phases[one]).sum()) * schedule.phases[one].repeat for one in members
        )
        for turn, members in turns.items()
    }
    first: dict[Any, float] = {}
    ready: list[set[int]] = [set(), set()]
    holder: list[Any] = [None, None]
    done, over, end = [0] * len(schedule.phases), set[int](), 0.0
    events: list[tuple[float, int, int, str, int]] = []

    def post(time: float, order: int, what: str, index: int) -> None:
        heapq.heappush(events, (time, order, next(numbers), what, index))

    def begin(index: int, now: float) -> None:
        phase = schedule.phases[index]
        seconds = float(schedule.row_bytes(phase).max()) / BANDWIDTHS[phase.channel]
        post(now + seconds, 0, "drained", index)
        post(now + seconds + LATENCIES[phase.channel], 0, "delivered", index)

    for index, phase in enumerate(schedule.phases):
        if not phase.after:
            post(0.0, 0, "ready", index)
    while events:
        now, _, _, what, index = heapq.heappop(events)
        end = max(end, now)
        phase, turn = schedule.phases[index], turn_of[index]
        channel = phase.channel
        if what == "ready":
            first.setdefault(turn, now)
            if keeps and holder[channel] == turn:
                begin(index, now)
                continue
            ready[channel].add(index)
        elif what == "drained":
            if keeps:
                continue
            holder[channel] = None
        elif what == "delivered":
            done[index] += 1
            if done[index] < phase.repeat:
                begin(index, now) if keeps else post(now, 0, "ready", index)
                continue
            over.add(index)
            for other, later in enumerate(schedule.phases):
                if index in later.after and over.issuperset(later.after):
                    post(now, 0, "ready", other)
            if keeps and over.issuperset(turns[turn]):
                holder[channel] = None
        else:
            if holder[channel] is not None or not ready[channel]:
                continue
            best = min(
                ready[channel],
                key=lambda one: (
                    total[turn_of[one]] if schedule.policy == "smallest-first" else 0.0,
                    first[turn_of[one]],
                    one,
                ),
            )
            holder[channel] = turn_of[best]
            for one in sorted(turns[turn_of[best]] if keeps else [best]):
                if one in ready[channel]:
                    ready[channel].remove(one)
                    begin(one, now)
            continue
        post(now, 1, "choose", index)
    assert len(over) == len(schedule.phases)
    return end


@st.composite
def schedules(draw: st.DrawFn) -> tuple[tuple[int, int], Schedule]:
    """Return a size of two dimensions, and parts that go along them in different orders."""
    sizes = draw(st.sampled_from([(2, 2), (2, 4), (4, 2), (3, 4)]))
    fabric = product(sizes)
    assert fabric.coordinates is not None
    steps = [draw(st.sampled_from(["ring", "direct", *(["halving-doubling"] * (one != 3))])) for one in sizes]
    parts = []
    pattern = draw(st.sampled_from([Pattern.ALL_REDUCE, Pattern.REDUCE_SCATTER]))
    grouped = draw(st.booleans())
    policy, release = draw(st.sampled_from(POLICIES)), draw(st.sampled_from(RELEASES))
    for _ in range(draw(st.integers(1, 4))):
        order = draw(st.sampled_from([(0, 1), (1, 0)]))
        bytes_ = float(draw(st.integers(1, 5))) * 24
        part = dimension_schedule(pattern, bytes_, fabric.coordinates, order, steps=steps, channels=True)
        phases = part.phases
        if grouped:
            turn, before, named = -1, None, []
            for phase in phases:
                stage = phase.channel, bool(phase.reduce.any())
                turn, before = turn + (stage != before), stage
                named.append(evolve(phase, turn=turn))
            phases = tuple(named)
        parts.append(evolve(part, phases=phases, policy=policy, release=release))
    return sizes, parallel(parts)


@settings(max_examples=60)
@given(schedules())
def test_channels_take_turns_as_a_list_of_jobs_does(drawn: tuple[tuple[int, int], Schedule]) -> None:
    sizes, schedule = drawn
    fabric, seconds = product(sizes), expected(schedule)
    for fidelity in WAYS[1:]:
        assert simulated(schedule, fabric, fidelity) == pytest.approx(seconds, rel=1e-9), fidelity
    if all(phase.repeat == 1 for phase in schedule.phases):
        assert simulated(schedule, fabric, WAYS[0]) == pytest.approx(seconds, rel=1e-9)


def two_turns(**given: Any) -> Schedule:
    """Return two exchanges of two steps each along one channel."""
    step = Phase.of([0, 1], [1, 0], [0, 1], channel=0, turn=0)
    one = Schedule(Pattern.ALL_GATHER, 2, 8.0, 2, (step, evolve(step, after=(0,))), **given)
    return parallel([one, one])


@pytest.mark.parametrize("fidelity", WAYS)
def test_a_turn_of_several_phases_holds_its_channel(fidelity: str) -> None:
    fabric = product((2, 1))
    # 8 bytes at 4 B/s and 0.5 s of latency: 2.5 s a step, and nobody else in between.
    assert simulated(two_turns(), fabric, fidelity) == pytest.approx(4 * 2.5)


@pytest.mark.parametrize("fidelity", WAYS)
def test_a_channel_that_is_released_early_has_no_gaps(fidelity: str) -> None:
    fabric = product((2, 1))
    # The steps drain one behind the other, those of the second turn during the latencies of the first.
    assert simulated(two_turns(release="drained"), fabric, fidelity) == pytest.approx(4 * 2 + 0.5)


@pytest.mark.parametrize("fidelity", WAYS)
def test_the_smallest_turn_is_that_with_the_fewest_bytes_of_all_its_repetitions(fidelity: str) -> None:
    """16 bytes in 4 s come before 4 + 20 bytes in two repetitions, and 40 in 10 s go back when they are delivered."""
    phases = (
        Phase.of(0, 1, 0, channel=0),
        Phase.of(0, 1, 1, stride=1, repeat=2, channel=0),
        Phase.of(1, 0, 3, after=(0,)),
    )
    sizes = np.array([16.0, 4.0, 20.0, 40.0])
    schedule = Schedule(Pattern.ALL_GATHER, 2, sizes, 4, phases, policy="smallest-first", proof="none")
    assert simulated(schedule, product((2, 1)), fidelity) == pytest.approx(4.5 + 10.5)


def test_turns_of_parts_are_different_turns() -> None:
    assert [phase.turn for phase in two_turns().phases] == [0, 0, 1, 1]


@pytest.mark.parametrize(("key", "value"), [("policy", "largest-first"), ("release", "sent")])
def test_unknown_policies_are_refused(key: str, value: str) -> None:
    with pytest.raises(ScheduleError, match=f"{key} is '{value}', accepted are"):
        two_turns(**{key: value})


def test_parts_with_different_policies_are_not_put_side_by_side() -> None:
    with pytest.raises(ScheduleError, match="one channel policy"):
        parallel([two_turns(), two_turns(policy="smallest-first")])
