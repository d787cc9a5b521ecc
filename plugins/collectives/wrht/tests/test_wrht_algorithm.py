from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, strategies as st

import fredfw_collective_wrht
from fredfw import CollectiveRequest, GroupView, Level, Pattern, Phase, Schedule
from fredfw.testing import CollectiveTests
from fredfw.testing.fabrics import filled
from fredfw_collective_wrht import Wrht, exchange_wavelengths


def view(n: int, lanes: int = 1, kind: Any = "ring", seed: int | None = None) -> GroupView:
    """Return a group along one level; with a seed, ranks are in a random order."""
    return filled(Level(n, kind, 1.0, lanes=lanes), seed=seed)


def plan(group: GroupView, size: float = 1.0, **options: Any) -> Schedule:
    return Wrht(**options).plan(CollectiveRequest(Pattern.ALL_REDUCE, group.size, size), group)


def pairs(phase: Phase) -> list[tuple[int, int]]:
    return list(zip(phase.source.tolist(), phase.destination.tolist(), strict=True))


def largest_load(n: int, phase: Phase) -> int:
    """Return the most that a link of a ring carries, where all go the shortest way round.

    Where both ways are equally long, the two arcs of a pair go the same way round, and pairs take turns.
    """
    load = np.zeros((2, n), dtype=int)  # clockwise, from each node to the next one, and the same links back
    ties = sorted({(min(ends), max(ends)) for ends in pairs(phase) if 2 * abs(ends[0] - ends[1]) == n})
    for source, destination in pairs(phase):
        hops = (destination - source) % n
        tie = 2 * hops == n and ties.index((min(source, destination), max(source, destination))) % 2
        if 2 * hops > n or tie:
            load[1, np.arange(destination, destination + n - hops) % n] += 1
        else:
            load[0, np.arange(source, source + hops) % n] += 1
    return int(load.max())


@given(st.integers(2, 300), st.integers(1, 9), st.booleans())
@example(17, 2, True)  # 4 left, unevenly spaced: they would need 3, not 4^2 / 8
@example(121, 8, True)  # 8 left, likewise
def test_no_link_is_loaded_with_more_arcs_than_wavelengths(n: int, wavelengths: int, all_to_all: bool) -> None:
    for phase in plan(view(n, wavelengths), all_to_all=all_to_all).phases:
        assert largest_load(n, phase) <= wavelengths


@given(st.integers(2, 200), st.integers(1, 9))
def test_neither_is_one_of_a_line(n: int, wavelengths: int) -> None:
    for phase in plan(view(n, wavelengths, "line")).phases:
        load = np.zeros((2, n), dtype=int)
        for source, destination in pairs(phase):
            load[int(source > destination), min(source, destination) : max(source, destination)] += 1
        assert load.max() <= wavelengths


@given(st.integers(2, 3000), st.integers(2, 40))
def test_steps_and_transfers_without_the_exchange(n: int, m: int) -> None:
    schedule = plan(view(n), m=m, all_to_all=False)
    assert schedule.steps == 2 * next(levels for levels in range(n) if m**levels >= n)
    # Everyone but the last one sends its vector once, and gets the result once.
    assert sum(len(phase) for phase in schedule.phases) == 2 * (n - 1)


def test_groups_are_neighbours_around_their_middle_and_positions_count_not_ranks() -> None:
    up = plan(view(10), m=4, all_to_all=False).phases[0]
    assert pairs(up) == [(0, 2), (1, 2), (3, 2), (4, 6), (5, 6), (7, 6), (8, 9)]
    group = view(30, 2, seed=7)
    assert group.coordinates is not None
    position = group.coordinates[:, 0]
    for one, other in zip(plan(group).phases, plan(view(30, 2)).phases, strict=True):
        assert position[one.source].tolist() == other.source.tolist()
        assert position[one.destination].tolist() == other.destination.tolist()


@given(st.sets(st.integers(0, 59), min_size=2, max_size=16), st.sampled_from([59, 60]))
def test_unevenly_spaced_members_need_what_the_links_carry(places: set[int], n: int) -> None:
    positions = np.array(sorted(place for place in places if place < n))
    x, y = np.nonzero(~np.eye(len(positions), dtype=bool))
    if len(positions) > 1:
        load = largest_load(n, Phase.of(positions[x], positions[y], 0))
        expected = max(load, -(-(len(positions) ** 2) // 8))
        assert exchange_wavelengths(positions, Level(n, "ring", 1.0, lanes=64)) == expected


@pytest.mark.parametrize("k", [2, 3, 7, 8])
def test_on_a_line_the_middle_counts(k: int) -> None:
    assert exchange_wavelengths(np.arange(k) * 3, Level(3 * k, "line", 1.0)) == (k // 2) * (k - k // 2)


@pytest.mark.parametrize(("n", "wavelengths", "steps"), [(20, 1, 6), (20, 2, 3), (25, 4, 3), (8, 8, 1)])
def test_steps_by_hand(n: int, wavelengths: int, steps: int) -> None:
    # 20 -> 7 -> 3 -> 1 in groups of 3; 20 -> 4, which exchange with 2 wavelengths; 25 -> 3, likewise; 8 at once.
    assert plan(view(n, wavelengths)).steps == steps


def test_the_refusal_says_what_the_group_is() -> None:
    one_way = Level(6, "ring", 1.0, two_way=False)
    for group, reason in (
        (GroupView(6), "it extends over no level"),
        (view(6, kind="switch"), "it extends over a switch of 6"),
        (filled(Level(2, "ring", 1.0), Level(3, "line", 1.0)), "it extends over a ring of 2, a line of 3"),
        (filled(one_way), "one way only"),
    ):
        assert reason in str(Wrht().refusal(CollectiveRequest(Pattern.ALL_REDUCE, 6, 1.0), group))


class TestWrht(CollectiveTests):
    plugin = fredfw_collective_wrht
    algorithms = (Wrht(), Wrht(m=2), Wrht(m=3), Wrht(m=4, all_to_all=False))
