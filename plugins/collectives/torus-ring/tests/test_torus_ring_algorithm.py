import math
from typing import Any

import numpy as np
import pytest

import fredfw_collective_torus_ring
from fredfw import CollectiveRequest, Dimension, Framework, GroupView, Level, Pattern, Schedule, product_fabric
from fredfw.testing import CollectiveTests
from fredfw.testing.fabrics import filled
from fredfw.typing import FloatArray
from fredfw_collective_torus_ring import TorusRing


def torus(*sizes: int) -> list[Dimension]:
    """The dimensions of a torus with links of 1 B/s, as the topology states them."""
    return [Dimension.of_links("ring" if size > 2 else "line", size, 1.0) for size in sizes]


def link_bytes(pattern: Pattern, dimensions: list[Dimension], size: float = 1.0, **options: Any) -> FloatArray:
    call: dict[str, Any] = {"size": size, "algorithm": "torus-ring", **options}
    return Framework().simulate_collective(product_fabric(dimensions), pattern, **call).link_bytes


@pytest.mark.parametrize("pattern", sorted(TorusRing.patterns))
@pytest.mark.parametrize("sizes", [(8,), (3, 3), (4, 4, 4), (8, 4), (3, 5)])
def test_all_links_of_a_torus_carry_the_same(pattern: Pattern, sizes: tuple[int, ...]) -> None:
    # Every rank sends (n - 1) / n of the data in each half, over 2 d links.
    n, halves = math.prod(sizes), 2 if pattern is Pattern.ALL_REDUCE else 1
    for chunks in (1, 3):
        found = link_bytes(pattern, torus(*sizes), 60.0, chunks=chunks)
        np.testing.assert_allclose(found, halves * (n - 1) / n * 60 / (2 * len(sizes)), rtol=1e-9)


@pytest.mark.parametrize("both", [True, False])
def test_a_one_way_ring_keeps_others_to_one_way(*, both: bool) -> None:
    rings = [Dimension.of_links("ring", 4, 1.0, two_way=two_way) for two_way in (both, False)]
    expected = [0.0] * 16 * both + [15 / 16 / 2] * 32
    np.testing.assert_allclose(sorted(link_bytes(Pattern.ALL_GATHER, rings)), expected, rtol=1e-12)


def test_the_one_link_of_a_pair_counts_once_and_auto_tries_pipelines() -> None:
    # 4 x 2: with a share x along the ring first, the ring's two links carry 3/4 x + 3/8 (1 - x), the pair's one
    # 1/8 x + 1/2 (1 - x); alike per link at x = 5/9, where each carries 7/8 / 3.
    np.testing.assert_allclose(link_bytes(Pattern.REDUCE_SCATTER, torus(4, 2)), 7 / 24, rtol=1e-12)
    assert TorusRing.variants(Pattern.ALL_REDUCE) == [TorusRing(chunks=chunks) for chunks in (1, 2, 4, 8, 16)]


def plan(pattern: Pattern, *levels: Level) -> Schedule:
    group = filled(*levels)
    return TorusRing().plan(CollectiveRequest(pattern, group.size, 1.0), group)


def test_what_has_no_other_way_round_or_no_share_is_left_out() -> None:
    for levels in ([Level(2, "line", 1.0)] * 3, [Level(4, "switch", 1.0), Level(3, "switch", 1.0)]):
        assert len(plan(Pattern.ALL_GATHER, *levels).phases) == len(levels) ** 2
    # Far slower links are used last, and so little that nothing starts along them.
    schedule = plan(Pattern.REDUCE_SCATTER, Level(4, "ring", 1000.0), Level(4, "ring", 1.0))
    assert len(schedule.phases) == 4
    assert all((schedule.row_bytes(phase) > 0).all() for phase in schedule.phases)


def test_groups_that_it_refuses() -> None:
    levels = Level(4, "ring", 1.0), Level(3, "line", 1.0)
    for group, reason in (GroupView(12), "not a full product"), (filled(*levels), "a line of 3, which is not a ring"):
        assert reason in str(TorusRing().refusal(CollectiveRequest(Pattern.ALL_REDUCE, 12, 1.0), group))


class TestTorusRing(CollectiveTests):
    plugin = fredfw_collective_torus_ring
    algorithms = (TorusRing(), TorusRing(shares="equal", chunks=2))
