import math
from typing import Any

import numpy as np
import pytest
from attrs import frozen

from fredfw.collectives import CollectiveAlgorithm, CollectiveRequest, Pattern, Schedule, answers, check
from fredfw.collectives.direct import DirectAlgorithm
from fredfw.errors import InputError, UnsupportedError
from fredfw.fabric import GroupView
from fredfw.testing.fabrics import grid


@frozen
class Nothing(CollectiveAlgorithm):
    name = "nothing"
    patterns = frozenset(Pattern) - {Pattern.REDUCE}

    def schedule(self, request: CollectiveRequest, view: GroupView) -> Schedule:
        raise AssertionError("asked for a schedule")


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        *(({"pattern": name}, "pattern") for name in ("allreduce", None)),
        *(({"ranks": number}, "ranks") for number in (0, "4", 2.5)),
        *(({"size": size}, "size") for size in ("1 s", None, -1.0, math.nan, math.inf)),
        *(({"root": rank}, "root") for rank in ("0", 3, -1)),
        ({"pattern": Pattern.POINT_TO_POINT}, "ranks"),
        ({"sizes": np.ones((3, 3))}, "sizes"),
        *(
            ({"pattern": Pattern.ALL_TO_ALL, "sizes": sizes}, "sizes")
            for sizes in (np.ones((2, 3)), *(np.full((3, 3), one) for one in (-1.0, np.inf, np.nan, None)), "x", 5)
        ),
    ],
)
def test_a_request_refuses_what_makes_no_sense(arguments: dict[str, Any], key: str) -> None:
    with pytest.raises(InputError, match=rf"(?s)^{key}: .*\(accepted: "):
        CollectiveRequest(**{"pattern": Pattern.ALL_REDUCE, "ranks": 3, "size": 1.0, **arguments})


def test_a_request_takes_names_and_units_and_unknown_patterns_and_groups_are_refused() -> None:
    request = CollectiveRequest("all-gather", 4, "1.5 MB")
    assert (request.pattern, request.size) == (Pattern.ALL_GATHER, 1.5e6)
    assert CollectiveRequest(Pattern.BROADCAST, 4, 1.0, root=3).root == 3
    with pytest.raises(InputError, match="root 3 for all-reduce, which has no root"):
        CollectiveRequest(Pattern.ALL_REDUCE, 4, 1.0, root=3)
    with pytest.raises(UnsupportedError, match=r"'nothing' cannot do this reduce: .* only all-gather, all-reduce"):
        Nothing().plan(CollectiveRequest(Pattern.REDUCE, 2, 1.0), GroupView(2))
    with pytest.raises(InputError, match="3 ranks on a group of 4"):
        Nothing().plan(CollectiveRequest(Pattern.ALL_REDUCE, 3, 1.0), GroupView(4))


@pytest.mark.parametrize("pattern", sorted(Nothing.patterns))
def test_the_plan_of_one_rank_is_empty(pattern: Pattern) -> None:
    request = CollectiveRequest(pattern, 1, 8.0)
    schedule = Nothing().plan(request, GroupView(1))
    assert schedule.phases == ()
    check(schedule, request)
    if pattern is Pattern.ALL_TO_ALL:  # its own block is what it keeps
        request = CollectiveRequest(pattern, 1, 0.0, sizes=[[5]])
        check(Nothing().plan(request, GroupView(1)), request)


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


@pytest.mark.parametrize("pattern", sorted(set(Pattern) - {Pattern.POINT_TO_POINT}))
def test_with_direct_everybody_sends_at_once(pattern: Pattern) -> None:
    schedule = DirectAlgorithm().plan(CollectiveRequest(pattern, 5, 10.0), GroupView(5))
    rows, phases = 4 if pattern.rooted else 20, 2 if pattern is Pattern.ALL_REDUCE else 1
    row_bytes = 10.0 if pattern in (Pattern.BROADCAST, Pattern.REDUCE) else 2.0
    assert [schedule.row_bytes(phase).tolist() for phase in schedule.phases] == [[row_bytes] * rows] * phases


@pytest.mark.parametrize(
    ("sizes", "moved"),
    [([[9, 1, 0], [0, 9, 2], [3, 0, 9]], {(0, 1, 1.0), (1, 2, 2.0), (2, 0, 3.0)}), (np.zeros((3, 3)), set())],
)
def test_direct_leaves_out_pairs_without_bytes(sizes: Any, moved: set[tuple[int, int, float]]) -> None:
    request = CollectiveRequest(Pattern.ALL_TO_ALL, 3, 0.0, sizes=sizes)
    schedule = DirectAlgorithm().plan(request, GroupView(3))
    check(schedule, request)
    (phase,) = schedule.phases
    assert set(zip(phase.source, phase.destination, schedule.row_bytes(phase), strict=True)) == moved
