import numpy as np
import pytest
from hypothesis import given, strategies as st
from small import by_rank

from fredfw import Framework, MemoryUse, limits
from fredfw.collectives import Pattern
from fredfw.errors import InputError, LimitError
from fredfw.fabric import MemoryTier, with_memories
from fredfw.testing.fabrics import star
from fredfw.workloads import GraphBuilder, Kernels, TaskGraph, TaskKind
from fredfw.workloads.composition import JobGraph, composed, entries_of, exits_of, is_between
from fredfw.workloads.spilling import Spill, spills, with_spills


def small(ranks: int = 2) -> TaskGraph:
    builder = GraphBuilder(ranks)
    first = builder.compute("forward", np.arange(ranks), seconds=1.0)
    builder.collective("reduce", Pattern.ALL_REDUCE, np.arange(ranks), 8.0, label="dp", after=[first])
    return builder.build()


def before(graph: TaskGraph) -> dict[str, list[str]]:
    return {graph.names[task]: [graph.names[one] for one in graph.after(task)] for task in range(len(graph))}


def test_ranks_come_one_job_after_the_other_with_the_blocks_kernels_and_sizes_of_each() -> None:
    graph = composed([JobGraph("a", 1, small(2)), JobGraph("b", 0, small(3))])
    assert graph.ranks == 5
    assert [graph.participants(task).tolist() for task in range(4)] == [[0, 1]] * 2 + [[2, 3, 4]] * 2
    assert graph.jobs.tolist() == [1, 1, 0, 0]
    assert [graph.label(task) for task in range(4)] == ["compute", "a/dp", "compute", "b/dp"]
    assert before(graph) == {"a/forward": [], "a/reduce": ["a/forward"], "b/forward": [], "b/reduce": ["b/forward"]}
    with limits.allowed({"tasks": 100}), pytest.raises(LimitError, match="tasks"):
        composed([JobGraph("a", 0, small(), iterations=40)])
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


def test_a_job_waits_for_its_start_and_between_iterations_also_for_ranks_that_begin_or_end_apart() -> None:
    graph = composed([JobGraph("a", 0, small(), start=2.0, iterations=2)])
    assert graph.names == ("start of a", "a/forward", "a/reduce", "end of iteration 1 of a", "a/forward", "a/reduce")
    assert [graph.after(task).tolist() for task in range(6)] == [[], [0], [1], [2], [3], [4]]
    assert graph.kinds[[0, 3]].tolist() == [TaskKind.WAIT] * 2
    assert graph.seconds[[0, 3]].tolist() == [2.0, 0.0]
    assert [is_between(name) for name in graph.names] == [True, False, False, True, False, False]
    assert not is_between("a/start of a")
    builder = GraphBuilder(3)
    first = builder.compute("first", [0], seconds=1.0)
    both = builder.compute("both", [0, 1], seconds=1.0, after=[first])  # rank 1 waits for nothing
    send = builder.send("send", 1, 2, 4.0, label="pp", after=[both])
    builder.receive("receive", send)
    graph = composed([JobGraph("a", 0, builder.build(), iterations=2)])
    assert graph.after(4).tolist() == [1, 2, 3]  # rank 0 ends with both, rank 1 with the send, rank 2 with the receive
    assert [graph.after(task).tolist() for task in (5, 6, 7, 8)] == [[4], [4, 5], [6], [4]]
    assert graph.partners.tolist() == [-1, -1, 3, 2, -1, -1, -1, 8, 7]


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
        others = [set[int]().union(*(ranks[other] for other in near[task])) for task in range(count)]
        assert found.tolist() == [task for task in range(count) if ranks[task] - others[task]]


CXL = MemoryTier(name="cxl", scope="npu", bandwidth=1e9, capacity=3.0)
POOL = MemoryTier(name="pool", bandwidth=2e9, capacity=40.0)
USE = MemoryUse(weights=4.0, gradients=4.0, optimizer=6.0, activations=2.0)


def test_what_is_touched_least_often_leaves_first_and_moves_for_each_microbatch_that_touches_it() -> None:
    assert spills(USE, 16.0, [CXL, POOL], 4) == ()
    assert spills(USE, 14.0, [CXL, POOL], 4) == (Spill("cxl", {"optimizer": 2.0}),)
    # 10 of 16 bytes: the optimizer's 6, the activations, and half of the gradients; 3 fit the nearest tier.
    assert spills(USE, 6.0, [CXL, POOL], 4) == (
        Spill("cxl", {"optimizer": 3.0}),
        Spill("pool", {"optimizer": 3.0, "activations": 2.0, "gradients": 2.0}),
    )
    # 40 B for two NPUs, of which others have 30 B.
    assert spills(USE, 11.0, [POOL], 2, {"pool": 30.0}) == (Spill("pool", {"optimizer": 5.0}),)
    with pytest.raises(InputError, match="have no room for 1 B of it"):
        spills(USE, 10.0, [POOL], 2, {"pool": 30.0})
    assert spills(USE, 13.0, [CXL], 2, {"cxl": 30.0}) == (Spill("cxl", {"optimizer": 3.0}),)  # each has its own
    with pytest.raises(InputError, match=r"needs 16 B per NPU.* cxl, pool have no room for 1 B of it"):
        spills(USE, 2.0, [CXL, POOL], 4)
    kept = MemoryUse(tiers={"pool": 10.5})
    with pytest.raises(InputError, match=r"keeps 10\.5 B per NPU in memory tier 'pool', which has room for 10 B"):
        spills(kept, 2.0, [CXL, POOL], 4)
    # What is kept there anyway leaves no room for more.
    with pytest.raises(InputError, match="have no room for 3 B"):
        spills(MemoryUse(weights=6.0, tiers={"pool": 10.0}), 0.0, [CXL, POOL], 4)
    # Weights forward and backward, and stored when they are updated; the optimizer state once each way.
    spill = Spill("cxl", {"weights": 2.0, "optimizer": 5.0})
    assert (spill.moved(TaskKind.STORE, 3), spill.moved(TaskKind.LOAD, 3)) == (7.0, 17.0)
    # Gradients are added to three times, and the activations of all three pass, of which two are there at once.
    spill = Spill("cxl", {"gradients": 1.0, "activations": 4.0}, in_flight=2)
    assert (spill.moved(TaskKind.STORE, 3), spill.moved(TaskKind.LOAD, 3)) == (9.0, 9.0)
    # A cache once each way.
    (spill,) = spills(MemoryUse(weights=4.0, cache=2.0), 5.0, [CXL], 1)
    assert spill == Spill("cxl", {"cache": 1.0})
    assert (spill.moved(TaskKind.STORE, 3), spill.moved(TaskKind.LOAD, 3)) == (1.0, 1.0)


def test_the_traffic_comes_behind_the_last_task_of_every_rank() -> None:
    builder = GraphBuilder(3)
    first = builder.compute("first", [0, 1, 2], seconds=1.0)
    builder.compute("second", [1], seconds=2.0, after=[first])  # ranks 0 and 2 have ended with the first
    builder.compute("third", [2], seconds=0.5, after=[first])
    plain = builder.build()
    assert with_spills(plain, [], 2) is plain
    graph = with_spills(plain, [Spill("cxl", {"optimizer": 2e9}), Spill("pool", {"weights": 1e9})], 2)
    assert graph.kinds[3:].tolist() == [TaskKind.LOAD, TaskKind.STORE] * 2
    assert graph.bytes[3:].tolist() == [2e9, 2e9, 4e9, 1e9]
    assert [sorted(graph.after(task).tolist()) for task in range(3, 7)] == [[0, 1, 2], [3], [4], [5]]
    assert graph.names[3:] == ("spill load cxl", "spill store cxl", "spill load pool", "spill store pool")
    fabric = with_memories(star(3), [MemoryTier(name="cxl", scope="npu", bandwidth=1e9), POOL])
    ends = Framework().simulate_graph(graph, fabric).timeline
    # Rank 1 is the last to get through its own memory, at 7 s; its own pool traffic meets that of the others.
    stored = {rank: end for (name, rank), end in by_rank(ends).items() if name == "spill store cxl"}
    assert stored == pytest.approx({0: 5.0, 1: 7.0, 2: 5.5})
