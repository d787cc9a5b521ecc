from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from attrs import frozen

from fredfw.collectives import CollectiveAlgorithm, CollectiveRequest, Pattern, Schedule, answers, check
from fredfw.errors import InputError, UnsupportedError
from fredfw.fabric import GroupView
from fredfw.testing.fabrics import grid


@frozen
class Nothing(CollectiveAlgorithm):
    name = "nothing"
    patterns = frozenset(Pattern) - {Pattern.REDUCE}

    def schedule(self, request: CollectiveRequest, view: GroupView) -> Schedule:
        del request, view
        raise AssertionError("asked for a schedule")


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        ({"pattern": "allreduce"}, "pattern"),
        ({"pattern": None}, "pattern"),
        ({"ranks": 0}, "ranks"),
        ({"ranks": "4"}, "ranks"),
        ({"ranks": 2.5}, "ranks"),
        ({"root": "0"}, "root"),
        ({"size": "1 s"}, "size"),
        ({"size": None}, "size"),
        ({"size": -1.0}, "size"),
        ({"size": float("nan")}, "size"),
        ({"size": float("inf")}, "size"),
        ({"root": 3}, "root"),
        ({"root": -1}, "root"),
        ({"pattern": Pattern.POINT_TO_POINT}, "ranks"),
        ({"sizes": np.ones((3, 3))}, "sizes"),
        ({"pattern": Pattern.ALL_TO_ALL, "sizes": np.ones((2, 3))}, "sizes"),
        ({"pattern": Pattern.ALL_TO_ALL, "sizes": np.full((3, 3), -1.0)}, "sizes"),
        ({"pattern": Pattern.ALL_TO_ALL, "sizes": np.full((3, 3), np.inf)}, "sizes"),
        ({"pattern": Pattern.ALL_TO_ALL, "sizes": np.full((3, 3), np.nan)}, "sizes"),
        ({"pattern": Pattern.ALL_TO_ALL, "sizes": "x"}, "sizes"),
        ({"pattern": Pattern.ALL_TO_ALL, "sizes": 5}, "sizes"),
        ({"pattern": Pattern.ALL_TO_ALL, "sizes": np.full((3, 3), None)}, "sizes"),
    ],
)
def test_a_request_refuses_what_makes_no_sense(arguments: dict[str, Any], key: str) -> None:
    with pytest.raises(InputError) as caught:
        CollectiveRequest(**{"pattern": Pattern.ALL_REDUCE, "ranks": 3, "size": 1.0, **arguments})
    assert caught.value.key == key
    assert caught.value.accepted


def test_a_request_takes_the_name_of_a_pattern_and_a_size_with_a_unit() -> None:
    request = CollectiveRequest("all-gather", 4, "1.5 MB")
    assert (request.pattern, request.size) == (Pattern.ALL_GATHER, 1.5e6)


@pytest.mark.parametrize("pattern", sorted(Nothing.patterns))
def test_the_plan_of_one_rank_is_empty(pattern: Pattern) -> None:
    request = CollectiveRequest(pattern, 1, 8.0)
    schedule = Nothing().plan(request, GroupView(1))
    assert schedule.phases == ()
    check(schedule, request)


def test_one_rank_keeps_its_own_block_of_an_all_to_all_v() -> None:
    request = CollectiveRequest(Pattern.ALL_TO_ALL, 1, 0.0, sizes=[[5]])
    check(Nothing().plan(request, GroupView(1)), request)


def test_a_pattern_it_does_not_know_is_refused_with_the_ones_it_does() -> None:
    with pytest.raises(UnsupportedError, match=r"'nothing' cannot do this reduce: .* only all-gather, all-reduce"):
        Nothing().plan(CollectiveRequest(Pattern.REDUCE, 2, 1.0), GroupView(2))


def test_a_request_for_another_group_is_refused() -> None:
    with pytest.raises(InputError, match="3 ranks on a group of 4"):
        Nothing().plan(CollectiveRequest(Pattern.ALL_REDUCE, 3, 1.0), GroupView(4))


def test_a_root_is_refused_where_there_is_none() -> None:
    with pytest.raises(InputError, match="root 3 for all-reduce, which has no root"):
        CollectiveRequest(Pattern.ALL_REDUCE, 4, 1.0, root=3)
    assert CollectiveRequest(Pattern.BROADCAST, 4, 1.0, root=3).root == 3


@frozen
class Blind(Nothing):
    def refusal(self, request: CollectiveRequest, view: GroupView) -> str | None:
        return "it sees no links" if view.links is None else "it sees links"


@frozen
class Seeing(Blind):
    reads_links = True


@pytest.mark.parametrize(("algorithm", "reason"), [(Blind(), "it sees no links"), (Seeing(), "it sees links")])
def test_only_who_says_so_sees_links(algorithm: CollectiveAlgorithm, reason: str) -> None:
    request, view = CollectiveRequest(Pattern.ALL_REDUCE, 3, 1.0), grid(3).view()
    assert answers.refusal(algorithm, request, view) == reason
    with pytest.raises(UnsupportedError, match=reason):
        algorithm.plan(request, view)
