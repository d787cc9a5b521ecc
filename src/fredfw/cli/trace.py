"""The commands about execution traces: trace info."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, cast

import click

from fredfw.cli.completion import PathText, trace_workloads
from fredfw.cli.output import Outputs
from fredfw.cli.session import open_framework
from fredfw.errors import InputError

if TYPE_CHECKING:
    from fredfw.plugin.manager import PluginManager
    from fredfw.workloads import TraceWorkload

_PATH = PathText()
# How much of a file a format may look at.
_HEAD = 1 << 16

files_argument = click.argument("files", nargs=-1, required=True, metavar="FILE...", type=_PATH)
format_option = click.option(
    "--format",
    "given",
    metavar="WORKLOAD",
    shell_complete=trace_workloads,
    help="The workload plugin that reads the files. A name, or {name = ..., KEY = ...}.  [default: found by the files]",
)


@click.group()
def trace() -> None:
    """Look at execution traces that a workload plugin reads."""


@trace.command(short_help="Show what the files of a trace hold.")
@files_argument
@format_option
@click.option(
    "--json", "json_path", metavar="PATH", type=_PATH, help="Write all that is known as JSON; - is standard output."
)
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
    outputs.show(lambda: traces.info_report(workload, found))


def open_trace(files: Sequence[str], given: str | None, plugins: PluginManager) -> TraceWorkload:
    """Return the workload that reads ``files``, configured with them.

    Args:
        files: Paths, relative to the working directory.
        given: What ``--format`` was given; ``None`` to ask the plugins, by the first file.
        plugins: Those that may read them.

    Raises:
        InputError: No workload reads such files, or several do, or a field has an impossible value.
    """
    from fredfw.plugin import configure
    from fredfw.workloads import TraceWorkload

    readers = [one for one in plugins.workloads if issubclass(one, TraceWorkload)]
    known = ", ".join(one.name for one in readers) or "none is installed"
    value = _found(files[0], readers, known) if given is None else configure.from_toml(given)
    fields = dict(value) if isinstance(value, Mapping) else {"name": value}
    name = fields.get("name")
    if isinstance(name, str) and name in plugins.workloads and plugins.workloads.get(name) not in readers:
        raise InputError(f"the workload {name!r} reads no traces", key="--format", accepted=known)
    return cast(
        "TraceWorkload",
        configure.choose(
            {**fields, "traces": list(files)},
            plugins.workloads,
            key_prefix="" if given is None else "--format",
            registries=lambda: plugins.registries,
        ),
    )


def _found(file: str, readers: Sequence[type[TraceWorkload]], known: str) -> str:
    """Return the name of the only one of ``readers`` that recognises ``file``."""
    from fredfw.answers import Asking

    head, names = _head(file), []
    for one in readers:
        with Asking(one, "recognises"):
            if one.recognises(PurePath(file).name, head):
                names.append(one.name)
    if len(names) == 1:
        return names[0]
    message = f"may be of the formats {', '.join(names)}" if names else "is of no format that an installed plugin reads"
    raise InputError(message, file=file, accepted=f"--format with one of: {known}")


def _head(file: str) -> bytes:
    """Return the beginning of ``file``, expanded where it is compressed."""
    try:
        with open(file, "rb") as stream:
            head = stream.read(_HEAD)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "is not a path"
        raise InputError(f"cannot be read: {reason}", file=file, accepted="the path of a trace") from None
    if head[:2] != b"\x1f\x8b":
        return head
    try:
        return zlib.decompressobj(wbits=31).decompress(head, _HEAD)
    except zlib.error:
        return b""
