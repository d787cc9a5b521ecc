"""The input files of a run of ASTRA-sim, YAML and JSON: named one by one, or found in a folder by what is in them."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fredfw import File
from fredfw.errors import InputError, placed
from fredfw.tables import parse_json

if TYPE_CHECKING:
    import yaml


@cache
def _loader() -> type[yaml.SafeLoader]:
    import yaml

    class Loader(yaml.SafeLoader):
        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
            seen = set[object]()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode):
                    if key.value in seen:
                        problem = f"the key {key.value!r} is there twice"
                        raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
                    seen.add(key.value)
            return super().construct_mapping(node, deep)

    return Loader


def read_yaml(content: bytes) -> Any:
    """Return the one document in ``content``; tags that make objects, and keys that are there twice, are refused."""
    import yaml  # which takes longer to import than the rest of this plugin, and is needed for files alone

    try:
        return yaml.load(content, Loader=_loader())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise InputError(f"{place}{error.problem or error.context}", accepted="YAML") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # bytes that are no text, dates that do not exist
        reason = "is nested too deeply" if isinstance(error, RecursionError) else str(error).partition("\n")[0]
        raise InputError(reason, accepted="YAML") from None


def read_table(content: bytes) -> Mapping[str, Any]:
    value = parse_json(content)
    if not isinstance(value, dict):
        raise InputError("is not a JSON object", accepted="an object of keys and values")
    return value


_TRACE = re.compile(r"(?P<prefix>.+)\.\d+\.et")
_LARGEST = 1 << 24  # bytes of a configuration file; what is larger is not looked into
_SYSTEM = {"scheduling-policy", "collective-optimization", "preferred-dataset-splits", "endpoint-delay", "peak-perf"}
_OPTIONS = {
    part: f"--{part.replace('_', '-')}" for part in ("network", "system", "remote_memory", "groups", "workload")
}
_WHAT = {
    "network": "a YAML file with topology, npus_count, bandwidth and latency",
    "system": "a JSON file with keys such as all-reduce-implementation",
    "workload": "the part before .0.et of the names of execution traces",
}


def find(folder: str | None, named: Mapping[str, str | None]) -> dict[str, str]:
    """Return files by part: those ``named``, others right in ``folder``; ``workload`` is the path before ``.0.et``."""
    chosen: dict[str, str] = {part: path for part, path in named.items() if path is not None}
    missing = [part for part in _OPTIONS if part not in chosen]
    if folder is not None and missing:
        found: dict[str, list[str]] = {}
        for part, path in _parts(folder):
            if part in missing and path not in found.setdefault(part, []):
                found[part].append(path)
        for part, paths in found.items():
            if len(paths) > 1:
                names = ", ".join(Path(path).name for path in paths)
                message = f"there are several files for {_OPTIONS[part]}: {names}"
                raise InputError(message, file=folder, accepted=f"one, or {_OPTIONS[part]} with the one that is meant")
            chosen[part] = paths[0]
    for part, what in _WHAT.items():
        if part not in chosen:
            where = "is not named" if folder is None else "is not in the folder"
            raise InputError(where, file=folder, key=_OPTIONS[part], accepted=what)
    return chosen


def traces(workload: str) -> dict[int, Path]:
    prefix = Path(workload)
    pattern = re.compile(rf"{re.escape(prefix.name)}\.(\d+)\.et")
    matches = ((pattern.fullmatch(path.name), path) for path in _listed(prefix.parent, key="--workload"))
    found = {int(match[1]): path for match, path in matches if match}
    if not found:
        raise InputError(f"there is no file {prefix.name}.0.et", file=str(prefix.parent), key="--workload")
    return found


@contextmanager
def opened(path: str, option: str) -> Iterator[bytes]:
    with placed(key=option):
        file = File.at(path)
        content = file.read()
    with file.named():
        yield content


def _parts(folder: str) -> Iterator[tuple[str, str]]:
    """Yield which part of a run a file is, and its path; other files are passed over."""
    for path in _listed(Path(folder), key="DIR"):
        if match := _TRACE.fullmatch(path.name):
            yield "workload", str(path.with_name(match["prefix"]))
        if (part := _part(path)) is not None:
            yield part, str(path)


def _part(path: Path) -> str | None:
    if path.suffix not in (".json", ".yml", ".yaml") or path.stat().st_size > _LARGEST:
        return None
    read = parse_json if path.suffix == ".json" else read_yaml
    with opened(str(path), "DIR") as content:
        value: Any = read(content)
    if not isinstance(value, dict) or not value:
        return None
    keys = {str(key) for key in value}
    if path.suffix != ".json":
        return "network" if {"topology", "npus_count"} <= keys else None
    if "memory-type" in keys:
        return "remote_memory"
    if keys & _SYSTEM or any("-implementation" in key for key in keys):
        return "system"
    return "groups" if all(key.isdecimal() for key in keys) else None


def _listed(folder: Path, *, key: str) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.is_file())
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"cannot be read: {reason}", file=str(folder), key=key, accepted="a folder") from None
