"""Sweeps: one table of an experiment file that stands for many, one per combination of the values listed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from fredfw import limits
from fredfw.errors import InputError, nearest
from fredfw.experiment.naming import fill, placeholders

_FORM = "a table of lists, such as { npus = [1024, 2048] }"


def expand(
    tables: Mapping[str, Mapping[str, Any]], kind: str, plugin: str
) -> Iterator[tuple[str, str, Mapping[str, Any], Mapping[str, Any]]]:
    """Yield (name, template, settings, table) of every section that ``tables`` stand for; the first key is slowest.

    Args:
        tables: By name.
        kind: Key path of all of them: ``fabrics`` or ``workloads``.
        plugin: The key whose table the swept fields are merged into.

    Raises:
        InputError: A sweep is not a table of lists, a swept field is missing in the name or already set, or two
            sections have the same name.
    """
    taken: dict[str, str] = {}
    for template, table in tables.items():
        key = f"{kind}.{template}.sweep"
        rest = {name: value for name, value in table.items() if name != "sweep"}
        # A row of several jobs has fields of its own, such as their placement.
        swept = rest.get(plugin, rest if "jobs" in rest else None)
        sweep = _checked(table["sweep"], template, swept, key) if "sweep" in table else {}
        for values in product(*sweep.values()):
            settings = dict(zip(sweep, values, strict=True))
            name = fill(template, settings) if settings else template
            if name in taken:
                where = key if settings else f"{kind}.{template}"
                message = f"{name!r} is used twice, first in {kind}.{taken[name]}"
                raise InputError(message, key=where, accepted="different names")
            taken[name] = template
            if settings and plugin not in rest and "jobs" in rest:
                yield name, template, settings, {**rest, **settings}
            elif settings and plugin in rest:
                chosen = rest[plugin]
                fields = chosen if isinstance(chosen, Mapping) else {"name": chosen}
                yield name, template, settings, {**rest, plugin: {**fields, **settings}}
            else:
                yield name, template, settings, rest


def _checked(sweep: object, template: str, plugin: object, key: str) -> Mapping[str, list[Any]]:
    if not isinstance(sweep, Mapping) or not sweep:
        raise InputError(f"{sweep!r} is not a sweep", key=key, accepted=_FORM)
    named = placeholders(template)
    for field, values in sweep.items():
        where = f"{key}.{field}"
        if not isinstance(values, list) or not values:
            raise InputError(f"{values!r} is not a list of values", key=where, accepted="a list of one or more values")
        if field not in named:
            message = f"the name {template!r} has no placeholder {{{field}}}, so its cells cannot be told apart"
            raise InputError(message, key=where, accepted=f"a name with {{{field}}} in it")
        if isinstance(plugin, Mapping) and field in plugin:
            raise InputError(
                f"{plugin[field]!r} is given, and the field is swept too", key=where, accepted="one of the two"
            )
    for field in named:
        if field not in sweep:
            message = f"the name {template!r} has the placeholder {{{field}}}, but the sweep has no field {field!r}"
            accepted = f"a name with placeholders only for {', '.join(sweep)}, or a list of values of {field}"
            raise InputError(f"{message}{nearest(field, sweep)}", key=key, accepted=accepted)
    # Each of them is a row or a column of cells.
    limits.check("cells", math.prod(map(len, sweep.values())), key=key)
    return sweep
