"""Memory tiers: what switches save, and fabrics that reserve circuits, have costs, or are driven by another program."""

from typing import Any

import numpy as np
import pytest

from fredfw import Framework, GraphBuilder, Pattern, TaskGraph
from fredfw.embed import NetworkBackend
from fredfw.errors import UnknownNameError
from fredfw.fabric import MemoryTier, with_memories
from fredfw.testing.fabrics import star

FRAMEWORK = Framework()
WIDE, LATE, SIZE = 100e9, 1e-6, 1e6


def tier(**fields: Any) -> MemoryTier:
    return MemoryTier(**{"name": "pool", "bandwidth": WIDE, "latency": LATE, "npu_bandwidth": 2 * WIDE, **fields})


POOL = tier(memories=2, in_network=True)


def graph(ranks: int, *kinds: str) -> TaskGraph:
    """All ranks reduce gradients, or load from or store to the pool, side by side."""
    builder = GraphBuilder(ranks)
    for kind in kinds:
        if kind == "reduce":
            builder.collective("gradients", Pattern.ALL_REDUCE, [range(ranks)], SIZE, label="dp")
        else:
            getattr(builder, kind)("weights", "pool", [range(ranks)], SIZE, label="memory")
    return builder.build()


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("fred", {"variant": "D"}),
        ("fat-tree", {"npus": 16, "radix": 8}),
        ("optical-ring", {"npus": 16, "wavelengths": 4}),
        ("cluster", {"preset": "dgx-h100", "nodes": 2}),
        ("torus", {"dimensions": [4, 4]}),
    ],
)
def test_loads_and_collectives_do_not_meet(name: str, fields: dict[str, Any]) -> None:
    plain = FRAMEWORK.topology(name, **fields).build()
    fabric = with_memories(plain, [POOL])
    ranks = len(plain.npus)
    chosen = {"default": ["in-network", "ring"]}
    alone = FRAMEWORK.simulate_graph(graph(ranks, "reduce"), plain, collectives=chosen)
    result = FRAMEWORK.simulate_graph(graph(ranks, "reduce", "load"), fabric, collectives=chosen)
    assert result.seconds == pytest.approx(max(alone.seconds, LATE + SIZE / (2 * WIDE)), rel=1e-9)
    assert (result.algorithms, result.figures, result.notes) == (alone.algorithms, alone.figures, alone.notes)
    assert np.array_equal(result.link_bytes[: len(plain.sources)], alone.link_bytes)


def test_another_program_sends_to_and_from_memories() -> None:
    fabric = with_memories(FRAMEWORK.topology("mesh2d", rows=2, columns=2).build(), [POOL])
    network = NetworkBackend(fabric)
    ends: list[float] = []
    network.send("pool0", 3, 1e6, on_complete=lambda: ends.append(network.now))
    network.send(2, "pool1", 2e6, on_complete=lambda: ends.append(network.now))
    network.advance(1.0)
    assert ends == pytest.approx([1e-6 + 1e6 / 100e9, 1e-6 + 2e6 / 100e9], rel=1e-9)


@pytest.mark.parametrize("kind", ["load", "store"])
def test_switches_save_all_streams_but_one(kind: str) -> None:
    fabrics = [with_memories(star(8), [tier(in_network=able)]) for able in (True, False)]
    able, plain = (FRAMEWORK.simulate_graph(graph(8, kind), one) for one in fabrics)
    assert (able.seconds, plain.seconds) == pytest.approx((LATE + SIZE / WIDE, LATE + 8 * SIZE / WIDE), rel=1e-9)
    assert able.notes == ()
    (note,) = plain.notes
    assert f"{kind}s " in note
    assert ("not summed up" in note) == (kind == "store")


def test_a_tier_that_is_not_there_is_refused() -> None:
    with pytest.raises(UnknownNameError, match=r"^memories: .* the memory tier 'pool', which 'star of 8' does not h"):
        FRAMEWORK.simulate_graph(graph(8, "load"), star(8))
    with pytest.raises(UnknownNameError, match="did you mean 'pools'") as caught:
        FRAMEWORK.simulate_graph(graph(8, "load"), with_memories(star(8), [tier(name="pools")]))
    assert caught.value.accepted == "pools"


@pytest.mark.parametrize(("wide", "ratio"), [(100e9, 40.96), (250e9, 16.384), (500e9, 8.192)])
def test_in_switch_reduction_of_a_pool_of_256_npus_by_link_loads(wide: float, ratio: float) -> None:
    # Without it each of 16 memories sends 256 / 16 times the data; with it, the link of an NPU is the narrowest.
    fields = {"memories": 16, "npus": 16, "npu_bandwidth": 256e9, "switch_bandwidth": 1024e9, "latency": 0}
    work = graph(256, "store", "load")
    fabrics = [with_memories(star(256), [tier(bandwidth=wide, in_network=able, **fields)]) for able in (True, False)]
    both = [FRAMEWORK.simulate_graph(work, one).seconds for one in fabrics]
    assert both == pytest.approx([SIZE / 256e9, 256 / 16 * SIZE / wide], rel=1e-9)
    assert both[1] / both[0] == pytest.approx(ratio, rel=1e-9)
