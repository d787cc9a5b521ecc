"""An experiment file, read and resolved: every plugin it names is configured before anything runs."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import attrs
from attrs import evolve, field, frozen

from fredfw.collectives import CollectiveAlgorithm, Pattern
from fredfw.errors import InputError, UnknownNameError, UnsupportedError, nearest
from fredfw.fabric import Router, Topology
from fredfw.plugin import configure
from fredfw.plugin.manager import PluginManager, Registry
from fredfw.simulation import SharingPolicy
from fredfw.workloads import Npu, Placement, Workload

FIDELITIES = ("compressed", "stepwise")
PRIORITIES = ("mp", "pp", "dp")
_T = TypeVar("_T")
_Named = TypeVar("_Named", "FabricSpec", "WorkloadSpec")


def _positive(_instance: object, attribute: attrs.Attribute[float], value: float) -> None:
    if not value > 0:
        raise InputError(f"{value!r} is no speed-up", key=attribute.name, accepted="a finite number above 0")


@frozen
class Calibration:
    """The cell of a comparison that a workload's ``compute_scale`` is fitted to.

    Args:
        fabric: Name of the fabric in the experiment.
        speedup: Published speed-up over the baseline on it.
    """

    fabric: str
    speedup: float = field(validator=_positive)


@frozen
class Reference:
    """A published value to print beside a simulated one.

    Args:
        workload: Name in the experiment.
        fabric: Name in the experiment.
        speedup: Over the baseline.
        source: Where it was published.
    """

    workload: str
    fabric: str
    speedup: float = field(validator=_positive)
    source: str = ""


@frozen(eq=False)
class FabricSpec:
    """One column of the matrix.

    Args:
        name: In the experiment.
        topology: What to build.
        router: Instead of the fabric's own, if given.
        sharing: Instead of the fabric's own, if given.
        placement: Instead of the topology's own, if given.
        collectives: Per pattern the algorithms in order of preference, under ``None`` those for all other patterns; or
            ``None`` for ``auto``: the fastest of all installed ones.
        fastest: Whether the fastest of the algorithms given is taken instead of the first that can serve a request.
    """

    name: str
    topology: Topology
    router: Router | None = None
    sharing: SharingPolicy | None = None
    placement: Placement | None = None
    collectives: Mapping[Pattern | None, tuple[CollectiveAlgorithm, ...]] | None = None
    fastest: bool = False


@frozen(eq=False)
class WorkloadSpec:
    """One row of the matrix.

    Args:
        name: In the experiment.
        workload: What to run.
        compute_scale: Factor between the compute times used and the NPU's roofline.
        calibration: What ``compute_scale`` was fitted to, if it was.
        scaled_like: The workload whose ``compute_scale`` this one shares, if it does.
        stepwise: Names of the fabrics on which the compressed simulation is too far off, so that it is simulated step
            by step unless a fidelity is asked for.
    """

    name: str
    workload: Workload
    compute_scale: float = 1.0
    calibration: Calibration | None = None
    scaled_like: str | None = None
    stepwise: tuple[str, ...] = ()


@frozen(eq=False)
class Experiment:
    """A matrix of fabrics and workloads.

    Args:
        title: For reports.
        fabrics: Columns.
        workloads: Rows.
        baseline: Name of the fabric that speed-ups refer to; the first by default.
        npu: What computes.
        priorities: Labels from the highest class to the lowest; other labels come after all of them.
        fidelity: ``compressed`` or ``stepwise``.
        references: Published values.
        file: Where it was read from, for messages.
    """

    title: str
    fabrics: tuple[FabricSpec, ...]
    workloads: tuple[WorkloadSpec, ...]
    baseline: str
    npu: Npu = field(factory=Npu)
    priorities: tuple[str, ...] = PRIORITIES
    fidelity: str = "compressed"
    references: tuple[Reference, ...] = ()
    file: str | None = None

    def fabric(self, name: str) -> FabricSpec:
        """Return the fabric called ``name``; raises ``UnknownNameError``."""
        return _named(self.fabrics, name, "fabric", self.file)

    def workload(self, name: str) -> WorkloadSpec:
        """Return the workload called ``name``; raises ``UnknownNameError``."""
        return _named(self.workloads, name, "workload", self.file)

    def fidelity_of(self, workload: WorkloadSpec, fabric: FabricSpec) -> str:
        """Return how a cell is simulated where nothing else is asked for."""
        return "stepwise" if fabric.name in workload.stepwise else self.fidelity

    def with_compute_scale(self, workload: str, scale: float) -> Experiment:
        """Return the experiment with another ``compute_scale`` for ``workload``."""
        self.workload(workload)
        changed = (evolve(one, compute_scale=scale) if one.name == workload else one for one in self.workloads)
        return evolve(self, workloads=tuple(changed))


def _named(items: Sequence[_Named], name: str, kind: str, file: str | None) -> _Named:
    for item in items:
        if item.name == name:
            return item
    names = [item.name for item in items]
    raise UnknownNameError(f"no {kind} {name!r}{nearest(name, names)}", file=file, accepted=", ".join(names))


def load(path: str | Path, plugins: PluginManager) -> Experiment:
    """Read the experiment file at ``path``.

    Raises:
        InputError: It cannot be read, is not TOML, or says something that cannot be used; names file, key and value.
    """
    file = str(path)
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InputError(f"cannot be read: {reason}", file=file, accepted="a TOML file") from None
    try:
        content = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # more than TOMLDecodeError: integers of many digits, deep nesting
        raise InputError(f"is not TOML: {error}", file=file, accepted="a TOML file") from None
    return parse(content, plugins, file=file)


def parse(content: Mapping[str, Any], plugins: PluginManager, *, file: str | None = None) -> Experiment:
    """Return the experiment that the tables of ``content`` describe; raises ``InputError`` as ``load`` does."""
    try:
        return _Reader(plugins, file).experiment(content)
    except InputError as error:
        raise error.at(file=file) from None


@frozen
class _Reader:
    """Turns tables into specifications; every method gets the key path of its table for messages."""

    plugins: PluginManager
    file: str | None

    def experiment(self, content: Mapping[str, Any]) -> Experiment:
        known = ("title", "baseline", "npu", "priorities", "fidelity", "fabrics", "workloads", "references")
        _check_keys(content, known, "")
        fabrics = tuple(
            self.fabric(name, _table(value, f"fabrics.{name}"))
            for name, value in _table(content.get("fabrics", {}), "fabrics").items()
        )
        workloads = self.workloads(_table(content.get("workloads", {}), "workloads"))
        for what, found in (("fabrics", fabrics), ("workloads", workloads)):
            if not found:
                raise InputError(f"there are no {what}", key=what, accepted=f"at least one table [{what}.NAME]")
        references = content.get("references", [])
        if not isinstance(references, list):
            raise InputError(f"{references!r} is not a list of tables", key="references", accepted="[[references]]")
        experiment = Experiment(
            title=_text(content.get("title", Path(self.file).stem if self.file else "experiment"), "title"),
            fabrics=fabrics,
            workloads=workloads,
            baseline=_text(content.get("baseline", fabrics[0].name), "baseline"),
            npu=configure.build(Npu, _table(content.get("npu", {}), "npu"), key_prefix="npu"),
            priorities=_texts(content.get("priorities", list(PRIORITIES)), "priorities"),
            fidelity=_choice(content.get("fidelity", FIDELITIES[0]), FIDELITIES, "fidelity"),
            references=tuple(
                configure.build(Reference, _table(one, f"references[{index}]"), key_prefix=f"references[{index}]")
                for index, one in enumerate(references)
            ),
            file=self.file,
        )
        self.check_names(experiment)
        return experiment

    def check_names(self, experiment: Experiment) -> None:
        places: list[tuple[str, Callable[[str], object], str]] = [("baseline", experiment.fabric, experiment.baseline)]
        for index, reference in enumerate(experiment.references):
            places.append((f"references[{index}].fabric", experiment.fabric, reference.fabric))
            places.append((f"references[{index}].workload", experiment.workload, reference.workload))
        for workload in experiment.workloads:
            places += [(f"workloads.{workload.name}.stepwise", experiment.fabric, name) for name in workload.stepwise]
            if workload.calibration is not None:
                key = f"workloads.{workload.name}.calibration.fabric"
                places.append((key, experiment.fabric, workload.calibration.fabric))
        for key, look_up, name in places:
            try:
                look_up(name)
            except UnknownNameError as error:
                raise error.at(key=key) from None
        for workload in experiment.workloads:
            if workload.calibration is not None and workload.calibration.fabric == experiment.baseline:
                others = [one.name for one in experiment.fabrics if one.name != experiment.baseline]
                raise InputError(
                    f"{experiment.baseline!r} is the baseline, whose speed-up is 1 at every scale",
                    key=f"workloads.{workload.name}.calibration.fabric",
                    accepted=", ".join(others) or "another fabric",
                )

    def fabric(self, name: str, table: Mapping[str, Any]) -> FabricSpec:
        key = f"fabrics.{name}"
        _check_keys(table, ("topology", "router", "sharing", "placement", "collectives"), key)
        if "topology" not in table:
            raise InputError(
                "the topology is missing", key=f"{key}.topology", accepted="a name, or { name = ..., ... }"
            )
        plugins = self.plugins

        def optional(what: str, registry: Registry[_T]) -> _T | None:
            return self.choice(table[what], registry, f"{key}.{what}") if what in table else None

        chosen = table.get("collectives", "auto")
        where = f"{key}.collectives"
        selection = chosen.get("selection", "first") if isinstance(chosen, Mapping) else "fastest"
        return FabricSpec(
            name=name,
            topology=self.choice(table["topology"], plugins.topologies, f"{key}.topology"),
            router=optional("router", plugins.routers),
            sharing=optional("sharing", plugins.sharing_policies),
            placement=optional("placement", plugins.placements),
            collectives=self.collectives(chosen, where),
            fastest=_choice(selection, ("first", "fastest"), f"{where}.selection") == "fastest",
        )

    def collectives(self, value: object, key: str) -> Mapping[Pattern | None, tuple[CollectiveAlgorithm, ...]] | None:
        if value == "auto":
            return None
        if not isinstance(value, Mapping):
            accepted = 'auto, or a table such as { all-reduce = "ring", default = "direct" }'
            raise InputError(f"{value!r} is no choice of algorithms", key=key, accepted=accepted)
        chosen: dict[Pattern | None, tuple[CollectiveAlgorithm, ...]] = {}
        _check_keys(value, ("selection", "default", *map(str, Pattern)), key)
        for name, one in value.items():
            if name == "selection":
                continue
            pattern = None if name == "default" else Pattern(name)
            where = f"{key}.{name}"
            if one == []:
                raise InputError("names no algorithm", key=where, accepted=self._knowing(pattern))
            entries = (
                {f"{where}[{index}]": entry for index, entry in enumerate(one)}
                if isinstance(one, list)
                else {where: one}
            )
            chosen[pattern] = tuple(self.algorithm(entry, pattern, place) for place, entry in entries.items())
        return chosen

    def algorithm(self, value: object, pattern: Pattern | None, key: str) -> CollectiveAlgorithm:
        algorithm = self.choice(value, self.plugins.collectives, key)
        if pattern is not None and pattern not in algorithm.patterns:
            known = ", ".join(sorted(algorithm.patterns))
            message = f"{algorithm.name!r} does not do {pattern}, only {known}"
            raise UnsupportedError(message, key=key, accepted=self._knowing(pattern))
        return algorithm

    def _knowing(self, pattern: Pattern | None) -> str:
        """Return the names of the algorithms that know ``pattern``."""
        algorithms = self.plugins.collectives
        return ", ".join(cls.name for cls in algorithms if pattern is None or pattern in cls.patterns)

    def workloads(self, tables: Mapping[str, Any]) -> tuple[WorkloadSpec, ...]:
        specs = {name: self.workload(name, _table(table, f"workloads.{name}")) for name, table in tables.items()}
        for name, spec in specs.items():
            if spec.scaled_like is None:
                continue
            key = f"workloads.{name}.scaled_like"
            original = specs.get(spec.scaled_like)
            if original is None or original.scaled_like is not None:
                free = [other for other, one in specs.items() if one.scaled_like is None]
                message = f"no workload {spec.scaled_like!r} with a scale of its own{nearest(spec.scaled_like, free)}"
                accepted = ", ".join(free) or "a workload with a compute_scale"
                raise UnknownNameError(message, key=key, accepted=accepted)
            specs[name] = evolve(spec, compute_scale=original.compute_scale)
        return tuple(specs.values())

    def workload(self, name: str, table: Mapping[str, Any]) -> WorkloadSpec:
        key = f"workloads.{name}"
        _check_keys(table, ("workload", "compute_scale", "calibration", "scaled_like", "stepwise"), key)
        if "workload" not in table:
            raise InputError(
                "the workload is missing", key=f"{key}.workload", accepted="a name, or { name = ..., ... }"
            )
        if "scaled_like" in table and ("compute_scale" in table or "calibration" in table):
            raise InputError("has a scale of its own as well", key=f"{key}.scaled_like", accepted="one of the two")
        scale = table.get("compute_scale", 1.0)
        if isinstance(scale, bool) or not isinstance(scale, int | float) or not 0 < scale <= sys.float_info.max:
            raise InputError(f"{scale!r} is no scale", key=f"{key}.compute_scale", accepted="a finite number above 0")
        calibration = None
        if "calibration" in table:
            where = f"{key}.calibration"
            calibration = configure.build(Calibration, _table(table["calibration"], where), key_prefix=where)
        return WorkloadSpec(
            name=name,
            workload=self.choice(table["workload"], self.plugins.workloads, f"{key}.workload"),
            compute_scale=float(scale),
            calibration=calibration,
            scaled_like=_text(table["scaled_like"], f"{key}.scaled_like") if "scaled_like" in table else None,
            stepwise=_texts(table.get("stepwise", []), f"{key}.stepwise"),
        )

    def choice(self, value: object, registry: Registry[_T], key: str) -> _T:
        """Return the configured plugin that ``value`` names: its name, or a table of its name and its fields."""
        options = dict(value) if isinstance(value, Mapping) else {"name": value}
        name = options.pop("name", None)
        if not isinstance(name, str):
            raise InputError(f"{value!r} does not name a plugin", key=key, accepted="a name, or { name = ..., ... }")
        try:
            cls = registry.get(name)
        except UnknownNameError as error:
            raise error.at(key=key) from None
        return configure.build(cls, options, key_prefix=key)


def _check_keys(table: Mapping[str, Any], known: Sequence[str], key: str) -> None:
    for name in table:
        if name not in known:
            where = f"{key}.{name}" if key else name
            raise InputError(f"unknown key{nearest(name, known)}", key=where, accepted=", ".join(known))


def _table(value: object, key: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InputError(f"{value!r} is not a table", key=key, accepted="a table")
    return value


def _text(value: object, key: str) -> str:
    if not isinstance(value, str):
        raise InputError(f"{value!r} is not text", key=key, accepted="text")
    return value


def _texts(value: object, key: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise InputError(f"{value!r} is not a list", key=key, accepted="a list of texts")
    return tuple(_text(one, key) for one in value)


def _choice(value: object, choices: Sequence[str], key: str) -> str:
    if value not in choices:
        hint = nearest(value, choices) if isinstance(value, str) else ""
        raise InputError(f"{value!r} is not known{hint}", key=key, accepted=", ".join(choices))
    return str(value)
