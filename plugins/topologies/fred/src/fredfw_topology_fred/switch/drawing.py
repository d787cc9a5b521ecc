"""A picture of a routed switch, like the paper's figure: the recursion as nested frames, each flow in its colour."""

from collections.abc import Mapping, Sequence
from functools import cache
from xml.etree import ElementTree as ET

from fredfw_topology_fred.switch.configuration import SwitchConfiguration, SwitchFlow
from fredfw_topology_fred.switch.routing import FredSwitch

# Okabe and Ito, "Color Universal Design" (2008), the palest last; beside each the ink that is readable on it.
PALETTE = (
    ("#0072B2", "white"),
    ("#D55E00", "black"),
    ("#009E73", "black"),
    ("#CC79A7", "black"),
    ("#E69F00", "black"),
    ("#56B4E9", "black"),
    ("#000000", "white"),
    ("#F0E442", "black"),
)
DASHES = ("none", "10 5", "3 4", "12 4 3 4")  # one for each time that the palette is used up

PAPER, GREY, INK = "white", "#B0B0B0", "#333333"
FONT, SMALL = 12, 10
LETTER = 0.62  # generous width of a letter, in font sizes: nothing here can measure text

MARGIN = 20
PIN = 9  # radius of a port
LEAD = 24  # line between a port and its microswitch
BOX = 40  # width of a microswitch
SPACE = 14  # between things above each other
PAD = 14  # between a frame and what is inside
TITLE = 20  # room for the title of a frame
ROW = 20  # of title and legend
SWATCH = 34  # of the legend
READABLE = 1500  # width up to which title and legend keep their size

JOBS = {"R": "reduces", "D": "distributes"}
KEY = ("filled: reduces (R), distributes (D), both (RD)", "outlined: passes values on; grey: idle")


def draw(configuration: SwitchConfiguration) -> str:
    """Return an SVG, the flows in colour, inputs on the left; equal configurations give equal text."""
    m, ports, flows = configuration.m, configuration.ports, configuration.flows
    width, height = _size(m, ports)
    left = MARGIN + 2 * PIN + LEAD
    right = left + width
    picture = _Picture(m, flows)
    flow_of = {flow: number for number, flow in enumerate(flows)}
    heights = picture.switch(configuration, flow_of, "", left, 0)
    for side, near, away in (("inputs", left, -1), ("outputs", right, 1)):
        users = _users(flow_of, side)
        rim, centre = near + away * LEAD, near + away * (LEAD + PIN)
        _element(picture.parts, "text", side, x=centre, y=heights[0] - PIN - 6, font_size=SMALL, fill=INK)
        for port, y in enumerate(heights):
            picture.line(sorted([(rim, y), (near, y)]), users.get(port))
            picture.port(side.removesuffix("s"), port, centre, y, users.get(port))
    return _page(picture, ports, right + LEAD + 2 * PIN + MARGIN, height)


@cache
def _size(m: int, ports: int) -> tuple[float, float]:
    if ports == 2:
        return BOX, _box(m)
    half = -(-ports // 2)
    width, height = _frame(m, half)
    height = max(m * (height + SPACE), half * (_box(m) + SPACE)) - SPACE
    gap = 40 + 4 * m + height / 6  # room for the lines between two stages: the more of them and the steeper, the more
    return width + 2 * (BOX + gap), height


def _frame(m: int, ports: int) -> tuple[float, float]:
    """Return width and height of a middle switch with its frame; a single microswitch has none."""
    width, height = _size(m, ports)
    return (width, height) if ports == 2 else (width + 2 * PAD, height + TITLE + PAD)


def _box(m: int) -> float:
    """Return the height of a microswitch: room for two ports at its side, and for m lines."""
    return max(4 * PIN + 4, 10 * m)


def _spread(centre: float, height: float, count: int) -> list[float]:
    return [centre + height * ((at + 0.5) / count - 0.5) for at in range(count)]


def _users(flow_of: Mapping[SwitchFlow, int], side: str) -> dict[int, int]:
    return {port: number for flow, number in flow_of.items() for port in getattr(flow, side)}


def _arrow(flow: SwitchFlow) -> str:
    return str(flow).replace("->", " \N{RIGHTWARDS ARROW} ")


def _stroke(number: int) -> dict[str, str]:
    return {
        "stroke": PALETTE[number % len(PALETTE)][0],
        "stroke-dasharray": DASHES[number // len(PALETTE) % len(DASHES)],
        "stroke-width": "3",
    }


def _element(parent: ET.Element, tag: str, text: str = "", **attributes: str | float) -> ET.Element:
    """Add an element; underscores in names of attributes become hyphens."""
    element = ET.SubElement(parent, tag)
    for name, value in attributes.items():
        element.set(name.replace("_", "-"), value if isinstance(value, str) else _number(value))
    element.text = text or None
    element.tail = None if tag == "tspan" else "\n"  # one line per element, but no space within a text
    return element


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _points(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{_number(x)},{_number(y)}" for x, y in points)


def _name(parent: ET.Element, m: int, ports: int, x: float, y: float, size: float, before: str = "") -> None:
    text = _element(parent, "text", f"{before}FRED", x=x, y=y, font_size=size, fill=INK)
    _element(text, "tspan", str(m), dy=0.2 * size, font_size=0.75 * size)
    _element(text, "tspan", f"({ports})", dy=-0.2 * size)


class _Picture:
    """What is drawn so far, the top of the switch at y = 0."""

    def __init__(self, m: int, flows: Sequence[SwitchFlow]) -> None:
        self.m, self.flows = m, flows
        self.drawing = ET.Element("g")
        # The layers, the lowest first.
        self.frames = _element(self.drawing, "g", "\n")
        self.idle = _element(self.drawing, "g", "\n", fill="none", stroke=GREY)
        self.routes: list[ET.Element] = []
        for number, flow in enumerate(self.flows):
            self.routes.append(_element(self.drawing, "g", "\n", fill="none", data_flow=str(number), **_stroke(number)))
            _element(self.routes[-1], "title", _arrow(flow))
        self.parts = _element(self.drawing, "g", "\n", text_anchor="middle")

    def switch(
        self, configuration: SwitchConfiguration, flow_of: Mapping[SwitchFlow, int], path: str, left: float, top: float
    ) -> list[float]:
        """Draw a switch whose upper left corner is at ``left``, ``top``; return y of each port, alike on both sides.

        ``flow_of`` is the number of each of its flows in the whole picture, ``path`` the middle switches that it is in.
        """
        m, ports = self.m, configuration.ports
        width, height = _size(m, ports)
        far = left + width - BOX
        inputs, outputs = _users(flow_of, "inputs"), _users(flow_of, "outputs")
        if ports == 2:
            self.part("RD", f"{path}RD", left, top + height / 2, {"R": inputs, "D": outputs}, (0, 1))
            return _spread(top + height / 2, _box(m), 2)

        half = -(-ports // 2)
        centres = _spread(top + height / 2, height, half)
        heights: list[float] = []
        for at, y in enumerate(centres):
            pair = range(2 * at, min(2 * at + 2, ports))
            kinds, number = (("R", "D"), str(at)) if len(pair) == 2 else (("demux", "mux"), "")
            for kind, job, users, x in zip(kinds, "RD", (inputs, outputs), (left, far), strict=True):
                self.part(kind, f"{path}{kind}{number}", x, y, {job: users}, pair)
            heights += _spread(y, _box(m), len(pair))

        frame_width, frame_height = _frame(m, half)
        frame = left + (width - frame_width) / 2
        inset = (frame_width - _size(m, half)[0]) / 2
        lines = [_spread(y, _box(m), m) for y in centres]
        for middle, y in enumerate(_spread(top + height / 2, m * (frame_height + SPACE), m)):
            inner_top = y - frame_height / 2
            if inset:
                self.frame(middle, half, frame, inner_top)
                inner_top += TITLE
            inner = configuration.middles[middle] or FredSwitch(m, half).idle()
            carries = zip(configuration.flows, configuration.carriers, strict=True)
            carried = {flow.inside(): flow_of[flow] for flow, carrier in carries if carrier == middle}
            ends = self.switch(inner, carried, f"{path}{middle}/", frame + inset, inner_top)
            inputs, outputs = _users(carried, "inputs"), _users(carried, "outputs")
            for port, end in enumerate(ends):
                way = [(BOX, lines[port][middle]), *((x - left, end) for x in sorted({frame, frame + inset}))]
                self.line([(left + x, y) for x, y in way], inputs.get(port))
                self.line([(left + width - x, y) for x, y in reversed(way)], outputs.get(port))
        return heights

    def frame(self, middle: int, ports: int, left: float, top: float) -> None:
        width, height = _frame(self.m, ports)
        shade = {"fill": "black", "fill_opacity": "0.03", "stroke": GREY}
        _element(self.frames, "rect", x=left, y=top, width=width, height=height, rx=6, **shade)
        _name(self.frames, self.m, ports, left + PAD, top + TITLE - 6, SMALL, f"{middle}: ")

    def line(self, points: Sequence[tuple[float, float]], number: int | None) -> None:
        _element(self.idle if number is None else self.routes[number], "polyline", points=_points(points))

    def port(self, word: str, port: int, x: float, y: float, number: int | None) -> None:
        fill, ink = (PAPER, INK) if number is None else PALETTE[number % len(PALETTE)]
        pin = _element(self.parts, "g", data_kind=word)
        _element(pin, "title", f"{word} {port}")
        _element(pin, "circle", cx=x, cy=y, r=PIN, fill=fill, stroke=GREY if number is None else INK)
        _element(pin, "text", str(port), x=x, y=y + 3.5, font_size=SMALL, fill=ink)

    def part(
        self, kind: str, name: str, left: float, y: float, jobs: Mapping[str, Mapping[int, int]], ports: Sequence[int]
    ) -> None:
        # ``kind`` is written on it as long as it only passes values on. ``jobs`` are the letters of what it does to a
        # flow at both its ports, and the flows at the ports of that side, whose middle is at ``left``, ``y``.
        height = _box(self.m)
        at = {job: [users.get(port) for port in ports] for job, users in jobs.items()}
        done = {job: one for job, (one, *other) in at.items() if other == [one] and one is not None}
        used = any(number is not None for both in at.values() for number in both)
        fill, ink = PAPER, INK if used else GREY
        does = "passes on" if used else "idle"
        if done:
            number = next(iter(done.values()))
            fill, ink = PALETTE[number % len(PALETTE)]
            does = f"{' and '.join(JOBS[job] for job in done)} {_arrow(self.flows[number])}"
        box = _element(self.parts, "g", data_kind=kind, data_name=name)
        _element(box, "title", f"{name}: {does}")
        # A demultiplexer widens from its input to its lines, a multiplexer narrows.
        west, east = {"demux": (height / 4, height / 2), "mux": (height / 2, height / 4)}.get(kind, (height / 2,) * 2)
        corners = [(left, y - west), (left + BOX, y - east), (left + BOX, y + east), (left, y + west)]
        edge = {"stroke": INK if used else GREY, "stroke_width": "1.5", "stroke_linejoin": "round"}
        _element(box, "polygon", points=_points(corners), fill=fill, **edge)
        size = FONT if len(kind) <= 2 else SMALL - 1  # "demux" has to fit
        middle, weight = left + BOX / 2, "bold" if done else "normal"
        text = "".join(done) or kind
        _element(box, "text", text, x=middle, y=y + 0.35 * size, font_size=size, fill=ink, font_weight=weight)


def _page(picture: _Picture, ports: int, width: float, height: float) -> str:
    m, texts = picture.m, [_arrow(flow) for flow in picture.flows]
    entry = SWATCH + MARGIN + LETTER * FONT * max(map(len, texts), default=0)
    scale = max(1.0, width / READABLE)
    width = max(width, scale * (2 * MARGIN + max(entry, *(LETTER * SMALL * len(line) for line in KEY))))
    columns = int((width / scale - 2 * MARGIN) // entry)
    rows = -(-len(texts) // columns)
    head, foot = scale * 3 * ROW, scale * (2 + rows + len(KEY)) * ROW
    size = _number(width), _number(head + height + foot)

    svg = ET.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "viewBox": f"0 0 {' '.join(size)}", "role": "img"})
    svg.text = svg.tail = "\n"
    svg.attrib |= {"width": size[0], "height": size[1], "font-family": "sans-serif"}
    _element(svg, "title", f"FRED_{m}({ports})")
    _element(svg, "desc", f"Flows: {'; '.join(texts) or 'none'}")
    _element(svg, "rect", width="100%", height="100%", fill=PAPER)
    _name(svg, m, ports, scale * MARGIN, scale * 1.5 * ROW, scale * 1.5 * FONT)
    picture.drawing.set("transform", f"translate(0 {_number(head)})")
    svg.append(picture.drawing)
    legend = _element(svg, "g", "\n", transform=f"translate(0 {_number(head + height)}) scale({scale:.3f})", fill=INK)
    for number, text in enumerate(texts):
        x, y = MARGIN + number // rows * entry, (2 + number % rows) * ROW
        _element(legend, "line", x1=x, x2=x + SWATCH - 10, y1=y - 4, y2=y - 4, **_stroke(number))
        _element(legend, "text", text, x=x + SWATCH, y=y, font_size=FONT)
    for line, text in enumerate(KEY):
        _element(legend, "text", text, x=MARGIN, y=(2.2 + rows + line) * ROW, font_size=SMALL)
    return ET.tostring(svg, encoding="unicode")
