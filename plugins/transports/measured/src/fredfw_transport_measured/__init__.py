"""The transport ``measured``: collectives take as long as a table of measured times says."""

from __future__ import annotations

import csv
import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import cached_property
from statistics import median
from typing import ClassVar

from attrs import frozen

from fredfw import Call, Costs, Fabric, File, Pattern, Transport, units
from fredfw.errors import InputError, UnsupportedError, nearest, placed

fredfw_contract = 2

_COLUMNS = "collective", "ranks", "size_B", "time_us"
"""What a table must have; ``nodes`` is 1 where there is no such column. Others are not read."""
_MICROSECOND = 1e-6
_MESSAGES = frozenset({"all-to-all", "point-to-point", "gather", "scatter"})


@frozen
class Measured(Transport):
    """Times from a CSV file with the columns ``collective``, ``ranks``, ``size_B``, ``time_us``, and perhaps ``nodes``.

    Sizes are the per-rank buffers, the larger of input and output (nccl-tests). Between two sizes of the table, the
    logarithm of the time is linear in that of the size; the median counts where a size has several times. Patterns,
    ranks, nodes and sizes that the table does not have are refused.

    A cap on the rate of flows makes a collective take as long as measured, if no link is slower; results have a note
    where one is. Rings and direct exchanges are what a time is turned into.
    """

    name: ClassVar[str] = "measured"

    file: File = units.file(help="the table")

    def __attrs_post_init__(self) -> None:
        _ = self.table

    @cached_property
    def table(self) -> _Table:
        """The table in the file."""
        with self.file.named():
            return _Table(self.file)

    def algorithms(self, pattern: str) -> Sequence[str] | None:
        return ("direct",) if pattern in _MESSAGES else ("ring",)

    def costs(self, call: Call, fabric: Fabric) -> Costs:
        """See ``Transport.costs``; raises ``UnsupportedError`` for what the table or this transport does not know."""
        known = self.algorithms(call.pattern)
        if known is not None and call.algorithm not in known:
            raise UnsupportedError(
                f"transport 'measured' cannot make {call.algorithm!r} take a measured time", accepted=", ".join(known)
            )
        try:
            seconds = self.table.seconds(call.pattern, call.ranks, call.nodes, call.size)
        except InputError as error:
            raise UnsupportedError(error.message, accepted=error.accepted) from None
        # Links have latencies, which are in what was measured.
        level = fabric.levels[-1 if call.nodes > 1 else 0] if fabric.levels else None
        left = seconds - call.steps * (level.latency if level else 0.0)
        inside, between = (volume / left if left > 0 and volume else math.inf for volume in call.volume)
        return Costs(cap=(inside, *(between,) * int(fabric.tiers.max(initial=0))), seconds=seconds)


class _Table:
    """The measured times in a CSV file; of several times for one size, the median."""

    def __init__(self, file: File) -> None:
        self.file = file.path
        reader = csv.DictReader(file.text().splitlines())
        _check_header(reader.fieldnames or ())
        times: dict[tuple[str, int, int], dict[float, list[float]]] = {}
        for row in reader:
            with placed(key=f"line {reader.line_num}"):
                ranks, nodes = (int(_number(row, key, whole=True)) for key in ("ranks", "nodes"))
                size, time = (_number(row, key) for key in ("size_B", "time_us"))
                pattern = _pattern(row)
            curve = times.setdefault((pattern, ranks, nodes), {})
            curve.setdefault(size, []).append(time * _MICROSECOND)
        if not times:
            raise InputError("has no rows", accepted="one or more")
        curves = {key: dict(sorted(curve.items())) for key, curve in times.items()}
        # By pattern, ranks and nodes: sizes in bytes, ascending, and the seconds of each.
        self.curves = {key: (list(curve), [*map(median, curve.values())]) for key, curve in curves.items()}

    def seconds(self, pattern: str, ranks: int, nodes: int, size: float) -> float:
        """Return the time of a call; between two sizes, its logarithm is linear in that of the size."""
        if (curve := self.curves.get((pattern, ranks, nodes))) is None:
            raise InputError(
                f"{self.file} has no {pattern} among {ranks} ranks in {units.counted(nodes, 'node')}",
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


def _check_header(header: Sequence[str]) -> None:
    if (missing := next((one for one in _COLUMNS if one not in header), None)) is None:
        return
    message = f"has no column {missing!r}"
    quantity, unit, _ = missing.partition("_")
    if len(header) == 1 and ";" in header[0]:
        message = "its cells are separated by ';', not by commas"
    elif unit and (others := [one for one in header if one.partition("_")[0] == quantity]):
        message += f", but {others[0]!r}, which has another unit, or none"
    raise InputError(message, key="line 1", accepted=", ".join(_COLUMNS))


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
