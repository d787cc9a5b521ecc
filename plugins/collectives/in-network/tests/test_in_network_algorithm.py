from __future__ import annotations

import numpy as np
import pytest

import fredfw_collective_in_network
from fredfw.collectives import CollectiveRequest, Pattern, check
from fredfw.errors import UnsupportedError
from fredfw.fabric import Capabilities, GroupView
from fredfw.testing import CollectiveTests
from fredfw_collective_in_network import InNetwork


def view(n: int, *, reduces: bool = True, multicasts: bool = True) -> GroupView:
    return GroupView(n, capabilities=Capabilities(reduces=reduces, multicasts=multicasts))


@pytest.mark.parametrize(
    ("pattern", "needs", "transfers"),
    # What switches must do, and sources and destinations of each transfer, in order, for 4 ranks and root 1.
    [
        (Pattern.ALL_REDUCE, "combine copy", [([0, 1, 2, 3], [0, 1, 2, 3])]),
        (Pattern.REDUCE, "combine", [([0, 1, 2, 3], [1])]),
        (Pattern.BROADCAST, "copy", [([1], [0, 2, 3])]),
        (Pattern.REDUCE_SCATTER, "combine", [([0, 1, 2, 3], [rank]) for rank in range(4)]),
        (Pattern.ALL_GATHER, "copy", [([0], [1, 2, 3]), ([1], [0, 2, 3]), ([2], [0, 1, 3]), ([3], [0, 1, 2])]),
        (Pattern.GATHER, "", [([0], [1]), ([2], [1]), ([3], [1])]),
        (Pattern.SCATTER, "", [([1], [0]), ([1], [2]), ([1], [3])]),
        (Pattern.ALL_TO_ALL, "", [([0, 1, 2, 3], [0, 1, 2, 3])] * 3),
    ],
)
def test_transfers_follow_each_other_where_the_network_does_what_they_need(
    pattern: Pattern, needs: str, transfers: list[tuple[list[int], list[int]]]
) -> None:
    request = CollectiveRequest(pattern, 4, 8.0, 1 if pattern.rooted else 0)
    schedule = InNetwork().plan(request, view(4, reduces="combine" in needs, multicasts="copy" in needs))
    check(schedule, request)
    ends = [(np.unique(one.source).tolist(), np.unique(one.destination).tolist()) for one in schedule.phases]
    assert ends == transfers
    assert [phase.after for phase in schedule.phases] == [(), *((index,) for index in range(len(transfers) - 1))]
    each = 2.0 if pattern.owned else 8.0
    assert all((schedule.row_bytes(phase) == each).all() for phase in schedule.phases)
    assert [phase.stream is not None for phase in schedule.phases] == [bool(needs)] * len(transfers)
    for verb, group in (("combine", view(4, reduces=False)), ("copy", view(4, multicasts=False))):
        if verb in needs:
            with pytest.raises(UnsupportedError, match=f"does not {verb} streams .* in_network = true"):
                InNetwork().plan(request, group)


def test_all_to_all_v_leaves_out_pairs_without_bytes() -> None:
    sizes = np.array([[9.0, 1.0, 0.0], [0.0, 9.0, 2.0], [0.0, 0.0, 9.0]])
    request = CollectiveRequest(Pattern.ALL_TO_ALL, 3, 0.0, sizes=sizes)
    schedule = InNetwork().plan(request, view(3))
    check(schedule, request)
    assert [phase.source.tolist() for phase in schedule.phases] == [[0, 1]]


class TestInNetwork(CollectiveTests):
    plugin = fredfw_collective_in_network
    algorithms = (InNetwork(),)
