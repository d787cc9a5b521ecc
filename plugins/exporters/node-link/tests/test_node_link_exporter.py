import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import networkx
import numpy as np
import pytest

import fredfw_exporter_node_link
from fredfw import Fabric, Framework
from fredfw.testing import ExporterTests
from fredfw_exporter_node_link import NodeLinkExporter


def exported(fabric: Fabric) -> str:
    return NodeLinkExporter().export(SimpleNamespace(fabric=fabric))


def read_again(fabric: Fabric, folder: Path) -> Fabric:
    file = folder / "graph.json"
    file.write_text(exported(fabric))
    return built("node-link", file=str(file))


def built(name: str, **fields: Any) -> Fabric:
    return Framework().topology(name, **fields).build()


@pytest.mark.parametrize(
    ("name", "fields", "algorithm"),
    [
        ("torus", {"dimensions": [4, 4]}, "torus-ring"),
        ("mesh2d", {}, "hierarchical"),
        ("switch", {}, "ring"),
        ("multi-dimensional", {"dimensions": ["FC 4", "switch 4"], "bandwidths": 1e9, "latencies": 1e-6}, "themis"),
    ],
)
def test_what_is_read_again_is_the_same_network(
    name: str, fields: dict[str, Any], algorithm: str, tmp_path: Path
) -> None:
    fabric = built(name, **fields)
    again = read_again(fabric, tmp_path)
    arrays = "kinds", "sources", "destinations", "bandwidths", "latencies", "energies", "tiers", "coordinates"
    for array in (*arrays, "copies", "reduces"):
        np.testing.assert_array_equal(getattr(again, array), getattr(fabric, array))
    assert (again.name, again.levels, again.offers) == (fabric.name, fabric.levels, fabric.offers)
    call: dict[str, Any] = {"size": "8 MiB", "algorithm": algorithm}
    one, other = (Framework().simulate_collective(each, "all-reduce", **call) for each in (fabric, again))
    assert one.duration == other.duration


def test_networkx_reads_it_and_what_is_not_in_it_is_noted(tmp_path: Path) -> None:
    fabric = built("torus", dimensions=[3, 3])
    graph: Any = networkx.node_link_graph(json.loads(exported(fabric)), edges="edges")
    assert networkx.is_isomorphic(networkx.DiGraph(graph), networkx.DiGraph(fabric.to_networkx()))
    assert {kind for _, kind in graph.nodes(data="kind")} == {"npu"}
    (note, *_) = read_again(built("fred"), tmp_path).notes
    assert note.startswith("exported without its router up-down, sharing circuit-preempt, admission circuits")


class TestNodeLinkExporter(ExporterTests):
    plugin = fredfw_exporter_node_link
    exporters = (NodeLinkExporter(),)
