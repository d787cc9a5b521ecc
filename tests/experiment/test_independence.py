"""No result depends on what was simulated before it."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from fredfw import Framework
from fredfw.experiment.results import Row

PLUGINS = Framework().plugins
# With the number of their NPUs, which all look alike; ties of routing, shared NICs or rails tell them apart.
RINGS: list[tuple[dict[str, Any], int]] = [
    ({"name": "torus", "dimensions": sizes}, npus) for sizes, npus in (([6], 6), ([4, 2], 8), ([4, 4], 16))
]
OTHERS: list[tuple[dict[str, Any], int]] = [
    ({"name": "mesh2d", "rows": 3, "columns": 4}, 12),
    ({"name": "cluster", "nodes": 3, "node": {"name": "switch", "npus": 4}, "nics": 2, "network": "rail-only"}, 12),
    ({"name": "cluster", "nodes": 2, "node": {"name": "torus", "dimensions": [4]}, "nics": 2}, 8),
]
SHAPES = [[0, 1, 2], [0, 2, 3], [0, 1, 2, 3], [0, 1, 4, 5]]
SHAPE = {"layers": 2, "hidden": 64, "sequence": 32, "heads": 4, "vocabulary": 100}
TRAINING = {"name": "transformer", **SHAPE, "mp": 2, "dp": 2}


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


@st.composite
def experiments(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a topology, and workloads that do the same in groups of which each is the one before, moved."""
    topology, npus = draw(st.one_of(st.sampled_from(RINGS), st.sampled_from(OTHERS)))
    base = draw(st.sampled_from(SHAPES) | st.lists(st.integers(0, npus - 1), min_size=2, max_size=4, unique=True))
    work: dict[str, Any] = {
        "name": "microbenchmark",
        "pattern": draw(st.sampled_from(["all-reduce", "all-gather", "all-to-all", "broadcast"])),
        "size": draw(st.sampled_from(["1 GB", "1 GB", "1 kB"])),
    }
    if len(base) == 4 and draw(st.booleans()):
        work = TRAINING
    workloads = {}
    for shift in draw(st.lists(st.integers(0, npus - 1), min_size=2, max_size=3, unique=True)):
        group = [(one + shift) % npus for one in base]
        jobs = [{"name": "one", "npus": group, "workload": work}]
        if draw(st.booleans()):
            others = [one for one in range(npus) if one not in group]
            jobs.append({"name": "other", "npus": others[:2], "workload": {"name": "microbenchmark", "size": "1 GB"}})
        workloads[f"moved by {shift}"] = {"jobs": jobs}
    return topology, workloads


@pytest.mark.slow
@given(experiments())
def test_every_cell_is_what_it_is_alone(experiment: tuple[dict[str, Any], dict[str, Any]]) -> None:
    topology, workloads = experiment
    alone = {name: rows(topology, {name: one})[name] for name, one in workloads.items()}
    for order in (list(workloads), list(workloads)[::-1]):
        assert rows(topology, {name: workloads[name] for name in order}) == alone
