import math
import pickle
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from experiments import FRAMEWORK, SMALL, run
from hypothesis import Phase, given, settings, strategies as st

import fredfw
from fredfw.experiment.results import RunResult
from fredfw.experiment.why import critical_path, tier_shares

MESH = {"topology": {"name": "mesh2d", "rows": 2, "columns": 3, "io_controllers": False}}
TREE = {"topology": {"name": "fred", "arity": [2, 3], "io_controllers": 0}}


def run_on(fabric: dict[str, Any], workload: dict[str, Any] | None = None) -> RunResult:
    given = workload or {"name": "microbenchmark", "size": "1 MB"}
    return run({"fabrics": {"f": fabric}, "workloads": {"w": {"workload": given}}})


DIMENSIONS = {
    "name": "multi-dimensional",
    "dimensions": ["ring 4", "switch 2", "switch 3"],
    "bandwidths": ["4 GB/s", "1 GB/s", "1 GB/s"],
    "latencies": ["0 s"],
    "names": ["package", "node", "pod"],
}
CLUSTER = {"name": "cluster", "nodes": 3, "node": {"name": "switch", "npus": 2}, "radix": 4}


@pytest.mark.parametrize(
    ("fabric", "tiers"),
    [
        # 2 rows of 3: four links along each row, and two along each of three columns, counted in both directions.
        (MESH, "npu -> npu, dimension 0: 8; npu -> npu, dimension 1: 6"),
        (
            {"topology": CLUSTER},
            "leaf -> node.npu: 6; leaf -> spines: 4; node.npu -> leaf: 6; node.npu -> node.switch: 6; "
            "node.switch -> node.npu: 6; spines -> leaf: 4",
        ),
        (
            {"topology": DIMENSIONS},
            "node -> npu: 24; npu -> node: 24; npu -> npu, dimension 0: 48; npu -> pod: 24; pod -> npu: 24",
        ),
    ],
)
def test_links_are_told_apart_by_their_ends_and_dimensions(fabric: dict[str, Any], tiers: str) -> None:
    found = tier_shares(run_on({**fabric, "collectives": {"default": "direct"}}))
    assert "; ".join(sorted(f"{tier.name}: {tier.links}" for tier in found)) == tiers
    for tier in found:
        assert tier.hottest.bytes_by_label == {"collective": tier.hottest.bytes}
        assert 0 < tier.mean <= tier.hottest.utilization * (1 + 1e-12)


def test_bytes_by_label_add_up_and_a_copy_of_a_result_has_a_path_without_its_bounds() -> None:
    result = run_on(TREE, {**SMALL, "mp": 3, "dp": 2})
    assert {"mp", "dp"} <= set(result.link_bytes_by_label)
    assert sum(result.link_bytes_by_label.values(), np.zeros(1)) == pytest.approx(result.link_bytes)
    sums = {label: float(moved.sum()) for label, moved in result.link_bytes_by_label.items()}
    assert sums == pytest.approx(result.bytes_by_cause)
    for tier in tier_shares(result):
        assert sum(tier.bytes_by_label.values()) == pytest.approx(tier.bytes)
        assert sum(tier.mean_by_label.values()) == pytest.approx(tier.mean)
    result = run_on(TREE)
    copy = pickle.loads(pickle.dumps(result))
    assert critical_path(copy).by_kind == critical_path(result).by_kind
    assert set(critical_path(copy).by_limit) == {"network"}
    empty = FRAMEWORK.simulate_graph(fredfw.GraphBuilder(2).build(), FRAMEWORK.topology(**SWITCH).build())
    path = critical_path(empty)
    assert (path.seconds, path.length, path.steps, path.by_limit) == (0.0, 0, (), {})


SWITCH: dict[str, Any] = {"name": "switch", "npus": 6, "link_bandwidth": 100.0, "link_latency": 0.0}
OPERATION = st.tuples(st.sets(st.integers(0, 5), min_size=1, max_size=4), st.integers(1, 10**6))


def graph_of(operations: list[tuple[set[int], int]]) -> tuple[fredfw.TaskGraph, float, dict[str, float]]:
    """Return a graph in which every rank does one thing at a time, and by hand how long it takes and with what.

    A computation of a rank, or a ring all-reduce of a group: groups share no links, so nothing is slower than alone.
    """
    builder = fredfw.GraphBuilder(6)
    last: list[list[int]] = [[] for _ in range(6)]
    reached: list[tuple[float, dict[str, float]]] = [(0.0, {}) for _ in range(6)]
    for number, (ranks, amount) in enumerate(operations):
        members, size = sorted(ranks), len(ranks)
        after = sorted({task for rank in members for task in last[rank]})
        if size == 1:
            task = builder.compute(f"step {number}", members, seconds=amount * 1e-6, after=after)
            label, seconds = "compute", amount * 1e-6
        else:
            label = f"of {size}"
            given: Any = f"sum {number}", fredfw.Pattern.ALL_REDUCE, [members], float(amount)
            task = builder.collective(*given, label=label, after=after)
            seconds = 2 * (size - 1) / size * amount / 100.0
        start, parts = max((reached[rank] for rank in members), key=lambda one: one[0])
        for rank in members:
            last[rank], reached[rank] = [task], (start + seconds, {**parts, label: parts.get(label, 0.0) + seconds})
    return builder.build(), *max(reached, key=lambda one: one[0])


@settings(max_examples=12, deadline=None, phases=[Phase.generate])
@given(st.lists(OPERATION, min_size=1, max_size=25))
def test_the_path_is_the_longest_one_where_nothing_is_shared(operations: list[tuple[set[int], int]]) -> None:
    graph, seconds, parts = graph_of(operations)
    fabric = FRAMEWORK.topology(**SWITCH).build()
    # By hand, a group begins together.
    result = FRAMEWORK.simulate_graph(graph, fabric, collectives={"default": "ring"}, fidelity="compressed")
    path = critical_path(result)
    assert path.seconds == result.seconds == pytest.approx(seconds, rel=1e-9)
    assert sum(path.by_kind.values()) == pytest.approx(seconds, rel=1e-9)
    assert path.by_kind == pytest.approx(parts, rel=1e-6)
    assert set(path.by_limit) <= {"compute", "bandwidth of npu - switch"}


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["compute", "all-reduce", "all-to-all"]),
            st.sets(st.integers(0, 5), min_size=1),
            st.integers(1, 1000),
            st.sets(st.integers(0, 30), max_size=3),
        ),
        min_size=1,
        max_size=12,
    ),
    st.sampled_from(["compressed", "exact"]),
)
def test_parts_of_the_path_add_up_to_the_iteration(
    operations: list[tuple[str, set[int], int, set[int]]], fidelity: str
) -> None:
    builder = fredfw.GraphBuilder(6)
    for number, (kind, ranks, amount, before) in enumerate(operations):
        name, members, after = f"{kind} {number}", sorted(ranks), sorted(one for one in before if one < number)
        if kind == "compute" or len(members) == 1:
            builder.compute(name, members, seconds=float(amount), after=after)
        else:
            builder.collective(name, fredfw.Pattern(kind), [members], float(amount), label=kind, after=after)
    fabric = FRAMEWORK.topology(**{**SWITCH, "link_latency": 0.5}).build()
    result = FRAMEWORK.simulate_graph(builder.build(), fabric, fidelity=fidelity)
    path = critical_path(result)
    for parts in (path.by_kind, path.by_limit, path.by_rank, {str(one): one.seconds for one in path.steps}):
        assert math.fsum(parts.values()) == pytest.approx(result.seconds, rel=1e-9)
        assert all(part > 0 for part in parts.values())
    assert sum(step.count for step in path.steps) >= path.length - 1
    assert 0 <= path.crowded <= path.seconds
    # What the ranks wait for is what is exposed, to the second.
    timeline = result.timeline
    waits = timeline.waits(range(6))
    for rank, found in waits.items():
        summed = dict.fromkeys(timeline.breakdown_by_rank, 0.0)
        for wait in found:
            task = int(timeline.task[wait.span])
            summed["bubble" if timeline.is_compute(wait.span) else timeline.graph.label(task)] += wait.end - wait.start
        assert all(one.end <= other.start for one, other in pairwise(found))
        for cause, seconds in timeline.breakdown_by_rank.items():
            if cause != "compute":
                assert summed[cause] == pytest.approx(seconds[rank], rel=1e-9, abs=1e-12)


def test_the_path_says_why_each_step_began_and_what_bounds_it_with_other_traffic() -> None:
    builder = fredfw.GraphBuilder(2)
    first = builder.compute("forward 1", [0, 1], seconds=1.0)
    late = builder.compute("forward 2", [1], seconds=2.0, after=[first])
    also = builder.compute("other", [1], seconds=3.0, after=[first])
    builder.collective("sum", fredfw.Pattern.ALL_REDUCE, [[0, 1]], 400.0, label="dp", after=[first, late, also])
    fabric = FRAMEWORK.topology(**{**SWITCH, "npus": 2, "link_latency": 0.25}).build()
    result = FRAMEWORK.simulate_graph(builder.build(), fabric, collectives={"default": "ring"})
    path = critical_path(result)
    # A ring of two: twice 200 bytes at 100 B/s, and two steps over two links.
    assert path.by_kind == pytest.approx({"compute": 6.0, "dp": 5.0})
    assert path.by_limit == pytest.approx({"compute": 6.0, "bandwidth of npu - switch": 4.0, "latency of links": 1.0})
    assert path.by_rank == pytest.approx({"1": 11.0})
    steps = {step.name: step for step in path.steps}
    assert steps["forward #"].count == 2
    assert steps["forward #"].begins == {"beginning": 1, "dependency": 1}
    assert steps["other"].begins == {"busy rank": 1}
    assert steps["sum"].begins == {"dependency": 1}
    assert (steps["sum"].algorithm, steps["sum"].ranks) == ("ring", 2)
    assert path.crowded == 0
    topology: dict[str, Any] = {"name": "torus", "dimensions": [2, 2], "link_bandwidth": 100.0, "link_latency": 0.0}
    fabric = FRAMEWORK.topology(**topology).build()
    builder = fredfw.GraphBuilder(4)
    builder.collective("a", fredfw.Pattern.ALL_TO_ALL, [[0, 1, 2, 3]], 400.0, label="a")
    alone = critical_path(FRAMEWORK.simulate_graph(builder.build(), fabric, collectives={"default": "direct"}))
    assert list(alone.by_limit) == ["bandwidth of npu - npu, dimension 0 and bandwidth of npu - npu, dimension 1"]
    builder.collective("b", fredfw.Pattern.ALL_TO_ALL, [[0, 1, 2, 3]], 400.0, label="b")
    path = critical_path(FRAMEWORK.simulate_graph(builder.build(), fabric, collectives={"default": "direct"}))
    # Both share all links: each takes twice as long.
    assert [path.seconds, sum(path.by_limit.values())] == pytest.approx([2 * alone.seconds] * 2)
    assert path.crowded == pytest.approx(alone.seconds)
