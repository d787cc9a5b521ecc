"""The commands about execution traces: trace info, trace synthesize."""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping, Sequence
from functools import partial
from os.path import split
from pathlib import PurePath
from typing import TYPE_CHECKING, cast

import click

from fredfw.cli.completion import trace_workloads
from fredfw.cli.options import PATH, option, path_option
from fredfw.cli.output import Outputs
from fredfw.cli.parsing import chosen
from fredfw.cli.session import open_framework
from fredfw.errors import InputError
from fredfw.files import GZIP

if TYPE_CHECKING:
    from fredfw.plugin.manager import PluginManager
    from fredfw.workloads import TraceWorkload

# How much of a file a format may look at.
_HEAD = 1 << 16

files_argument = click.argument("files", nargs=-1, required=True, metavar="FILE...", type=PATH)
format_option = option(
    "--format given",
    "The workload plugin that reads the files. A name, or {name = ..., KEY = ...}.  [default: found by the files]",
    "WORKLOAD",
    trace_workloads,
)


@click.group()
def trace() -> None:
    """Look at execution traces that a workload plugin reads."""


@trace.command(short_help="Show what the files of a trace hold.")
@files_argument
@format_option
@path_option("json", "Write all that is known as JSON; - is standard output.")
@click.pass_context
def info(ctx: click.Context, files: tuple[str, ...], given: str | None, json_path: str | None) -> None:
    """Show what the FILEs of a trace hold, one file per rank; ranks may be missing.

    Prints nodes by type, what is communicated by operation and communicator, dependencies and those that dangle,
    durations, and floating-point operations.
    """
    outputs = Outputs({"--json": json_path}, source=files)
    workload = open_trace(files, given, open_framework(ctx).plugins)
    from fredfw.report import traces

    found = traces.info(workload)
    outputs.write({"--json": lambda: traces.info_to_json(workload, found)})
    outputs.show(lambda: [*traces.info_report(workload, found)])


@trace.command(short_help="Write a statistical twin of a trace, of any number of ranks.")
@files_argument
@format_option
@option("--ranks", "Ranks of the twin.", "N", type=click.IntRange(1), required=True)
@option(
    "--output",
    "Write Chakra traces DIR/PREFIX.0.et and so on, and their groups; DIR is new or empty.",
    "DIR/PREFIX",
    required=True,
    type=PATH,
)
@option(
    "--topology network",
    "Simulate both on this topology and compare the times. A name, or {name = ..., KEY = ...}.",
    "NAME",
)
@option("--seed", "Another seed gives another twin.", type=click.IntRange(0), default=0, show_default=True)
@click.pass_context
def synthesize(
    ctx: click.Context,
    files: tuple[str, ...],
    given: str | None,
    ranks: int,
    output: str,
    network: str | None,
    seed: int,
) -> None:
    """Fit statistics to the trace in FILEs, one for each rank, and write a twin that is made from these alone.

    The twin has the original's kinds of operations, with sizes, durations and dependencies that are distributed alike,
    but not its names. More ranks are copies; groups of all ranks, and of the others those that reach furthest, grow
    with them. Prints how far it is from the original: the Kolmogorov-Smirnov distance of
    distributions, and the relative difference of means and of sums per rank.
    """
    framework = open_framework(ctx)
    folder, prefix = split(output)
    from fredfw.plugin import configure
    from fredfw.plugin.answers import built, exported

    plugins = framework.plugins
    exporter = chosen({"name": "chakra", "prefix": prefix}, plugins.exporters, plugins, "--output")
    outputs = Outputs({"--output": folder or os.curdir}, source=files, directories=["--output"])
    from fredfw.report import traces
    from fredfw.workloads import System, answers, twin

    topology = None if network is None else configure.from_toml(network)
    fabric = None if topology is None else built(chosen(topology, plugins.topologies, plugins, "--topology"))
    workload = open_trace(files, given, plugins)
    # A workload of traces has its own ranks; the machine decides nothing.
    system = System(npus=ranks)
    original = answers.graph(workload, system, answers.mesh(workload, system).ranks)
    made = twin.generate(twin.fit(original), ranks, seed)
    found = list(twin.distances(original, made))
    if fabric is not None:
        times = (framework.simulate_graph(one, fabric, attribution=False).seconds for one in (original, made))
        found.append(twin.Distance("time of an iteration (s)", *times))
    outputs.write({"--output": partial(exported, exporter, made)})
    notes = answers.notes(workload, System(npus=original.ranks))
    outputs.show(lambda: [*traces.twin_report(found, notes)])


def open_trace(files: Sequence[str], given: str | None, plugins: PluginManager) -> TraceWorkload:
    """Return the workload that reads ``files``: what ``--format`` was ``given``, or what plugins recognise.

    Raises:
        InputError: No workload reads such files, several do, they are of different formats, or a field has an
            impossible value.
    """
    from fredfw.plugin import configure
    from fredfw.workloads import TraceWorkload

    readers = [one for one in plugins.workloads if issubclass(one, TraceWorkload)]
    known = ", ".join(one.name for one in readers) or "none is installed"
    value = _found(files, readers, known) if given is None else configure.from_toml(given)
    fields = dict(value) if isinstance(value, Mapping) else {"name": value}
    name = fields.get("name")
    if isinstance(name, str) and name in plugins.workloads and plugins.workloads.get(name) not in readers:
        raise InputError(f"the workload {name!r} reads no traces", key="--format", accepted=known)
    if "traces" in fields:
        raise InputError("is what FILE... gives", key="--format.traces", accepted="a format without traces")
    prefix = "" if given is None else "--format"
    return cast("TraceWorkload", chosen({**fields, "traces": list(files)}, plugins.workloads, plugins, prefix))


def _found(files: Sequence[str], readers: Sequence[type[TraceWorkload]], known: str) -> str:
    """Return the name of the only one of ``readers`` that recognises the first file; no other may have the next."""
    first, *others = files
    names = _recognising(first, readers)
    if len(names) != 1:
        many = f"may be of the formats {', '.join(names)}"
        message = many if names else "is of no format that an installed plugin reads"
        raise InputError(message, file=first, accepted=f"--format with one of: {known}")
    for file in others:
        # What nobody recognises, such as a damaged file, its reader can name best.
        found = _recognising(file, readers)
        if found and names[0] not in found:
            message = f"is of the format {' or '.join(found)}, and {first} of {names[0]}: they are of different formats"
            raise InputError(message, file=file, accepted="files of one format")
    return names[0]


def _recognising(file: str, readers: Sequence[type[TraceWorkload]]) -> list[str]:
    """Return the names of those of ``readers`` that recognise ``file``."""
    from fredfw.answers import Asking

    head, names = _head(file), []
    for one in readers:
        with Asking(one, "recognises"):
            if one.recognises(PurePath(file).name, head):
                names.append(one.name)
    return names


def _head(file: str) -> bytes:
    """Return the beginning of ``file``, expanded where it is compressed."""
    try:
        with open(file, "rb") as stream:
            head = stream.read(_HEAD)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "is not a path"
        raise InputError(f"cannot be read: {reason}", file=file, accepted="the path of a trace") from None
    if not head.startswith(GZIP):
        return head
    try:
        return zlib.decompressobj(wbits=31).decompress(head, _HEAD)
    except zlib.error:
        return b""
