from __future__ import annotations

import numpy as np
import pytest

import fredfw_collective_in_network
from fredfw.collectives import CollectiveRequest, Pattern, Schedule, check
from fredfw.errors import UnsupportedError
from fredfw.fabric import Capabilities, GroupView
from fredfw.testing import CollectiveTests
from fredfw_collective_in_network import InNetwork


def view(n: int, *, reduces: bool = True, multicasts: bool = True) -> GroupView:
    return GroupView(n, capabilities=Capabilities(reduces=reduces, multicasts=multicasts))


def plan(pattern: Pattern, n: int, size: float = 1.0, root: int = 0) -> Schedule:
    return InNetwork().plan(CollectiveRequest(pattern, n, size, root), view(n))


@pytest.mark.parametrize(
    ("pattern", "transfers"),
    # Sources and destinations of each transfer, in order, for 4 ranks and root 1.
    [
        (Pattern.ALL_REDUCE, [([0, 1, 2, 3], [0, 1, 2, 3])]),
        (Pattern.REDUCE, [([0, 1, 2, 3], [1])]),
        (Pattern.BROADCAST, [([1], [0, 2, 3])]),
        (Pattern.REDUCE_SCATTER, [([0, 1, 2, 3], [rank]) for rank in range(4)]),
        (Pattern.ALL_GATHER, [([0], [1, 2, 3]), ([1], [0, 2, 3]), ([2], [0, 1, 3]), ([3], [0, 1, 2])]),
        (Pattern.GATHER, [([0], [1]), ([2], [1]), ([3], [1])]),
        (Pattern.SCATTER, [([1], [0]), ([1], [2]), ([1], [3])]),
        (Pattern.ALL_TO_ALL, [([0, 1, 2, 3], [0, 1, 2, 3])] * 3),
    ],
)
def test_transfers_follow_each_other(pattern: Pattern, transfers: list[tuple[list[int], list[int]]]) -> None:
    root = 1 if pattern.rooted else 0
    schedule = plan(pattern, 4, size=8.0, root=root)
    ends = [(np.unique(one.source).tolist(), np.unique(one.destination).tolist()) for one in schedule.phases]
    assert ends == transfers
    assert [phase.after for phase in schedule.phases] == [(), *((index,) for index in range(len(transfers) - 1))]
    each = 2.0 if pattern.owned else 8.0
    assert all((schedule.row_bytes(phase) == each).all() for phase in schedule.phases)
    streamed = [phase.stream is not None for phase in schedule.phases]
    unicasts = pattern in (Pattern.GATHER, Pattern.SCATTER, Pattern.ALL_TO_ALL)
    assert streamed == [not unicasts] * len(transfers)


def test_all_to_all_v_leaves_out_pairs_without_bytes() -> None:
    sizes = np.array([[9.0, 1.0, 0.0], [0.0, 9.0, 2.0], [0.0, 0.0, 9.0]])
    request = CollectiveRequest(Pattern.ALL_TO_ALL, 3, 0.0, sizes=sizes)
    schedule = InNetwork().plan(request, view(3))
    check(schedule, request)
    assert [phase.source.tolist() for phase in schedule.phases] == [[0, 1]]


@pytest.mark.parametrize(
    ("pattern", "reduces", "multicasts"),
    [
        (Pattern.ALL_REDUCE, True, True),
        (Pattern.REDUCE, True, False),
        (Pattern.REDUCE_SCATTER, True, False),
        (Pattern.BROADCAST, False, True),
        (Pattern.ALL_GATHER, False, True),
        (Pattern.ALL_TO_ALL, False, False),
        (Pattern.GATHER, False, False),
        (Pattern.SCATTER, False, False),
    ],
)
def test_it_asks_for_what_the_pattern_needs_and_says_what_is_lacking(
    pattern: Pattern, reduces: bool, multicasts: bool
) -> None:
    request = CollectiveRequest(pattern, 4, 1.0)
    check(InNetwork().plan(request, view(4, reduces=reduces, multicasts=multicasts)), request)
    for lacks, verb, group in (
        (reduces, "combine", view(4, reduces=False)),
        (multicasts, "copy", view(4, multicasts=False)),
    ):
        if lacks:
            with pytest.raises(UnsupportedError, match=f"does not {verb} streams .* in_network = true"):
                InNetwork().plan(request, group)


class TestInNetwork(CollectiveTests):
    plugin = fredfw_collective_in_network
    algorithms = (InNetwork(),)
