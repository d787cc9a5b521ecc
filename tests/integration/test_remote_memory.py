"""ASTRA-sim's remote memory: its inputs, run here, against its formula and its queue."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fredfw import Framework
from fredfw.cli import main
from fredfw_workload_chakra import et
from fredfw_workload_chakra.trace import Node, NodeType

NETWORK = "topology: [Ring]\nnpus_count: [4]\nbandwidth: [50]\nlatency: [500]\n"
ALPHA, BETA = 250.5e-9, 1 / 100e9


def access(number: int, kind: NodeType, size: int, *before: int) -> Node:
    attributes: dict[str, Any] = {"tensor_size": size, "is_cpu_op": False}
    return Node(number, kind.name, kind, before, attributes=attributes)


def queued(ranks: int, first: int) -> float:
    """Return when the last of ``ranks`` has stored, whose numbers begin with ``first``, by a queue of one memory."""
    load = ALPHA + 1e6 * BETA
    free = ranks * load
    for number in range(ranks):
        free = max(free, (number + 1) * load + 7e-6) + ALPHA + 1e5 * (first + number + 1) * BETA
    return free


@pytest.mark.parametrize(
    ("kind", "together"), [("PER_NPU_MEMORY_EXPANSION", 1), ("PER_NODE_MEMORY_EXPANSION", 2), ("MEMORY_POOL", 4)]
)
def test_a_memory_serves_one_at_a_time(kind: str, together: int, tmp_path: Path) -> None:
    """Every rank loads 1 MB, computes for 7 us, and stores what its number says, all on four NPUs."""
    memory = {"memory-type": kind, "remote-mem-bw": 100, "remote-mem-latency": 250.5, "num-npus-per-node": 2}
    (tmp_path / "memory.json").write_text(json.dumps(memory))
    (tmp_path / "network.yml").write_text(NETWORK)
    (tmp_path / "system.json").write_text('{"scheduling-policy": "LIFO"}')
    for rank in range(4):
        nodes = [
            access(0, NodeType.MEM_LOAD, 10**6),
            Node(1, "comp", NodeType.COMP, (0,), micros=7),
            access(2, NodeType.MEM_STORE, 10**5 * (rank + 1), 1),
        ]
        (tmp_path / f"trace.{rank}.et").write_bytes(et.write(nodes))
    output = tmp_path / "experiment.toml"
    result = CliRunner().invoke(main, ["import", "astra-sim", str(tmp_path), "--output", str(output)])
    assert result.exit_code == 0, result.output
    expected = max(queued(together, first) for first in range(0, 4, together))
    assert Framework().run(output).seconds == pytest.approx(expected, rel=1e-9)
