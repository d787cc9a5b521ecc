from typing import Any

import numpy as np
import pytest

import fredfw_collective_torus_ring
from fredfw import CollectiveRequest, GroupView, Level, Pattern, Schedule, balanced_shares
from fredfw.testing import CollectiveTests
from fredfw.testing.fabrics import filled
from fredfw.typing import FloatArray
from fredfw_collective_torus_ring import TorusRing, busy_times


def torus(*sizes: int, two_way: bool = True) -> tuple[Level, ...]:
    """The levels of a torus with links of 1 B/s, as the topology states them."""
    return tuple(Level(size, "ring", 1.0, two_way=two_way) if size > 2 else Level(size, "line", 1.0) for size in sizes)


def plan(pattern: Pattern, group: GroupView, size: float = 1.0, **options: Any) -> Schedule:
    return TorusRing(**options).plan(CollectiveRequest(pattern, group.size, size), group)


def link_bytes(schedule: Schedule, group: GroupView) -> FloatArray:
    """Return the ``(ranks, levels, 2)`` bytes that each rank sends over its link up and down each level."""
    assert group.coordinates is not None
    total = np.zeros((group.size, len(group.levels), 2))
    for phase in schedule.phases:
        hop = group.coordinates[phase.destination] - group.coordinates[phase.source]
        ranks, moved = np.nonzero(hop)
        assert ranks.tolist() == list(range(len(phase)))  # every transfer along one level alone
        sizes = np.array([level.size for level in group.levels])[moved]
        up = (hop[ranks, moved] - 1) % sizes == 0
        assert (up | ((hop[ranks, moved] + 1) % sizes == 0)).all()  # and to a neighbour
        np.add.at(total, (phase.source, moved, np.where(up, 0, 1)), phase.repeat * schedule.row_bytes(phase))
    return total


@pytest.mark.parametrize("pattern", sorted(TorusRing.patterns))
@pytest.mark.parametrize("sizes", [(8,), (3, 3), (4, 4, 4), (8, 4), (3, 5)])
def test_all_links_of_a_torus_carry_the_same(pattern: Pattern, sizes: tuple[int, ...]) -> None:
    # Every rank sends (n - 1) / n of the data in each half, over 2 d links.
    group = filled(*torus(*sizes), seed=1)
    n, halves = group.size, 2 if pattern is Pattern.ALL_REDUCE else 1
    expected = np.full((n, len(sizes), 2), halves * (n - 1) / n * 60 / (2 * len(sizes)))
    for chunks in (1, 3):
        schedule = plan(pattern, group, 60.0, chunks=chunks)
        np.testing.assert_allclose(link_bytes(schedule, group), expected, rtol=1e-9)


@pytest.mark.parametrize("both", [True, False])
def test_a_one_way_ring_is_gone_round_upwards_and_keeps_others_to_one_way(*, both: bool) -> None:
    group = filled(Level(4, "ring", 1.0, two_way=both), Level(4, "ring", 1.0, two_way=False))
    sent = link_bytes(plan(Pattern.ALL_GATHER, group), group)
    np.testing.assert_allclose(sent, np.broadcast_to([15 / 16 / 2, 0], sent.shape), rtol=1e-12)


def test_the_one_link_of_a_pair_counts_once_and_auto_tries_pipelines() -> None:
    # 4 x 2: with a share x along the ring first, the ring's two links carry 3/4 x + 3/8 (1 - x), the pair's one
    # 1/8 x + 1/2 (1 - x); alike per link at x = 5/9, where each carries 7/8 / 3.
    group = filled(*torus(4, 2))
    np.testing.assert_allclose(balanced_shares(busy_times(group)), [5 / 9, 4 / 9], rtol=1e-12)
    sent = link_bytes(plan(Pattern.REDUCE_SCATTER, group), group)
    np.testing.assert_allclose(sent[:, 0], 7 / 24, rtol=1e-12)
    np.testing.assert_allclose(sent[:, 1].sum(axis=1), 7 / 24, rtol=1e-12)
    assert TorusRing.variants(Pattern.ALL_REDUCE) == [TorusRing(chunks=chunks) for chunks in (1, 2, 4, 8, 16)]


def test_what_has_no_other_way_round_or_no_share_is_left_out() -> None:
    for levels in (torus(2, 2, 2), (Level(4, "switch", 1.0), Level(3, "switch", 1.0))):
        assert len(plan(Pattern.ALL_GATHER, filled(*levels)).phases) == len(levels) ** 2
    # Far slower links are used last, and so little that nothing starts along them.
    group = filled(Level(4, "ring", 1000.0), Level(4, "ring", 1.0))
    schedule = plan(Pattern.REDUCE_SCATTER, group)
    assert len(schedule.phases) == 4
    assert all((schedule.row_bytes(phase) > 0).all() for phase in schedule.phases)


def test_groups_that_it_refuses() -> None:
    levels = Level(4, "ring", 1.0), Level(3, "line", 1.0)
    for group, reason in (GroupView(12), "not a full product"), (filled(*levels), "a line of 3, which is not a ring"):
        assert reason in str(TorusRing().refusal(CollectiveRequest(Pattern.ALL_REDUCE, 12, 1.0), group))


class TestTorusRing(CollectiveTests):
    plugin = fredfw_collective_torus_ring
    algorithms = (TorusRing(), TorusRing(shares="equal", chunks=2))
