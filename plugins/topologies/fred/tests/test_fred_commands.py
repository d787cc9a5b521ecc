from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from functools import cached_property, partial
from itertools import pairwise
from math import ceil, log2
from pathlib import Path
from typing import Any
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


def test_draw_of_a_conflict_after_the_path_is_known_to_be_good() -> None:
    triangle = "0,2;1,4;3,5"  # pairs of microswitches 0-1, 0-2 and 1-2
    assert fails("fred", "draw", "--m", "2", "--flows", triangle, "out.svg", code=1) == (
        "fredfw: error: FRED_2(8): {0,2}->{0,2}, {1,4}->{1,4}, {3,5}->{3,5} cannot be routed together, "
        "stuck at depth 0 in the switch itself\n"
    )
    fred("draw", "--m", "3", "--flows", triangle, "out.svg")
    # The conflict would be exit code 1.
    told = refused("fred", "draw", "--m", "2", "--flows", triangle, "missing/out.svg")
    assert told.startswith("missing/out.svg: PATH")


@pytest.mark.parametrize(
    ("text", "part"), [("3;x", "x"), ("3,", "3,"), (":4", ":4"), ("4:", "4:"), ("", ""), ("1;", ""), ("1:2:3", "1:2:3")]
)
def test_texts_that_are_no_flows(text: str, part: str) -> None:
    accepted = "ports such as 3,4,5, or inputs:outputs such as 0,1:6"
    assert refused("fred", "draw", "--flows", text, "-") == f"--flows: '{part}' is not a flow (accepted: {accepted})"


def test_hardware() -> None:
    # FRED (ISCA 2025): 35 chiplets, 25,195 mm2, 179.35 W.
    table = words(fred("hardware"))
    assert [line[:4] for line in table if line[:1] in (["L1"], ["L2"])] == [
        ["L1", "3", "12", "24.512"],
        ["L1", "2", "11", "24.384"],
        ["L2", "1", "20", "60"],
    ]
    for start in ("chiplets 35 published", "area (mm2) 25195 published", "power (W) 179.35 published"):
        assert any(" ".join(line).startswith(start) for line in table)
    fred("hardware", "--set", "arity=[4, 10]", "--set", "io_controllers=0", "--json", "out.json")
    (l1, l2) = json.loads(Path("out.json").read_text())["rows"]
    assert (l1["switches"], l1["down"]["count"], l1["up"]["count"], l2["down"]["count"]) == (10, 4, 4, 40)
    document = json.loads(fred("hardware", "--json", "-"))
    assert list(document)[:2] == ["format", "version"]
    assert (document["format"], document["version"]) == ("fredfw.fred-hardware", 1)
    assert [row["switches"] for row in document["rows"]] == [3, 2, 1]
    assert document["area"] == {"value": 25195.0, "status": "published", "source": "FRED, ISCA 2025"}


def test_check_routing() -> None:
    table = words(fred("check-routing", "--m", "2"))
    assert " ".join(table[0]) == "Strategies of up to 20 NPUs, 4 per L1 switch"
    # m, placement, strategies, routable; conflicts in mp, dp, pp, mp+dp; no place, unproven.
    assert ["2", "linear", "152", "123", "0", "29", "0", "0", "0", "0"] in table
    (example,) = [line for line in table if line[2:3] == ["MP(1)-DP(2)-PP(5)"]]
    assert example[:5] == ["2", "linear", "MP(1)-DP(2)-PP(5)", "dp", "L2.0:"]
    table = words(fred("check-routing"))
    assert ["3", "linear", "152", "152", *["0"] * 6] in table
    assert table[-1] == ["none"]
    placements = ("--placement", "linear", "--placement", "routable")
    asked = ("check-routing", "--npus", "12", "--group", "3", "--m", "2", *placements)
    document = json.loads(fred(*asked, "--json", "-"))
    assert fred(*asked, "--json", "out.json").startswith("Strategies of up to 12 NPUs")
    assert json.loads(Path("out.json").read_text()) == document
    assert list(document) == ["format", "version", "npus", "group", "checks"]
    assert (document["format"], document["version"]) == ("fredfw.fred-routing", 1)
    assert (document["npus"], document["group"]) == (12, 3)
    linear, routable = document["checks"]
    keys = {"m", "placement", "strategies", "phases", "findings", "routable"}
    assert set(linear) == set(routable) == keys
    # The sum of d3(n), n = 1 .. 12.
    asked_for = [(one["m"], one["placement"], one["strategies"]) for one in (linear, routable)]
    assert asked_for == [(2, "linear", 74), (2, "routable", 74)]
    assert (routable["routable"], routable["findings"]) == (74, [])
    different = {json.dumps(finding["parallelism"]) for finding in linear["findings"]}
    assert linear["routable"] == 74 - len(different)
    for finding in linear["findings"]:
        assert set(finding) == {"parallelism", "phase", "conflict", "proven"}
        assert set(finding["parallelism"]) == {"mp", "dp", "pp"}


def test_check_routing_of_whole_wafers_and_of_one_switch() -> None:
    def checked(*arguments: str) -> Any:
        (one,) = json.loads(fred("check-routing", *arguments, "--json", "-"))["checks"]
        return one

    assert checked("--whole")["strategies"] == 18
    # d3(1) + .. + d3(6) = 1 + 3 + 3 + 6 + 3 + 9. Six NPUs and the 18 controllers are on one switch.
    single = checked("--npus", "6", "--group", "6", "--m", "2")
    assert single["strategies"] == 25
    assert single["findings"][0]["parallelism"] == {"mp": 1, "dp": 2, "pp": 3}
    assert single["findings"][0]["conflict"].startswith("L1.0: FRED_2(24): {0,3}->{0,3}, {1,4}->{1,4}, {2,5}->{2,5}")
    assert checked("--npus", "1", "--group", "1")["strategies"] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["draw", "--flows", "3,8", "-"],
            "flow: flow {3,8}->{3,8} uses input port 8, but the switch has 8 ports (accepted: 0 to 7)",
        ),
        (["draw", "--m", "1", "-"], "m: 1 is not a valid number"),
        (["hardware", "--set", "variant=Z"], "--set.variant: 'Z'"),
        (
            ["hardware", "--set", "arity=[1]", "--set", "io_controllers=0"],
            "arity: a switch at level 1 has a single port",
        ),
        (["hardware", "--json", "missing/out.json"], "missing/out.json: --json: cannot be written"),
        (["check-routing", "--npus", "21"], "--npus: 21 NPUs in groups of 4 (accepted: 4 or a multiple of it)"),
        (["check-routing", "--group", "0"], "--group: groups of 0 NPUs (accepted: 1 or more)"),
        (["check-routing", "--m", "1"], "middle_switches: 1 is not a valid number"),
        (["check-routing", "--placement", "routabel"], "no placement 'routabel'; did you mean 'routable'?"),
        (["check-routing", "--json", "missing/out.json"], "missing/out.json: --json: cannot be written"),
    ],
)
def test_bad_input(arguments: list[str], message: str) -> None:
    assert refused("fred", *arguments).startswith(message)


SIZES = [(2, 2), (2, 3), (2, 8), (3, 5), (3, 13), (4, 4), (4, 13), (2, 32)]
SVG = "{http://www.w3.org/2000/svg}"
PIN, PART, TITLE_WIDTH = 9, 40, 70
Point = tuple[float, float]


@frozen
class Box:
    """A part or a port as it is drawn: where its lines may begin and end, and what is written on it."""

    kind: str
    name: str
    west: tuple[float, float, float]  # x, and y from and to
    east: tuple[float, float, float]
    text: str
    fill: str
    title: str

    @property
    def span(self) -> tuple[float, float]:
        extra = PIN if self.kind in ("input", "output") else 0
        return min(self.west[1], self.east[1]) - extra, max(self.west[2], self.east[2]) + extra


@frozen(slots=False)
class Drawn:
    root: ET.Element

    @cached_property
    def boxes(self) -> list[Box]:
        return [box_of(group) for group in self.root.iter(f"{SVG}g") if "data-kind" in group.attrib]

    @cached_property
    def lines(self) -> list[tuple[list[Point], int | None]]:
        return [
            (points_of(line), int(group.attrib["data-flow"]) if "data-flow" in group.attrib else None)
            for group in self.root.iter(f"{SVG}g")
            for line in group.findall(f"{SVG}polyline")
        ]

    def graph(self, flow: int | None = None) -> nx.DiGraph[str]:
        """What the lines join: those of one flow, or all."""
        graph: nx.DiGraph[str] = nx.DiGraph()
        for points, number in self.lines:
            if flow is None or number == flow:
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


def touches(point: Point, side: tuple[float, float, float]) -> bool:
    """Whether a point is on a side; numbers in the picture are rounded to tenths."""
    (x, y), (at, low, high) = point, side
    return abs(x - at) <= 0.11 and low - 0.11 <= y <= high + 0.11


def rotations(ports: int) -> tuple[SwitchFlow, ...]:
    return tuple(SwitchFlow([port], [(port + 3) % ports]) for port in range(ports))


def halves(ports: int) -> tuple[SwitchFlow, ...]:
    """Two flows that meet at every microswitch, from reduction to a few and from few to many."""
    even, odd = range(0, ports, 2), range(1, ports, 2)
    return SwitchFlow(even, even[:2]), SwitchFlow(odd[-1:], odd)


def example(m: int, ports: int, flows: tuple[SwitchFlow, ...]) -> Drawn:
    return Drawn(ET.fromstring(draw(FredSwitch(m, ports).route(flows))))


@pytest.mark.parametrize(("m", "ports"), SIZES)
def test_the_lines_join_the_parts_that_are_counted_and_every_pair_of_ports(m: int, ports: int) -> None:
    drawn = example(m, ports, halves(ports))
    graph, kinds = drawn.graph(), {box.name: box.kind for box in drawn.boxes}
    assert (len(kinds), set(kinds)) == (len(drawn.boxes), set(graph))
    assert len(drawn.lines) == graph.number_of_edges()
    assert Counter(kinds.values()) == Counter(FredSwitch(m, ports).parts) + Counter(input=ports, output=ports)
    degrees = {"input": (0, 1), "output": (1, 0), "R": (2, m), "D": (m, 2), "RD": (2, 2)}
    degrees |= {"mux": (m, 1), "demux": (1, m)}
    assert {node: (graph.in_degree(node), graph.out_degree(node)) for node in graph} == {
        node: degrees[kind] for node, kind in kinds.items()
    }
    # There is one way for each choice of a middle switch at each level, and all are equally long.
    depth = ceil(log2(ports)) - 1
    order = list(nx.topological_sort(graph))
    for source in range(ports):
        ways: Counter[tuple[str, int]] = Counter({(f"in{source}", 0): 1})
        for node in order:
            for at, length in [(at, length) for at, length in ways if at == node]:
                for successor in graph.successors(node):
                    ways[successor, length + 1] += ways[at, length]
        assert {key: count for key, count in ways.items() if kinds[key[0]] == "output"} == {
            (f"out{port}", 2 * depth + 2): m**depth for port in range(ports)
        }


@pytest.mark.parametrize(("m", "ports"), [(2, 2), (2, 3), (2, 8), (3, 7), (4, 9)])
@pytest.mark.parametrize("flows_on", [rotations, halves])
def test_the_colour_of_a_flow_leads_from_each_input_to_each_output(
    m: int, ports: int, flows_on: Callable[[int], tuple[SwitchFlow, ...]]
) -> None:
    flows = flows_on(ports)
    drawn = example(m, ports, flows)
    # In words, too.
    texts = [str(flow).replace("->", " → ") for flow in flows]
    title, desc = (drawn.root.findtext(f"{SVG}{tag}") for tag in ("title", "desc"))
    assert (drawn.root.attrib["role"], title, desc) == ("img", f"FRED_{m}({ports})", f"Flows: {'; '.join(texts)}")
    groups = [group for group in drawn.root.iter(f"{SVG}g") if "data-flow" in group.attrib]
    assert {group.findtext(f"{SVG}title") for group in groups} == set(texts)
    by_name = {box.name: box for box in drawn.boxes}
    graphs = [drawn.graph(number) for number in range(len(flows))]
    doing = {}
    for graph, flow in zip(graphs, FredSwitch(m, ports).route(flows).flows, strict=True):
        sources, targets = {f"in{port}" for port in flow.inputs}, {f"out{port}" for port in flow.outputs}
        assert sources == {node for node, degree in graph.in_degree if degree == 0}
        assert targets == {node for node, degree in graph.out_degree if degree == 0}
        assert all(targets <= nx.descendants(graph, source) for source in sources)
        assert len({by_name[pin].fill for pin in sources | targets}) == 1
        for node in graph.nodes - sources - targets:
            letters = "R" * (graph.in_degree(node) == 2) + "D" * (graph.out_degree(node) == 2)
            if letters:
                doing[node] = letters, by_name[next(iter(sources))].fill, str(flow).replace("->", " → ")
    for box in drawn.boxes:
        if box.kind in ("input", "output"):
            assert box.title == f"{box.kind} {box.text}"
        elif box.name in doing:
            letters, fill, flow_text = doing[box.name]
            assert (box.text, box.fill) == (letters, fill)
            verbs = " and ".join({"R": "reduces", "D": "distributes"}[letter] for letter in letters)
            assert box.title == f"{box.name}: {verbs} {flow_text}"
        else:
            assert (box.text, box.fill) == (box.kind, "white")
            used = any(box.name in graph for graph in graphs)
            assert box.title == f"{box.name}: {'passes on' if used else 'idle'}"


@pytest.mark.parametrize(("m", "ports"), SIZES)
def test_nothing_is_on_top_of_anything_else(m: int, ports: int) -> None:
    drawn = example(m, ports, rotations(ports))
    columns: dict[float, list[tuple[float, float]]] = {}
    for box in drawn.boxes:
        columns.setdefault(box.west[0], []).append(box.span)
    assert all(right - left > PART for left, right in pairwise(sorted(columns)))
    for spans in columns.values():
        assert all(above[1] < below[0] for above, below in pairwise(sorted(spans)))
    # No line crosses the title of a frame, which is in its upper left corner.
    frames = [text for text in drawn.root.iter(f"{SVG}text") if ": FRED" in (text.text or "")]
    assert bool(frames) == (ports > 4)
    for text in frames:
        left, base = float(text.attrib["x"]), float(text.attrib["y"])
        for points, _ in drawn.lines:
            for start, end in pairwise(points):
                shares = np.clip((np.array([left, left + TITLE_WIDTH]) - start[0]) / (end[0] - start[0]), 0, 1)
                if shares[0] < shares[1]:  # passes below or above it
                    heights = start[1] + (end[1] - start[1]) * shares
                    assert heights.max() < base - 8 or heights.min() > base + 3


@pytest.mark.parametrize(("m", "ports"), [(2, 2), (2, 8), (3, 7), (3, 17), (2, 32), (4, 17)])
@pytest.mark.parametrize("flows_on", [rotations, halves])
def test_legend_and_drawing_fit_the_page(m: int, ports: int, flows_on: Callable[[int], tuple[SwitchFlow, ...]]) -> None:
    flows = flows_on(ports)
    drawn = example(m, ports, flows)
    width, height = float(drawn.root.attrib["width"]), float(drawn.root.attrib["height"])
    assert drawn.root.attrib["viewBox"] == f"0 0 {drawn.root.attrib['width']} {drawn.root.attrib['height']}"
    drawing, legend = (group for group in drawn.root.findall(f"{SVG}g") if "transform" in group.attrib)
    head = float(drawing.attrib["transform"].removeprefix("translate(0 ").removesuffix(")"))
    bottom = head + max(box.span[1] for box in drawn.boxes)
    assert all(0 < box.west[0] < box.east[0] < width for box in drawn.boxes)
    down, scale = legend.attrib["transform"].removeprefix("translate(0 ").removesuffix(")").split(") scale(")
    texts = legend.findall(f"{SVG}text")
    assert [text.text for text in texts[: len(flows)]] == [str(flow).replace("->", " → ") for flow in flows]
    for text in texts:
        x, y, size = (float(scale) * float(text.attrib[name]) for name in ("x", "y", "font-size"))
        assert x + 0.6 * size * len(text.text or "") <= width
        assert bottom < float(down) + y - size
        assert float(down) + y < height


def test_each_flow_has_a_line_style_of_its_own() -> None:
    drawn = example(2, 32, rotations(32))
    groups = [group for group in drawn.root.iter(f"{SVG}g") if "data-flow" in group.attrib]
    styles = [(group.attrib["stroke"], group.attrib["stroke-dasharray"]) for group in groups]
    assert len(set(styles)) == 32
    assert len({colour for colour, _ in styles}) == 8
    assert {dash for _, dash in styles[:8]} == {"none"}
    legend = [line.attrib for line in drawn.root.iter(f"{SVG}line")]
    assert [(line["stroke"], line["stroke-dasharray"]) for line in legend] == styles


@pytest.mark.parametrize(("m", "ports"), [(2, 2), (3, 8)])
def test_an_idle_switch_is_drawn_in_grey(m: int, ports: int) -> None:
    drawn = example(m, ports, ())
    assert drawn.root.findtext(f"{SVG}desc") == "Flows: none"
    assert {number for _, number in drawn.lines} == {None}
    assert {box.fill for box in drawn.boxes} == {"white"}
