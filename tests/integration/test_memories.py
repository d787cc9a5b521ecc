"""Memory tiers beside fabrics that reserve circuits, have costs beside bandwidth, or are driven by another program."""

from typing import Any

import numpy as np
import pytest

from fredfw import Framework, GraphBuilder, Pattern, TaskGraph
from fredfw.embed import NetworkBackend
from fredfw.fabric import MemoryTier, with_memories

FRAMEWORK = Framework()
POOL = MemoryTier(name="pool", bandwidth=100e9, latency=1e-6, memories=2, in_network=True)


def both(ranks: int, *, load: bool = True) -> TaskGraph:
    builder = GraphBuilder(ranks)
    builder.collective("gradients", Pattern.ALL_REDUCE, [range(ranks)], 1e6, label="dp")
    if load:
        builder.load("weights", "pool", [range(ranks)], 1e6, label="memory")
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
    alone = FRAMEWORK.simulate_graph(both(ranks, load=False), plain, collectives=chosen)
    result = FRAMEWORK.simulate_graph(both(ranks), fabric, collectives=chosen)
    assert result.seconds == pytest.approx(max(alone.seconds, 1e-6 + 1e6 / 200e9), rel=1e-9)
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
