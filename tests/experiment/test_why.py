from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fredfw
from fredfw.experiment.results import RunResult
from fredfw.experiment.why import tier_shares

MESH = {"topology": {"name": "mesh2d", "rows": 2, "columns": 3, "io_controllers": False}}
TREE = {"topology": {"name": "fred", "arity": [2, 3], "io_controllers": 0}}


def run_on(fabric: dict[str, Any]) -> RunResult:
    framework = fredfw.Framework()
    tables = {"fabrics": {"f": fabric}, "workloads": {"w": {"workload": {"name": "microbenchmark", "size": "1 MB"}}}}
    return framework.run(framework.load_experiment(tables))


def test_links_of_a_mesh_are_told_apart_by_dimension() -> None:
    result = run_on(MESH)
    tiers = {tier.name: tier for tier in tier_shares(result)}
    # 2 rows of 3: four links along each row, and two along each of three columns, counted in both directions.
    assert {name: tier.links for name, tier in tiers.items()} == {
        "npu -> npu, dimension 0": 8,
        "npu -> npu, dimension 1": 6,
    }


def test_links_of_a_tree_are_told_apart_by_their_ends() -> None:
    result = run_on(TREE)
    tiers = tier_shares(result)
    assert sorted((tier.name, tier.links) for tier in tiers) == [
        ("L1 -> L2", 3),
        ("L1 -> npu", 6),
        ("L2 -> L1", 3),
        ("npu -> L1", 6),
    ]
    for tier in tiers:
        assert tier.hottest.bytes_by_label == {"collective": tier.hottest.bytes}
        assert 0 < tier.mean <= tier.hottest.utilization


def test_links_in_nodes_of_a_cluster_are_one_tier() -> None:
    result = run_on({"topology": {"name": "cluster", "nodes": 3, "node": {"name": "switch", "npus": 2}, "radix": 4}})
    assert {tier.name: tier.links for tier in tier_shares(result)} == {
        "node.npu -> node.switch": 6,
        "node.switch -> node.npu": 6,
        "node.npu -> leaf": 6,
        "leaf -> node.npu": 6,
        "leaf -> spines": 4,
        "spines -> leaf": 4,
    }


def test_bytes_by_label_add_up_to_those_of_the_link() -> None:
    framework = fredfw.Framework()
    workload = {"name": "transformer", "layers": 4, "hidden": 64, "sequence": 32, "heads": 4, "vocabulary": 100}
    tables = {"fabrics": {"f": TREE}, "workloads": {"w": {"workload": {**workload, "mp": 3, "dp": 2}}}}
    result = framework.run(framework.load_experiment(tables))
    assert {"mp", "dp"} <= set(result.link_bytes_by_label)
    assert sum(result.link_bytes_by_label.values(), np.zeros(1)) == pytest.approx(result.link_bytes)
    assert {label: float(moved.sum()) for label, moved in result.link_bytes_by_label.items()} == pytest.approx(
        result.bytes_by_cause
    )


def test_switches_of_a_dimension_are_one_tier() -> None:
    topology = {
        "name": "multi-dimensional",
        "dimensions": ["ring 4", "switch 2", "switch 3"],
        "bandwidths": ["4 GB/s", "1 GB/s", "1 GB/s"],
        "latencies": ["0 s"],
        "names": ["package", "node", "pod"],
    }
    found = {tier.name: tier.links for tier in tier_shares(run_on({"topology": topology}))}
    assert found == {
        "npu -> npu, dimension 0": 48,
        "npu -> node": 24,
        "node -> npu": 24,
        "npu -> pod": 24,
        "pod -> npu": 24,
    }
