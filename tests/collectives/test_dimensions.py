from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest

from fredfw.collectives import CollectiveRequest, LevelSteps, Pattern, Schedule, check
from fredfw.collectives.dimensions import PATTERNS, STEPS, dimension_schedule
from fredfw.errors import ScheduleError
from fredfw.fabric import GroupView, Level
from fredfw.fabric.view import KINDS
from fredfw.typing import FloatArray, IntArray


def places(sizes: tuple[int, ...], seed: int = 1) -> IntArray:
    """Return the positions of ranks in a random order."""
    every = np.stack(np.unravel_index(np.arange(np.prod(sizes)), sizes, order="F"), axis=1)
    return np.random.default_rng(seed).permutation(every)


def possible(step: str, size: int) -> bool:
    return step != "halving-doubling" or size & (size - 1) == 0


LARGE = [pytest.param(sizes, marks=pytest.mark.slow) for sizes in ((2, 3, 2), (4, 3), (4, 8))]


@pytest.mark.parametrize("sizes", [(2,), (5,), (8,), (3, 2), (4, 2), *LARGE])
def test_all_steps_in_all_orders_do_what_the_pattern_promises(sizes: tuple[int, ...]) -> None:
    chosen = [steps for steps in product(STEPS, repeat=len(sizes)) if all(map(possible, steps, sizes))]
    # Of three dimensions not every step beside every other one; any two of them are.
    for steps in chosen if len(sizes) < 3 else chosen[::7]:
        for pattern, order in product(sorted(PATTERNS), permutations(range(len(sizes)))):
            schedule = dimension_schedule(pattern, 720.0, places(sizes), order, steps=steps, channels=True)
            check(schedule, CollectiveRequest(pattern, schedule.ranks, 720.0))


@pytest.mark.parametrize("step", STEPS)
def test_what_is_done_along_a_level_stays_in_it(step: str) -> None:
    place = places((4, 3, 2))
    schedule = dimension_schedule(Pattern.ALL_REDUCE, 1.0, place, (0, 2), steps=(step, "ring", "ring"), channels=True)
    for phase in schedule.phases:
        if phase.channel == 0:
            assert (place[phase.source, 1:] == place[phase.destination, 1:]).all()


def sent(schedule: Schedule, channel: int) -> float:
    """Return the bytes that each rank sends in the phases of a channel, all the same."""
    total = np.zeros(schedule.ranks)
    for phase in schedule.phases:
        if phase.channel == channel:
            np.add.at(total, phase.source, phase.repeat * schedule.row_bytes(phase))
    assert np.ptp(total) < 1e-9
    return float(total[0])


@pytest.mark.parametrize("step", STEPS[:4])
@pytest.mark.parametrize("pattern", sorted(PATTERNS))
def test_ranks_send_what_is_left_but_for_their_own_part(step: str, pattern: Pattern) -> None:
    schedule = dimension_schedule(pattern, 160.0, places((4, 8)), (1, 0), steps=step, channels=True)
    twice = 2 if pattern is Pattern.ALL_REDUCE else 1
    assert sent(schedule, 1) == pytest.approx(twice * 160 * 7 / 8)
    assert sent(schedule, 0) == pytest.approx(twice * 160 / 8 * 3 / 4)


def busy(level: Level, step: str) -> float:
    """Return the seconds per byte for which an all-reduce keeps ``level`` busy, alone."""
    return float(LevelSteps(GroupView(level.size, (level,)), (step,)).busy_times([0], Pattern.ALL_REDUCE)[0])


def test_how_long_levels_are_busy() -> None:
    ring, switch, full = Level(5, "ring", 2.0), Level(4, "switch", 2.0), Level(4, "fully-connected", 2.0)
    assert busy(ring, "ring") == pytest.approx(2 * 4 / 5 / 2)
    assert busy(ring, "bidirectional-ring") == pytest.approx(2 * 4 / 5 / 2 / 2)
    assert busy(switch, "direct") == busy(switch, "halving-doubling") == pytest.approx(2 * 3 / 4 / 2)
    assert busy(full, "direct") == pytest.approx(2 * 3 / 4 / 2 / 3)  # on all three links
    assert busy(full, "halving-doubling") == pytest.approx(2 * 3 / 4 / 2)  # on one after the other
    assert busy(switch, "in-network") == pytest.approx(1 / 2)  # up once, and down once


def test_a_level_works_on_what_the_ones_before_it_leave() -> None:
    levels = Level(4, "switch", 1.0), Level(5, "switch", 1.0)
    steps = LevelSteps.of(GroupView(20, levels), "ring")
    expected: FloatArray = np.array([3 / 4 / 5, 4 / 5])
    np.testing.assert_allclose(steps.busy_times((1, 0)), expected)
    np.testing.assert_allclose(steps.busy_times((1, 0), Pattern.ALL_REDUCE), 2 * expected)
    # The network adds up what the first level has left, which is not divided any more.
    mixed = LevelSteps(GroupView(20, levels), ("ring", "in-network"))
    np.testing.assert_allclose(mixed.busy_times((0, 1), Pattern.ALL_REDUCE), [2 * 3 / 4, 1 / 4])


def test_latencies_are_those_of_the_steps() -> None:
    levels = tuple(Level(8, "ring", 1.0, 0.5) for _ in STEPS)
    assert LevelSteps(GroupView(8**5, levels), STEPS).latencies().tolist() == [3.5, 3.5, 0.5, 1.5, 4.0]


@pytest.mark.parametrize(
    ("level", "step"),
    [
        (Level(5, "ring", 1.0), "bidirectional-ring"),
        (Level(5, "ring", 1.0, two_way=False), "ring"),
        (Level(5, "line", 1.0), "ring"),
        (Level(5, "fully-connected", 1.0), "direct"),
        (Level(8, "switch", 1.0), "halving-doubling"),
        (Level(6, "switch", 1.0), "ring"),
    ],
)
def test_steps_fit_the_kind_of_a_level(level: Level, step: str) -> None:
    assert LevelSteps.of(GroupView(level.size, (level,)), "by-kind").steps == (step,)


@pytest.mark.parametrize("kind", KINDS)
def test_the_other_way_round_a_ring_is_another_channel(kind: str) -> None:
    levels = Level(4, "switch", 1.0), Level(3, kind, 1.0)  # type: ignore[arg-type]  # a kind that is not a literal
    steps = LevelSteps.of(GroupView(12, levels, places((4, 3))), "ring")
    back = steps.schedule(Pattern.ALL_GATHER, 1.0, way=-1)
    assert [phase.channel for phase in back.phases] == [3 if kind == "ring" else 1, 0]


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ScheduleError, match="halving-doubling along 3 positions"):
        dimension_schedule(Pattern.ALL_REDUCE, 1.0, places((3,)), steps="halving-doubling")
    with pytest.raises(ScheduleError, match="there is no step algorithm 'tree', only ring, bidirectional-ring"):
        dimension_schedule(Pattern.ALL_REDUCE, 1.0, places((3,)), steps="tree")
    with pytest.raises(ScheduleError, match="2 step algorithms for 1 levels"):
        LevelSteps(GroupView(3, (Level(3, "ring", 1.0),)), ("ring", "ring"))
    with pytest.raises(ScheduleError, match="do not do broadcast"):
        dimension_schedule(Pattern.BROADCAST, 1.0, places((3,)))


def test_a_group_without_levels_is_a_reason_to_refuse() -> None:
    assert LevelSteps.of(GroupView(6), "by-kind").refusal() == GroupView(6).unstructured
    level = Level(3, "ring", 1.0)
    assert LevelSteps.of(GroupView(3, (level,), places((3,))), "by-kind").refusal() is None


def test_stages_along_one_level_share_who_exchanges_with_whom() -> None:
    level = Level(4, "switch", 1.0)
    steps = LevelSteps.of(GroupView(16, (level, level), places((4, 4))), "halving-doubling")
    forward, back = (steps.schedule(Pattern.ALL_REDUCE, 16.0, order).phases for order in ([0, 1], [1, 0]))
    # Partners at distance 2 and 1, along one level and then the other; an all-gather goes the way back.
    assert len({id(phase.destination) for phase in (*forward, *back)}) == 4
    assert len({id(phase.source) for phase in (*forward, *back)}) == 1
    assert forward[0].destination is back[2].destination is forward[-1].destination
