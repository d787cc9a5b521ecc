"""Traces that grow: ranks compute, reduce in groups and pass messages on, as ``TaskGraph.from_columns`` takes them.

    python benchmarks/traces.py NODES RANKS [--no-attribution] [--exact]

builds one, simulates it on a ring of NPUs and prints one line of JSON: seconds of a clock and of the processor, and
memory, by what took them.
"""

import json
import resource
import sys
import time
from typing import Any

import numpy as np

from fredfw import Framework, Pattern, TaskGraph, TaskKind
from fredfw.typing import FloatArray

GROUP = 8
COMPUTATIONS = 8
# Of a rank in a layer: computations one after the other, an all-reduce, a send and a receive.
NODES = COMPUTATIONS + 3


def columns(nodes: int, ranks: int, *, stride: int = 1) -> dict[str, Any]:
    """Return the arguments of ``TaskGraph.from_columns`` for about so many nodes.

    In each layer a rank computes in eight steps of unequal length, reduces with its group of eight consecutive ranks,
    sends to the rank that is ``stride`` further and receives from the one as far behind. The next layer waits for that.

    Args:
        nodes: The least number of them.
        ranks: A multiple of eight.
        stride: From a pipeline stage to the next one.
    """
    layers = -(-nodes // (ranks * NODES))
    rank, layer, step = (
        one.ravel() for one in np.meshgrid(np.arange(ranks), np.arange(layers), np.arange(NODES), indexing="ij")
    )
    number = np.arange(len(rank))
    reduces, sends, receives = step == COMPUTATIONS, step == COMPUTATIONS + 1, step == COMPUTATIONS + 2
    kind = np.select(
        [reduces, sends, receives], [TaskKind.COLLECTIVE, TaskKind.SEND, TaskKind.RECEIVE], TaskKind.COMPUTE
    )
    # Each comes after the one before it, and a receive only after the computations: it is posted with the all-reduce.
    # The first computation of a layer comes after the all-reduce and the receive of the layer before.
    before = np.where(receives, number - 3, number - 1)
    joins = (step == 0) & (layer > 0)
    counts = np.where((step == 0) & (layer == 0), 0, np.where(joins, 2, 1))
    offsets = np.concatenate([[0], np.cumsum(counts)])
    dependencies = np.empty(offsets[-1], dtype=np.intp)
    has = counts > 0
    dependencies[offsets[:-1][has]] = before[has]
    dependencies[offsets[:-1][joins] + 1] = number[joins] - 3
    return {
        "ranks": ranks,
        "rank": rank,
        "kind": kind,
        "dependency_offsets": offsets,
        "dependencies": dependencies,
        "seconds": np.where(kind == TaskKind.COMPUTE, (10 + number * 7919 % 13) * 1e-6, np.nan),
        "bytes": np.select([reduces, sends | receives], [1e6, 2.5e5], 0.0),
        "label": np.select([reduces, sends | receives], [1, 2], 0),
        "label_names": ("compute", "mp", "pp"),
        "pattern": np.where(reduces, tuple(Pattern).index(Pattern.ALL_REDUCE), -1),
        "communicator": np.where(reduces, rank // GROUP, -1),
        "communicators": list(np.arange(ranks).reshape(-1, GROUP)),
        "peer": np.select([sends, receives], [(rank + stride) % ranks, (rank - stride) % ranks], -1),
        "tag": np.zeros(len(rank), dtype=np.intp),
    }


def run(nodes: int, ranks: int, *, attribution: bool = True, fidelity: str = "compressed") -> dict[str, Any]:
    """Build and simulate a trace; return what it took."""
    given = columns(nodes, ranks)
    begun = _clocks()
    graph = TaskGraph.from_columns(**given)
    built, memory = _clocks() - begun, _peak()
    del given
    framework = Framework()
    fabric = framework.topology("torus", dimensions=[ranks], link_bandwidth="50 GB/s").build()
    begun = _clocks()
    result = framework.simulate_graph(
        graph,
        fabric,
        collectives={"all-reduce": "ring", "default": "direct"},
        attribution=attribution,
        fidelity=fidelity,
    )
    seconds = _clocks() - begun
    return {
        "nodes": nodes,
        "ranks": ranks,
        "tasks": len(graph),
        "built": round(built[0], 2),
        "built_cpu": round(built[1], 2),
        "built_mib": memory,
        "seconds": round(seconds[0], 2),
        "cpu": round(seconds[1], 2),
        "mib": _peak(),
        "iteration": result.seconds,
    }


def _clocks() -> FloatArray:
    """Return the seconds of a clock, and of the processor, which others at work disturb less."""
    return np.array([time.perf_counter(), time.process_time()])


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    print(
        json.dumps(
            run(
                int(sys.argv[1]),
                int(sys.argv[2]),
                attribution="--no-attribution" not in sys.argv,
                fidelity="exact" if "--exact" in sys.argv else "compressed",
            )
        )
    )
