from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from fredfw import limits
from fredfw.collectives import Pattern
from fredfw.errors import LimitError
from fredfw.workloads import GraphBuilder, Kernels, TaskGraph, TaskKind
from fredfw.workloads.composition import JobGraph, composed, entries_of, exits_of, is_between


def small(ranks: int = 2) -> TaskGraph:
    builder = GraphBuilder(ranks)
    first = builder.compute("forward", np.arange(ranks), seconds=1.0)
    builder.collective("reduce", Pattern.ALL_REDUCE, np.arange(ranks), 8.0, label="dp", after=[first])
    return builder.build()


def before(graph: TaskGraph) -> dict[str, list[str]]:
    return {graph.names[task]: [graph.names[one] for one in graph.after(task)] for task in range(len(graph))}


def test_ranks_come_one_job_after_the_other() -> None:
    graph = composed([JobGraph("a", 1, small(2)), JobGraph("b", 0, small(3))])
    assert graph.ranks == 5
    assert [graph.participants(task).tolist() for task in range(4)] == [[0, 1]] * 2 + [[2, 3, 4]] * 2
    assert graph.jobs.tolist() == [1, 1, 0, 0]
    assert [graph.label(task) for task in range(4)] == ["compute", "a/dp", "compute", "b/dp"]
    assert before(graph) == {"a/forward": [], "a/reduce": ["a/forward"], "b/forward": [], "b/reduce": ["b/forward"]}


def test_a_job_waits_for_its_start_and_between_iterations() -> None:
    graph = composed([JobGraph("a", 0, small(), start=2.0, iterations=2)])
    assert graph.names == ("start of a", "a/forward", "a/reduce", "end of iteration 1 of a", "a/forward", "a/reduce")
    assert [graph.after(task).tolist() for task in range(6)] == [[], [0], [1], [2], [3], [4]]
    assert (graph.kinds[[0, 3]] == TaskKind.WAIT).all()
    assert graph.seconds[[0, 3]].tolist() == [2.0, 0.0]
    assert [is_between(name) for name in graph.names] == [True, False, False, True, False, False]
    assert not is_between("a/start of a")


def test_ranks_that_begin_or_end_apart_wait_too() -> None:
    builder = GraphBuilder(3)
    first = builder.compute("first", [0], seconds=1.0)
    both = builder.compute("both", [0, 1], seconds=1.0, after=[first])  # rank 1 waits for nothing
    send = builder.send("send", 1, 2, 4.0, label="pp", after=[both])
    builder.receive("receive", send)
    graph = composed([JobGraph("a", 0, builder.build(), iterations=2)])
    assert graph.after(4).tolist() == [1, 2, 3]  # rank 0 ends with both, rank 1 with the send, rank 2 with the receive
    assert [graph.after(task).tolist() for task in (5, 6, 7, 8)] == [[4], [4, 5], [6], [4]]
    assert graph.partners.tolist() == [-1, -1, 3, 2, -1, -1, -1, 8, 7]


def test_blocks_kernels_and_sizes_of_pairs_stay_those_of_their_job() -> None:
    builder = GraphBuilder(2)
    builder.compute("lone", [0, 1], flops=1.0, kernels=Kernels(()))
    with builder.repeated(3):
        layer = builder.compute("layer", [0, 1], seconds=1.0)
        builder.all_to_all_v("exchange", [[0, 1]], [[[0, 1], [2, 0]]], label="ep", after=[layer])
    one = builder.build()
    graph = composed([JobGraph("a", 0, one, iterations=2), JobGraph("b", 1, one)])
    assert graph.blocks.tolist() == [-1, 0, 0, -1, -1, 1, 1, -1, 2, 2]
    assert graph.kernels.tolist() == [0, -1, -1, -1, 0, -1, -1, 1, -1, -1]
    assert graph.splits.tolist() == [-1, -1, 0, -1, -1, -1, 0, -1, -1, 1]
    assert len(graph.expanded()) == 3 * 7 + 1
    assert graph.expanded().jobs.tolist() == [0] * 15 + [1] * 7


def test_there_is_a_limit_for_all_tasks_together() -> None:
    with limits.allowed({"tasks": 100}), pytest.raises(LimitError, match="tasks"):
        composed([JobGraph("a", 0, small(), iterations=40)])


RANKS = 4


@st.composite
def graphs(draw: st.DrawFn) -> TaskGraph:
    builder = GraphBuilder(RANKS)
    tasks: list[int] = []
    for index in range(draw(st.integers(1, 7))):
        ranks = sorted(draw(st.sets(st.integers(0, RANKS - 1), min_size=1)))
        after = sorted(draw(st.sets(st.sampled_from(tasks)))) if tasks else []
        tasks.append(builder.compute(f"{index}", np.array(ranks), flops=1.0, after=after))
    return builder.build()


@given(graphs())
def test_a_task_is_an_end_for_a_rank_that_has_no_part_in_its_neighbours(graph: TaskGraph) -> None:
    count = len(graph)
    ranks = [set(graph.participants(task).tolist()) for task in range(count)]
    before = [set(graph.after(task).tolist()) for task in range(count)]
    behind = [{later for later in range(count) if task in before[later]} for task in range(count)]
    for found, near in ((entries_of(graph), before), (exits_of(graph), behind)):
        expected = [
            task for task in range(count) if ranks[task] - set[int]().union(*(ranks[one] for one in near[task]))
        ]
        assert found.tolist() == expected
