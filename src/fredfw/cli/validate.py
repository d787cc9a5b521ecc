"""The command that compares predictions with measurements: validate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fredfw.cli.completion import slot
from fredfw.cli.exports import Exports
from fredfw.cli.options import EXECUTOR, JOBS, PATH, REPORT, Fidelity, Texts, option, path_option
from fredfw.cli.output import log, progress_bar
from fredfw.cli.session import open_framework
from fredfw.errors import InputError

if TYPE_CHECKING:
    from fredfw.framework import Framework
    from fredfw.validation.points import System


@click.command(short_help="Compare predicted with measured times.")
@option(
    "--data files",
    "Compare with the times in FILE, not with those that come with fredfw: CSV of collectives or of kernels, or "
    "the output of nccl-tests. May be repeated.",
    "FILE",
    multiple=True,
    type=PATH,
)
@option(
    "--system",
    "Only this system. With --data, the system that all of FILE was measured on: one that fredfw has "
    "measurements of, or a preset of the topology cluster.",
    "NAME",
)
@option(
    "--fabric fabric_path", "Predict collectives of --data on the one fabric of the experiment FILE.", "FILE", type=PATH
)
@option(
    "--pattern",
    "Only this operation. With --data, also what nccl-tests ran, where its output does not name the program.",
    "NAME",
)
@option(
    "--transport",
    "What launching, steps and messages cost. A name, or {name = ..., KEY = ...}.  [default: that of each system]",
    "PLUGIN",
    slot,
)
@option("--in-place", "Compare with times in place, where there are times of both.", is_flag=True)
@option(
    "--fidelity",
    "How closely iterations of training are simulated; estimate is their longest path, without a simulation.  "
    "[default: exact, unless one has too many transfers]",
    type=Fidelity(estimates=True),
)
@option(
    "--whole",
    "Compare with all iterations of training that come with fredfw, not with the few that are fast to simulate.",
    is_flag=True,
)
@option("--points listed", "Print a line for each measured time, too.", is_flag=True)
@path_option("store", "Keep the iterations of training at PATH, and simulate none that is there.")
@JOBS
@EXECUTOR
@path_option("json", "Write points and scores; - is standard output.")
@path_option(
    "plot",
    "Draw measured against predicted times, and busbw over size, into a .png, .svg or .pdf; - is a PNG on standard "
    "output.",
)
@REPORT
@option("--progress/--no-progress", "Show how much is done, where standard error is a terminal.", default=True)
@click.pass_context
def validate(ctx: click.Context, /, files: Texts, system: str | None, progress: bool, **given: Any) -> None:
    """Compare predicted with measured times of collectives and of iterations of training.

    The measured times are public ones that come with fredfw, or yours. Prints the error by system, operation and class
    of sizes; points that a model was fitted to are apart from those that were held out.
    """
    framework = open_framework(ctx)
    fabric_path, store_path = given["fabric_path"], given["store_path"]
    outputs = Exports(ctx, framework, ("validation",), ("json", "plot", "report"), [*files, fabric_path, store_path])
    plugins = framework.plugins
    own = None if fabric_path is None else _own(framework, fabric_path, files, system)
    from fredfw.experiment.run.cells import Means, workers
    from fredfw.experiment.store import opened
    from fredfw.plugin import configure
    from fredfw.validation import report, sources
    from fredfw.validation.collectives import presets
    from fredfw.validation.prediction import validate as predict
    from fredfw.validation.tables import Reading

    reading = Reading(system, given["pattern"], given["in_place"], presets(plugins) if files else (), own)
    points = sources.chosen(files, reading, whole=given["whole"])
    transport = None if given["transport"] is None else configure.from_toml(given["transport"])
    others = workers(given["jobs"], given["executor"], plugins)
    with progress_bar(progress) as step, opened(store_path) as store, others as running:
        means = Means(plugins, store, running, step)
        validation = predict(points, means, transport=transport, fidelity=given["fidelity"])
    log("validated", points=len(points), transport=validation.transport)
    outputs.export({"validation": validation})
    points_report = report.points_report(validation) if given["listed"] else []
    outputs.show(lambda: [*points_report, *report.validation_report(validation)])


def _own(framework: Framework, path: str, files: Texts, system: str | None) -> System:
    from fredfw.validation.points import CLUSTER, System

    if not files or system is not None:
        message, accepted = ("there are no times", "with --data") if not files else ("says it, too", "one of the two")
        raise InputError(message, key="--data" if not files else "--system", accepted=accepted)
    fabrics = framework.load_experiment(path).fabrics
    if len(fabrics) != 1:
        names = ", ".join(one.name for one in fabrics)
        raise InputError(f"has {len(fabrics)} fabrics: {names}", file=path, key="fabrics", accepted="one")
    return System(fabrics[0].name, "", CLUSTER, fabrics[0].name, fabric=fabrics[0])
