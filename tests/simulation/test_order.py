"""How transfers wait for each other: in turns on channels, behind what has left, and for room."""

import pytest
from attrs import evolve

from fredfw import CollectiveRequest, Pattern, Phase, Schedule, check, sequence
from fredfw.collectives import parallel
from fredfw.errors import ScheduleError

STEP = Phase.of([0, 1], [1, 0], [0, 1], channel=0, turn=0)
EXCHANGE = Schedule(Pattern.ALL_GATHER, 2, 8.0, 2, (STEP, evolve(STEP, after=(0,))))
"""Two steps along one channel."""


def test_parts_have_turns_of_their_own_and_one_policy_that_is_known() -> None:
    assert [phase.turn for phase in parallel([EXCHANGE, EXCHANGE]).phases] == [0, 0, 1, 1]
    with pytest.raises(ScheduleError, match="policy is 'largest-first', accepted are"):
        evolve(EXCHANGE, policy="largest-first")
    with pytest.raises(ScheduleError, match="release is 'sent', accepted are"):
        evolve(EXCHANGE, release="sent")
    with pytest.raises(ScheduleError, match="one channel policy"):
        parallel([EXCHANGE, evolve(EXCHANGE, policy="smallest-first")])


def test_phases_that_are_behind_each_other_are_not_ordered_for_the_replay() -> None:
    first, second = Phase.of(1, 0, 0, reduce=True), Phase.of(2, 0, 0, reduce=True, behind=(0,))
    add = Schedule(Pattern.REDUCE, 3, 1.0, 1, [first, second])
    with pytest.raises(ScheduleError, match="not ordered"):
        check(add)
    check(evolve(add, phases=(first, evolve(second, behind=(), room=(0,)))))
    # The third writes what the first has written, and is behind the second, which comes after the first.
    first, second = Phase.of(0, 1, 0), Phase.of(0, 2, 1, after=(0,))
    rest = [Phase.of(0, 1, 1), Phase.of(0, 2, 0)]
    check(Schedule(Pattern.BROADCAST, 3, 1.0, 2, [first, second, evolve(first, behind=(1,)), *rest]))


def test_phases_wait_for_earlier_ones_alone_which_composed_schedules_move() -> None:
    for own in (Phase.of(0, 1, 0, behind=(0,)), Phase.of(0, 1, 0, room=(0,))):
        with pytest.raises(ScheduleError, match="waits for phases"):
            Schedule(Pattern.ALL_REDUCE, 3, 1e6, 8, [own])
    part = Schedule(Pattern.ALL_REDUCE, 3, 1e6, 8, [Phase.of(0, 1, 0), Phase.of(0, 2, 1, behind=(0,), room=(0,))])
    beside = parallel([part, part]).phases[3]
    assert (beside.after, beside.behind, beside.room) == ((), (2,), (2,))
    behind = sequence(part, part, Pattern.ALL_REDUCE).phases[3]
    assert (behind.after, behind.behind, behind.room) == ((1,), (2,), (2,))


def test_what_nobody_has_proved_is_not_checked_nor_composed_schedules_with_such_parts() -> None:
    nothing = Schedule(Pattern.ALL_REDUCE, 3, 1.0, 1, ())
    assert parallel([nothing, evolve(nothing, proof="author")]).proof == "author"
    assert sequence(evolve(nothing, proof="none"), nothing, Pattern.ALL_REDUCE).proof == "none"
    request = CollectiveRequest(Pattern.ALL_REDUCE, 3, 1.0)
    with pytest.raises(ScheduleError):
        check(nothing, request)
    check(evolve(nothing, proof="author"), request)
    check(evolve(nothing, proof="none"), request)
    with pytest.raises(ScheduleError, match="the chunks sum to"):
        check(evolve(nothing, proof="author"), CollectiveRequest(Pattern.ALL_REDUCE, 3, 2.0))
    with pytest.raises(ScheduleError, match="accepted are replay, author, none"):
        evolve(nothing, proof="mine")
