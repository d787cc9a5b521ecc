from functools import partial

import pytest
from fabrics import ALPHA, BANDWIDTH, SIZE, on_a_switch

import fredfw_collective_recursive_halving_doubling
from fredfw import CollectiveRequest, GroupView, Pattern, Schedule
from fredfw.testing import CollectiveTests
from fredfw_collective_recursive_halving_doubling import RecursiveHalvingDoubling

BETA = SIZE / BANDWIDTH  # seconds to send the whole vector


def plan(pattern: Pattern, n: int) -> Schedule:
    return RecursiveHalvingDoubling().plan(CollectiveRequest(pattern, n, SIZE), GroupView(n))


duration = partial(on_a_switch, "recursive-halving-doubling")


def largest_rows(schedule: Schedule) -> list[float]:
    """Return the largest transfer of each step, as a share of the size."""
    return [float(schedule.row_bytes(phase).max()) / SIZE for phase in schedule.phases]


@pytest.mark.parametrize("fidelity", ["compressed", "exact"])
@pytest.mark.parametrize("log", [1, 2, 3, 5])
def test_time_on_a_switch(log: int, fidelity: str) -> None:
    n = 2**log
    half = log * ALPHA + (n - 1) / n * BETA
    assert duration("all-reduce", n, fidelity=fidelity) == pytest.approx(2 * half, rel=1e-9)
    assert duration("reduce-scatter", n, fidelity=fidelity) == pytest.approx(half, rel=1e-9)
    assert duration("all-gather", n, fidelity=fidelity) == pytest.approx(half, rel=1e-9)
    expected = log * (ALPHA + BETA)
    assert duration("all-reduce", n, method="doubling", fidelity=fidelity) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("n", "log"), [(3, 1), (5, 2), (7, 2), (12, 3), (33, 5)])
def test_folding_adds_two_steps_of_the_whole_vector(n: int, log: int) -> None:
    fold, halves = 2 * (ALPHA + BETA), 2 * (log * ALPHA + (1 - 1 / 2**log) * BETA)
    for method, expected in ("halving-doubling", halves), ("doubling", log * (ALPHA + BETA)):
        # Exactly, those that are not folded begin before, and share links with those that are.
        found = duration("all-reduce", n, method=method, fidelity="compressed")
        assert found == pytest.approx(fold + expected, rel=1e-9)


@pytest.mark.parametrize(
    ("n", "shares"),
    # By hand, in blocks of size / n: fold all blocks but one, halve, unfold one block. Of 3 ranks, 0 works for 0 and 1,
    # 2 for itself. Of 6, 0 works for 0 and 1, 2 for 2 and 3; 4 and 5 for themselves: 0 and 2 exchange 2 + 1 blocks,
    # then 0 and 4 exchange 2 for 1. Of 7, only rank 6 works for itself alone.
    [(3, [2, 2, 1]), (6, [5, 3, 2, 1]), (7, [6, 4, 2, 1])],
)
def test_reduce_scatter_and_all_gather_with_uneven_halves(n: int, shares: list[int]) -> None:
    assert largest_rows(plan(Pattern.REDUCE_SCATTER, n)) == pytest.approx([one / n for one in shares])
    assert largest_rows(plan(Pattern.ALL_GATHER, n)) == pytest.approx([one / n for one in reversed(shares)])


def test_the_most_data_goes_the_shortest_way() -> None:
    schedule = plan(Pattern.REDUCE_SCATTER, 16)
    assert [set(abs(phase.source - phase.destination)) for phase in schedule.phases] == [{1}, {2}, {4}, {8}]
    assert largest_rows(schedule) == [1 / 2, 1 / 4, 1 / 8, 1 / 16]


def test_recursive_doubling_does_no_reduce_scatter_and_auto_tries_it_for_none() -> None:
    assert RecursiveHalvingDoubling(method="doubling").served_patterns() == {Pattern.ALL_GATHER, Pattern.ALL_REDUCE}
    assert len(RecursiveHalvingDoubling.variants(Pattern.ALL_REDUCE)) == 2
    assert RecursiveHalvingDoubling.variants(Pattern.REDUCE_SCATTER) == [RecursiveHalvingDoubling()]


class TestHalvingDoubling(CollectiveTests):
    plugin = fredfw_collective_recursive_halving_doubling
    algorithms = (RecursiveHalvingDoubling(), RecursiveHalvingDoubling(method="doubling"))
