"""Tables of measured collectives: CSV with a line for each time, or what nccl-tests prints.

Sizes are bytes and times are microseconds, as the names of the columns say.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import starmap
from typing import TypeVar

from attrs import evolve, frozen

from fredfw.collectives import Pattern
from fredfw.errors import InputError, nearest, placed
from fredfw.files import read_bounded
from fredfw.lines import TIME, Line, lines
from fredfw.units import counted
from fredfw.validation import nccl_tests
from fredfw.validation.points import SENDRECV, CollectivePoint, Point, System, find_system, pattern_of

REQUIRED = ("system", "nodes", "ranks", "collective", "size_B", "time_us")
OPTIONAL = ("ranks_per_node", "time_inplace_us", "algbw_GBps", "busbw_GBps", "source", "library")
PATTERNS = (*(str(one) for one in Pattern if one is not Pattern.POINT_TO_POINT), SENDRECV)  # names of operations

_QUANTITIES = ("size", "time", "algbw", "busbw")  # columns that begin like these have their unit in the name
# How far algbw, and how far busbw, may be from what follows from size and time: a share, and what rounding to two
# decimals of GB/s does. Another unit is off by a thousand, another number of ranks by a few per cent.
_ALGBW_SHARE, _BUSBW_SHARE, _ROUNDED = 0.05, 0.01, 0.011
_ACCEPTED = f"CSV with the columns {', '.join(REQUIRED)} (and {', '.join(OPTIONAL)}), or the output of nccl-tests"


@frozen
class Reading:
    """How a table is read."""

    system: str | None = None  # name of that of all lines, instead of what they say
    pattern: str | None = None  # of nccl-tests' output that does not name its program
    in_place: bool = False  # whether times in place are wanted, where a line has both
    presets: tuple[str, ...] = ()  # of the topology ``cluster``, which may be systems
    own: System | None = None  # the system of all lines, whatever they say


P = TypeVar("P", bound=Point)


def read(path: str, parse: Callable[[str, str], Sequence[P]]) -> list[P]:
    try:
        data = read_bounded(path)
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("is not text in UTF-8", file=path, accepted=_ACCEPTED) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=path, accepted=_ACCEPTED) from None
    source = path.replace("\\", "/").rpartition("/")[2]
    with placed(file=path):
        points = parse(text, source)
    known = digest(data)
    return [evolve(point, where=f"{path}: {point.where}", table=known) for point in points]


def digest(table: bytes) -> str:
    """Return what a point, and a transport that was fitted to it, know its table by."""
    return hashlib.sha256(table).hexdigest()[:16]


def parse(text: str, source: str, reading: Reading | None = None) -> list[CollectivePoint]:
    reading = reading or Reading()
    found: Iterable[Line] = (
        starmap(Line, nccl_tests.rows(text, reading.pattern))
        if nccl_tests.recognised(text)
        else lines(text, lambda header: _check_header(header, reading))
    )
    points = [_point(line, source, reading) for line in found]
    if not points:
        raise InputError("has no measured times", accepted=_ACCEPTED)
    return points


def _check_header(header: Sequence[str], reading: Reading) -> None:
    key = "line 1"
    known = (*REQUIRED, *OPTIONAL)
    if not set(header).intersection(known):
        raise InputError("is not the header of a table", key=key, accepted=_ACCEPTED)
    for name in header:
        stem = name.partition("_")[0]
        if stem in _QUANTITIES and name not in known:
            accepted = ", ".join(one for one in known if one.startswith(stem))
            raise InputError(f"the column {name!r} has another unit, or none", key=key, accepted=accepted)
        if name in known and header.count(name) > 1:
            raise InputError(f"there are {header.count(name)} columns {name!r}", key=key, accepted="one")
    given = {"system": bool(reading.system or reading.own), "nodes": "ranks_per_node" in header}
    for name in REQUIRED:
        if name not in header and not given.get(name):
            other = {"system": ", or --system", "nodes": ", or ranks_per_node"}.get(name, "")
            raise InputError(f"there is no column {name!r}", key=key, accepted=f"{', '.join(REQUIRED)}{other}")


def _point(line: Line, source: str, reading: Reading) -> CollectivePoint:
    nodes, ranks = _group(line)
    pattern = line["collective"]
    if pattern not in PATTERNS:
        raise line.refusal("collective", f"{pattern!r} is not known{nearest(pattern, PATTERNS)}", ", ".join(PATTERNS))
    size = line.quantity("size_B", "a number of bytes above 0, without a unit")
    if line["time_us"]:
        _check_bandwidths(line, pattern, ranks, size / line.seconds("time_us") / 1e9)
    system = system_of(line, nodes, reading)
    return CollectivePoint(
        system=system,
        source=line["source"] or source,
        pattern=pattern,
        nodes=nodes,
        ranks=ranks,
        seconds=_seconds(line, reading),
        where=f"line {line.number}",
        stated=_stated(line, nodes, system, reading),
        size=size,
        library=line["library"],
    )


def _group(line: Line) -> tuple[int, int]:
    ranks = line.count("ranks", 2)
    each = line.count("ranks_per_node", 1) if line["ranks_per_node"] else None
    nodes = ranks // each if each and not line["nodes"] else line.count("nodes", 1)
    if nodes < 1 or ranks % nodes or (each and each * nodes != ranks):
        parts = counted(nodes, "node") if each is None else f"{counted(nodes, 'node')} with {each} each"
        raise line.refusal("ranks", f"{ranks} ranks are not on {parts}", "as many ranks on each of the nodes")
    return nodes, ranks


def _seconds(line: Line, reading: Reading) -> float:
    """Return the time that is wanted; where there is only the other one, that."""
    columns = ("time_us", "time_inplace_us")
    times = {column: line.seconds(column) for column in columns if line[column]}
    if not times:
        raise line.refusal("time_us", "there is no time", TIME)
    return times.get(columns[reading.in_place], next(iter(times.values())))


def _check_bandwidths(line: Line, pattern: str, ranks: int, algbw: float) -> None:
    """Make sure that bandwidths belong to ``algbw``, size / time in GB/s, and to the ranks; raises ``InputError``."""
    transfer = f"{line['size_B']} B in {line['time_us']} us"
    if not _agrees(line, "algbw_GBps", algbw, _ALGBW_SHARE):
        accepted = "size_B in bytes, time_us in microseconds, algbw_GBps in 10^9 bytes per second"
        raise line.refusal("algbw_GBps", f"{line['algbw_GBps']} is not {transfer}, which is {algbw:.4g}", accepted)
    busbw = pattern_of(pattern).bus_factor(ranks) * algbw
    if not _agrees(line, "busbw_GBps", busbw, _BUSBW_SHARE):
        what = f"is not that of {pattern} of {transfer} among {ranks} ranks, which is {busbw:.4g}"
        accepted = "the number of ranks that ran, and a busbw of nccl-tests"
        raise line.refusal("busbw_GBps", f"{line['busbw_GBps']} {what}", accepted)


def _agrees(line: Line, column: str, expected: float, share: float) -> bool:
    """Return whether there is no bandwidth in ``column``, or the ``expected`` one."""
    if not line[column]:
        return True
    given = line.quantity(column, "10^9 bytes per second, 0 or more", lambda value: value >= 0)
    return abs(given - expected) <= share * expected + _ROUNDED


def system_of(line: Line, nodes: int, reading: Reading) -> System:
    if reading.own is not None:
        return reading.own
    with placed(key="--system" if reading.system else line.place("system")):
        return find_system(reading.system or line["system"], nodes, reading.presets)


def _stated(line: Line, nodes: int, system: System, reading: Reading) -> str:
    """Return what ``line`` calls its system, where that is known to be another one; other names are anybody's."""
    with suppress(InputError):
        if reading.own is None and find_system(line["system"], nodes, reading.presets).name != system.name:
            return line["system"]
    return ""
