"""The workload that reads the files of a trace, and what it says of them."""

import zlib
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, cast

from fredfw import PluginManager, TraceInfo, TraceWorkload
from fredfw.cli import ask, chosen
from fredfw.errors import InputError
from fredfw.tables import parse_toml

# How much of a file a format may look at.
_HEAD = 1 << 16
_GZIP = b"\x1f\x8b"


def readers(plugins: PluginManager) -> list[type[TraceWorkload]]:
    return [one for one in plugins.workloads if issubclass(one, TraceWorkload)]


def opened(files: Sequence[str], given: str | None, plugins: PluginManager) -> TraceWorkload:
    """Return the workload that reads ``files``: what ``--format`` was ``given``, or what plugins recognise."""
    known = {one.name: one for one in readers(plugins)}
    accepted = ", ".join(known) or "none is installed"
    fields = {"name": _found(files, known, accepted)} if given is None else _table(given)
    name = fields.get("name")
    if isinstance(name, str) and name in plugins.workloads and name not in known:
        raise InputError(f"the workload {name!r} reads no traces", key="--format", accepted=accepted)
    if "traces" in fields:
        raise InputError("is what FILE... gives", key="--format.traces", accepted="a format without traces")
    prefix = "" if given is None else "--format"
    return cast("TraceWorkload", chosen({**fields, "traces": list(files)}, plugins.workloads, plugins, prefix))


def infos(workload: TraceWorkload) -> tuple[TraceInfo, ...]:
    """Return what the files of ``workload`` hold; no two are of the same rank."""
    found = ask(TraceWorkload.info, workload)
    of_rank: dict[int, str] = {}
    for one in found:
        if one.rank in of_rank:
            message = f"is of rank {one.rank}, and so is {of_rank[one.rank]}"
            raise InputError(message, file=one.path, accepted="one file for each rank")
        if one.rank is not None:
            of_rank[one.rank] = one.path
    return found


def _table(given: str) -> dict[str, Any]:
    try:
        value = parse_toml(f"value = {given}")["value"]
    except InputError:
        value = given
    return dict(value) if isinstance(value, Mapping) else {"name": value}


def _found(files: Sequence[str], known: Mapping[str, type[TraceWorkload]], accepted: str) -> str:
    """Return the name of the only one of ``known`` that recognises the first file; no other may have the next."""
    first, *others = files
    names = _recognising(first, known)
    if len(names) != 1:
        many = f"may be of the formats {', '.join(names)}"
        message = many if names else "is of no format that an installed plugin reads"
        raise InputError(message, file=first, accepted=f"--format with one of: {accepted}")
    for file in others:
        # What nobody recognises, such as a damaged file, its reader can name best.
        found = _recognising(file, known)
        if found and names[0] not in found:
            message = f"is of the format {' or '.join(found)}, and {first} of {names[0]}: they are of different formats"
            raise InputError(message, file=file, accepted="files of one format")
    return names[0]


def _recognising(file: str, known: Mapping[str, type[TraceWorkload]]) -> list[str]:
    name, head = PurePath(file).name, _head(file)
    return [one for one, reader in known.items() if ask(TraceWorkload.recognises, reader, name, head)]


def _head(file: str) -> bytes:
    try:
        with open(file, "rb") as stream:
            head = stream.read(_HEAD)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "is not a path"
        raise InputError(f"cannot be read: {reason}", file=file, accepted="the path of a trace") from None
    if not head.startswith(_GZIP):
        return head
    try:
        return zlib.decompressobj(wbits=31).decompress(head, _HEAD)
    except zlib.error:
        return b""
