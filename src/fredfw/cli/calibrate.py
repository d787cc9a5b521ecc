"""The command that fits compute times to published values: calibrate."""

import click

from fredfw.cli.options import FILE, JSON, PROGRESS, SET, Texts
from fredfw.cli.output import Outputs, progress_bar
from fredfw.cli.parsing import blamed_on_options, loaded, parse_values
from fredfw.cli.session import open_framework


@click.command(short_help="Fit compute times to published values.")
@FILE
@SET
@JSON
@PROGRESS
@click.pass_context
def calibrate(ctx: click.Context, file: str, assignments: Texts, json_path: str | None, progress: bool) -> None:
    """Fit the compute scale of every workload of FILE that has a calibration.

    Says for each whether there is none, one or more solutions, and prints what to record in the experiment.
    """
    values = parse_values(assignments)
    outputs = Outputs({"--json": json_path}, source=file)
    framework = open_framework(ctx)
    with progress_bar(progress) as step, blamed_on_options(values):
        fits = framework.calibrate(loaded(framework, file, values, outputs), progress=step)
    from fredfw.report import data, tables

    outputs.write({"--json": lambda: data.listed("calibrations", fits)})
    outputs.show(lambda: [*tables.calibrations_report(fits)])
