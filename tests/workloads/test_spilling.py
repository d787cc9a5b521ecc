import numpy as np
import pytest

from fredfw import Framework, GraphBuilder, MemoryUse, TaskKind
from fredfw.errors import InputError
from fredfw.fabric import MemoryTier, with_memories
from fredfw.testing.fabrics import star
from fredfw.workloads.spilling import Spill, spills, with_spills

CXL = MemoryTier(name="cxl", scope="npu", bandwidth=1e9, capacity=3.0)
POOL = MemoryTier(name="pool", bandwidth=2e9, capacity=40.0)
USE = MemoryUse(weights=4.0, gradients=4.0, optimizer=6.0, activations=2.0)


def test_what_is_touched_least_often_leaves_first_and_fills_the_nearest_tier() -> None:
    assert spills(USE, 16.0, [CXL, POOL], 4) == ()
    assert spills(USE, 14.0, [CXL, POOL], 4) == (Spill("cxl", {"optimizer": 2.0}),)
    # 10 of 16 bytes: the optimizer's 6, the activations, and half of the gradients; 3 fit the nearest tier.
    assert spills(USE, 6.0, [CXL, POOL], 4) == (
        Spill("cxl", {"optimizer": 3.0}),
        Spill("pool", {"optimizer": 3.0, "activations": 2.0, "gradients": 2.0}),
    )


def test_what_each_microbatch_touches_moves_for_each() -> None:
    # Weights forward and backward, and stored when they are updated; the optimizer state once each way.
    spill = Spill("cxl", {"weights": 2.0, "optimizer": 5.0})
    assert (spill.stored(3), spill.loaded(3)) == (7.0, 17.0)
    # Gradients are added to three times, and the activations of all three pass, of which two are there at once.
    spill = Spill("cxl", {"gradients": 1.0, "activations": 4.0}, in_flight=2)
    assert (spill.stored(3), spill.loaded(3)) == (9.0, 9.0)
    # A cache once each way.
    (spill,) = spills(MemoryUse(weights=4.0, cache=2.0), 5.0, [CXL], 1)
    assert spill == Spill("cxl", {"cache": 1.0})
    assert (spill.stored(3), spill.loaded(3)) == (1.0, 1.0)


def test_a_pool_has_room_for_what_others_leave() -> None:
    # 40 B for two NPUs, of which others have 30 B.
    assert spills(USE, 11.0, [POOL], 2, {"pool": 30.0}) == (Spill("pool", {"optimizer": 5.0}),)
    with pytest.raises(InputError, match="have no room for 1 B of it"):
        spills(USE, 10.0, [POOL], 2, {"pool": 30.0})
    assert spills(USE, 13.0, [CXL], 2, {"cxl": 30.0}) == (Spill("cxl", {"optimizer": 3.0}),)  # each has its own


def test_no_room_below_is_refused_with_the_numbers() -> None:
    with pytest.raises(InputError, match=r"needs 16 B per NPU.* cxl, pool have no room for 1 B of it"):
        spills(USE, 2.0, [CXL, POOL], 4)
    kept = MemoryUse(tiers={"pool": 10.5})
    with pytest.raises(InputError, match=r"keeps 10\.5 B per NPU in memory tier 'pool', which has room for 10 B"):
        spills(kept, 2.0, [CXL, POOL], 4)
    # What is kept there anyway leaves no room for more.
    with pytest.raises(InputError, match="have no room for 3 B"):
        spills(MemoryUse(weights=6.0, tiers={"pool": 10.0}), 0.0, [CXL, POOL], 4)


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
    last = dict.fromkeys(range(3), 0.0)
    for task, ranks, end in zip(ends.task, ends.ranks, ends.end, strict=True):
        if task == 4:
            last |= dict.fromkeys(np.ravel(ranks).tolist(), float(end))
    assert last == pytest.approx({0: 5.0, 1: 7.0, 2: 5.5})
