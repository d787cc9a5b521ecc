"""The command that writes one cell as a program for C and C++: export-program."""

from typing import Any

import click

from fredfw.cli.options import FABRIC, FILE, PATH, SET, WORKLOAD, Texts, fidelity, option
from fredfw.cli.output import Outputs
from fredfw.cli.parsing import blamed_on_options, loaded, parse_values, selected
from fredfw.cli.session import open_framework


@click.command(short_help="Write one workload on one fabric for programs in C and C++.")
@FILE
@WORKLOAD
@FABRIC
@SET
@fidelity()
@option("--routes", "Also write the routes of messages from each NPU to each.", is_flag=True)
@option("-o --output", "Write the program to PATH; - is standard output.", "PATH", required=True, type=PATH)
@click.pass_context
def export_program(
    ctx: click.Context, /, file: str, workload: str | None, fabric: str | None, assignments: Texts, **given: Any
) -> None:
    """Write one workload on one fabric of the experiment FILE for programs in C and C++.

    Such a program links the library of fredfw-engine, and gets the times of fredfw run to the last bit. Nothing is
    written where Python is asked during a run: by an admission or a sharing policy of a plugin, loads, stores or
    events of links.
    """
    values = parse_values(assignments)
    outputs = Outputs({"--output": given["output"]}, source=file)
    framework = open_framework(ctx)
    cell = {"workload": workload, "fabric": fabric}
    with blamed_on_options(values):
        experiment = loaded(framework, file, values, outputs, **selected(**cell))
        content = framework.export_program(experiment, **cell, fidelity=given["fidelity"], routes=given["routes"])
    outputs.write({"--output": lambda: content})
