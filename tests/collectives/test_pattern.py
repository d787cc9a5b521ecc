from __future__ import annotations

import pytest

from fredfw.collectives import Pattern


@pytest.mark.parametrize(
    ("pattern", "factor"),
    [
        # nccl-tests, doc/PERFORMANCE.md, for 4 ranks
        (Pattern.ALL_REDUCE, 2 * 3 / 4),
        (Pattern.REDUCE_SCATTER, 3 / 4),
        (Pattern.ALL_GATHER, 3 / 4),
        (Pattern.ALL_TO_ALL, 3 / 4),
        (Pattern.GATHER, 3 / 4),
        (Pattern.SCATTER, 3 / 4),
        (Pattern.BROADCAST, 1),
        (Pattern.REDUCE, 1),
        (Pattern.POINT_TO_POINT, 1),
    ],
)
def test_bus_factor(pattern: Pattern, factor: float) -> None:
    assert pattern.bus_factor(4) == factor


def test_every_pattern_but_the_all_reduce_has_a_root_or_owners() -> None:
    assert {pattern for pattern in Pattern if not (pattern.rooted or pattern.owned)} == {Pattern.ALL_REDUCE}
    assert {pattern for pattern in Pattern if pattern.rooted and pattern.owned} == {Pattern.GATHER, Pattern.SCATTER}
