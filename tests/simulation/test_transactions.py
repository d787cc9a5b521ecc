from typing import Any

import numpy as np
import pytest

from fredfw import Framework, GraphBuilder, TaskGraph
from fredfw.errors import UnknownNameError
from fredfw.fabric import MemoryTier, with_memories
from fredfw.testing.fabrics import star

FRAMEWORK = Framework()
WIDE, LATE, SIZE = 100e9, 1e-6, 1e6
ALONE = LATE + SIZE / WIDE


def tier(**fields: Any) -> MemoryTier:
    return MemoryTier(**{"name": "pool", "bandwidth": WIDE, "latency": LATE, "npu_bandwidth": 2 * WIDE, **fields})


def seconds(graph: TaskGraph, memory: MemoryTier, fidelity: str = "exact") -> float:
    return FRAMEWORK.simulate_graph(graph, with_memories(star(8), [memory]), fidelity=fidelity).seconds


def loads(groups: Any, times: int = 1) -> TaskGraph:
    builder = GraphBuilder(8)
    with builder.repeated(times):
        builder.load("weights", "pool", groups, SIZE, label="memory")
    return builder.build()


EACH = np.arange(8)[:, None]


def test_a_queue_goes_by_arrival_and_loads_wait_for_stores() -> None:
    builder = GraphBuilder(8)
    # Rank r computes for (8 - r) us, and then loads or stores r + 1 MB: rank 7 comes first.
    free, ends = 0.0, {}
    for rank in reversed(range(8)):
        before = builder.compute(f"c{rank}", [rank], seconds=(8 - rank) * 1e-6)
        add = builder.load if rank % 2 else builder.store
        add(f"m{rank}", "pool", [[rank]], (rank + 1) * SIZE, label="memory", after=[before])
        free = max(free, (8 - rank) * 1e-6) + LATE + (rank + 1) * SIZE / WIDE
        ends[f"m{rank}"] = free
    graph = builder.build()
    fabric = with_memories(star(8), [tier(discipline="one-at-a-time")])
    timeline = FRAMEWORK.simulate_graph(graph, fabric).timeline
    found = {graph.names[task]: end for task, end in zip(timeline.task, timeline.end, strict=True)}
    assert {name: found[name] for name in ends} == pytest.approx(ends, rel=1e-9)


def test_data_is_striped_over_the_memories_of_a_pool() -> None:
    # 8 NPUs take 250 kB each from each of four memories.
    assert seconds(loads(EACH), tier(memories=4)) == pytest.approx(LATE + 8 * SIZE / 4 / WIDE, rel=1e-9)
    queued = tier(memories=4, discipline="one-at-a-time", npu_bandwidth=4 * WIDE)
    assert seconds(loads(EACH), queued) == pytest.approx(8 * (LATE + SIZE / 4 / WIDE), rel=1e-9)


@pytest.mark.parametrize("kind", ["load", "store"])
def test_switches_save_all_streams_but_one(kind: str) -> None:
    builder = GraphBuilder(8)
    getattr(builder, kind)("x", "pool", [np.arange(8)], SIZE, label="memory")
    graph = builder.build()
    assert seconds(graph, tier(in_network=True)) == pytest.approx(ALONE, rel=1e-9)
    assert seconds(graph, tier()) == pytest.approx(LATE + 8 * SIZE / WIDE, rel=1e-9)
    notes = FRAMEWORK.simulate_graph(graph, with_memories(star(8), [tier()])).notes
    assert len(notes) == 1
    assert f"{kind}s " in notes[0]
    assert ("not summed up" in notes[0]) == (kind == "store")
    assert FRAMEWORK.simulate_graph(graph, with_memories(star(8), [tier(in_network=True)])).notes == ()


def test_repetitions_are_transactions_of_their_own_where_they_are_written_out() -> None:
    memory = tier(discipline="one-at-a-time")
    for fidelity in ("compressed", "exact"):
        assert seconds(loads(EACH, 5), memory, fidelity) == pytest.approx(40 * ALONE, rel=1e-9)


def test_a_tier_that_is_not_there_is_refused() -> None:
    with pytest.raises(
        UnknownNameError, match="uses the memory tier 'pool', which 'star of 8' does not have"
    ) as caught:
        FRAMEWORK.simulate_graph(loads(EACH), star(8))
    assert caught.value.key == "memories"
    with pytest.raises(UnknownNameError, match="did you mean 'pools'") as caught:
        FRAMEWORK.simulate_graph(loads(EACH), with_memories(star(8), [tier(name="pools")]))
    assert caught.value.accepted == "pools"


@pytest.mark.parametrize(("wide", "ratio"), [(100e9, 40.96), (250e9, 16.384), (500e9, 8.192)])
def test_in_switch_reduction_of_a_pool_of_256_npus_by_link_loads(wide: float, ratio: float) -> None:
    # Without it each of 16 memories sends 256 / 16 times the data; with it, the link of an NPU is the narrowest.
    fields = {"memories": 16, "npus": 16, "npu_bandwidth": 256e9, "switch_bandwidth": 1024e9, "latency": 0}
    builder = GraphBuilder(256)
    builder.store("gradients", "pool", [np.arange(256)], 1e9, label="memory")
    builder.load("weights", "pool", [np.arange(256)], 1e9, label="memory")
    graph = builder.build()
    both = [
        FRAMEWORK.simulate_graph(
            graph, with_memories(star(256), [tier(bandwidth=wide, in_network=able, **fields)])
        ).seconds
        for able in (True, False)
    ]
    assert both == pytest.approx([1e9 / 256e9, 256 / 16 * 1e9 / wide], rel=1e-9)
    assert both[1] / both[0] == pytest.approx(ratio, rel=1e-9)
