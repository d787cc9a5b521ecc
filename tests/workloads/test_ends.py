"""Where graphs begin and end, against a slow search over ranks."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from fredfw import GraphBuilder, TaskGraph
from fredfw.workloads import ends

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
    for found, near in ((ends.entries(graph), before), (ends.exits(graph), behind)):
        expected = [
            task for task in range(count) if ranks[task] - set[int]().union(*(ranks[one] for one in near[task]))
        ]
        assert found.tolist() == expected
