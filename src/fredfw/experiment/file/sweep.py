"""Sweeps: one table of an experiment file that stands for many, one per combination of the values listed."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from itertools import product
from typing import Any

from fredfw import limits
from fredfw.errors import InputError, nearest, placed
from fredfw.experiment.file.overrides import dotted, key_parts, with_values
from fredfw.experiment.file.spec import Section
from fredfw.experiment.naming import fill, placeholders, toml_key

_FORM = "a table of lists, such as { npus = [1024, 2048] }"


def expand(tables: Mapping[str, Mapping[str, Any]], kind: str, plugin: str, keys: Collection[str]) -> Iterator[Section]:
    """Yield every section that ``tables``, by name, stand for; the first key of a sweep is slowest.

    What is swept is a path whose first key is one of ``keys``, such as ``sharing`` or ``topology.node.npus``. Any other
    is a field of the section's ``plugin``.
    """
    taken: dict[str, str] = {}
    for template, table in tables.items():
        key = f"{kind}.{template}.sweep"
        rest = {name: value for name, value in table.items() if name != "sweep"}
        sweep = _checked(table["sweep"], template, key) if "sweep" in table else {}
        # A row of several jobs has no plugin of its own.
        own = plugin in rest or plugin in sweep
        paths = {field: _path(field, plugin if own else None, keys, f"{key}.{field}") for field in sweep}
        for field, path in paths.items():
            _check_free(rest, path, f"{key}.{field}")
        for values in product(*sweep.values()):
            settings = dict(zip(sweep, values, strict=True))
            name = fill(template, settings) if settings else template
            if name in taken:
                where = key if settings else f"{kind}.{template}"
                message = f"{name!r} is used twice, first in {kind}.{taken[name]}"
                raise InputError(message, key=where, accepted="different names")
            taken[name] = template
            whole = _filled(kind, name, rest, {paths[one]: settings[one] for one in paths})
            yield Section(name=name, template=template, settings=settings, table=whole)


def _path(field: str, plugin: str | None, keys: Collection[str], where: str) -> tuple[str, ...]:
    """Return the keys that lead to a swept field in its section."""
    with placed(key=where):
        parts = key_parts(field)
    return parts if plugin is None or parts[0] in keys else (plugin, *parts)


def _check_free(table: Any, path: tuple[str, ...], where: str) -> None:
    for part in path:
        if isinstance(table, list):
            table = dict(zip(map(str, range(len(table))), table, strict=True))
        if not isinstance(table, Mapping) or part not in table:
            return
        table = table[part]
    raise InputError(f"{table!r} is given, and the field is swept too", key=where, accepted="one of the two")


def _filled(kind: str, name: str, table: Mapping[str, Any], values: Mapping[tuple[str, ...], Any]) -> Mapping[str, Any]:
    """Return ``table`` with ``values`` in their places; those that hold others come first."""
    if not values:
        return table
    ordered = sorted(values, key=len)
    whole = with_values({kind: {name: table}}, {dotted((kind, name, *path)): values[path] for path in ordered})
    filled: Mapping[str, Any] = whole[kind][name]
    return filled


def _checked(sweep: object, template: str, key: str) -> Mapping[str, list[Any]]:
    if not isinstance(sweep, Mapping) or not sweep:
        raise InputError(f"{sweep!r} is not a sweep", key=key, accepted=_FORM)
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
    # Each of them is a row or a column of cells.
    limits.check("cells", math.prod(map(len, sweep.values())), key=key)
    return sweep


def _flat(sweep: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield paths and values: ``topology.npus = [2]`` is a table in a table to TOML, unless it is in quotes."""
    for key, value in sweep.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{above}{toml_key(key)}.")
        else:
            yield f"{above}{toml_key(key) if above else key}", value
