"""A topology file of SimAI, or of ASTRA-sim's ns-3 backend: nodes, switches and links."""

from __future__ import annotations

import math

from attrs import frozen

from fredfw import units
from fredfw.errors import InputError

_FORM = (
    "a first line 'nodes GPUs-of-a-server NVSwitches switches links GPU' (SimAI) or 'nodes switches links' (ns-3), a "
    "line of switches, and a line 'source destination 400Gbps 0.0005ms 0' for each link"
)
_SIMAI, _NS3 = 6, 3
_MOST = 1 << 31


@frozen
class Listing:
    """What a file has.

    Args:
        nodes: How many there are.
        per_server: GPUs of a server; 0 in a file for ns-3.
        nvswitches: Numbers of the NVSwitches.
        switches: Numbers of the other switches.
        links: Both ends, bytes per second, seconds and error rate of each link, which goes both ways.
    """

    nodes: int
    per_server: int
    nvswitches: tuple[int, ...]
    switches: tuple[int, ...]
    links: tuple[tuple[int, int, float, float, float], ...]


def read(text: str) -> Listing:
    """Return what is in a topology file; raises ``InputError`` that names line, value and what is accepted."""
    lines = [(number, words) for number, line in enumerate(text.splitlines(), 1) if (words := line.split())]
    if not lines:
        raise InputError("is empty", accepted=_FORM)
    number, head = lines[0]
    if len(head) not in (_SIMAI, _NS3):
        raise _wrong(number, f"{len(head)} values, not {_SIMAI} or {_NS3}")
    counts = [_whole(word, number, _MOST) for word in head[:5]]
    nodes, links = counts[0], counts[-1]
    per_server, nvswitches, others = (counts[1], counts[2], counts[3]) if len(head) == _SIMAI else (0, 0, counts[1])
    listed: list[int] = []
    place = 1
    while len(listed) < nvswitches + others and place < len(lines):
        number, words = lines[place]
        listed += [_whole(word, number, nodes) for word in words]
        place += 1
    if len(listed) != nvswitches + others or len(set(listed)) < len(listed):
        raise _wrong(number, f"{len(set(listed))} different switches, not {nvswitches + others}")
    found = tuple(_link(words, number, nodes) for number, words in lines[place:])
    if len(found) != links:
        raise InputError(f"{len(found)} links, and the first line says {links}", accepted=_FORM)
    return Listing(nodes, per_server, tuple(listed[:nvswitches]), tuple(listed[nvswitches:]), found)


def _link(words: list[str], number: int, nodes: int) -> tuple[int, int, float, float, float]:
    if len(words) not in (4, 5):
        raise _wrong(number, f"{len(words)} values, not 5")
    source, destination = (_whole(word, number, nodes) for word in words[:2])
    if source == destination:
        raise _wrong(number, f"both ends are {source}", "two different nodes")
    quantities = []
    for word, unit in zip(words[2:4], (units.Unit.BYTES_PER_SECOND, units.Unit.SECONDS), strict=True):
        try:
            value = units.parse(word, unit)
        except InputError as error:
            raise _wrong(number, error.message, error.accepted) from None
        if value < 0 or (value == 0 and unit is units.Unit.BYTES_PER_SECOND):
            raise _wrong(number, f"{word!r} is too small", units.accepted(unit))
        quantities.append(value)
    try:
        rate = float(words[4]) if len(words) > 4 else 0.0
    except ValueError:
        rate = math.nan
    if not 0 <= rate < 1:
        raise _wrong(number, f"{words[4]!r} is not an error rate", "0 or more, below 1")
    return source, destination, quantities[0], quantities[1], rate


def _whole(word: str, number: int, below: int) -> int:
    if not (word.isascii() and word.isdecimal()) or len(word) > 10 or int(word) >= below:
        raise _wrong(number, f"{word[:20]!r} is refused", f"a whole number below {below}")
    return int(word)


def _wrong(line: int, message: str, accepted: str | None = _FORM) -> InputError:
    return InputError(f"line {line}: {message}", accepted=accepted)
