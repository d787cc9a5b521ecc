"""Pictures as SVG: stacked bars, lines, maps of colours and points. Text takes the colour of the page."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias
from xml.etree.ElementTree import Element, SubElement, tostring

from fredfw.drawing import LINES, Axis, Bars, Curves, Dots, HeatMap, Picture, colours, line_colour

_Place: TypeAlias = Callable[[float], float]
_WIDTH = 640.0
_LABEL = 190.0  # of bars
_LETTERS = 27  # that fit there
_RIGHT = 112.0  # for what stands behind a bar
_BAR = 20.0
_AXIS = 40.0
_LEFT = 74.0
_HEIGHT = 260.0
_TICKS = 5
_BLACK = "#000000"
_INK = "currentColor"
_DASHES = {"stroke_dasharray": "5 3"}
_DECADES = 2.0  # from here on, ticks are powers of ten alone
# Of a map: from the worst to the best; both ends carry text in one colour each.
_WORST, _BEST = (20, 40, 90), (250, 220, 90)
_DARK = 0.5


def _bars(one: Bars) -> _Canvas:
    axis, end = one.axis, one.end or 1.0
    height = _BAR * len(one.bars) + _AXIS
    room = _WIDTH - _LABEL - _RIGHT
    picture = _Canvas(height, f"{axis.name}, as bars")
    place = _placed([0.0, end], _LABEL, _LABEL + room, log=False)
    for tick in _ticks(0.0, end, log=False):
        picture.rule(place(tick), 0, place(tick), height - _AXIS + 4)
        picture.write(place(tick), height - _AXIS + 18, axis.text(tick), anchor="middle")
    picture.write(_LABEL + room / 2, height - 6, axis.name, anchor="middle")
    known = colours([one])
    for number, bar in enumerate(one.bars):
        top = _BAR * number
        group = picture.group(f"{bar.name}: {bar.note}".removesuffix(": "))
        look = {"font_weight": "bold"} if bar.strong else {}
        picture.write(_LABEL - 8, top + 14, _cut(bar.name), group, anchor="end", **look)
        left = 0.0
        for cause, colour in known.items():
            length = bar.parts.get(cause, 0.0)
            if length > 0:
                at = place(left)
                wide = max(place(left + length) - at, 0.0)
                picture.add("rect", group, x=at, y=top + 3, width=wide, height=_BAR - 6, fill=ink(colour))
                left += length
        if bar.fitted:
            around: dict[str, float | str] = {"fill": "none", "stroke": _INK, "stroke_width": 2, **_DASHES}
            wide = max(place(left) - _LABEL, 0.0)
            picture.add("rect", group, x=_LABEL, y=top + 3, width=wide, height=_BAR - 6, **around)
        if bar.mark is not None:
            picture.diamond(place(bar.mark), top + _BAR / 2)
        picture.write(place(max(left, bar.mark or 0.0)) + 8, top + 14, bar.note, group, **look)
    return picture


def _curves(one: Curves) -> _Canvas:
    across, up = one.across, one.up
    values = [*one.values, *(value for _, value in one.marks)]
    frame, at_x, at_y = _framed(one.places, values, across, up)
    for number, line in enumerate(one.series):
        colour = ink(line_colour(number))
        if line.level is not None:
            y = at_y(line.level)
            frame.rule(_LEFT, y, _WIDTH - 12, y, colour=colour, width=1.5, dashed=True)
            continue
        points = [(at_x(place), at_y(value)) for place, value in line.points]
        frame.path(points, colour, dashed=number >= len(LINES))
        rings = [(at_x(place), at_y(value)) for place, value in line.measured]
        for x, y in rings:
            frame.add("circle", cx=x, cy=y, r=3.2, fill="none", stroke=colour)
        for x, y in () if rings else points:
            frame.add("circle", cx=x, cy=y, r=3.2, fill=colour)
    for place, value in one.marks:
        frame.diamond(at_x(place), at_y(value))
    return frame


def _dots(one: Dots) -> _Canvas:
    across, up = one.across, one.up
    xs, ys = [dot.x for dot in one.dots], [dot.y for dot in one.dots]
    if one.diagonal:
        xs = ys = [*xs, *ys]
    frame, at_x, at_y = _framed(xs, ys, across, up)
    if one.diagonal:
        low, high = min(xs), max(xs)
        frame.rule(at_x(low), at_y(low), at_x(high), at_y(high), dashed=True)
    front = sorted((at_x(dot.x), at_y(dot.y)) for dot in one.dots if dot.strong)
    if front:
        frame.path(front, _INK, dashed=True)
    for dot in one.dots:
        radius = 5.0 if dot.strong else 3.2
        group = frame.group(dot.name)
        frame.add("circle", group, cx=at_x(dot.x), cy=at_y(dot.y), r=radius, fill=ink(dot.colour))
    return frame


def _heat(one: HeatMap) -> _Canvas:
    down, across, shades = one.down.name, one.across.name, one.shades
    rows, columns = one.down.places, one.across.places
    square = 26.0
    height = square * len(rows) + _AXIS
    left = 30.0 + min(7.0 * max(map(len, rows)), _LABEL)
    wide = (_WIDTH - left - 8) / len(columns)
    picture = _Canvas(height, f"{down} by {across}, as a map of colours")
    picture.write_upwards(12, square * len(rows) / 2, down)
    for number, row in enumerate(rows):
        picture.write(left - 6, square * (number + 0.5) + 4, row, anchor="end")
        for index, column in enumerate(columns):
            if (row, column) not in shades:
                continue
            text, shade = one.axis.text(one.values[row, column]), shades[row, column]
            parts = (round(low + (high - low) * shade) for low, high in zip(_WORST, _BEST, strict=True))
            at = left + wide * index
            group = picture.group(f"{down} {row}, {across} {column}: {text}")
            fill = "#{:02x}{:02x}{:02x}".format(*parts)
            picture.add("rect", group, x=at, y=square * number, width=wide, height=square, fill=fill)
            letters = "#ffffff" if shade < _DARK else _BLACK
            picture.write(at + wide / 2, square * (number + 0.5) + 4, text, group, anchor="middle", fill=letters)
    for index, column in enumerate(columns):
        picture.write(left + wide * (index + 0.5), height - _AXIS + 16, column, anchor="middle")
    picture.write(left + (_WIDTH - left) / 2, height - 6, across, anchor="middle")
    return picture


def ink(colour: str) -> str:
    return _INK if colour == _BLACK else colour


class _Canvas:
    """An SVG element that grows."""

    def __init__(self, height: float, label: str) -> None:
        box = f"0 0 {_number(_WIDTH)} {_number(height)}"
        about = {"xmlns": "http://www.w3.org/2000/svg", "viewBox": box, "role": "img", "aria-label": label}
        self.root = Element("svg", {**about, "font-size": "12"})

    def group(self, title: str) -> Element:
        group = self.add("g")
        SubElement(group, "title").text = _printable(title)
        return group

    def write(
        self, x: float, y: float, text: str, into: Element | None = None, *, anchor: str = "start", **look: str
    ) -> None:
        self.add("text", into, x=x, y=y, text_anchor=anchor, **{"fill": _INK, **look}).text = _printable(text)

    def write_upwards(self, x: float, y: float, text: str) -> None:
        self.write(x, y, text, anchor="middle", transform=f"rotate(-90 {_number(x)} {_number(y)})")

    def rule(
        self, x: float, y: float, to_x: float, to_y: float, *, colour: str = "", width: float = 1, dashed: bool = False
    ) -> None:
        """Draw a straight line; without a colour, as faint as a grid."""
        look = {"stroke_width": _number(width), **(_DASHES if dashed else {}), "stroke": colour or _INK}
        if not colour:
            look["stroke_opacity"] = "0.5" if dashed else "0.15"
        self.add("line", x1=x, y1=y, x2=to_x, y2=to_y, **look)

    def path(self, points: Sequence[tuple[float, float]], colour: str, *, dashed: bool = False) -> None:
        look = {"fill": "none", "stroke": colour, "stroke_width": "1.8", **(_DASHES if dashed else {})}
        self.add("polyline", points=_joined(points), **look)

    def diamond(self, x: float, y: float) -> None:
        corners = [(x + a, y + b) for a, b in ((0, -5), (5, 0), (0, 5), (-5, 0))]
        self.add("polygon", points=_joined(corners), fill="#ffffff", stroke=_BLACK)

    def add(self, tag: str, into: Element | None = None, /, **look: float | str) -> Element:
        written = {name.replace("_", "-"): one if isinstance(one, str) else _number(one) for name, one in look.items()}
        return SubElement(self.root if into is None else into, tag, written)


def _framed(xs: Sequence[float], ys: Sequence[float], across: Axis, up: Axis) -> tuple[_Canvas, _Place, _Place]:
    """Return a picture with two axes, and what turns numbers on each of them into places; round ones begin at 0."""
    xs, ys = (one if axis.log or axis.places else [0.0, *one] for one, axis in ((xs, across), (ys, up)))
    right, bottom = _WIDTH - 12, _HEIGHT
    frame = _Canvas(_HEIGHT + _AXIS, f"{up.name} over {across.name}")
    at_x = _placed(xs, _LEFT, right, log=across.log, margin=0.04)
    at_y = _placed(ys, bottom, 12, log=up.log, margin=0.06)
    rounded = {one: across.text(one) for one in _ticks(min(xs), max(xs), log=across.log)}
    ticks = {place: text for text, place in across.places.items()} or rounded
    for place, text in [*ticks.items()][:: math.ceil(len(ticks) / 8)]:
        frame.rule(at_x(place), 12, at_x(place), bottom)
        frame.write(at_x(place), bottom + 16, text, anchor="middle")
    for value in _ticks(min(ys), max(ys), log=up.log):
        frame.rule(_LEFT, at_y(value), right, at_y(value))
        frame.write(_LEFT - 6, at_y(value) + 4, up.text(value), anchor="end")
    frame.write((_LEFT + right) / 2, bottom + 34, across.name, anchor="middle")
    frame.write_upwards(12, (12 + bottom) / 2, up.name)
    return frame, at_x, at_y


def _placed(values: Sequence[float], start: float, end: float, *, log: bool, margin: float = 0.0) -> _Place:
    form = math.log10 if log else float
    low, high = form(min(values)), form(max(values))
    wide = (high - low) or 1.0
    low, wide = low - wide * margin * (low != 0 or log), wide * (1 + margin * (1 + (low != 0 or log)))
    return lambda value: start + (form(value) - low) / wide * (end - start)


def _ticks(low: float, high: float, *, log: bool) -> list[float]:
    if log:
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
        digits = (1,) if math.log10(high / low) > _DECADES else (1, 2, 5)
        step = max(1, -((first - last) // 6))
        found = [digit * 10.0**power for power in range(first, last + 1, step) for digit in digits]
        return [one for one in found if low * 0.999 <= one <= high * 1.001] or [low, high]
    if high <= low:
        return [low]
    raw = (high - low) / _TICKS
    power = 10.0 ** math.floor(math.log10(raw))
    width = next(one for one in (1, 2, 5, 10) if raw <= one * power * (1 + 1e-9)) * power
    return [number * width for number in range(math.ceil(low / width - 1e-9), math.floor(high / width + 1e-9) + 1)]


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _cut(text: str) -> str:
    return text if len(text) <= _LETTERS else f"{text[: _LETTERS - 3].rstrip()}..."


def _printable(text: str) -> str:
    """Return ``text`` without the control characters that XML does not allow."""
    return "".join(one if one.isprintable() else " " for one in text)


def _joined(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{_number(x)},{_number(y)}" for x, y in points)


_DRAW: dict[type, Callable[[Any], _Canvas]] = {Bars: _bars, Curves: _curves, Dots: _dots, HeatMap: _heat}


def drawn(picture: Picture) -> str:
    return tostring(_DRAW[type(picture)](picture).root, encoding="unicode")
