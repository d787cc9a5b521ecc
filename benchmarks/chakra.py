"""Files of Chakra traces that grow: how long they take to write, and to read into a task graph.

    python -m benchmarks.chakra NODES RANKS

writes the traces of ``benchmarks.traces`` into a temporary directory, reads them in another process, and prints a line
of JSON: seconds, and the most memory of the process that reads.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.traces import columns

from fredfw import File, Files, System, TaskKind
from fredfw_workload_chakra import Chakra, et
from fredfw_workload_chakra.trace import Collective, Node, NodeType, Value

TYPES = {
    int(TaskKind.COMPUTE): NodeType.COMP,
    int(TaskKind.COLLECTIVE): NodeType.COMM_COLL,
    int(TaskKind.SEND): NodeType.COMM_SEND,
    int(TaskKind.RECEIVE): NodeType.COMM_RECV,
}


def nodes_of(given: dict[str, Any], rank: int) -> Iterator[Node]:
    """Yield the nodes of ``rank``, numbered from 0."""
    mine = np.flatnonzero(given["rank"] == rank)
    first, offsets, before = int(mine[0]), given["dependency_offsets"].tolist(), given["dependencies"]
    for node in mine.tolist():
        kind, peer, size = int(given["kind"][node]), int(given["peer"][node]), int(given["bytes"][node])
        attributes: dict[str, Value] = {"is_cpu_op": False}
        micros = 0
        if kind == TaskKind.COMPUTE:
            micros = round(float(given["seconds"][node]) * 1e6)
            attributes |= {"num_ops": micros * 10**6, "tensor_size": micros * 10**3}
        elif kind == TaskKind.COLLECTIVE:
            group = str(int(given["communicator"][node]) + 1)
            attributes |= {"comm_type": int(Collective.ALL_REDUCE), "comm_size": size, "pg_name": group}
        else:
            source, destination = (rank, peer) if kind == TaskKind.SEND else (peer, rank)
            attributes |= {"comm_src": source, "comm_dst": destination, "comm_tag": 0, "comm_size": size}
        waits = (before[offsets[node] : offsets[node + 1]] - first).tolist()
        yield Node(node - first, f"{TYPES[kind].name} {node - first}", TYPES[kind], waits, (), micros, attributes)


def write(folder: Path, nodes: int, ranks: int) -> int:
    """Write the traces of about so many nodes; return how many bytes they have."""
    given = columns(nodes, ranks)
    groups = {str(number + 1): group.tolist() for number, group in enumerate(given["communicators"])}
    (folder / "groups.json").write_text(json.dumps(groups), encoding="utf-8")
    total = 0
    for rank in range(ranks):
        content = et.write(nodes_of(given, rank))
        (folder / f"trace.{rank}.et").write_bytes(content)
        total += len(content)
    return total


def read(folder: Path) -> dict[str, Any]:
    """Read the traces in ``folder`` into a graph; return what it took."""
    begun, busy = time.perf_counter(), time.process_time()
    workload = Chakra(traces=Files.at(folder / "trace.*.et"), comm_groups=File.at(folder / "groups.json"))
    graph = workload.graph(System(npus=len(workload.traces.files)))
    seconds, busy = time.perf_counter() - begun, time.process_time() - busy
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "tasks": len(graph),
        "read_seconds": round(seconds, 2),
        "read_cpu_seconds": round(busy, 2),
        "read_MiB": round(memory),
    }


def main() -> None:
    if len(sys.argv) == 2:
        print(json.dumps(read(Path(sys.argv[1]))))
        return
    nodes, ranks = map(int, sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        size = write(Path(folder), nodes, ranks)
        seconds = round(time.perf_counter() - begun, 2)
        written = {"nodes": nodes, "ranks": ranks, "bytes": size, "write_seconds": seconds}
        command = [sys.executable, "-m", "benchmarks.chakra", folder]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    print(json.dumps(written | json.loads(done.stdout)))


if __name__ == "__main__":
    main()
