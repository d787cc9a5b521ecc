from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cached_property, partial
from itertools import pairwise
from math import ceil, log2
from pathlib import Path
from xml.etree import ElementTree as ET

import networkx as nx
import numpy as np
import pytest
from attrs import frozen
from command_line import fails, refused, succeeds, words

from fredfw_topology_fred.switch import FredSwitch, SwitchFlow
from fredfw_topology_fred.switch.drawing import draw


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


fred = partial(succeeds, "fred")


def test_draw() -> None:
    # Of the paper's figure: {3,4,5} with a second all-reduce on FRED_2(8).
    assert fred("draw", "--m", "2", "--ports", "8", "--flows", "3,4,5", "--flows", "1,2", "out.svg") == ""
    drawn = Path("out.svg").read_text(encoding="utf-8")
    # Both ways to write several flows, and standard output.
    assert fred("draw", "--m", "2", "--flows", "3,4,5; 1,2", "-") == drawn
    assert ET.fromstring(fred("draw", "-")).tag.endswith("svg")
    assert fred("draw", "--flows", "0,1:6", "-") != fred("draw", "--flows", "0,1", "-")


def test_hardware() -> None:
    # FRED (ISCA 2025): 35 chiplets, 25,195 mm2, 179.35 W.
    table = words(fred("hardware"))
    l1, other, l2 = ["L1", "3", "12", "24.512"], ["L1", "2", "11", "24.384"], ["L2", "1", "20", "60"]
    assert [line[:4] for line in table if line[:1] in (["L1"], ["L2"])] == [l1, other, l2]
    for start in ("chiplets 35 published", "area (mm2) 25195 published", "power (W) 179.35 published"):
        assert any(" ".join(line).startswith(start) for line in table)
    document = json.loads(fred("hardware", "--set", "arity=[4, 10]", "--set", "io_controllers=0", "--json", "-"))
    assert list(document.items())[:2] == [("format", "fredfw.fred-hardware"), ("version", 1)]
    below, root = document["rows"]
    assert (below["switches"], below["up"]["count"], root["down"]["count"]) == (10, 4, 40)
    assert document["chiplets"]["status"] == "derived"


def test_check_routing() -> None:
    table = words(fred("check-routing", "--m", "2"))
    assert " ".join(table[0]) == "Strategies of up to 20 NPUs, 4 per L1 switch"
    # m, placement, strategies, routable; conflicts in mp, dp, pp, mp+dp; no place, unproven.
    assert ["2", "linear", "152", "123", "0", "29", "0", "0", "0", "0"] in table
    assert ["2", "linear", "MP(1)-DP(2)-PP(5)", "dp", "L2.0:"] in [line[:5] for line in table]
    placements = ("--placement", "linear", "--placement", "routable")
    asked = ("check-routing", "--npus", "12", "--group", "3", "--m", "2", *placements)
    assert fred(*asked, "--json", "out.json").startswith("Strategies of up to 12 NPUs")
    document = json.loads(Path("out.json").read_text())
    linear, routable = document.pop("checks")
    assert document == {"format": "fredfw.fred-routing", "version": 1, "npus": 12, "group": 3}
    # The sum of d3(n), n = 1 .. 12.
    assert [linear[key] for key in ("m", "placement", "strategies")] == [2, "linear", 74]
    assert [routable[key] for key in ("placement", "strategies", "routable", "findings")] == ["routable", 74, 74, []]
    different = {json.dumps(finding["parallelism"]) for finding in linear["findings"]}
    assert linear["routable"] == 74 - len(different) < 74


def test_check_routing_of_whole_wafers_and_of_one_switch() -> None:
    assert ["3", "linear", "18", "18"] in [line[:4] for line in words(fred("check-routing", "--whole"))]
    # d3(1) + .. + d3(6) = 1 + 3 + 3 + 6 + 3 + 9. Six NPUs and the 18 controllers are on one switch.
    (one,) = json.loads(fred("check-routing", "--npus", "6", "--group", "6", "--m", "2", "--json", "-"))["checks"]
    assert one["strategies"] == 25
    assert one["findings"][0]["parallelism"] == {"mp": 1, "dp": 2, "pp": 3}
    assert one["findings"][0]["conflict"].startswith("L1.0: FRED_2(24): {0,3}->{0,3}, {1,4}->{1,4}, {2,5}->{2,5}")
    table = words(fred("check-routing", "--npus", "1", "--group", "1"))
    assert ["3", "linear", "1", "1", *["0"] * 6] in table
    assert table[-1] == ["none"]


TRIANGLE = "0,2;1,4;3,5"  # pairs of microswitches 0-1, 0-2 and 1-2


def test_a_conflict_is_told_by_a_code_of_its_own() -> None:
    told = fails("fred", "draw", "--m", "2", "--flows", TRIANGLE, "out.svg", code=1)
    assert told.startswith("fredfw: error: FRED_2(8): {0,2}->{0,2}, {1,4}->{1,4}, {3,5}->{3,5} cannot be routed")
    fred("draw", "--m", "3", "--flows", TRIANGLE, "out.svg")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        # Before the conflict is met.
        (["draw", "--m", "2", "--flows", TRIANGLE, "missing/out.svg"], "missing/out.svg: PATH"),
        (["draw", "out.png"], "out.png: PATH: unknown format"),
        (["draw", "--flows", "3,8", "-"], "flow: flow {3,8}->{3,8} uses input port 8, but the switch has 8 ports"),
        (["draw", "--flows", "3;x", "-"], "--flows: 'x' is not a flow (accepted: ports such as 3,4,5, or inputs:"),
        (["draw", "--flows", "4:", "-"], "--flows: '4:' is not a flow"),
        (["draw", "--flows", "1:2:3", "-"], "--flows: '1:2:3' is not a flow"),
        (["draw", "--m", "1", "-"], "m: 1 is not a valid number"),
        (["hardware", "--set", "variant=Z"], "--set.variant: 'Z'"),
        (["hardware", "--json", "missing/out.json"], "missing/out.json: --json: cannot be written"),
        (["check-routing", "--npus", "21"], "--npus: 21 NPUs in groups of 4 (accepted: 4 or a multiple of it)"),
        (["check-routing", "--npus", "0"], "--npus: 0 NPUs in groups of 4 (accepted: 4 or a multiple of it)"),
        (["check-routing", "--group", "0"], "--group: groups of 0 NPUs (accepted: 1 or more)"),
        (["check-routing", "--placement", "routabel"], "no placement 'routabel'; did you mean 'routable'?"),
        (["check-routing", "--json", "missing/out.json"], "missing/out.json: --json: cannot be written"),
    ],
)
def test_bad_input(arguments: list[str], message: str) -> None:
    assert refused("fred", *arguments).startswith(message)


SIZES = [(2, 2), (2, 3), (2, 8), (3, 5), (3, 13), (4, 4), (4, 13), (2, 32)]
SVG = "{http://www.w3.org/2000/svg}"
PIN, PART = 9, 40
VERBS = {"R": "reduces", "D": "distributes", "RD": "reduces and distributes"}
Point = tuple[float, float]
Side = tuple[float, float, float]  # x, and y from and to


@frozen
class Box:
    """A part or a port as it is drawn: where its lines may begin and end, and what is written on it."""

    kind: str
    name: str
    west: Side
    east: Side
    text: str
    fill: str
    title: str

    @property
    def is_port(self) -> bool:
        return self.kind in ("input", "output")

    @property
    def span(self) -> tuple[float, float]:
        extra = PIN if self.is_port else 0
        return min(self.west[1], self.east[1]) - extra, max(self.west[2], self.east[2]) + extra


@frozen(slots=False)
class Drawn:
    root: ET.Element

    @cached_property
    def boxes(self) -> list[Box]:
        return [box_of(group) for group in self.root.iter(f"{SVG}g") if "data-kind" in group.attrib]

    @cached_property
    def flows(self) -> list[ET.Element]:
        return [group for group in self.root.iter(f"{SVG}g") if "data-flow" in group.attrib]

    @cached_property
    def lines(self) -> list[list[Point]]:
        return [points_of(line) for line in self.root.iter(f"{SVG}polyline")]

    def graph(self, lines: Iterable[list[Point]]) -> nx.DiGraph[str]:
        """What lines join."""
        graph: nx.DiGraph[str] = nx.DiGraph()
        for points in lines:
            (before,) = (box.name for box in self.boxes if touches(points[0], box.east))
            (after,) = (box.name for box in self.boxes if touches(points[-1], box.west))
            graph.add_edge(before, after)
        return graph


def points_of(element: ET.Element) -> list[Point]:
    return [(float(x), float(y)) for x, y in (pair.split(",") for pair in element.attrib["points"].split())]


def box_of(group: ET.Element) -> Box:
    kind = group.attrib["data-kind"]
    text, title = group.findtext(f"{SVG}text", ""), group.findtext(f"{SVG}title", "")
    circle, polygon = group.find(f"{SVG}circle"), group.find(f"{SVG}polygon")
    if circle is not None:
        x, y, radius = (float(circle.attrib[name]) for name in ("cx", "cy", "r"))
        name, fill = f"{kind.removesuffix('put')}{text}", circle.attrib["fill"]
        return Box(kind, name, (x - radius, y, y), (x + radius, y, y), text, fill, title)
    assert polygon is not None
    points = points_of(polygon)
    left, right = min(points)[0], max(points)[0]
    west, east = ([y for x, y in points if x == side] for side in (left, right))
    sides = (left, min(west), max(west)), (right, min(east), max(east))
    return Box(kind, group.attrib["data-name"], *sides, text, polygon.attrib["fill"], title)


def touches(point: Point, side: Side) -> bool:
    """Whether a point is on a side; numbers in the picture are rounded to tenths."""
    (x, y), (at, low, high) = point, side
    return abs(x - at) <= 0.11 and low - 0.11 <= y <= high + 0.11


def nothing(ports: int) -> tuple[SwitchFlow, ...]:
    return ()


def rotations(ports: int) -> tuple[SwitchFlow, ...]:
    return tuple(SwitchFlow([port], [(port + 3) % ports]) for port in range(ports))


def halves(ports: int) -> tuple[SwitchFlow, ...]:
    """Two flows that meet at every microswitch, from reduction to a few and from few to many."""
    even, odd = range(0, ports, 2), range(1, ports, 2)
    return SwitchFlow(even, even[:2]), SwitchFlow(odd[-1:], odd)


def arrows(flows: Iterable[SwitchFlow]) -> list[str]:
    return [str(flow).replace("->", " → ") for flow in flows]


def example(m: int, ports: int, flows: tuple[SwitchFlow, ...]) -> Drawn:
    return Drawn(ET.fromstring(draw(FredSwitch(m, ports).route(flows))))


@pytest.mark.parametrize(("m", "ports"), SIZES)
def test_the_lines_join_the_parts_that_are_counted_and_every_pair_of_ports(m: int, ports: int) -> None:
    drawn = example(m, ports, halves(ports))
    graph, kinds = drawn.graph(drawn.lines), {box.name: box.kind for box in drawn.boxes}
    assert (len(kinds), set(kinds)) == (len(drawn.boxes), set(graph))
    assert len(drawn.lines) == graph.number_of_edges()
    assert Counter(kinds.values()) == Counter(FredSwitch(m, ports).parts) + Counter(input=ports, output=ports)
    degrees = {"input": (0, 1), "output": (1, 0), "R": (2, m), "D": (m, 2), "RD": (2, 2)}
    degrees |= {"mux": (m, 1), "demux": (1, m)}
    found = {node: (graph.in_degree(node), graph.out_degree(node)) for node in graph}
    assert found == {node: degrees[kind] for node, kind in kinds.items()}
    # There is one way for each choice of a middle switch at each level, and all are equally long.
    nodes, depth = list(graph), ceil(log2(ports)) - 1
    steps = nx.to_numpy_array(graph, nodes)
    ends = np.ix_(*([nodes.index(f"{side}{port}") for port in range(ports)] for side in ("in", "out")))
    as_long, all_ways = np.linalg.matrix_power(steps, 2 * depth + 2), np.linalg.inv(np.eye(len(nodes)) - steps)
    for ways in (as_long, all_ways):
        np.testing.assert_allclose(ways[ends], m**depth)


@pytest.mark.parametrize(("m", "ports"), [(2, 2), (2, 3), (2, 8), (3, 7), (4, 9)])
@pytest.mark.parametrize("flows_on", [nothing, rotations, halves])
def test_the_colour_of_a_flow_leads_from_each_input_to_each_output(
    m: int, ports: int, flows_on: Callable[[int], tuple[SwitchFlow, ...]]
) -> None:
    flows = flows_on(ports)
    drawn, texts = example(m, ports, flows), arrows(flows)
    # In words, too.
    title, desc = (drawn.root.findtext(f"{SVG}{tag}") for tag in ("title", "desc"))
    told = f"Flows: {'; '.join(texts) or 'none'}"
    assert (drawn.root.attrib["role"], title, desc) == ("img", f"FRED_{m}({ports})", told)
    assert {group.findtext(f"{SVG}title") for group in drawn.flows} == set(texts)
    by_name = {box.name: box for box in drawn.boxes}
    graphs = [drawn.graph(map(points_of, group.findall(f"{SVG}polyline"))) for group in drawn.flows]
    doing: dict[str, tuple[str, str, str]] = {}
    for graph, flow, text in zip(graphs, flows, texts, strict=True):
        sources, targets = {f"in{port}" for port in flow.inputs}, {f"out{port}" for port in flow.outputs}
        assert sources == {node for node, degree in graph.in_degree if degree == 0}
        assert targets == {node for node, degree in graph.out_degree if degree == 0}
        assert all(targets <= nx.descendants(graph, source) for source in sources)
        (fill,) = {by_name[pin].fill for pin in sources | targets}
        for node in graph.nodes - sources - targets:
            if letters := "R" * (graph.in_degree(node) == 2) + "D" * (graph.out_degree(node) == 2):
                doing[node] = letters, fill, f"{node}: {VERBS[letters]} {text}"
    for box in drawn.boxes:
        if box.is_port:
            assert box.title == f"{box.kind} {box.text}"
            assert (box.fill == "white") == all(box.name not in graph for graph in graphs)
        else:
            used = any(box.name in graph for graph in graphs)
            rest = box.kind, "white", f"{box.name}: {'passes on' if used else 'idle'}"
            assert (box.text, box.fill, box.title) == doing.get(box.name, rest)


@pytest.mark.parametrize(("m", "ports"), SIZES)
def test_nothing_is_on_top_of_anything_else(m: int, ports: int) -> None:
    drawn = example(m, ports, rotations(ports))
    columns: dict[float, list[tuple[float, float]]] = {}
    for box in drawn.boxes:
        columns.setdefault(box.west[0], []).append(box.span)
    assert all(right - left > PART for left, right in pairwise(sorted(columns)))
    for spans in columns.values():
        assert all(above[1] < below[0] for above, below in pairwise(sorted(spans)))
    titles = [text for text in drawn.root.iter(f"{SVG}text") if ": FRED" in (text.text or "")]
    assert bool(titles) == (ports > 4)


@pytest.mark.parametrize(("m", "ports"), [(2, 2), (3, 7), (3, 17), (2, 32)])
@pytest.mark.parametrize("flows_on", [rotations, halves])
def test_legend_and_drawing_fit_the_page(m: int, ports: int, flows_on: Callable[[int], tuple[SwitchFlow, ...]]) -> None:
    flows = flows_on(ports)
    drawn = example(m, ports, flows)
    width, height = (drawn.root.attrib[name] for name in ("width", "height"))
    assert drawn.root.attrib["viewBox"] == f"0 0 {width} {height}"
    drawing, legend = (group for group in drawn.root.findall(f"{SVG}g") if "transform" in group.attrib)
    head = float(drawing.attrib["transform"].removeprefix("translate(0 ").removesuffix(")"))
    bottom = head + max(box.span[1] for box in drawn.boxes)
    assert all(0 < box.west[0] < box.east[0] < float(width) for box in drawn.boxes)
    down, scale = legend.attrib["transform"].removeprefix("translate(0 ").removesuffix(")").split(") scale(")
    texts = legend.findall(f"{SVG}text")
    assert [text.text for text in texts[: len(flows)]] == arrows(flows)
    for text in texts:
        x, y, size = (float(scale) * float(text.attrib[name]) for name in ("x", "y", "font-size"))
        assert x + 0.6 * size * len(text.text or "") <= float(width)
        assert bottom < float(down) + y - size
        assert float(down) + y < float(height)
    # Each flow has a line style of its own: eight colours, then these dashed.
    styles, legend_styles = (
        [(line.attrib["stroke"], line.attrib["stroke-dasharray"]) for line in lines]
        for lines in (drawn.flows, legend.findall(f"{SVG}line"))
    )
    assert styles == legend_styles
    assert len(set(styles)) == len(flows)
    assert len({colour for colour, _ in styles}) == min(8, len(flows))
    assert [dash == "none" for _, dash in styles] == [flow < 8 for flow in range(len(flows))]
