"""The command ``fredfw import astra-sim``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from fredfw.cli import Outputs, table
from fredfw.errors import InputError
from fredfw_topology_astra_sim_network.importing import experiment
from fredfw_topology_astra_sim_network.inputs import find

_STDOUT = "-"


@click.group("import")
def import_group() -> None:
    """Make an experiment of the inputs of another simulator."""


@import_group.command("astra-sim", short_help="Make an experiment of ASTRA-sim's inputs.")
@click.argument("directory", metavar="[DIR]", required=False)
@click.option("--network", metavar="FILE", help="Network of the analytical backends, YAML.")
@click.option("--system", metavar="FILE", help="System layer, JSON.")
@click.option("--workload", metavar="PREFIX", help="Path of the execution traces without .0.et.")
@click.option("--groups", metavar="FILE", help="Communicator groups, JSON.")
@click.option("--remote-memory", metavar="FILE", help="Remote memory, JSON.")
@click.option("--output", metavar="FILE", required=True, help="Write the experiment; - is standard output.")
@click.option("--overwrite", is_flag=True, help="Replace FILE of --output if it exists.")
def astra_sim(directory: str | None, output: str, overwrite: bool, **named: str | None) -> None:
    """Write one experiment file with the network, the system layer and the workload of ASTRA-sim.

    DIR is a folder with all files; each is recognised by its content. An option names a file instead, for a folder that
    does not have it, or has several. Prints the keys that are left out, or simulated in another way. The file has the
    same list as comments.
    """
    if output != _STDOUT and not overwrite and os.path.lexists(output):
        raise InputError("exists already", file=output, key="--output", accepted="a new file, or --overwrite")
    inputs = find(directory, named)
    read = [inputs.network, inputs.system, *filter(None, (inputs.groups, inputs.remote_memory))]
    outputs = Outputs({"--output": output}, source=read)
    folder = Path() if output == _STDOUT else Path(output).parent
    made = experiment(inputs, Path(directory or inputs.workload).resolve().name, folder)
    outputs.write({"--output": lambda: made.text})
    if made.remarks:
        outputs.show(lambda: table("Left out, or done in another way", ("key", "what becomes of it"), made.remarks))
