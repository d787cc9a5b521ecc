"""The command ``fredfw nccl fit``: fits the constants of the transport to tables of measured times."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from fredfw import File
from fredfw.cli import Outputs, table
from fredfw.errors import InputError
from fredfw_transport_nccl.fit import FREE, Measurement, fit
from fredfw_transport_nccl.tables import MICROSECOND, families

COLUMNS = "system", "nodes", "ranks", "collective", "size_B", "time_us"


@click.group()
def nccl() -> None:
    """Fit the constants of the transport nccl."""


@nccl.command("fit")
@click.option(
    "--output", metavar="PATH", help="Write constants and residuals; a value for the field constants of nccl."
)
@click.argument("tables", nargs=-1, required=True)
def fit_command(output: str | None, tables: tuple[str, ...]) -> None:
    """Fit to TABLES: CSV files with the columns system, nodes, ranks, collective, size_B and time_us.

    A family of GPUs is what the name of a system begins with, such as a100-node; other systems are not looked at.
    Each table is a source, without which constants are fitted, too. So are they without each system.
    """
    outputs = Outputs({"--output": output}, source=tables)
    sources: list[str] = []
    measurements: list[Measurement] = []
    for path in tables:
        try:
            file = File.at(path)
        except InputError as error:
            raise error.at(key="TABLES") from None
        sources.append(f"{file.location.name}, sha256 {file.digest[:16]}")
        measurements += read(file.text(), path)
    known = {(stage.pattern, stage.several) for stage in FREE}
    kept = [one for one in measurements if (one.pattern, one.nodes > 1) in known]
    if not kept:
        raise InputError("no measured time of a family that is known", key="TABLES", accepted=", ".join(families()))
    for family in dict.fromkeys(one.family for one in kept):
        if not any(one.fitted for one in kept if one.family == family):
            message = f"no size of {family} is an even power of two bytes, to which constants are fitted"
            raise InputError(message, key="TABLES", accepted="sizes such as 1024, 4096, 16384 or 1048576, too")
    found = fit(kept)
    outputs.write({"--output": lambda: rendered(found, sources)} if output else {})
    outputs.show(lambda: _report(found))


def read(text: str, path: str) -> Iterator[Measurement]:
    """Yield the measured times of families that are known.

    Raises:
        InputError: A column is missing, or a value is not a number above 0; names file, line and column.
    """
    reader = csv.DictReader(text.splitlines())
    for column in COLUMNS:
        if column not in (reader.fieldnames or ()):
            raise InputError(f"{path} has no column {column!r}", key="TABLES", accepted=", ".join(COLUMNS))
    for row in reader:
        family = (row["system"] or "").partition("-")[0]
        if family not in families():
            continue
        nodes, ranks, size, time = (_number(row, key, f"{path}, line {reader.line_num}") for key in _NUMBERS)
        pattern = (row["collective"] or "").strip()
        yield Measurement(family, int(nodes), int(ranks), pattern, size, time * MICROSECOND, Path(path).stem)


_NUMBERS = "nodes", "ranks", "size_B", "time_us"


def _number(row: Mapping[str, str | None], column: str, where: str) -> float:
    text = row[column] or ""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise InputError(f"{where}: {column} is {text!r}", key="TABLES", accepted="a number above 0")
    return value


def rendered(found: Mapping[str, Any], sources: Sequence[str]) -> str:
    """Return what ``fit`` found as TOML."""
    lines = [
        "# Fitted constants of the transport nccl, status: calibrated. Written by: fredfw nccl fit.",
        "#",
        "# launch: microseconds. hops, nvls and network.hops: what published latencies are multiplied by. tail: blocks",
        "# of a ring. messages and network.nic: shares of rates. Residuals: exp(mean |ln(predicted / measured)|) - 1,",
        "# and the same of the median of all who measured the same. Sizes that are even powers of two are fitted.",
        "",
        f"sources = {json.dumps(list(sources), indent=4)}",
    ]
    for family, entry in found.items():
        lines += ["", f"[{family}.constants]"]
        lines += [f"{key} = {_value(value)}" for key, value in entry["constants"].items()]
        for source, constants in entry["without"].items():
            lines += ["", f"[{family}.without.{json.dumps(source)}]"]
            lines += [f"{key} = {_value(value)}" for key, value in constants.items()]
        for one in entry["residuals"]:
            lines += ["", f"[[{family}.residuals]]", *(f"{key} = {_value(value)}" for key, value in one.items())]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{key} = {_value(one)}' for key, one in value.items())} }}"
    return json.dumps(value)


def _report(found: Mapping[str, Any]) -> Any:
    keys = "pattern", "nodes", "sizes", "part"
    return table(
        "Residuals",
        ("family", *keys, "points", "error (%)", "of the median (%)"),
        [
            (
                family,
                *(str(one[key]) for key in keys),
                one["points"],
                100 * one["error"],
                100 * one["error_of_median"],
            )
            for family, entry in found.items()
            for one in entry["residuals"]
        ],
    )
