"""Reads study files: the experiment, the space, what is looked for, and the sampler."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from fredfw.errors import InputError, UnknownNameError
from fredfw.experiment import reading
from fredfw.experiment.metrics import METRICS, Metric, metric
from fredfw.experiment.overrides import key_parts, with_values
from fredfw.experiment.spec import AnyOutline, Section
from fredfw.fidelities import FIDELITIES, checked, hint
from fredfw.plugin import configure
from fredfw.plugin.manager import PluginManager
from fredfw.plugin.sampler import Sampler
from fredfw.studies import ranges
from fredfw.studies.constraints import Constraint
from fredfw.studies.results import Objective
from fredfw.studies.space import FABRIC, WORKLOAD, CellSpace, Dimension, Space
from fredfw.tables import as_table, check_keys
from fredfw.units import Unit, parse

_STUDY = ("experiment", "title", "space", "constraints", "constants", "objective", "sampler", "rungs")
_SECTIONS = {"fabrics": FABRIC, "workloads": WORKLOAD}


@frozen
class Rung:
    """A way of running points that is not the experiment's own.

    Args:
        name: In the study; that of the fidelity, where it is just that.
        fidelity: One of ``FIDELITIES``, or ``None`` for the experiment's own.
        values: What it sets in the experiment, by path, whatever the point sets.
    """

    name: str
    fidelity: str | None
    values: Mapping[str, Any]


@frozen(eq=False, kw_only=True)
class Study:
    """What a study file says.

    Args:
        title: For reports.
        content: The tables of the experiment.
        outline: What they say, before the space sets anything.
        experiment: The file of the experiment: what its paths are relative to; ``None`` for tables.
        space: The points.
        objectives: What is looked for.
        limits: The most that is allowed of a metric, or the least where more is better.
        sampler: Which points are run.
        rungs: Those that the study names.
        file: Where it was read from.
        tables: All of it, as written.
    """

    title: str
    content: Mapping[str, Any]
    outline: AnyOutline
    experiment: str | None
    space: Space
    objectives: tuple[Objective, ...]
    limits: Mapping[str, float]
    sampler: Sampler
    rungs: Mapping[str, Rung]
    file: str | None
    tables: Mapping[str, Any]

    def rung(self, name: str) -> Rung:
        """Return the rung called ``name``, which a sampler asks for.

        Raises:
            InputError: The study has no such rung, and no fidelity is called so.
        """
        if name in self.rungs:
            return self.rungs[name]
        if name in FIDELITIES:
            return Rung(name, name, {})
        known = (*self.rungs, *FIDELITIES)
        message = f"there is no rung {name!r}{hint(name, known)}"
        raise UnknownNameError(message, file=self.file, key="sampler", accepted=", ".join(known))


def load(
    source: str | Path | Mapping[str, Any],
    plugins: PluginManager,
    values: Mapping[str, Any] | None = None,
    *,
    trust_plugins: bool = False,
) -> Study:
    """Read a study.

    Args:
        source: The path of its file, or its tables.
        plugins: Where the sampler is looked up; gets the plugin files that the experiment names.
        values: Used in place of what the study or its experiment says, by path, as ``--set`` takes it.
        trust_plugins: Whether those files may be executed.

    Raises:
        InputError: It cannot be read, or says something that cannot be used; names file, key and value.
    """
    file = None if isinstance(source, Mapping) else str(source)
    tables = source if isinstance(source, Mapping) else reading.read_tables(source)
    given = values or {}
    own = {path: value for path, value in given.items() if key_parts(path)[0] in _STUDY}
    try:
        tables = with_values(tables, own)
        content, experiment = _experiment(tables, file)
        for key in ("space", "objective"):
            _table(tables.get(key), key)
    except InputError as error:
        raise error.at(file=file) from None
    content = with_values(content, {path: value for path, value in given.items() if path not in own})
    outline = reading.parse(content, file=experiment)
    reading.load_plugins(outline, plugins, trust_plugins=trust_plugins)
    try:
        space = _space(tables, content, outline)
        objectives, limits = _objective(tables["objective"])
        return Study(
            title=outline.title if "title" not in tables else str(tables["title"]),
            content=content,
            outline=outline,
            experiment=experiment,
            space=space,
            objectives=objectives,
            limits=limits,
            sampler=configure.choose(
                tables.get("sampler", "grid"),
                plugins.samplers,
                key_prefix="sampler",
                registries=lambda: plugins.registries,
            ),
            rungs=_rungs(_table(tables.get("rungs", {}), "rungs"), content),
            file=file,
            tables=tables,
        )
    except InputError as error:
        raise error.at(file=file) from None


def _experiment(tables: Mapping[str, Any], file: str | None) -> tuple[Mapping[str, Any], str | None]:
    """Return the tables of the experiment, and its file."""
    rest = {key: value for key, value in tables.items() if key not in _STUDY}
    known = (*_STUDY, *(() if "experiment" in tables else reading.KEYS))
    check_keys(rest, dict.fromkeys(known), "")
    if "experiment" not in tables:
        if "fabrics" not in rest and "workloads" not in rest:
            raise InputError(
                "is missing",
                key="experiment",
                accepted="the path of an experiment, or its tables [fabrics.NAME] and [workloads.NAME] here",
            )
        return ({**rest, "title": tables["title"]} if "title" in tables else rest), file
    path = tables["experiment"]
    if not isinstance(path, str):
        raise InputError(f"{path!r} is not a path", key="experiment", accepted="the path of an experiment")
    found = Path(path) if file is None else Path(file).parent / path
    return reading.read_tables(found), str(found)


def _table(value: object, key: str) -> Mapping[str, Any]:
    if value is None:
        raise InputError("is missing", key=key, accepted="a table")
    return as_table(value, key)


def _space(tables: Mapping[str, Any], content: Mapping[str, Any], outline: AnyOutline) -> Space:
    dimensions = tuple(_dimension(name, given) for name, given in tables["space"].items())
    if not dimensions:
        raise InputError("names nothing to vary", key="space", accepted="one or more names, each with its values")
    taken: dict[str, str] = {}
    for dimension in dimensions:
        for path in dimension.paths:
            key = f"space.{dimension.name}"
            parts = key_parts(path)
            for other, name in taken.items():
                theirs = key_parts(other)
                shorter = min(len(parts), len(theirs))
                if parts[:shorter] == theirs[:shorter]:
                    raise InputError(f"{path} is set by {name!r}, too", key=key, accepted="one name for each path")
            taken[path] = dimension.name
            try:
                with_values(content, {path: dimension.values[0]})
            except InputError as error:
                raise type(error)(error.message, key=key, accepted=error.accepted) from None
    constants = _constants(_table(tables.get("constants", {}), "constants"), [one.name for one in dimensions])
    known = [*(one.name for one in dimensions), *constants, WORKLOAD, FABRIC]
    constraints = tables.get("constraints", [])
    if not isinstance(constraints, list):
        raise InputError(f"{constraints!r} is not a list", key="constraints", accepted="a list of texts")
    parsed = []
    for index, text in enumerate(constraints):
        try:
            parsed.append(Constraint.parse(text, known))
        except InputError as error:
            raise error.at(key=f"constraints[{index}]") from None
    cells = tuple(
        CellSpace(workload.name, fabric.name, _concerning(dimensions, {"workloads": workload, "fabrics": fabric}))
        for workload, fabric in outline.cells
    )
    return Space(dimensions, cells, tuple(parsed), constants)


def _concerning(dimensions: Sequence[Dimension], sections: Mapping[str, Section]) -> tuple[int, ...]:
    """Return the numbers of the dimensions that set something for the cell of ``sections``."""

    def concerns(path: str) -> bool:
        parts = key_parts(path)
        section = sections.get(parts[0])
        return section is None or len(parts) == 1 or section.is_called([parts[1]])

    return tuple(number for number, one in enumerate(dimensions) if any(map(concerns, one.paths)))


def _dimension(name: str, given: object) -> Dimension:
    key = f"space.{name}"
    if name in (WORKLOAD, FABRIC):
        raise InputError("means the cell in constraints", key=key, accepted="another name")
    try:
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
            key_parts(path)
        return Dimension(name, tuple(paths), ranges.values_of(given))
    except InputError as error:
        raise error.at(key=key) from None


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
            unit = _metric(name, where).unit
            if name in found:
                raise InputError(f"{name!r} is repeated", key=where, accepted="each metric once")
            found[name] = Objective(name, unit, least)
    if not found:
        raise InputError(
            "names no metric", key="objective", accepted=f"minimise or maximise = one of {', '.join(METRICS)}"
        )
    limits = _table(given.get("limits", {}), "objective.limits")
    return tuple(found.values()), {name: _limit(name, value) for name, value in limits.items()}


def _metric(name: object, key: str) -> Metric:
    if not isinstance(name, str):
        raise InputError(f"{name!r} is not a metric", key=key, accepted=", ".join(METRICS))
    return metric(name, key)


def _limit(name: str, value: object) -> float:
    key = f"objective.limits.{name}"
    unit = _metric(name, "objective.limits").unit
    units = {unit.value: unit for unit in Unit}
    if unit in units:
        try:
            limit = parse(value, units[unit])
        except InputError as error:
            raise error.at(key=key) from None
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
        table = _table(one, key)
        check_keys(table, ("fidelity", "values"), key)
        if name in FIDELITIES:
            raise InputError("is the name of a fidelity", key=key, accepted="another name")
        fidelity = table.get("fidelity")
        if fidelity is not None:
            fidelity = checked(fidelity, f"{key}.fidelity")
        values = _table(table.get("values", {}), f"{key}.values")
        try:
            with_values(content, values)
        except InputError as error:
            raise error.at(key=f"{key}.values") from None
        found[name] = Rung(name, fidelity, values)
    return found
