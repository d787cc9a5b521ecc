"""Values that replace those of an experiment's tables, by the path of their key: ``--set`` of the command line."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

from fredfw.errors import InputError, UnknownNameError, nearest, placed
from fredfw.experiment.naming import toml_key

_FORM = "a path such as fabrics.mesh.topology.rows, with names in quotes where they are not letters, digits, - and _"
_DEEPEST = 20
_SECTIONS = {"fabrics": "fabric", "workloads": "workload"}


def key_parts(path: str) -> tuple[str, ...]:
    """Return the keys that ``path``, a dotted key of TOML, consists of; raises ``InputError`` unless it is one."""
    try:
        table: Any = tomllib.loads(f"{path} = 0")
    except ValueError:
        raise InputError(f"{path!r} is not a path of keys", accepted=_FORM) from None
    parts: list[str] = []
    while isinstance(table, dict) and len(table) == 1:
        ((key, table),) = table.items()
        parts.append(key)
    if table != 0 or len(parts) > _DEEPEST:  # with a second line that was smuggled in it is a table
        raise InputError(f"{path!r} is not a path of keys", accepted=_FORM)
    return tuple(parts)


def dotted(parts: Iterable[str]) -> str:
    """Return the path of ``parts``, with quotes where TOML needs them."""
    return ".".join(map(toml_key, parts))


def with_values(content: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables ``content`` of an experiment with ``values`` in their places; ``content`` stays as it is.

    A table that is missing is made, but not a fabric or a workload. The name of a plugin that stands alone,
    ``topology = "mesh2d"``, becomes a table with that name. An item of a list is named by its number, from 0.
    """
    changed: Any = dict(content)
    for path, value in values.items():
        with placed(key=path):
            parts = key_parts(path)
            _check_section(content, parts)
            changed = _replaced(changed, parts, value, 0)
    result: dict[str, Any] = changed
    return result


def _check_section(content: Mapping[str, Any], parts: tuple[str, ...]) -> None:
    kind = _SECTIONS.get(parts[0])
    sections = content.get(parts[0])
    if kind is None or len(parts) == 1 or not isinstance(sections, Mapping) or parts[1] in sections:
        return
    message = f"there is no {kind} {parts[1]!r}{nearest(parts[1], sections)}"
    raise UnknownNameError(message, accepted=", ".join(map(toml_key, sections)))


def _replaced(old: Any, parts: tuple[str, ...], value: Any, depth: int) -> Any:
    """Return ``old`` with ``value`` at ``parts[depth:]``."""
    if depth == len(parts):
        return value
    key = parts[depth]
    if isinstance(old, list):
        if not key.isdecimal() or int(key) >= len(old):
            raise InputError(f"{dotted(parts[:depth])} has no item {key}", accepted=f"0 to {len(old) - 1}")
        position = int(key)
        return [*old[:position], _replaced(old[position], parts, value, depth + 1), *old[position + 1 :]]
    if isinstance(old, str) and depth > 2:
        # The name of a plugin; "auto" in the place of a table of collectives is the choice of none.
        old = {} if parts[depth - 1] == "collectives" and depth == 3 else {"name": old}
    if old is None:
        old = {}
    if not isinstance(old, Mapping):
        message = f"{dotted(parts[:depth])} is {old!r}, which has no key {key!r}"
        raise InputError(message, accepted="a key of a table")
    return {**old, key: _replaced(old.get(key), parts, value, depth + 1)}
