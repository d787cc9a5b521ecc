"""How transfers wait for each other that are not simply one after the other: behind what has left, and for room."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from attrs import evolve

from fredfw import CollectiveRequest, Fabric, NodeKind, Pattern, Phase, Schedule, check, sequence
from fredfw.collectives import parallel
from fredfw.errors import ScheduleError
from fredfw.fidelities import COMPRESSED, EXACT
from fredfw.simulation import FlowNetwork, Lowering, ScheduleRun
from fredfw.typing import IntArray

_RATE, _LATENCY = 1e9, 1e-3
_BYTES = 1e6  # a millisecond


def _all_to_all_links(nodes: int) -> Fabric:
    source, destination = np.nonzero(~np.eye(nodes, dtype=bool))
    return Fabric(
        name="each to each",
        kinds=np.full(nodes, NodeKind.NPU),
        sources=source,
        destinations=destination,
        bandwidths=_RATE,
        latencies=_LATENCY,
        energies=0.0,
    )


def _schedule(*phases: Phase, ranks: int = 3) -> Schedule:
    return Schedule(Pattern.ALL_REDUCE, ranks, _BYTES, 8, phases, proof="none")


def test_the_end_of_a_schedule_is_that_of_its_last_phase_to_end() -> None:
    # The second is behind the first, whose path is longer, and ends before it.
    fabric = _all_to_all_links(3)
    latencies = fabric.latencies.copy()
    latencies[0] = 10e-3
    fabric = evolve(fabric, latencies=latencies)
    network = FlowNetwork(fabric)
    schedule = _schedule(Phase.of(0, 1, 0), Phase.of(0, 2, 1, behind=(0,)))
    done: list[float] = []
    nodes = np.arange(3)[None, :]
    ScheduleRun(
        network, Lowering(fabric), schedule, nodes, lambda _: done.append(network.now), fidelity=COMPRESSED
    ).start()
    network.advance()
    assert done == [pytest.approx(11e-3)]


@pytest.mark.parametrize(("room", "expected"), [((0,), [7, 7, 7]), ((), [0, 7, 7])])
def test_a_rank_awaits_who_makes_room(room: tuple[int, ...], expected: list[int]) -> None:
    fabric = _all_to_all_links(3)
    network, awaited = FlowNetwork(fabric), np.full(3, -1)
    schedule = _schedule(Phase.of(2, 1, 0), Phase.of(0, 1, 1, room=room))

    def through(nodes: IntArray, marks: IntArray) -> None:
        awaited[nodes] = marks

    run = ScheduleRun(
        network, Lowering(fabric), schedule, np.arange(3)[None, :], lambda _: None, fidelity=EXACT, on_through=through
    )
    for node, mark in enumerate((0, 1, 7)):
        network.schedule(float(mark), partial(run.enter, np.array([node]), mark))
    network.advance()
    assert awaited.tolist() == expected


def test_phases_that_are_behind_each_other_are_not_ordered_for_the_replay() -> None:
    add = Schedule(
        Pattern.REDUCE, 3, 1.0, 1, [Phase.of(1, 0, 0, reduce=True), Phase.of(2, 0, 0, reduce=True, behind=(0,))]
    )
    with pytest.raises(ScheduleError, match="not ordered"):
        check(add)
    check(evolve(add, phases=(add.phases[0], evolve(add.phases[1], behind=(), room=(0,)))))


def test_what_a_phase_is_behind_has_waited_for_others_and_these_are_over() -> None:
    # The third writes what the first has written, and is behind the second, which comes after the first.
    first, second = Phase.of(0, 1, 0), Phase.of(0, 2, 1, after=(0,))
    rest = [Phase.of(0, 1, 1), Phase.of(0, 2, 0)]
    check(Schedule(Pattern.BROADCAST, 3, 1.0, 2, [first, second, evolve(first, behind=(1,)), *rest]))


@pytest.mark.parametrize("field", ["behind", "room"])
def test_phases_wait_for_earlier_ones_alone(field: str) -> None:
    with pytest.raises(ScheduleError, match="waits for phases"):
        _schedule(Phase.of(0, 1, 0, **{field: (0,)}))  # type: ignore[arg-type]


def test_composed_schedules_move_what_phases_wait_for() -> None:
    part = _schedule(Phase.of(0, 1, 0), Phase.of(0, 2, 1, behind=(0,), room=(0,)))
    beside = parallel([part, part]).phases[3]
    assert (beside.after, beside.behind, beside.room) == ((), (2,), (2,))
    behind = sequence(part, part, Pattern.ALL_REDUCE).phases[3]
    assert (behind.after, behind.behind, behind.room) == ((1,), (2,), (2,))


def test_a_composed_schedule_is_proved_as_far_as_all_of_its_parts() -> None:
    replayed = Schedule(Pattern.ALL_REDUCE, 3, 1.0, 1, ())
    assert parallel([replayed, evolve(replayed, proof="author")]).proof == "author"
    assert sequence(evolve(replayed, proof="none"), replayed, Pattern.ALL_REDUCE).proof == "none"


def test_what_nobody_has_proved_is_not_checked() -> None:
    nothing = Schedule(Pattern.ALL_REDUCE, 3, 1.0, 1, ())
    request = CollectiveRequest(Pattern.ALL_REDUCE, 3, 1.0)
    with pytest.raises(ScheduleError):
        check(nothing, request)
    check(evolve(nothing, proof="author"), request)
    check(evolve(nothing, proof="none"), request)
    with pytest.raises(ScheduleError, match="the chunks sum to"):
        check(evolve(nothing, proof="author"), CollectiveRequest(Pattern.ALL_REDUCE, 3, 2.0))
    with pytest.raises(ScheduleError, match="accepted are replay, author, none"):
        evolve(nothing, proof="mine")
