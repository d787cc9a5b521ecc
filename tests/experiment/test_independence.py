"""No result depends on what was simulated before it."""

from typing import Any

import pytest
from experiments import SMALL

from fredfw import Framework
from fredfw.experiment.results import Row

PLUGINS = Framework().plugins
# With the number of their NPUs, which all look alike; ties of routing, shared NICs or rails tell them apart.
TOPOLOGIES: list[tuple[dict[str, Any], int]] = [
    ({"name": "torus", "dimensions": [6]}, 6),
    ({"name": "torus", "dimensions": [4, 2]}, 8),
    ({"name": "torus", "dimensions": [4, 4]}, 16),
    ({"name": "mesh2d", "rows": 3, "columns": 4}, 12),
    ({"name": "cluster", "nodes": 3, "node": {"name": "switch", "npus": 4}, "nics": 2, "network": "rail-only"}, 12),
    ({"name": "cluster", "nodes": 2, "node": {"name": "torus", "dimensions": [4]}, "nics": 2}, 8),
]
TRAINING = {**SMALL, "mp": 2, "dp": 2}


def rows(topology: dict[str, Any], workloads: dict[str, Any]) -> dict[str, Row]:
    framework = Framework(PLUGINS)
    experiment = framework.load_experiment({"fabrics": {"net": {"topology": topology}}, "workloads": workloads})
    return {row.workload: row for row in framework.compare(experiment).rows}


def test_the_order_of_workloads_changes_nothing() -> None:
    ring = {"name": "torus", "dimensions": [6], "link_bandwidth": "1 GB/s", "link_latency": "0 ns"}
    work = {"name": "microbenchmark", "size": "1 GB"}
    moved = {"jobs": [{"name": "one", "npus": [1, 2, 3, 4], "workload": work}]}
    first = {"workload": {**work, "ranks": 4}}
    found = rows(ring, {"moved": moved, "first": first})
    assert found == rows(ring, {"first": first, "moved": moved})
    assert found == {**rows(ring, {"moved": moved}), **rows(ring, {"first": first})}
    # From NPU 4 back to NPU 1 it is as far either way, and the tie leads over the links that are idle: all twelve carry
    # 3/4 GB, as little as the NPUs must send and receive. From NPU 3 back to NPU 0 the tie leads over the links among
    # the others, and the best that is left is trees along the line, each of whose links carries 1 GB both ways.
    assert found["moved"].seconds == pytest.approx(0.75)
    assert found["first"].seconds == pytest.approx(1.0, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [[0, 1, 2, 3], [0, 2, 3, 5]])
@pytest.mark.parametrize(("topology", "npus"), TOPOLOGIES)
def test_every_cell_is_what_it_is_alone(topology: dict[str, Any], npus: int, shape: list[int]) -> None:
    """Workloads do the same in groups of which each is the one before, moved."""
    patterns = ("all-reduce", "all-to-all", "broadcast")
    kinds = [TRAINING, *({"name": "microbenchmark", "pattern": pattern, "size": "1 GB"} for pattern in patterns)]
    for work in kinds:
        groups = ([(one + shift) % npus for one in shape] for shift in (0, 1, npus // 2))
        workloads = {f"{group}": {"jobs": [{"name": "one", "npus": group, "workload": work}]} for group in groups}
        alone = {name: rows(topology, {name: one})[name] for name, one in workloads.items()}
        for order in (list(workloads), list(workloads)[::-1]):
            assert rows(topology, {name: workloads[name] for name in order}) == alone
