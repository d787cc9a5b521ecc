"""The command ``fredfw import astra-sim``: ASTRA-sim's inputs as one experiment file."""

import glob
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from fredfw.cli import Outputs, table
from fredfw.errors import InputError
from fredfw.tables import as_choice
from fredfw_topology_astra_sim_network.inputs import find, opened, read_table, traces
from fredfw_topology_astra_sim_network.system import PATTERNS, System, number, written
from fredfw_topology_astra_sim_network.topology import read

_STDOUT = "-"
_NO_MEMORY, _PER_NODE = "NO_MEMORY_EXPANSION", "PER_NODE_MEMORY_EXPANSION"
_SCOPES = {"PER_NPU_MEMORY_EXPANSION": "npu", _PER_NODE: "node", "MEMORY_POOL": "fabric"}
_MEMORIES = _NO_MEMORY, *_SCOPES


def experiment(inputs: Mapping[str, str], title: str, folder: Path) -> tuple[str, list[tuple[str, str]]]:
    """Return the experiment as TOML, and key and fate of each input that is left out or done in another way."""
    with opened(inputs["network"], "--network") as content:
        blocks = read(content)
    with opened(inputs["system"], "--system") as content:
        system = System(read_table(content), blocks)
    npus = math.prod(block.npus for block in blocks)
    ranks = traces(inputs["workload"])
    missing = next((rank for rank in range(npus) if rank not in ranks), None)
    where = {"file": inputs["workload"], "key": "--workload"}
    if missing is not None:
        message = f"there is no file {Path(inputs['workload']).name}.{missing}.et"
        raise InputError(message, **where, accepted=f"one for each of {npus} NPUs")
    if len(ranks) > npus:
        message = f"there are traces of {len(ranks)} ranks, and the network has {npus} NPUs"
        raise InputError(message, **where, accepted=f"traces of {npus} ranks")
    prefix = Path(_relative(inputs["workload"], folder))
    traces_of = (prefix.parent / f"{glob.escape(prefix.name)}.*.et").as_posix()
    workload: dict[str, Any] = {"name": "chakra", "traces": traces_of}
    if "groups" in inputs:
        with opened(inputs["groups"], "--groups") as content:
            read_table(content)
        workload["comm_groups"] = _relative(inputs["groups"], folder)
    workload["mode"] = system.mode
    if len(blocks) > 1:
        workload["dimensions"] = [block.npus for block in blocks]
    memories = []
    if "remote_memory" in inputs:
        with opened(inputs["remote_memory"], "--remote-memory") as content:
            memories = _memories(read_table(content), npus)
    topology = {"name": "astra-sim-network", "file": _relative(inputs["network"], folder)}
    return _text(title, topology, system, workload, memories), system.remarks


def _memories(table: Mapping[str, Any], npus: int) -> list[dict[str, Any]]:
    # One transaction at a time is what ASTRA-sim's memories of nodes and pools serve, and what one of its NPUs has.
    if (kind := as_choice(table.get("memory-type"), _MEMORIES, "memory-type")) == _NO_MEMORY:
        return []
    if not (bandwidth := number(table, "remote-mem-bw", 0.0)):
        raise InputError(f"is missing, and {kind} needs it", key="remote-mem-bw", accepted="a number above 0, in GB/s")
    tier: dict[str, Any] = {
        "name": "remote",
        "scope": _SCOPES[kind],
        "bandwidth": written(bandwidth, "GB/s"),
        "latency": written(number(table, "remote-mem-latency", 0.0), "ns"),
        "discipline": "one-at-a-time",
    }
    if kind == _PER_NODE:
        each = table.get("num-npus-per-node")
        if isinstance(each, bool) or not isinstance(each, int) or each < 1 or npus % each:
            accepted = f"a divisor of the {npus} NPUs of the network"
            raise InputError(f"{each!r} is refused", key="num-npus-per-node", accepted=accepted)
        tier["npus"] = each
    return [tier]


def _text(
    title: str, topology: Mapping[str, str], system: System, workload: Mapping[str, Any], memories: list[dict[str, Any]]
) -> str:
    lines = ["# Written by: fredfw import astra-sim"]
    if system.remarks:
        lines += ["#", "# What is left out of ASTRA-sim's inputs, or done in another way:"]
        lines += [f"# {key}: {what}" for key, what in system.remarks]
    lines += ["", f"title = {_toml(title)}"]
    if system.npu:
        lines += ["", "[npu]", *(f"{key} = {_toml(value)}" for key, value in system.npu.items())]
    lines += ["", "[fabrics.astra-sim]", f"topology = {_toml(topology)}"]
    if system.step:
        lines.append(f"transport = {_toml({'name': 'alpha-beta', 'step': written(system.step, 'ns')})}")
    if memories:
        lines.append(f"memories = {_toml(memories)}")
    lines += ["", "[fabrics.astra-sim.collectives]"]
    for pattern in PATTERNS:
        chosen = system.collectives[pattern]
        lines.append(f"{pattern} = {_toml(chosen if len(chosen) > 1 else chosen[0])}")
    lines += ['default = "direct"', "", "[workloads.traces]", f"workload = {_toml(workload)}"]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{key} = {_toml(one)}' for key, one in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    # JSON's escapes are those of TOML, which has one character more that must be escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _relative(path: str, folder: Path) -> str:
    try:
        found = os.path.relpath(path, folder)
        found.encode()
    except ValueError as error:  # another drive, or a name that is not text
        message = f"cannot be named in an experiment: {error}"
        raise InputError(message, file=ascii(path), accepted="another path") from None
    return Path(found).as_posix()


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
    outputs = Outputs({"--output": output}, source=[path for part, path in inputs.items() if part != "workload"])
    folder = Path() if output == _STDOUT else Path(output).parent
    text, remarks = experiment(inputs, Path(directory or inputs["workload"]).resolve().name, folder)
    outputs.write({"--output": lambda: text})
    if remarks:
        outputs.show(lambda: table("Left out, or done in another way", ("key", "what becomes of it"), remarks))
