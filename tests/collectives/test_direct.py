from __future__ import annotations

import numpy as np
import pytest

from fredfw.collectives import CollectiveRequest, Pattern, check
from fredfw.collectives.direct import DirectAlgorithm
from fredfw.fabric import GroupView

SIZES = [*range(1, 18), 32]


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("pattern", sorted(set(Pattern) - {Pattern.POINT_TO_POINT}))
def test_it_does_what_the_pattern_promises(pattern: Pattern, n: int) -> None:
    for root in {0, n // 2, n - 1} if pattern.rooted else {0}:
        request = CollectiveRequest(pattern, n, 1e6, root)
        check(DirectAlgorithm().plan(request, GroupView(n)), request)


@pytest.mark.parametrize("root", [0, 1])
def test_point_to_point_goes_from_the_root_to_the_other(root: int) -> None:
    request = CollectiveRequest(Pattern.POINT_TO_POINT, 2, 5.0, root)
    schedule = DirectAlgorithm().plan(request, GroupView(2))
    check(schedule, request)
    assert (schedule.phases[0].source.tolist(), schedule.phases[0].destination.tolist()) == ([root], [1 - root])


@pytest.mark.parametrize(
    ("pattern", "phases", "rows", "row_bytes"),
    [
        (Pattern.ALL_TO_ALL, 1, 20, 2.0),
        (Pattern.ALL_REDUCE, 2, 20, 2.0),
        (Pattern.REDUCE_SCATTER, 1, 20, 2.0),
        (Pattern.ALL_GATHER, 1, 20, 2.0),
        (Pattern.SCATTER, 1, 4, 2.0),
        (Pattern.GATHER, 1, 4, 2.0),
        (Pattern.BROADCAST, 1, 4, 10.0),
        (Pattern.REDUCE, 1, 4, 10.0),
    ],
)
def test_everybody_sends_at_once(pattern: Pattern, phases: int, rows: int, row_bytes: float) -> None:
    schedule = DirectAlgorithm().plan(CollectiveRequest(pattern, 5, 10.0), GroupView(5))
    assert [len(phase) for phase in schedule.phases] == [rows] * phases
    assert {float(one) for phase in schedule.phases for one in schedule.row_bytes(phase)} == {row_bytes}


def test_all_to_all_v_leaves_out_pairs_without_bytes() -> None:
    sizes = np.array([[9.0, 1.0, 0.0], [0.0, 9.0, 2.0], [3.0, 0.0, 9.0]])
    request = CollectiveRequest(Pattern.ALL_TO_ALL, 3, 0.0, sizes=sizes)
    schedule = DirectAlgorithm().plan(request, GroupView(3))
    check(schedule, request)
    (phase,) = schedule.phases
    moved = zip(phase.source, phase.destination, schedule.row_bytes(phase), strict=True)
    assert set(moved) == {(0, 1, 1.0), (1, 2, 2.0), (2, 0, 3.0)}


def test_all_to_all_v_without_any_bytes_moves_nothing() -> None:
    request = CollectiveRequest(Pattern.ALL_TO_ALL, 3, 0.0, sizes=np.zeros((3, 3)))
    schedule = DirectAlgorithm().plan(request, GroupView(3))
    check(schedule, request)
    assert [len(phase) for phase in schedule.phases] == [0]
