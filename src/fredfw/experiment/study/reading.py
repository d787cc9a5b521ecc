"""Reads what an experiment says of a search: its space, what is looked for, and how points are run."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

from attrs import frozen

from fredfw.errors import InputError, UnknownNameError, placed
from fredfw.experiment.file.overrides import key_parts, with_values
from fredfw.experiment.file.spec import AnyOutline, Section
from fredfw.experiment.metrics import METRICS, metric
from fredfw.experiment.study import ranges
from fredfw.experiment.study.constraints import Constraint
from fredfw.experiment.study.results import Objective
from fredfw.experiment.study.space import FABRIC, WORKLOAD, Dimension, Space
from fredfw.fidelities import FIDELITIES, checked, hint
from fredfw.tables import as_table, check_keys
from fredfw.units import Unit, parse

Rung: TypeAlias = tuple[str | None, Mapping[str, Any]]
"""A fidelity, or ``None`` for the experiment's own, and what is set in the experiment, by path, at whatever point."""


@frozen(eq=False, kw_only=True)
class Study:
    """What an experiment is searched for, and where."""

    dimensions: tuple[Dimension, ...]
    constraints: tuple[Constraint, ...]
    constants: Mapping[str, Any]  # by name, for constraints
    objectives: tuple[Objective, ...]
    limits: Mapping[str, float]  # the most that is allowed of a metric, or the least where more is better
    sampler: object  # which points are run, as written
    rungs: Mapping[str, Rung]  # by name: its own, and the fidelities
    content: Mapping[str, Any]  # the tables of the experiment without those of the search, which points set values in
    tables: Mapping[str, Any]  # those of the search, as written
    file: str | None  # where those were read from

    def rung(self, name: str | None) -> Rung:
        """Return what a sampler asks for, with ``None`` the experiment's own; raises ``UnknownNameError``."""
        if name is None:
            return None, {}
        if name not in self.rungs:
            message = f"there is no rung {name!r}{hint(name, tuple(self.rungs))}"
            raise UnknownNameError(message, file=self.file, key="sampler", accepted=", ".join(self.rungs))
        return self.rungs[name]

    def space(self, outline: AnyOutline) -> Space:
        paths = [list(map(key_parts, one.paths)) for one in self.dimensions]
        cells = {}
        for workload, fabric in outline.cells:
            sections: Mapping[str, Section] = {"workloads": workload, "fabrics": fabric}
            concerning = (number for number, own in enumerate(paths) if any(_concerns(one, sections) for one in own))
            cells[workload.name, fabric.name] = tuple(concerning)
        return Space(self.dimensions, cells, self.constraints, self.constants)


def read(tables: Mapping[str, Any], content: Mapping[str, Any], file: str | None) -> Study:
    with placed(file=file):
        dimensions = _dimensions(as_table(tables.get("space"), "space"), content)
        constants = _constants(as_table(tables.get("constants", {}), "constants"), [one.name for one in dimensions])
        objectives, limits = _objective(as_table(tables.get("objective"), "objective"))
        return Study(
            dimensions=dimensions,
            constraints=_constraints(tables.get("constraints", []), dimensions, constants),
            constants=constants,
            objectives=objectives,
            limits=limits,
            sampler=tables.get("sampler", "grid"),
            rungs=_rungs(as_table(tables.get("rungs", {}), "rungs"), content),
            content=content,
            tables=tables,
            file=file,
        )


def _dimensions(tables: Mapping[str, Any], content: Mapping[str, Any]) -> tuple[Dimension, ...]:
    dimensions = tuple(_dimension(name, given) for name, given in tables.items())
    if not dimensions:
        raise InputError("names nothing to vary", key="space", accepted="one or more names, each with its values")
    taken: dict[tuple[str, ...], str] = {}
    for dimension in dimensions:
        key = f"space.{dimension.name}"
        for path in dimension.paths:
            parts = key_parts(path)
            for other, name in taken.items():
                if all(one == theirs for one, theirs in zip(parts, other, strict=False)):
                    raise InputError(f"{path} is set by {name!r}, too", key=key, accepted="one name for each path")
            taken[parts] = dimension.name
            with placed(key=key, anew=True):
                _set(content, {path: dimension.values[0]})
    return dimensions


def _set(content: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Set what a point may: no files of plugins, for nobody was asked whether to trust those."""
    for path in values:
        if key_parts(path)[0] == "plugins":
            raise InputError(f"{path} names files that run code", accepted="plugins of the whole experiment")
    with_values(content, values)


def _constraints(
    given: object, dimensions: Sequence[Dimension], constants: Mapping[str, Any]
) -> tuple[Constraint, ...]:
    if not isinstance(given, list):
        raise InputError(f"{given!r} is not a list", key="constraints", accepted="a list of texts")
    known = [*(one.name for one in dimensions), *constants, WORKLOAD, FABRIC]
    parsed = []
    for index, text in enumerate(given):
        with placed(key=f"constraints[{index}]"):
            parsed.append(Constraint.parse(text, known))
    return tuple(parsed)


def _concerns(parts: Sequence[str], sections: Mapping[str, Section]) -> bool:
    section = sections.get(parts[0])
    return section is None or len(parts) == 1 or section.is_called([parts[1]])


def _dimension(name: str, given: object) -> Dimension:
    key = f"space.{name}"
    if name in (WORKLOAD, FABRIC):
        raise InputError("means the cell in constraints", key=key, accepted="another name")
    with placed(key=key):
        paths: object = [name]
        if isinstance(given, Mapping):
            if "path" in given and "paths" in given:
                raise InputError("is given, and path too", key="paths", accepted="one of the two keys")
            paths = given.get("paths", [given["path"]] if "path" in given else [name])
            given = {one: value for one, value in given.items() if one not in ("path", "paths")}
        if not isinstance(paths, list) or not paths or not all(isinstance(path, str) for path in paths):
            accepted = "such as workloads.gpt3.workload.mp, or paths = [...]"
            raise InputError(f"{paths!r} is not a path", key="path", accepted=accepted)
        for path in paths:
            if len(key_parts(path)) == 1 and path == name:
                accepted = f"{{ path = 'workloads.NAME.workload.{name}', ... }}"
                raise InputError("says no path that it sets", accepted=accepted)
        return Dimension(name, tuple(paths), ranges.values_of(given))


def _constants(given: Mapping[str, Any], names: Collection[str]) -> Mapping[str, Any]:
    for name, value in given.items():
        if name in names or name in (WORKLOAD, FABRIC):
            raise InputError("is a name of the space", key=f"constants.{name}", accepted="another name")
        if not isinstance(value, bool | int | float | str):
            raise InputError(f"{value!r} is not a value", key=f"constants.{name}", accepted="a number or a text")
    return given


def _objective(given: Mapping[str, Any]) -> tuple[tuple[Objective, ...], Mapping[str, float]]:
    check_keys(given, ("minimise", "maximise", "limits"), "objective")
    found: dict[str, Objective] = {}
    for key, least in (("minimise", True), ("maximise", False)):
        names = given.get(key, [])
        for name in names if isinstance(names, list) else [names]:
            where = f"objective.{key}"
            unit = metric(name, where).unit
            if name in found:
                raise InputError(f"{name!r} is repeated", key=where, accepted="each metric once")
            found[name] = Objective(name, unit, least)
    if not found:
        accepted = f"minimise or maximise = one of {', '.join(METRICS)}"
        raise InputError("names no metric", key="objective", accepted=accepted)
    limits = as_table(given.get("limits", {}), "objective.limits")
    return tuple(found.values()), {name: _limit(name, value) for name, value in limits.items()}


def _limit(name: str, value: object) -> float:
    key = f"objective.limits.{name}"
    unit = metric(name, "objective.limits").unit
    units = {unit.value: unit for unit in Unit}
    if unit in units:
        with placed(key=key):
            limit = parse(value, units[unit])
    elif isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{value!r} is not a number", key=key, accepted="a number")
    else:
        limit = float(value)
    if not limit > 0:
        raise InputError(f"{value!r} is not above 0", key=key, accepted="a limit above 0")
    return limit


def _rungs(given: Mapping[str, Any], content: Mapping[str, Any]) -> Mapping[str, Rung]:
    found = {}
    for name, one in given.items():
        key = f"rungs.{name}"
        table = as_table(one, key)
        check_keys(table, ("fidelity", "values"), key)
        if name in FIDELITIES:
            raise InputError("is the name of a fidelity", key=key, accepted="another name")
        fidelity = checked(table["fidelity"], f"{key}.fidelity") if table.get("fidelity") is not None else None
        values = as_table(table.get("values", {}), f"{key}.values")
        with placed(key=f"{key}.values"):
            _set(content, values)
        found[name] = fidelity, values
    return found | {name: (name, {}) for name in FIDELITIES}
