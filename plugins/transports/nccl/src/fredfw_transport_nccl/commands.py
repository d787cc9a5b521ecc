"""The command ``fredfw nccl fit``: fits the constants of the transport to tables of measured times."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import click

from fredfw import File
from fredfw.cli import Measured, Outputs, measured, table
from fredfw.errors import InputError
from fredfw_transport_nccl.fit import FREE, SEND, Measurement, fit
from fredfw_transport_nccl.tables import families
from fredfw_transport_nccl.transport import Nccl


@click.group()
def nccl() -> None:
    """Fit the constants of the transport nccl."""


@nccl.command("fit")
@click.option(
    "--output", metavar="PATH", help="Write constants and residuals; a value for the field constants of nccl."
)
@click.option("--system", metavar="NAME", help="The machine that all of TABLES was measured on, as in validate.")
@click.option("--pattern", metavar="NAME", help="What nccl-tests ran, where its output does not name the program.")
@click.option(
    "--hold-out", "held", metavar="TABLE", multiple=True, help="A table to score alone, to which nothing is fitted."
)
@click.argument("tables", nargs=-1, required=True)
@click.pass_context
def fit_command(
    ctx: click.Context,
    output: str | None,
    system: str | None,
    pattern: str | None,
    held: tuple[str, ...],
    tables: tuple[str, ...],
) -> None:
    """Fit to TABLES of collectives, as validate reads them: CSV, or the output of nccl-tests or rccl-tests.

    Each table is a source, without which constants are fitted, too. So are they without each system. What is not used
    is said.
    """
    outputs = Outputs({"--output": output}, source=(*tables, *held))
    sources: list[str] = []
    measurements: list[Measurement] = []
    unused: Counter[str] = Counter()
    for path, held_out in (*((one, False) for one in tables), *((one, True) for one in held)):
        listed = measured(ctx, [path], system=system, pattern=pattern)
        file = File.at(path)
        source = f"sha256 {file.digest[:16]}"
        if not held_out:
            sources.append(f"{file.location.name}, {source}")
        elif any(one.endswith(source) for one in sources):
            raise InputError(f"{path!r} is fitted to, too", key="--hold-out", accepted="a table that is not in TABLES")
        for one in listed:
            found = measurement(one, file.location.stem, held_out=held_out)
            if found is not None and any(stage.takes(found) for stage in FREE):
                measurements.append(found)
            else:
                unused[f"{one.pattern} on {one.system}"] += 1
    if not measurements:
        message = "no measured time of a family that is known, in a pattern that is fitted"
        raise InputError(message, key="TABLES", accepted=", ".join(families()))
    for family in dict.fromkeys(one.family for one in measurements):
        if not any(one.fitted for one in measurements if one.family == family):
            message = f"no size of {family} in TABLES is an even power of two bytes, to which constants are fitted"
            raise InputError(message, key="TABLES", accepted="sizes such as 1024, 4096, 16384 or 1048576, too")
    result = fit(measurements)
    outputs.write({"--output": lambda: rendered(result, sources)} if output else {})
    outputs.show(lambda: [*_report(result), *(f"not used: {count} of {what}" for what, count in unused.items())])


def measurement(one: Measured, source: str, *, held_out: bool = False) -> Measurement | None:
    transport = one.fabric.defaults.transport
    if not isinstance(transport, Nccl):
        return None
    # Of messages from each rank to the next, the slowest is between two nodes.
    ranks, nodes = (2, min(one.nodes, 2)) if one.pattern == SEND else (one.ranks, one.nodes)
    machine = transport.machine(one.fabric, ranks, nodes)
    return Measurement(machine, one.system, one.pattern, one.size, one.seconds, source, held_out)


def rendered(found: Mapping[str, Any], sources: Sequence[str]) -> str:
    lines = [
        "# Fitted constants of the transport nccl, status: calibrated. Written by: fredfw nccl fit.",
        "#",
        "# launch: microseconds. hops and nvls: what published latencies are multiplied by. tail: blocks of a ring.",
        "# messages and nic: shares of rates. Residuals: exp(mean |ln(predicted / measured)|) - 1,",
        "# and the same of the median of all who measured the same. Sizes that are even powers of two are fitted.",
        "# ratios: the same of ratios of two machines or groups with that GPU, held out.",
        "",
        f"sources = {json.dumps(list(sources), indent=4)}",
    ]
    for family, entry in found.items():
        lines += ["", f"[{family}.constants]"]
        lines += [f"{key} = {_value(value)}" for key, value in entry["constants"].items()]
        for source, constants in entry["without"].items():
            lines += ["", f"[{family}.without.{json.dumps(source)}]"]
            lines += [f"{key} = {_value(value)}" for key, value in constants.items()]
        lines += ["", f"[{family}]", *([] if entry["ratios"] is None else [f"ratios = {entry['ratios']}"])]
        lines += ["residuals = [", *(f"    {_value(one)}," for one in entry["residuals"]), "]"]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{key} = {_value(one)}' for key, one in value.items())} }}"
    return json.dumps(value)


def _report(found: Mapping[str, Any]) -> Any:
    keys = "pattern", "nodes", "sizes", "part"
    rows = [
        (family, *(str(one[key]) for key in keys), one["points"], 100 * one["error"], 100 * one["error_of_median"])
        for family, entry in found.items()
        for one in entry["residuals"]
    ]
    return table("Residuals", ("family", *keys, "points", "error (%)", "of the median (%)"), rows)
