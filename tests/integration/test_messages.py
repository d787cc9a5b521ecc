"""Collectives that are written as messages of a trace, against closed forms and our own schedules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fredfw import Fabric, Framework, Pattern, TaskGraph, TaskKind
from fredfw.fabric import IdealTransport
from fredfw.fidelities import SIMULATED

FRAMEWORK = Framework()
RANKS, CHUNK = 8, 131072.0
BANDWIDTH, LATENCY, REDUCTION = 50 * 2.0**30, 500e-9, 7e-6
RING = FRAMEWORK.topology(
    "torus", dimensions=[RANKS], link_bandwidth=BANDWIDTH, link_latency=f"{LATENCY * 1e9} ns"
).build()
STEP = CHUNK / BANDWIDTH + LATENCY


def all_reduce() -> TaskGraph:
    """A ring all-reduce of ``RANKS`` chunks: each rank sends what it has received and, in the first half, reduced.

    It sends one chunk at a time.
    """
    columns: dict[str, list[Any]] = {key: [] for key in ("rank", "kind", "peer", "bytes", "seconds")}
    after: list[list[int]] = []

    def add(rank: int, kind: TaskKind, before: list[int], peer: int = -1) -> int:
        for column, value in zip(columns.values(), (rank, kind, peer, CHUNK, REDUCTION), strict=True):
            column.append(value)
        after.append(before)
        return len(after) - 1

    for rank in range(RANKS):
        before: list[int] = []
        for step in range(2 * (RANKS - 1)):
            send = add(rank, TaskKind.SEND, before, (rank + 1) % RANKS)
            last = add(rank, TaskKind.RECEIVE, before, (rank - 1) % RANKS)
            if step < RANKS - 1:
                last = add(rank, TaskKind.COMPUTE, [last])
            before = [send, last]
    return TaskGraph.from_columns(
        RANKS,
        **columns,
        dependency_offsets=np.cumsum([0, *map(len, after)]),
        dependencies=np.array([one for before in after for one in before], dtype=int),
    )


@pytest.mark.parametrize(
    ("fabric", "fidelity"),
    [
        *((RING, fidelity) for fidelity in SIMULATED),
        (RING.with_defaults(transport=IdealTransport(rendezvous=True)), "exact"),
    ],
)
def test_ring_of_messages_takes_its_closed_form(fabric: Fabric, fidelity: str) -> None:
    result = FRAMEWORK.simulate_graph(all_reduce(), fabric, fidelity=fidelity)
    assert result.seconds == pytest.approx(14 * STEP + 7 * REDUCTION, rel=1e-9)
    assert result.seconds == pytest.approx(90.18e-6, abs=5e-10)
    assert result.breakdown == pytest.approx({"compute": 7 * REDUCTION, "bubble": 0.0, "communication": 14 * STEP})
    assert result.link_bytes.sum() == 14 * RANKS * CHUNK


def test_sizes_of_pairs_are_conserved() -> None:
    sizes = np.arange(16.0).reshape(4, 4) * 1000
    columns: dict[str, Any] = {
        "rank": np.arange(4),
        "kind": np.full(4, TaskKind.COLLECTIVE),
        "pattern": np.full(4, tuple(Pattern).index(Pattern.ALL_TO_ALL)),
        "communicator": np.zeros(4, dtype=int),
        "communicators": [np.arange(4)],
        "dependency_offsets": np.zeros(5, dtype=int),
        "dependencies": np.zeros(0, dtype=int),
        "split_offsets": np.arange(0, 17, 4),
        "splits": sizes.ravel(),
    }
    graph = TaskGraph.from_columns(4, **columns)
    switch = FRAMEWORK.topology("switch", npus=4, link_bandwidth="1 GB/s", link_latency="0 ns").build()
    result = FRAMEWORK.simulate_graph(graph, switch, collectives={"default": "direct"})
    exchanged = sizes * ~np.eye(4, dtype=bool)
    assert result.link_bytes.sum() == 2 * exchanged.sum()  # up to the switch, and down
    # Most bytes go to the last rank or come from it.
    assert result.seconds == pytest.approx(
        max(exchanged.sum(axis=0).max(), exchanged.sum(axis=1).max()) / 1e9, rel=1e-9
    )
