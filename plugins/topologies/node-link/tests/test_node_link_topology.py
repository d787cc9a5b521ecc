import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pytest
from experiments import refused

import fredfw_topology_node_link
from fredfw import Fabric, File, Framework, Level, NodeKind
from fredfw.testing import TopologyTests
from fredfw_topology_node_link import NodeLink

MACHINE = json.loads((Path(__file__).parent / "machine.json").read_text())


def read(folder: Path, content: Any, **fields: Any) -> Fabric:
    file = folder / "graph.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return NodeLink(File.at(file), **fields).build()


def test_nodes_and_links_are_those_of_the_file(tmp_path: Path) -> None:
    fabric = read(tmp_path, MACHINE)
    assert fabric.name == "two servers"
    assert [NodeKind(kind).name for kind in fabric.kinds] == ["NPU", "SWITCH", "NPU", "NPU", "SWITCH", "NPU"]
    assert [fabric.node_name(node) for node in range(6)] == ["a0", "a", "a1", "b0", "b", "last"]
    assert list(zip(fabric.sources, fabric.destinations, strict=True))[-2:] == [(1, 4), (4, 1)]
    np.testing.assert_allclose(fabric.bandwidths, [450e9] * 8 + [50e9] * 2)
    np.testing.assert_allclose(fabric.latencies, [500e-9] * 8 + [2e-6] * 2)
    np.testing.assert_allclose(fabric.energies[-2:], 8e-12)
    assert fabric.tiers.tolist() == [0] * 8 + [1] * 2
    assert len(set(fabric.servers.tolist())) == 2
    assert not fabric.notes
    # NPUs copy and combine streams, switches do not.
    assert fabric.copies.tolist() == [True, False, True, True, False, True]


def test_a_message_takes_the_links_of_its_way_and_notes_are_in_results(tmp_path: Path) -> None:
    fabric = read(tmp_path, graph(notes=["seen"]))
    result = Framework().simulate_collective(fabric, "broadcast", size=1e6, group=[0, 3], algorithm="direct")
    assert result.duration == pytest.approx(2 * 500e-9 + 2e-6 + 1e6 / 50e9, rel=1e-12)
    assert "seen" in result.notes


def test_some_attributes_are_passed_over_and_parallel_edges_links_side_by_side(tmp_path: Path) -> None:
    assert len(read(tmp_path, edge(weight=1), ignore=("weight",)).sources) == 10
    twice = changed(lambda whole: whole["edges"].append({**whole["edges"][-1], "key": 1}))
    assert len(read(tmp_path, twice | {"multigraph": True}).sources) == 12


def test_levels_and_places_in_them(tmp_path: Path) -> None:
    server = {"size": 2, "kind": "switch", "bandwidth": "450 GB/s", "latency": "1 us", "name": "server"}
    levels = graph(levels=[server, {"size": 2, "kind": "switch", "bandwidth": "25 GB/s", "latency": "3 us"}])
    places = [[0, 0], [1, 0], [0, 1], [1, 1]]
    for number, place in zip((0, 2, 3, 5), places, strict=True):
        levels["nodes"][number]["coordinates"] = place
    fabric = read(tmp_path, levels)
    assert fabric.levels == (Level(2, "switch", 450e9, 1e-6, name="server"), Level(2, "switch", 25e9, 3e-6))
    np.testing.assert_array_equal(fabric.coordinates, places)


def test_edges_may_be_called_links_and_go_one_way(tmp_path: Path) -> None:
    graph: Any = networkx.DiGraph()
    graph.add_nodes_from(range(3), kind="npu")
    networkx.add_cycle(graph, range(3), bandwidth=1e9)
    fabric = read(tmp_path, networkx.node_link_data(graph, edges="links"))
    assert list(zip(fabric.sources, fabric.destinations, strict=True)) == [(0, 1), (1, 2), (2, 0)]
    assert fabric.notes == (f"{tmp_path / 'graph.json'} has no latency for 3 of 3 edges: 0 s",)


def graphml(folder: Path, graph: Any) -> str:
    file = folder / "graph.graphml"
    networkx.write_graphml(graph, file)
    return file.read_text()


def test_graphml(tmp_path: Path) -> None:
    graph: Any = networkx.Graph(name="triangle")
    graph.add_nodes_from("abc", kind="npu", copies=True)
    networkx.add_cycle(graph, "abc", bandwidth="10 GB/s", latency=1e-6, tier=1)
    fabric = read(tmp_path, graphml(tmp_path, graph))
    assert len(fabric.npus) == 3
    np.testing.assert_allclose(fabric.bandwidths, [10e9] * 6)
    np.testing.assert_allclose(fabric.latencies, [1e-6] * 6)
    assert fabric.node_name(2) == "c"
    parallel: Any = networkx.MultiDiGraph()
    parallel.add_nodes_from("ab", kind="npu")
    parallel.add_edges_from([("a", "b"), ("a", "b"), ("b", "a")], bandwidth=1e9)
    assert len(read(tmp_path, graphml(tmp_path, parallel)).sources) == 3


def changed(change: Callable[[Any], Any]) -> Any:
    graph = copy.deepcopy(MACHINE)
    change(graph)
    return graph


def node(number: int, **attributes: Any) -> Any:
    return changed(lambda whole: whole["nodes"][number].update(attributes))


def edge(**attributes: Any) -> Any:
    return changed(lambda whole: whole["edges"][2].update(attributes))


def graph(**attributes: Any) -> Any:
    return changed(lambda whole: whole["graph"].update(attributes))


BOMB = """<?xml version="1.0"?>
<!DOCTYPE graphml [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>
<graphml><graph id="&b;" edgedefault="directed"/></graphml>"""


RING = {"size": 4, "kind": "ring", "bandwidth": 1}


@pytest.mark.parametrize(
    ("content", "key", "message"),
    [
        (changed(lambda graph: graph["nodes"][0].pop("kind")), "nodes[0].kind", "is missing"),
        (node(0, kind="gpu"), "nodes[0].kind", "did you mean 'npu'?"),
        (node(1, id="a0"), "nodes[1]", "'a0' is there twice"),
        (changed(lambda graph: graph["nodes"][1].pop("id")), "nodes[1].id", "is missing"),
        (node(1, copies=1), "nodes[1].copies", "1 is not a truth value"),
        (node(1, colour=1), "nodes[1].colour", "unknown attribute"),
        (edge(weight=1), "edges[2].weight", "unknown attribute"),
        (edge(source="x"), "edges[2].source", "there is no node 'x'"),
        (edge(source="b"), "edges[2]", "both ends are 'b'"),
        (changed(lambda graph: graph["edges"][2].pop("bandwidth")), "edges[2].bandwidth", "is missing"),
        (edge(bandwidth="tbd"), "edges[2].bandwidth", "'tbd'"),
        (edge(bandwidth=0), "edges[2].bandwidth", "0 is too small"),
        (edge(latency=-1), "edges[2].latency", "-1 is too small"),
        (edge(latncy=1), "edges[2].latncy", "did you mean 'latency'?"),
        (edge(tier=1.5), "edges[2].tier", "1.5 is refused"),
        (changed(lambda whole: whole.update(edges=[])), "edges", "there are none"),
        (changed(lambda whole: whole.update(edges=3)), "edges", "is not a list"),
        (changed(lambda whole: whole.update(nodes=[3])), "nodes[0]", "3 is not a table"),
        (changed(lambda graph: graph.pop("nodes")), "nodes", "is missing"),
        (changed(lambda whole: whole.update(directed="no")), "directed", "'no' is not a truth value"),
        (changed(lambda whole: whole.update(vertices=[])), "vertices", "unknown key"),
        (graph(router="fast"), "graph.router", "'fast' is not known"),
        (graph(offers=["fast"]), "graph.offers", "is refused"),
        (graph(levels=[{"size": 4}]), "graph.levels[0].kind", "is missing"),
        (graph(levels=[RING]), "nodes[0].coordinates", "None are not coordinates in levels of [4]"),
        (node(0, coordinates=[0]), "nodes[0].coordinates", "there are no levels"),
        (changed(lambda graph: [node.update(kind="switch") for node in graph["nodes"]]), "nodes", "there is no npu"),
        ("[]", None, "is not a JSON object"),
        ('{"nodes": [', None, "line 1, column 12"),
        ("[" * 100_000, None, "is not JSON"),
        (BOMB, None, "has a DTD or an entity"),
        ("<graphml>", None, "is not XML"),
        ("<system/>", None, "is not GraphML"),
    ],
)
def test_bad_input(content: Any, key: str | None, message: str, tmp_path: Path) -> None:
    with refused(key, message, file=str(tmp_path / "graph.json")):
        read(tmp_path, content)


class TestNodeLink(TopologyTests):
    plugin = fredfw_topology_node_link
    topologies = (NodeLink(File.at(Path(__file__).parent / "machine.json")),)
