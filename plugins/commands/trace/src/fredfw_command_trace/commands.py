"""The commands ``fredfw trace info`` and ``fredfw trace synthesize``."""

import os
from contextlib import suppress
from functools import partial

import click

from fredfw.cli import Outputs, ask, chosen, open_framework

_FILES = click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(readable=False))


def _formats(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    from fredfw_command_trace.reading import readers

    with suppress(Exception):
        return [one.name for one in readers(open_framework(ctx).plugins) if one.name.startswith(incomplete)]
    return []


_FORMAT = click.option(
    "--format",
    "given",
    metavar="WORKLOAD",
    shell_complete=_formats,
    help="The workload plugin that reads the files. A name, or {name = ..., KEY = ...}.  [default: found by the files]",
)


@click.group()
def trace() -> None:
    """Look at execution traces that a workload plugin reads."""


@trace.command(short_help="Show what the files of a trace hold.")
@_FILES
@_FORMAT
@click.option(
    "--json",
    "json_path",
    metavar="PATH",
    type=click.Path(readable=False),
    help="Write all that is known as JSON; - is standard output.",
)
@click.pass_context
def info(ctx: click.Context, files: tuple[str, ...], given: str | None, json_path: str | None) -> None:
    """Show what the FILEs of a trace hold, one file per rank; ranks may be missing.

    Prints nodes by type, what is communicated by operation and communicator, dependencies and those that dangle,
    durations, and floating-point operations.
    """
    from fredfw_command_trace import reading, report

    outputs = Outputs({"--json": json_path}, source=files)
    workload = reading.opened(files, given, open_framework(ctx).plugins)
    found = reading.infos(workload)
    outputs.write({"--json": lambda: report.info_to_json(workload, found)})
    outputs.show(lambda: report.info_report(workload, found))


@trace.command(short_help="Write a statistical twin of a trace, of any number of ranks.")
@_FILES
@_FORMAT
@click.option("--ranks", metavar="N", type=click.IntRange(1), required=True, help="Ranks of the twin.")
@click.option(
    "--output",
    metavar="DIR/PREFIX",
    required=True,
    type=click.Path(readable=False),
    help="Write Chakra traces DIR/PREFIX.0.et and so on, and their groups; DIR is new or empty.",
)
@click.option(
    "--topology",
    "net",
    metavar="NAME",
    help="Simulate both on this topology and compare the times. A name, or {name = ..., KEY = ...}.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Another seed gives another twin.")
@click.pass_context
def synthesize(
    ctx: click.Context, files: tuple[str, ...], given: str | None, ranks: int, output: str, net: str | None, seed: int
) -> None:
    """Fit statistics to the trace in FILEs, one for each rank, and write a twin that is made from these alone.

    The twin has the original's kinds of operations, with sizes, durations and dependencies that are distributed alike,
    but not its names. More ranks are copies; groups of all ranks, and of the others those that reach furthest, grow
    with them. Prints how far it is from the original: the Kolmogorov-Smirnov distance of
    distributions, and the relative difference of means and of sums per rank.
    """
    from fredfw import Exporter, System, Topology, Workload
    from fredfw_command_trace import reading, report
    from fredfw_command_trace.distance import Distance, distances
    from fredfw_command_trace.fitting import fit
    from fredfw_command_trace.generation import generate

    framework = open_framework(ctx)
    plugins = framework.plugins
    folder, prefix = os.path.split(output)
    exporter = chosen({"name": "chakra", "prefix": prefix}, plugins.exporters, plugins, "--output")
    outputs = Outputs({"--output": folder or os.curdir}, source=files, directories=["--output"])
    topology = None if net is None else chosen(net, plugins.topologies, plugins, "--topology")
    fabric = None if topology is None else ask(Topology.build, topology)
    workload = reading.opened(files, given, plugins)
    # A workload of traces has its own ranks; the machine decides nothing.
    original = ask(Workload.graph, workload, System(npus=ranks))
    twin = generate(fit(original), ranks, seed)
    found = list(distances(original, twin))
    if fabric is not None:
        times = (framework.simulate_graph(one, fabric, attribution=False).seconds for one in (original, twin))
        found.append(Distance("time of an iteration (s)", *times))
    outputs.write({"--output": partial(ask, Exporter.export, exporter, twin)})
    notes = ask(Workload.notes, workload, System(npus=original.ranks))
    outputs.show(lambda: report.twin_report(found, notes))
