"""A table of measured times: its columns, and times between its sizes."""

from __future__ import annotations

import csv
import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from statistics import median

from attrs import frozen

from fredfw import File, Pattern
from fredfw.errors import InputError, nearest
from fredfw.units import counted

COLUMNS = "collective", "ranks", "size_B", "time_us"
"""What a table must have; ``nodes`` is 1 where there is no such column. Others are not read."""
_MICROSECOND = 1e-6


@frozen
class Table:
    """Measured times."""

    file: str  # where they are from
    # by pattern, ranks and nodes: sizes in bytes, ascending, and the seconds of each
    curves: Mapping[tuple[str, int, int], tuple[tuple[float, ...], tuple[float, ...]]]

    def seconds(self, pattern: str, ranks: int, nodes: int, size: float) -> float:
        """Return the time of a call; between two sizes, its logarithm is linear in that of the size.

        Raises:
            InputError: The table has no such pattern, ranks and nodes, or the size is beyond its sizes.
        """
        curve = self.curves.get((pattern, ranks, nodes))
        if curve is None:
            raise InputError(
                f"{self.file} has no {pattern} among {ranks} ranks in {counted(nodes, 'node')}",
                accepted=", ".join(f"{name} among {n} in {m}" for name, n, m in sorted(self.curves)),
            )
        sizes, seconds = curve
        if not sizes[0] <= size <= sizes[-1]:
            raise InputError(
                f"{self.file} has no {pattern} among {ranks} ranks of {size:g} B",
                accepted=f"{sizes[0]:g} to {sizes[-1]:g} B",
            )
        above = bisect_left(sizes, size)
        if sizes[above] == size:
            return seconds[above]
        below = above - 1
        share = math.log(size / sizes[below]) / math.log(sizes[above] / sizes[below])
        return float(seconds[below] * (seconds[above] / seconds[below]) ** share)


def read(file: File) -> Table:
    """Return the table in a CSV file; of several times for one size, the median.

    Raises:
        InputError: It cannot be read, lacks a column, or has a value that is not a number above 0 or a pattern; names
            line and column.
    """
    reader = csv.DictReader(file.text().splitlines())
    _check_header(reader.fieldnames or (), file.path)
    times: dict[tuple[str, int, int], dict[float, list[float]]] = {}
    for row in reader:
        try:
            ranks, nodes = (int(_number(row, key, whole=True)) for key in ("ranks", "nodes"))
            size, time = (_number(row, key) for key in ("size_B", "time_us"))
            pattern = _pattern(row)
        except InputError as error:
            raise error.at(file=file.path, key=f"line {reader.line_num}") from None
        curve = times.setdefault((pattern, ranks, nodes), {})
        curve.setdefault(size, []).append(time * _MICROSECOND)
    if not times:
        raise InputError("has no rows", file=file.path, accepted="one or more")
    return Table(file.path, {key: _curve(curve) for key, curve in times.items()})


def _curve(times: Mapping[float, list[float]]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    sizes = sorted(times)
    return tuple(sizes), tuple(median(times[size]) for size in sizes)


def _check_header(header: Sequence[str], file: str) -> None:
    """Make sure that all ``COLUMNS`` are there; raises ``InputError`` with what is there instead."""
    missing = next((one for one in COLUMNS if one not in header), None)
    if missing is None:
        return
    message = f"has no column {missing!r}"
    quantity, unit, _ = missing.partition("_")
    if len(header) == 1 and ";" in header[0]:
        message = "its cells are separated by ';', not by commas"
    elif unit and (others := [one for one in header if one.partition("_")[0] == quantity]):
        message += f", but {others[0]!r}, which has another unit, or none"
    raise InputError(message, file=file, key="line 1", accepted=", ".join(COLUMNS))


def _pattern(row: Mapping[str, str | None]) -> str:
    text = (row["collective"] or "").strip()
    known = [str(one) for one in Pattern]
    if text not in known:
        raise InputError(f"collective is {text!r}{nearest(text, known)}", accepted=", ".join(known))
    return text


def _number(row: Mapping[str, str | None], column: str, *, whole: bool = False) -> float:
    text = row.get(column) or ("1" if column == "nodes" else "")
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf or (whole and value != int(value)):
        accepted = "a whole number above 0" if whole else "a number above 0"
        raise InputError(f"{column} is {text!r}", accepted=accepted)
    return value
