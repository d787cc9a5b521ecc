from typing import Any

import numpy as np
import pytest

from fredfw import Framework, GraphBuilder, TaskGraph
from fredfw.errors import UnknownNameError
from fredfw.fabric import MemoryTier, with_memories
from fredfw.testing.fabrics import star

FRAMEWORK = Framework()
WIDE, LATE, SIZE = 100e9, 1e-6, 1e6


def tier(**fields: Any) -> MemoryTier:
    return MemoryTier(**{"name": "pool", "bandwidth": WIDE, "latency": LATE, "npu_bandwidth": 2 * WIDE, **fields})


def streaming(kind: str) -> TaskGraph:
    builder = GraphBuilder(8)
    getattr(builder, kind)("x", "pool", [np.arange(8)], SIZE, label="memory")
    return builder.build()


@pytest.mark.parametrize("kind", ["load", "store"])
def test_switches_save_all_streams_but_one(kind: str) -> None:
    able, plain = (
        FRAMEWORK.simulate_graph(streaming(kind), with_memories(star(8), [tier(in_network=able)]))
        for able in (True, False)
    )
    assert (able.seconds, plain.seconds) == pytest.approx((LATE + SIZE / WIDE, LATE + 8 * SIZE / WIDE), rel=1e-9)
    assert able.notes == ()
    (note,) = plain.notes
    assert f"{kind}s " in note
    assert ("not summed up" in note) == (kind == "store")


def test_a_tier_that_is_not_there_is_refused() -> None:
    with pytest.raises(
        UnknownNameError, match="uses the memory tier 'pool', which 'star of 8' does not have"
    ) as caught:
        FRAMEWORK.simulate_graph(streaming("load"), star(8))
    assert caught.value.key == "memories"
    with pytest.raises(UnknownNameError, match="did you mean 'pools'") as caught:
        FRAMEWORK.simulate_graph(streaming("load"), with_memories(star(8), [tier(name="pools")]))
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
