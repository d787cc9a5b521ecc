"""Files of traces and of communicators, whatever their form."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from fredfw import File
from fredfw.errors import InputError
from fredfw_workload_chakra import et
from fredfw_workload_chakra.trace import DIMENSIONS, GROUP, NUMBERS, Collective, Node, NodeType, Trace, Value
from fredfw_workload_chakra.wire import DamagedError

ACCEPTED = "JSON of ASTRA-sim's feeder (workload_graph), of chakra_jsonizer or of STAGE (nodes), or a file .et"
_MOST = 2**64
_SOMETHING = re.compile(r"\S")
_HOST = (
    "is a host trace of PyTorch, which has neither the kernels of the GPU nor sizes of collectives; convert it with "
    "chakra_trace_link and chakra_converter, or use the profiler's trace of the same run with the workload kineto"
)


def parsed(text: str) -> Trace:
    documents = _documents(text)
    first = documents[0]
    if "workload_graph" in first:
        facts = {name: value for name, value in first.items() if isinstance(value, str | int | float)}
        return Trace.of(_each(first, "workload_graph", _feeder), facts)
    if "nodes" in first:
        nodes = first["nodes"]
        if isinstance(nodes, list) and any(isinstance(one, Mapping) and "attrs" in one for one in nodes):
            raise InputError(_HOST, accepted=ACCEPTED)
        return Trace.of(_each(first, "nodes", _stage), {})
    if "traceEvents" in first:
        raise InputError("is a trace of PyTorch's profiler, which the workload kineto reads", accepted=ACCEPTED)
    metadata = {} if "type" in first or "id" in first else first
    said = _attributes(metadata, "the first object")
    if isinstance(metadata.get("version"), str):
        said["version"] = metadata["version"]
    rest = documents[1:] if metadata else documents
    return Trace.of([_jsonized(one, f"object {place}") for place, one in enumerate(rest)], said)


def _documents(text: str) -> list[dict[str, Any]]:
    decoder = json.JSONDecoder()
    found: list[dict[str, Any]] = []
    at = _begin(text, 0)
    while at < len(text):
        try:
            one, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            place = getattr(error, "pos", at)
            message = f"is not JSON at offset {place}: {getattr(error, 'msg', 'nested too deeply')}"
            raise InputError(message, accepted=ACCEPTED) from None
        if not isinstance(one, dict):
            raise InputError(f"has {type(one).__name__} at offset {at}, not an object", accepted=ACCEPTED)
        found.append(one)
        at = _begin(text, end)
    return found


def _begin(text: str, at: int) -> int:
    found = _SOMETHING.search(text, at)
    return len(text) if found is None else found.start()


def _each(document: Mapping[str, Any], key: str, convert: Any) -> list[Node]:
    nodes = document[key]
    if not isinstance(nodes, list):
        raise InputError("is not a list", key=key, accepted="nodes")
    found = []
    for place, one in enumerate(nodes):
        where = f"{key}[{place}]"
        if not isinstance(one, Mapping):
            raise InputError(f"{one!r} is not a node", key=where, accepted="an object")
        found.append(convert(one, where))
    return found


def _feeder(node: Mapping[str, Any], where: str) -> Node:
    """Return a node as ASTRA-sim's feeder has it; a type is a number."""
    number, kind = _whole(node, "Id", where), _whole(node, "NodeType", where)
    order = _order(node, where, "data_deps", "ctrlDeps", "runtime")
    return Node(number, str(node.get("Name", "")), kind, *order, _known(node, where))


def _stage(node: Mapping[str, Any], where: str) -> Node:
    """Return a node as STAGE has it; types have names such as ``comp_node`` and ``COMP_NODE``."""
    number = _whole(node, "id", where)
    kind = _named(NodeType, node.get("node_type"), f"{where}.node_type")
    order = _order(node, where, "data_deps", "ctrl_deps", "duration_micros")
    attributes = _known({**node, GROUP: node.get("comm_group", node.get(GROUP))}, where)
    return Node(number, str(node.get("name", "")), kind, *order, attributes)


def _jsonized(node: Mapping[str, Any], where: str) -> Node:
    """Return a node as Protocol Buffers write it in JSON: 64-bit numbers are texts, and what is 0 is left out."""
    inputs = node.get("inputs")
    number = _whole(node, "id", where, 0)
    kind = _named(NodeType, node.get("type", 0), f"{where}.type")
    order = _order(node, where, "dataDeps", "ctrlDeps", "durationMicros")
    said = str(inputs.get("values", "")) if isinstance(inputs, Mapping) else ""
    return Node(number, str(node.get("name", "")), kind, *order, _attributes(node, where), said)


def _order(node: Mapping[str, Any], where: str, data: str, control: str, time: str) -> tuple[list[int], list[int], int]:
    return _ids(node, data, where), _ids(node, control, where), _whole(node, time, where, 0)


def _attributes(node: Mapping[str, Any], where: str) -> dict[str, Value]:
    """Return the attributes of a node as Protocol Buffers write them, ``{"name": ..., "int64Val": "1"}``."""
    found: dict[str, Value] = {}
    listed = node.get("attr", [])
    for place, one in enumerate(listed if isinstance(listed, list) else [listed]):
        key = f"{where}.attr[{place}]"
        if not isinstance(one, Mapping) or not isinstance(one.get("name"), str):
            raise InputError(f"{one!r} is not an attribute", key=key, accepted="an object with a name")
        name = one["name"]
        for slot, value in one.items():
            if slot.endswith("List") and name == DIMENSIONS and isinstance(value, Mapping):
                found[name] = tuple(map(bool, value.get("values", [])))
            elif slot in ("stringVal", "bytesVal"):
                found[name] = str(value)
            elif slot.endswith("Val"):
                found[name] = _number(value, key)
    return found


def _known(node: Mapping[str, Any], where: str) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for name in NUMBERS:
        value = node.get(name)
        if value is None:
            continue
        key = f"{where}.{name}"
        if name == "comm_type" and isinstance(value, str) and not value.isdecimal():
            found[name] = _named(Collective, value, key)
        else:
            found[name] = _number(value, key)
    if node.get(GROUP) is not None:
        found[GROUP] = str(node[GROUP])
    if isinstance(node.get(DIMENSIONS), list):
        found[DIMENSIONS] = tuple(map(bool, node[DIMENSIONS]))
    return found


def _number(value: object, key: str) -> bool | int | float:
    for kind in (int, float):
        try:
            number = value if isinstance(value, bool | int | float) else kind(str(value))
        except ValueError:
            continue
        if abs(number) <= _MOST:
            return number
    raise InputError(f"{value!r} is not a number", key=key, accepted="a number of at most 2^64")


def _whole(node: Mapping[str, Any], name: str, where: str, default: int | None = None) -> int:
    value = node.get(name, default)
    if value is None:
        raise InputError("is missing", key=f"{where}.{name}", accepted="a whole number")
    return _integer(value, f"{where}.{name}")


def _integer(value: object, key: str) -> int:
    number = _number(value, key)
    if not -(2**63) <= number < 2**63 or number != int(number):
        raise InputError(f"{value!r} is not a whole number", key=key, accepted="a whole number")
    return int(number)


def _ids(node: Mapping[str, Any], name: str, where: str) -> list[int]:
    listed = node.get(name) or []
    values: Sequence[Any] = listed if isinstance(listed, list) else [listed]
    return [_integer(one, f"{where}.{name}[{place}]") for place, one in enumerate(values)]


def _named(kind: type[NodeType] | type[Collective], value: object, key: str) -> int:
    """Return the number of a type that is given by its name, or by the number itself."""
    name = str(value).upper().removesuffix("_NODE" if kind is NodeType else "")
    if name in kind.__members__:
        return int(kind[name])
    if isinstance(value, int):
        return value
    raise InputError(f"{value!r} is not known", key=key, accepted=", ".join(kind.__members__))


_RANK = re.compile(r"\.(\d+)(\.et|\.json|\.eg)?(\.gz)?$")
_JSON = re.compile(rb'(\xef\xbb\xbf)?\s*\{\s*["}]')
_HEAD = 4096
_ACCEPTED = "a whole Chakra execution trace of schema 0.0.4 or later, compressed by gzip or not"


def read(file: File) -> Trace:
    content = file.read()
    with file.named():
        try:
            return parsed(content.decode("utf-8-sig")) if is_json(content) else et.read(content)
        except DamagedError as error:
            message = f"is no Chakra trace, or is damaged, at offset {error.offset}: {error.reason}"
            raise InputError(message, accepted=_ACCEPTED) from None
        except UnicodeDecodeError as error:
            raise InputError(f"is not UTF-8 at offset {error.start}", accepted=ACCEPTED) from None


def is_json(content: bytes) -> bool:
    """Return whether it begins as JSON does; a message of 123 bytes begins with a brace, too."""
    return _JSON.match(content[:_HEAD]) is not None


def rank_of(file: File) -> int | None:
    """Return the rank in the name of ``file``, such as ``gpt.3.et``; ``None`` where there is none."""
    found = _RANK.search(PurePath(file.path).name)
    return None if found is None else int(found[1])


def by_rank(files: Sequence[File]) -> list[File]:
    found: dict[int, File] = {}
    for file in files:
        rank = rank_of(file)
        if rank is None:
            accepted = "names such as gpt.0.et, gpt.1.et"
            raise InputError("has no rank in its name", file=file.path, key="traces", accepted=accepted)
        if rank in found:
            message = f"is of rank {rank}, and so is {found[rank].path}"
            raise InputError(message, file=file.path, key="traces", accepted="one file for each rank")
        found[rank] = file
    missing = [rank for rank in range(max(found)) if rank not in found]
    if missing:
        shown = ", ".join(map(str, missing[:10])) + (f" and {len(missing) - 10} more" if len(missing) > 10 else "")
        message = f"there is no file for rank {shown}, and one for rank {max(found)}: {found[max(found)].path}"
        raise InputError(message, key="traces", accepted="one file for each rank from 0")
    return [found[rank] for rank in range(len(found))]
