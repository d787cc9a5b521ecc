"""Values in the tables of an experiment, by the path of their key: ``--set``, and sweeps, tables that are many."""

import math
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import product
from typing import Any

from fredfw import limits
from fredfw.errors import InputError, UnknownNameError, nearest, placed
from fredfw.experiment.file.spec import Section
from fredfw.experiment.naming import fill, placeholders, toml_key

_FORM = "a path such as fabrics.mesh.topology.rows, with names in quotes where they are not letters, digits, - and _"
_SWEEP = "a table of lists, such as { npus = [1024, 2048] }"
_DEEPEST = 20
_SECTIONS = {"fabrics": "fabric", "workloads": "workload"}


def key_parts(path: str) -> tuple[str, ...]:
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
    return ".".join(map(toml_key, parts))


def with_values(content: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables ``content`` of an experiment with ``values`` in their places; ``content`` stays as it is.

    A table that is missing is made, but not a fabric or a workload; an item of a list is named by its number, from 0.
    """
    changed: Any = dict(content)
    for path, value in values.items():
        with placed(key=path):
            parts = key_parts(path)
            _check_section(content, parts)
            changed = _replaced(changed, parts, value)
    result: dict[str, Any] = changed
    return result


def _check_section(content: Mapping[str, Any], parts: tuple[str, ...]) -> None:
    kind = _SECTIONS.get(parts[0])
    sections = content.get(parts[0])
    if kind is None or len(parts) == 1 or not isinstance(sections, Mapping) or parts[1] in sections:
        return
    message = f"there is no {kind} {parts[1]!r}{nearest(parts[1], sections)}"
    raise UnknownNameError(message, accepted=", ".join(map(toml_key, sections)))


def _replaced(old: Any, parts: tuple[str, ...], value: Any, depth: int = 0) -> Any:
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
        raise InputError(f"{dotted(parts[:depth])} is {old!r}, which has no key {key!r}", accepted="a key of a table")
    return {**old, key: _replaced(old.get(key), parts, value, depth + 1)}


def expand(tables: Mapping[str, Mapping[str, Any]], kind: str, plugin: str, keys: Collection[str]) -> Iterator[Section]:
    """Yield every section that ``tables``, by name, stand for; the first key of a sweep is slowest.

    A swept path such as ``topology.node.npus``, whose first key is one of ``keys``, is as it is; others are fields of
    the section's ``plugin``.
    """
    taken: dict[str, str] = {}
    for template, table in tables.items():
        key = f"{kind}.{template}.sweep"
        rest = {name: value for name, value in table.items() if name != "sweep"}
        sweep = _checked(table["sweep"], template, key) if "sweep" in table else {}
        own = plugin in rest or plugin in sweep  # a row of several jobs has no plugin of its own
        paths: dict[str, tuple[str, ...]] = {}
        for field in sweep:
            with placed(key=f"{key}.{field}"):
                parts = key_parts(field)
            paths[field] = (plugin, *parts) if own and parts[0] not in keys else parts
            _check_free(rest, paths[field], f"{key}.{field}")
        ordered = sorted(paths, key=lambda field: len(paths[field]))  # those that hold others come first
        for values in product(*sweep.values()):
            settings = dict(zip(sweep, values, strict=True))
            name = fill(template, settings) if settings else template
            if name in taken:
                message = f"{name!r} is used twice, first in {kind}.{taken[name]}"
                raise InputError(message, key=key if settings else f"{kind}.{template}", accepted="different names")
            taken[name] = template
            whole: Any = {kind: {name: rest}}
            for field in ordered:
                path = (kind, name, *paths[field])
                with placed(key=dotted(path)):
                    whole = _replaced(whole, path, settings[field])
            yield Section(name=name, template=template, settings=settings, table=whole[kind][name])


def _check_free(table: Any, path: tuple[str, ...], where: str) -> None:
    for part in path:
        if isinstance(table, list):
            table = dict(zip(map(str, range(len(table))), table, strict=True))
        if not isinstance(table, Mapping) or part not in table:
            return
        table = table[part]
    raise InputError(f"{table!r} is given, and the field is swept too", key=where, accepted="one of the two")


def _checked(sweep: object, template: str, key: str) -> Mapping[str, list[Any]]:
    if not isinstance(sweep, Mapping) or not sweep:
        raise InputError(f"{sweep!r} is not a sweep", key=key, accepted=_SWEEP)
    sweep = dict(_flat(sweep))
    named = placeholders(template)
    for field, values in sweep.items():
        where = f"{key}.{field}"
        if not isinstance(values, list) or not values:
            raise InputError(f"{values!r} is not a list of values", key=where, accepted="a list of one or more values")
        if field not in named:
            message = f"the name {template!r} has no placeholder {{{field}}}, so its cells cannot be told apart"
            raise InputError(message, key=where, accepted=f"a name with {{{field}}} in it")
    for field in named:
        if field not in sweep:
            message = f"the name {template!r} has the placeholder {{{field}}}, but the sweep has no field {field!r}"
            accepted = f"a name with placeholders only for {', '.join(sweep)}, or a list of values of {field}"
            raise InputError(f"{message}{nearest(field, sweep)}", key=key, accepted=accepted)
    limits.check("cells", math.prod(map(len, sweep.values())), key=key)  # each is a row or a column of cells
    return sweep


def _flat(sweep: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield paths and values: ``topology.npus = [2]`` is a table in a table to TOML, unless it is in quotes."""
    for key, value in sweep.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{above}{toml_key(key)}.")
        else:
            yield f"{above}{toml_key(key) if above else key}", value
