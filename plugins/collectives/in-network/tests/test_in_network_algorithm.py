import numpy as np
import pytest

import fredfw_collective_in_network
from fredfw import Capabilities, CollectiveRequest, GroupView, Pattern, check
from fredfw.testing import CollectiveTests
from fredfw_collective_in_network import InNetwork


def view(n: int, *, reduces: bool = True, multicasts: bool = True) -> GroupView:
    return GroupView(n, capabilities=Capabilities(reduces=reduces, multicasts=multicasts))


@pytest.mark.parametrize(
    ("pattern", "needs"),
    [
        (Pattern.ALL_REDUCE, "combine copy"),
        *((pattern, "combine") for pattern in (Pattern.REDUCE, Pattern.REDUCE_SCATTER)),
        *((pattern, "copy") for pattern in (Pattern.BROADCAST, Pattern.ALL_GATHER)),
        *((pattern, "") for pattern in (Pattern.GATHER, Pattern.SCATTER, Pattern.ALL_TO_ALL)),
    ],
)
def test_transfers_follow_each_other_where_the_network_does_what_they_need(pattern: Pattern, needs: str) -> None:
    request = CollectiveRequest(pattern, 4, 8.0, 1 if pattern.rooted else 0)
    schedule = InNetwork().plan(request, view(4, reduces="combine" in needs, multicasts="copy" in needs))
    assert [phase.after for phase in schedule.phases] == [(), *((one,) for one in range(len(schedule.phases) - 1))]
    assert {phase.stream is not None for phase in schedule.phases} == {bool(needs)}
    for verb, group in (("combine", view(4, reduces=False)), ("copy", view(4, multicasts=False))):
        if verb in needs:
            assert f"does not {verb} streams" in str(InNetwork().refusal(request, group))


def test_all_to_all_v_leaves_out_pairs_without_bytes() -> None:
    sizes = np.array([[9.0, 1.0, 0.0], [0.0, 9.0, 2.0], [0.0, 0.0, 9.0]])
    request = CollectiveRequest(Pattern.ALL_TO_ALL, 3, 0.0, sizes=sizes)
    schedule = InNetwork().plan(request, view(3))
    check(schedule, request)
    assert [phase.source.tolist() for phase in schedule.phases] == [[0, 1]]


class TestInNetwork(CollectiveTests):
    plugin = fredfw_collective_in_network
    algorithms = (InNetwork(),)
