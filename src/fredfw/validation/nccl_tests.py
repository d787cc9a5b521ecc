"""What nccl-tests prints, as the lines of a table; output of several runs may follow each other.

The columns ``time``, ``algbw``, ``busbw`` and ``#wrong`` come twice: out of place, and in place.
"""

import re
from collections import Counter
from collections.abc import Iterator

from fredfw.errors import InputError
from fredfw.units import counted
from fredfw.validation.points import SENDRECV

_PROGRAMS = {
    "all_reduce": "all-reduce",
    "all_gather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "alltoall": "all-to-all",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
    "sendrecv": SENDRECV,
}
_PROGRAM = re.compile(rf"\b({'|'.join(_PROGRAMS)})_perf\b")
_COLUMNS = re.compile(r"#\s+size\s+count\s+type\b")
_UNITS = re.compile(r"#\s+\(")
_RANK = re.compile(r"#\s*Rank\s+(\d+)\b.*?\bon\s+(\S+)\s+device\s+\S+\s+\[[^\]]*\]\s*(.*)")
_BEGIN = re.compile(r"#\s*(nThread|nccl-tests version)\b")
_WRONG, _RIGHT = "#wrong", ("0", "N/A")  # how many values are not what they should be; "N/A" where none was checked
_LIBRARY = re.compile(r"\bnccl-library=(\S+)|\bNCCL version (\S+)")


def recognised(text: str) -> bool:
    return any(_COLUMNS.match(line.strip()) for line in text.splitlines())


def rows(text: str, pattern: str | None = None) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield number and cells of each line with times; ``pattern`` is what ran, where the output does not say."""
    told: dict[str, str] = {}  # cells of all lines of a run
    hosts: dict[int, str] = {}  # by rank
    columns: list[str] = []
    started = False  # whether times were printed; what is a header comes from the next run then
    for number, line in enumerate(map(str.strip, text.splitlines()), start=1):
        named = _PROGRAM.search(line)
        if started and (named or _BEGIN.match(line) or _RANK.match(line)):
            told, hosts, columns, started = {}, {}, [], False
        if named:
            told["collective"] = _PROGRAMS[named[1]]
        if (rank := _RANK.match(line)) is not None:
            hosts[int(rank[1])] = rank[2]
            told["system"] = rank[3].strip().removeprefix("NVIDIA ")
        elif (library := _LIBRARY.search(line)) is not None:
            told["library"] = library[1] or library[2]
        elif _COLUMNS.match(line):
            columns = line.lstrip("# ").split()
        elif columns and _UNITS.match(line):
            for unit, accepted in zip(re.findall(r"\(([^)]*)\)", line), ("B", "elements", "us", "GB/s"), strict=False):
                if unit != accepted:
                    raise InputError(f"the unit {unit!r} is not read", key=f"line {number}", accepted=accepted)
        elif columns and line[:1].isdigit():
            started = True
            known = {"library": "", **({} if pattern is None else {"collective": pattern}), **told}
            cells = {**known, **_cells(f"line {number}", columns, line.split(), hosts, known)}
            if cells["size_B"] != "0":  # what is left of a small buffer that was to be divided among the ranks
                yield number, cells


def _cells(
    key: str, columns: list[str], values: list[str], hosts: dict[int, str], known: dict[str, str]
) -> dict[str, str]:
    if len(values) != len(columns):
        accepted = f"{len(columns)}, as many as the header has"
        raise InputError(f"has {counted(len(values), 'column')}", key=key, accepted=accepted)
    if not hosts:
        accepted = "lines '# Rank 0 ... on HOST device 0 [BUS] NAME' above it, as nccl-tests prints them"
        raise InputError("the output does not list its ranks", key=key, accepted=accepted)
    each = sorted(Counter(hosts.values()).values())
    if each[0] != each[-1]:
        message = f"hosts have from {each[0]} to {each[-1]} ranks"
        raise InputError(message, key=key, accepted="a run with as many ranks on each host")
    if "collective" not in known:
        accepted = f"--pattern, or a line above it with {', '.join(f'{one}_perf' for one in _PROGRAMS)}"
        raise InputError("the output does not say which program it is of", key=key, accepted=accepted)
    by_name: dict[str, list[str]] = {}
    for name, value in zip(columns, values, strict=True):
        by_name.setdefault(name, []).append(value)
    for wrong in by_name.get(_WRONG, ()):
        if wrong not in _RIGHT:
            message = f"{wrong!r}: values came out wrong, so that the time is not that of the operation"
            raise InputError(message, key=f"{key}, column {_WRONG}", accepted=", ".join(_RIGHT))
    times, rates, buses = (by_name.get(name, []) for name in ("time", "algbw", "busbw"))
    return {
        "nodes": str(len(set(hosts.values()))),
        "ranks": str(len(hosts)),
        "size_B": by_name["size"][0],
        "time_us": times[0],
        "time_inplace_us": times[1] if len(times) > 1 else "",
        "algbw_GBps": rates[0] if rates else "",
        "busbw_GBps": buses[0] if buses else "",
    }
