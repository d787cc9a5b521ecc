from typing import Any

import pytest

import fredfw_workload_microbenchmark
from fredfw.collectives import Pattern
from fredfw.errors import InputError
from fredfw.testing import WorkloadTests
from fredfw.workloads import System
from fredfw_workload_microbenchmark import Microbenchmark


class TestPatterns(WorkloadTests):
    plugin = fredfw_workload_microbenchmark
    workloads = (
        *(Microbenchmark(pattern=one.value, ranks=2 if one is Pattern.POINT_TO_POINT else None) for one in Pattern),
        Microbenchmark(groups=4, layout="strided", count=3),
    )


class TestLayouts(WorkloadTests):
    plugin = fredfw_workload_microbenchmark
    workloads = (Microbenchmark(groups=4), Microbenchmark(groups=4, layout="strided"), Microbenchmark(count=4))
    conserved = ("collective",)


def test_repetitions_run_back_to_back() -> None:
    graph = Microbenchmark(size=2e6, ranks=4, count=3, pattern="all-gather").graph(System(npus=20))
    assert graph.ranks == 4
    assert [graph.after(task).tolist() for task in range(len(graph))] == [[], [0], [1]]
    assert graph.bytes.tolist() == [2e6] * 3
    assert set(graph.patterns) == {Pattern.ALL_GATHER}


@pytest.mark.parametrize(
    ("fields", "expected", "workers"),
    [
        ({}, [list(range(20))], 20),
        # Of MP(2)-DP(5)-PP(2), rank mp + 2 (pp + 2 dp): the first MP member of each stage, in all replicas.
        ({"ranks": 2, "groups": 5, "stride": 2, "spacing": 4}, [[0, 2], [4, 6], [8, 10], [12, 14], [16, 18]], 19),
        ({"groups": 3}, [[0, 1, 2], [3, 4, 5], [6, 7, 8]], 9),
        ({"groups": 3, "layout": "strided"}, [[0, 3, 6], [1, 4, 7], [2, 5, 8]], 9),
        ({"groups": 3, "ranks": 1, "layout": "strided"}, [[0], [1], [2]], 3),
        ({"ranks": 2, "groups": 2, "stride": 2, "spacing": 1}, [[0, 2], [1, 3]], 4),
        ({"ranks": 2, "groups": 3, "spacing": 4}, [[0, 1], [4, 5], [8, 9]], 10),
        ({"ranks": 2, "groups": 2, "layout": "strided", "stride": 8}, [[0, 8], [1, 9]], 10),
    ],
)
def test_groups_run_at_once(fields: dict[str, Any], expected: list[list[int]], workers: int) -> None:
    benchmark, system = Microbenchmark(**fields), System(npus=11 if workers == 9 else 20)
    graph = benchmark.graph(system)
    assert (len(graph), graph.tables[0].tolist()) == (1, expected)
    assert benchmark.mesh(system).ranks == graph.ranks == workers


@pytest.mark.parametrize(("fields", "key"), [({"stride": 2}, "stride"), ({"stride": 1, "spacing": 1}, "spacing")])
def test_groups_that_share_workers_are_refused(fields: dict[str, Any], key: str) -> None:
    with pytest.raises(InputError, match=f"{key}: groups of 2 workers with a stride of . and a spacing of . share"):
        Microbenchmark(ranks=2, groups=3, **fields).mesh(System(npus=20))


def test_point_to_point_needs_two_ranks_and_groups_npus() -> None:
    assert Microbenchmark(pattern="point-to-point", ranks=2).graph(System(npus=9)).ranks == 2
    with pytest.raises(InputError, match="ranks: a point-to-point among 9 ranks"):
        Microbenchmark(pattern="point-to-point").graph(System(npus=9))
    with pytest.raises(InputError, match="groups: 4 groups for 3 NPUs"):
        Microbenchmark(groups=4).graph(System(npus=3))
