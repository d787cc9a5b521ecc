import math
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

from fredfw.collectives import CollectiveRequest, LevelSteps, Pattern, balanced_shares, check, ring_schedule
from fredfw.collectives.dimensions import PATTERNS, STEPS
from fredfw.errors import ScheduleError
from fredfw.fabric import GroupView, Level
from fredfw.fabric.view import KINDS, Kind
from fredfw.typing import FloatArray, IntArray


def places(*sizes: int, seed: int | None = 1) -> IntArray:
    """Return the positions of ranks, in a random order if there is a seed."""
    every = np.stack(np.unravel_index(np.arange(math.prod(sizes)), sizes), axis=1)
    return every if seed is None else np.random.default_rng(seed).permutation(every)


def grid(sizes: tuple[int, ...], *steps: str, kind: Kind = "switch", bandwidth: float = 1.0) -> LevelSteps:
    levels = tuple(Level(size, kind, bandwidth, 0.5) for size in sizes)
    return LevelSteps(GroupView(math.prod(sizes), levels, places(*sizes)), steps)


LARGE = [pytest.param(sizes, marks=pytest.mark.slow) for sizes in ((2, 3, 2), (4, 3), (4, 8))]


@pytest.mark.parametrize("sizes", [(2,), (5,), (8,), (3, 2), (4, 2), *LARGE])
def test_all_steps_in_all_orders_do_what_the_pattern_promises(sizes: tuple[int, ...]) -> None:
    able = [[one for one in STEPS if one != "halving-doubling" or size in (2, 4, 8)] for size in sizes]
    chosen = list(product(*able))
    # Of three dimensions not every step beside every other one; any two of them are.
    for steps in chosen if len(sizes) < 3 else chosen[::7]:
        for pattern, order in product(sorted(PATTERNS), permutations(range(len(sizes)))):
            schedule = grid(sizes, *steps).schedule(pattern, 720.0, order)
            check(schedule, CollectiveRequest(pattern, schedule.ranks, 720.0))


@pytest.mark.parametrize("step", STEPS)
def test_what_is_done_along_a_level_stays_in_it(step: str) -> None:
    others = places(4, 3, 2)[:, 1:]
    for phase in grid((4, 3, 2), step, "ring", "ring").schedule(Pattern.ALL_REDUCE, 1.0, (0, 2)).phases:
        assert phase.channel or (others[phase.source] == others[phase.destination]).all()


@pytest.mark.parametrize("step", STEPS[:4])
@pytest.mark.parametrize("pattern", sorted(PATTERNS))
def test_ranks_send_what_is_left_but_for_their_own_part(step: str, pattern: Pattern) -> None:
    schedule = grid((4, 8), step, step).schedule(pattern, 160.0, (1, 0))
    sent = np.zeros((2, schedule.ranks))  # along each level
    for phase in schedule.phases:
        np.add.at(sent[phase.channel], phase.source, phase.repeat * schedule.row_bytes(phase))
    twice = 2 if pattern is Pattern.ALL_REDUCE else 1
    np.testing.assert_allclose(sent[1], twice * 160 * 7 / 8)
    np.testing.assert_allclose(sent[0], twice * 160 / 8 * 3 / 4)


@pytest.mark.parametrize(
    ("size", "kind", "step", "seconds"),
    [
        (5, "ring", "ring", 2 * 4 / 5 / 2),
        (5, "ring", "bidirectional-ring", 2 * 4 / 5 / 2 / 2),
        (4, "switch", "direct", 2 * 3 / 4 / 2),
        (4, "switch", "halving-doubling", 2 * 3 / 4 / 2),
        (4, "fully-connected", "direct", 2 * 3 / 4 / 2 / 3),  # on all three links
        (4, "fully-connected", "halving-doubling", 2 * 3 / 4 / 2),  # on one after the other
        (4, "switch", "in-network", 1 / 2),  # up once, and down once
    ],
)
def test_how_long_a_level_is_busy_in_an_all_reduce(size: int, kind: Kind, step: str, seconds: float) -> None:
    level = grid((size,), step, kind=kind, bandwidth=2.0)
    assert level.busy_times([0], Pattern.ALL_REDUCE) == pytest.approx([seconds])


def test_a_level_works_on_what_the_ones_before_it_leave_and_pays_latency_at_each_step() -> None:
    steps = grid((4, 5), "ring", "ring")
    expected: FloatArray = np.array([3 / 4 / 5, 4 / 5])
    np.testing.assert_allclose(steps.busy_times((1, 0)), expected)
    np.testing.assert_allclose(steps.busy_times((1, 0), Pattern.ALL_REDUCE), 2 * expected)
    # The network adds up what the first level has left, which is not divided any more.
    mixed = grid((4, 5), "ring", "in-network")
    np.testing.assert_allclose(mixed.busy_times((0, 1), Pattern.ALL_REDUCE), [2 * 3 / 4, 1 / 4])
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
    steps = LevelSteps.of(GroupView(level.size, (level,), places(level.size)), "by-kind")
    assert steps.steps == (step,)
    assert steps.refusal() is None


@pytest.mark.parametrize("kind", KINDS)
def test_the_other_way_round_a_ring_is_another_channel(kind: Kind) -> None:
    back = grid((4, 3), "ring", "ring", kind=kind).schedule(Pattern.ALL_GATHER, 1.0, way=-1)
    assert [phase.channel for phase in back.phases] == ([3, 2] if kind == "ring" else [1, 0])


def test_what_cannot_be_is_refused() -> None:
    assert LevelSteps.of(GroupView(6), "by-kind").refusal() == GroupView(6).unstructured
    for steps, message in (
        (["halving-doubling"], "halving-doubling along 3 positions"),
        (["tree"], "there is no step algorithm 'tree', only ring, bidirectional-ring"),
        (["ring", "ring"], "2 step algorithms for 1 levels"),
    ):
        with pytest.raises(ScheduleError, match=message):
            grid((3,), *steps).schedule(Pattern.ALL_REDUCE, 1.0)
    with pytest.raises(ScheduleError, match="collectives over dimensions do not do broadcast"):
        ring_schedule(Pattern.BROADCAST, 1.0, places(2, 2))
    with pytest.raises(ScheduleError, match="3 ranks are not a full product"):
        ring_schedule(Pattern.ALL_REDUCE, 1.0, places(2, 2)[:3])


def test_stages_along_one_level_share_who_exchanges_with_whom() -> None:
    steps = grid((4, 4), "halving-doubling", "halving-doubling")
    forward, back = (steps.schedule(Pattern.ALL_REDUCE, 16.0, order).phases for order in ([0, 1], [1, 0]))
    # Partners at distance 2 and 1, along one level and then the other; an all-gather goes the way back.
    assert len({id(phase.destination) for phase in (*forward, *back)}) == 4
    assert len({id(phase.source) for phase in (*forward, *back)}) == 1
    assert forward[0].destination is back[2].destination is forward[-1].destination


@pytest.mark.parametrize("pattern", sorted(PATTERNS))
@pytest.mark.parametrize("step", [1, -1])
@given(sizes=st.lists(st.integers(1, 4), min_size=1, max_size=3), seed=st.integers(0, 99), data=st.data())
def test_rings_do_what_the_pattern_promises(
    pattern: Pattern, step: int, sizes: list[int], seed: int, data: st.DataObject
) -> None:
    n, order = math.prod(sizes), data.draw(st.permutations(range(len(sizes))))
    schedule = ring_schedule(pattern, 8.0 * n, places(*sizes, seed=seed), order, step=step)
    check(schedule, CollectiveRequest(pattern, n, 8.0 * n))
    for phase in schedule.phases:  # to the next position along one dimension
        here, there = (places(*sizes, seed=seed)[ends] for ends in (phase.source, phase.destination))
        moved = (there - here) % sizes
        assert (np.count_nonzero(moved, axis=1) == 1).all()
        assert (moved.sum(axis=1) == step % np.max(np.where(moved > 0, sizes, 0), axis=1)).all()
    halves = 2 if pattern is Pattern.ALL_REDUCE else 1
    assert schedule.steps == halves * sum(size - 1 for size in sizes)
    # The bandwidth-optimal volume: every rank sends all but its own share, once for each half.
    total = sum(float(schedule.row_bytes(phase).sum()) * phase.repeat for phase in schedule.phases)
    assert total == pytest.approx(halves * 8.0 * n * (n - 1))


SHAPES, TIMES = st.tuples(st.integers(1, 4), st.integers(1, 4)), st.floats(0.01, 100) | st.integers(1, 3).map(float)


@given(hnp.arrays(float, SHAPES, elements=TIMES))
def test_no_other_shares_keep_the_busiest_for_less(times: FloatArray) -> None:
    shares, weights = balanced_shares(times), balanced_shares(2 * times.max() - times.T)
    for found in (shares, weights):
        assert (found >= 0).all()
        assert found.sum() == pytest.approx(1, rel=1e-12)
    # Whatever the shares, the weighted mean over resources is at least that of the part where it is least.
    assert (times @ shares).max() == pytest.approx((weights @ times).min(), rel=1e-9)
