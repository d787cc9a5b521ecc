"""Reads experiment files: first the outline, then the plugins that it names are configured, before anything runs."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import attrs
from attrs import evolve, frozen

from fredfw import limits, units
from fredfw.collectives import CollectiveAlgorithm, Pattern
from fredfw.errors import InputError, PluginError, UnknownNameError, UnsupportedError, nearest
from fredfw.experiment import jobs
from fredfw.experiment.file.overrides import with_values
from fredfw.experiment.file.spec import (
    AnyOutline,
    Calibration,
    Experiment,
    FabricSection,
    FabricSpec,
    Outline,
    Reference,
    SavingSpec,
    Section,
    WorkloadSection,
    WorkloadSpec,
    npu_from,
)
from fredfw.experiment.file.sweep import expand
from fredfw.experiment.file.unfit import UnfitTopology, UnfitWorkload
from fredfw.experiment.jobs import Jobs
from fredfw.experiment.naming import fill, listed
from fredfw.fabric import SLOTS, MemoryTier, Prices
from fredfw.fidelities import checked
from fredfw.files import read_bounded
from fredfw.paths import resolved
from fredfw.plugin import configure
from fredfw.plugin.manager import PluginManager, Registry
from fredfw.simulation.links import LinkEvent
from fredfw.simulation.variation import Variation
from fredfw.tables import as_choice, as_table, as_text, check_keys, parse_toml
from fredfw.terminal import has_controls, printable, quoted
from fredfw.workloads import Workload

_T = TypeVar("_T")
_Section = TypeVar("_Section", bound=Section)
KEYS = (
    "title",
    "baseline",
    "npu",
    "priorities",
    "fidelity",
    "fabrics",
    "workloads",
    "references",
    "savings",
    "prices",
    "variation",
    "plugins",
)
"""Of the tables of an experiment."""
SEARCH = ("space", "constraints", "constants", "objective", "sampler", "rungs")
"""Of those that search it for the best point of a space."""
_BASE = "experiment"  # the key of the file that has all tables but those
_ONE = "all cells of an experiment have one fidelity"


def load(path: str | Path, values: Mapping[str, Any] | None = None) -> AnyOutline:
    """Read the experiment file at ``path``, with ``values`` in place of its own, see ``parse``.

    Raises:
        InputError: It cannot be read, is not TOML, or says something that cannot be used; names file, key and value.
    """
    return parse(read_tables(path), values, file=str(path))


def read_tables(path: str | Path) -> dict[str, Any]:
    """Return what the TOML file at ``path`` says.

    Raises:
        InputError: It cannot be read, or is not TOML.
    """
    file = str(path)
    try:
        text = read_bounded(path).decode("utf-8-sig")  # some editors begin with a mark
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InputError(f"cannot be read: {reason}", file=file, accepted="a TOML file") from None
    try:
        return parse_toml(text)
    except InputError as error:
        raise error.at(file=file) from None


def parse(
    content: Mapping[str, Any],
    values: Mapping[str, Any] | None = None,
    *,
    file: str | None = None,
    folder: Path | None = None,
) -> AnyOutline:
    """Return the outline that the tables of ``content`` describe; raises ``InputError`` as ``load`` does.

    Args:
        content: The tables.
        values: What replaces values of them, by path, see ``fredfw.experiment.file.overrides``.
        file: Where they come from.
        folder: What paths are relative to, if that is not the folder of ``file``.
    """
    tables, source = _with_base(content, file)
    try:
        tables = with_values(tables, values or {})
        outline = _outline({key: one for key, one in tables.items() if key not in SEARCH}, source, folder)
        _ = outline.npu  # which refuses what is impossible
        _check_texts(outline)
        _check_priorities(outline.priorities or ())
        _check_names(outline)
        _check_references(outline.references)
        _check_scopes(outline)
    except InputError as error:
        raise error.at(file=source) from None
    asked = {key: tables[key] for key in SEARCH if key in tables}
    if not asked:
        return outline
    # Only a search pays for what it needs.
    from fredfw.experiment.study import reading as study

    return evolve(outline, study=study.read(asked, {key: tables[key] for key in tables if key not in SEARCH}, file))


def _with_base(content: Mapping[str, Any], file: str | None) -> tuple[Mapping[str, Any], str | None]:
    """Return ``content`` with the tables of the file that it names as its experiment, and that file."""
    if _BASE not in content:
        return content, file
    own = {key: one for key, one in content.items() if key != _BASE}
    path = content[_BASE]
    try:
        if not isinstance(path, str):
            raise InputError(f"{path!r} is not a path", key=_BASE, accepted="the path of an experiment")
        check_keys(own, ("title", *SEARCH), "")
    except InputError as error:
        raise error.at(file=file) from None
    found = Path(path) if file is None else Path(file).parent / path
    return {**read_tables(found), **own}, str(found)


def configured(outline: AnyOutline, plugins: PluginManager, *, trust_plugins: bool = False) -> Experiment:
    """Return the experiment of ``outline``, with its plugins configured; files that it names are added to ``plugins``.

    Args:
        outline: What the experiment says.
        plugins: The plugins in use.
        trust_plugins: Whether the files that it names may be executed; those that ``plugins`` has already may be.

    Raises:
        InputError: A plugin is not installed, or does not accept what its table says, or its file is not trusted; names
            file, key and value.
        PluginError: A plugin cannot be used.
    """
    load_plugins(outline, plugins, trust_plugins=trust_plugins)
    reader = _Reader(plugins, outline.folder)
    try:
        searched = outline.study is not None
        fabrics = _swept(outline.fabrics, reader.fabric, reader.unfit_fabric, searched=searched)
        workloads = _swept(outline.workloads, reader.workload, reader.unfit_workload, searched=searched)
    except InputError as error:
        raise error.at(file=outline.file) from None
    sampler = None
    if outline.study is not None:
        try:
            sampler = reader.choice(outline.study.sampler, plugins.samplers, "sampler")
        except InputError as error:
            raise error.at(file=outline.study.file) from None
    return Experiment(**{**_fields(outline), "fabrics": fabrics, "workloads": workloads, "sampler": sampler})


def load_plugins(outline: AnyOutline, plugins: PluginManager, *, trust_plugins: bool = False) -> None:
    """Add the plugin files that ``outline`` names to ``plugins``; raises as ``configured`` does."""
    if not trust_plugins:
        _check_trust(outline, plugins)
    _load_files(outline, plugins)


def _swept(
    sections: Sequence[_Section],
    configure: Callable[[_Section], _T],
    unfit: Callable[[_Section, InputError], _T],
    *,
    searched: bool,
) -> tuple[_T, ...]:
    """Configure ``sections``; of a sweep, values that are impossible are ``unfit`` if others are possible.

    Where a space is ``searched``, its points may set what is missing or impossible.

    Raises:
        InputError: A section that is not swept, or all of a sweep, cannot be configured.
    """
    found: list[_T] = []
    errors: dict[str, InputError] = {}
    possible: set[str] = set()
    for one in sections:
        try:
            found.append(configure(one))
            possible.add(one.template)
        except InputError as error:
            if not searched:
                if not one.settings:
                    raise
                errors.setdefault(one.template, error)
            found.append(unfit(one, error))
    for template, first in errors.items():
        if template not in possible:
            raise first
    return tuple(found)


def _check_trust(outline: AnyOutline, plugins: PluginManager) -> None:
    """Make sure that ``plugins`` has every file that ``outline`` names; of all of them before any is executed."""
    for index, name in enumerate(outline.plugins):
        file = outline.folder / name
        try:
            found = resolved(file, "a Python file")
        except InputError as error:
            message = f"the plugin file {str(file)!r} {error.message}"
            raise InputError(message, file=outline.file, key=f"plugins[{index}]", accepted=error.accepted) from None
        if found not in plugins.files:
            named = f"fredfw --plugin {shlex.quote(str(file))}"
            raise InputError(
                f"the plugin file {str(file)!r} is not trusted: its code would run",
                file=outline.file,
                key=f"plugins[{index}]",
                accepted=f"fredfw --trust-plugins, {named}, or in Python Framework(trust_plugins=True)",
            )


def _load_files(outline: AnyOutline, plugins: PluginManager) -> None:
    for index, name in enumerate(outline.plugins):
        key = f"plugins[{index}]"
        try:
            plugins.load_file(outline.folder / name)
        except InputError as error:
            message = f"{name!r} {error.message}"
            raise InputError(message, file=outline.file, key=key, accepted=error.accepted) from None
        except PluginError as error:
            place = f"{outline.file}: {key}" if outline.file else key
            raise PluginError(f"{place}: {error}") from error


def _fields(instance: Any) -> dict[str, Any]:
    return attrs.asdict(instance, recurse=False)


def _outline(content: Mapping[str, Any], file: str | None, folder: Path | None) -> AnyOutline:
    check_keys(content, (*KEYS, *SEARCH, _BASE), "")
    sections = {
        kind: list(expand(_tables(content.get(kind, {}), kind), kind, plugin, section.KEYS))
        for kind, plugin, section in (
            ("fabrics", "topology", FabricSection),
            ("workloads", "workload", WorkloadSection),
        )
    }
    for kind, found in sections.items():
        if not found:
            raise InputError(
                f"there are no {kind}",
                key=kind,
                accepted=f"at least one table [{kind}.NAME], or experiment = PATH of a file that has it",
            )
    limits.check("cells", len(sections["fabrics"]) * len(sections["workloads"]), key="fabrics")
    folder = folder or (Path(file).parent if file else Path())
    baseline = as_text(content.get("baseline", sections["fabrics"][0][0]), "baseline")
    return Outline(
        title=as_text(content.get("title", printable(Path(file).stem) if file else "experiment"), "title"),
        fabrics=tuple(_fabric(*section, baseline, folder) for section in sections["fabrics"]),
        workloads=_scaled([_workload(*section) for section in sections["workloads"]]),
        baseline=baseline,
        npu_table=as_table(content.get("npu", {}), "npu"),
        priorities=_texts(content["priorities"], "priorities") if "priorities" in content else None,
        fidelity=checked(content["fidelity"]) if "fidelity" in content else None,
        references=_listed(content, "references", Reference),
        savings=_listed(content, "savings", SavingSpec),
        prices=Prices.read(as_table(content.get("prices", {}), "prices")),
        variation=_variation(content, "variation"),
        plugins=_texts(content.get("plugins", []), "plugins"),
        file=file,
        folder=folder,
    )


def _variation(table: Mapping[str, Any], key: str) -> Variation | None:
    """Return what ``table`` says of variation, in the table ``key``; one kind of stragglers need not be a list."""
    if "variation" not in table:
        return None
    given = dict(as_table(table["variation"], key))
    stragglers = given.get("stragglers")
    if isinstance(stragglers, Mapping):
        given["stragglers"] = [stragglers]
    # A table that was written out says what is not there, too.
    return configure.build(Variation, {name: one for name, one in given.items() if one is not None}, key_prefix=key)


def _fabric(
    name: str, template: str, settings: Mapping[str, Any], table: Mapping[str, Any], baseline: str, folder: Path
) -> FabricSection:
    key = f"fabrics.{name}"
    if "fidelity" in table:
        raise InputError(_ONE, key=f"{key}.fidelity", accepted="fidelity of the experiment, beside baseline")
    check_keys(table, (*FabricSection.KEYS, "sweep"), key, inside="topology")
    if "topology" not in table:
        raise InputError("the topology is missing", key=f"{key}.topology", accepted="a name, or { name = ..., ... }")
    own = as_text(table.get("baseline", baseline), f"{key}.baseline")
    return FabricSection(
        name=name,
        template=template,
        settings=settings,
        table=table,
        baseline=fill(own, settings),
        npu=npu_from(as_table(table["npu"], f"{key}.npu"), f"{key}.npu", folder) if "npu" in table else None,
        scopes=_texts(table["scopes"], f"{key}.scopes") if "scopes" in table else None,
        memories=_listed(table, "memories", MemoryTier, key),
        variation=_variation(table, f"{key}.variation"),
        events=_listed(table, "events", LinkEvent, key),
    )


def _workload(name: str, template: str, settings: Mapping[str, Any], table: Mapping[str, Any]) -> WorkloadSection:
    key = f"workloads.{name}"
    if "stepwise" in table:
        raise InputError(_ONE, key=f"{key}.stepwise", accepted="no such key: the default is exact")
    check_keys(table, (*WorkloadSection.KEYS, "sweep"), key, inside="workload")
    if "jobs" in table:
        if "workload" in table:
            message = "there is a workload, too"
            raise InputError(message, key=f"{key}.jobs", accepted="one of the two: a workload, or jobs")
    elif others := [name for name in jobs.KEYS if name in table]:
        raise InputError("there are no jobs", key=f"{key}.{others[0]}", accepted=f"with {key}.jobs")
    elif "workload" not in table:
        raise InputError("the workload is missing", key=f"{key}.workload", accepted="a name, or { name = ..., ... }")
    if "scaled_like" in table and ("compute_scale" in table or "calibration" in table):
        raise InputError("also has a compute_scale", key=f"{key}.scaled_like", accepted="one of the two")
    scale = table.get("compute_scale", 1.0)
    if isinstance(scale, bool) or not isinstance(scale, int | float) or not units.LEAST <= scale <= units.MOST:
        accepted = f"a number above 0, from {units.LEAST:g} to {units.MOST:g}"
        raise InputError(f"{scale!r} is not a scale", key=f"{key}.compute_scale", accepted=accepted)
    calibration = None
    if "calibration" in table:
        where = f"{key}.calibration"
        calibration = configure.build(Calibration, as_table(table["calibration"], where), key_prefix=where)
    return WorkloadSection(
        name=name,
        template=template,
        settings=settings,
        table=table,
        baseline=fill(as_text(table["baseline"], f"{key}.baseline"), settings) if "baseline" in table else None,
        compute_scale=float(scale),
        calibration=calibration,
        scaled_like=as_text(table["scaled_like"], f"{key}.scaled_like") if "scaled_like" in table else None,
        fitted=calibration is not None,
    )


def _scaled(sections: Sequence[WorkloadSection]) -> tuple[WorkloadSection, ...]:
    """Give the sections that share a scale the one that they share."""
    originals = {one.name: one for one in sections if one.scaled_like is None}
    result = []
    for one in sections:
        if one.scaled_like is None:
            result.append(one)
            continue
        original = originals.get(one.scaled_like)
        if original is None:
            message = f"no workload {one.scaled_like!r} with a compute_scale{nearest(one.scaled_like, originals)}"
            accepted = listed(list(map(quoted, originals))) or "a workload with a compute_scale"
            raise UnknownNameError(message, key=f"workloads.{one.name}.scaled_like", accepted=accepted)
        result.append(evolve(one, compute_scale=original.compute_scale, fitted=original.fitted))
    return tuple(result)


def _check_texts(outline: AnyOutline) -> None:
    """Make sure that titles and names can be printed as they are, each in its column of what ``fredfw cells`` lists."""
    texts = {"title": outline.title}
    texts |= {f"fabrics.{one.name}": one.name for one in outline.fabrics}
    texts |= {f"workloads.{one.name}": one.name for one in outline.workloads}
    texts |= {f"savings[{index}].name": one.name for index, one in enumerate(outline.savings)}
    for key, text in texts.items():
        if has_controls(text):
            accepted = "text without tabs, line breaks and other control characters"
            raise InputError(f"{text!r} has control characters", key=key, accepted=accepted)


def _check_priorities(labels: Sequence[str]) -> None:
    for index, label in enumerate(labels):
        if label in labels[:index]:
            raise InputError(f"{label!r} is repeated", key=f"priorities[{index}]", accepted="each label once")


def _check_scopes(outline: AnyOutline) -> None:
    for fabric in outline.fabrics:
        outline.prices.check(fabric.scopes or (), key=f"fabrics.{fabric.name}.scopes")


def _check_references(references: Sequence[Reference]) -> None:
    first: dict[tuple[str, str], int] = {}
    for index, one in enumerate(references):
        other = first.setdefault((one.workload, one.fabric), index)
        if other != index:
            message = f"{one.workload!r} on {one.fabric!r} has a reference already, references[{other}]"
            raise InputError(message, key=f"references[{index}]", accepted="one reference for each cell")


def _check_names(outline: AnyOutline) -> None:
    """Make sure that everything named is there."""
    places: list[tuple[str, Callable[[str], object], str]] = []
    for fabric in outline.fabrics:
        key = f"fabrics.{fabric.name}.baseline" if "baseline" in fabric.table else "baseline"
        places.append((key, outline.fabric, fabric.baseline))
    for index, reference in enumerate(outline.references):
        places.append((f"references[{index}].fabric", outline.fabric, reference.fabric))
        places.append((f"references[{index}].workload", outline.workload, reference.workload))
    for workload in outline.workloads:
        if workload.baseline is not None:
            places.append((f"workloads.{workload.name}.baseline", outline.workload, workload.baseline))
        if workload.calibration is not None:
            places.append(
                (f"workloads.{workload.name}.calibration.fabric", outline.fabric, workload.calibration.fabric)
            )
    for key, look_up, name in places:
        try:
            look_up(name)
        except UnknownNameError as error:
            raise error.at(key=key) from None
    for workload in outline.workloads:
        if workload.calibration is not None:
            if workload.baseline not in (None, workload.name):
                raise InputError(
                    f"{workload.name!r} is compared with {workload.baseline!r}, so its scale cannot be fitted",
                    key=f"workloads.{workload.name}.baseline",
                    accepted="a baseline or a calibration",
                )
            name = workload.calibration.fabric
            if outline.fabric(name).baseline == name:
                others = [one.name for one in outline.fabrics if one.name != name]
                raise InputError(
                    f"{name!r} is the baseline, whose speed-up is 1 at every scale",
                    key=f"workloads.{workload.name}.calibration.fabric",
                    accepted=listed(list(map(quoted, others))) or "another fabric",
                )
    _check_savings(outline)


def _check_savings(outline: AnyOutline) -> None:
    names = [saving.name for saving in outline.savings]
    for index, saving in enumerate(outline.savings):
        if saving.name in names[:index]:
            raise InputError(f"{saving.name!r} is repeated", key=f"savings[{index}].name", accepted="another name")
        try:
            groups = {saving.group(pair.settings) for pair in outline.pairs(saving)}
        except InputError as error:
            raise error.at(key=f"savings[{index}]") from None
        taken: dict[tuple[str, ...], int] = {}
        for number, reference in enumerate(saving.references):
            if saving.is_claim(reference):
                continue
            if set(reference.at) != set(saving.by) or saving.group(reference.at) not in groups:
                groups_text = [" / ".join(one) for one in sorted(groups)]
                raise InputError(
                    f"there is no group {dict(reference.at)!r}",
                    key=f"savings[{index}].references[{number}].at",
                    accepted=f"a value for each of {list(saving.by)}: {listed(groups_text)}",
                )
            first = taken.setdefault(saving.group(reference.at), number)
            if first != number:
                message = f"the group {dict(reference.at)!r} has a reference already, references[{first}]"
                key = f"savings[{index}].references[{number}]"
                raise InputError(message, key=key, accepted="one reference for each group")


def collectives(
    value: object, plugins: PluginManager, key: str, folder: Path
) -> tuple[Mapping[Pattern | None, tuple[CollectiveAlgorithm, ...]] | None, bool]:
    """Return the algorithms that ``value`` names at ``key``, ``None`` for all, and whether the fastest is taken.

    Paths of files are relative to ``folder``.

    Raises:
        InputError: It names none, or ones that cannot be used.
    """
    selection = value.get("selection", "first") if isinstance(value, Mapping) else "fastest"
    algorithms = _Reader(plugins, folder).collectives(value, key)
    return algorithms, as_choice(selection, ("first", "fastest"), f"{key}.selection") == "fastest"


@frozen
class _Reader:
    """Configures the plugins of sections; paths of files are relative to ``folder``."""

    plugins: PluginManager
    folder: Path

    def fabric(self, section: FabricSection) -> FabricSpec:
        key, table, plugins = f"fabrics.{section.name}", section.table, self.plugins

        topology = self.choice(table["topology"], plugins.topologies, f"{key}.topology")
        algorithms, fastest = collectives(table.get("collectives", "auto"), plugins, f"{key}.collectives", self.folder)
        return FabricSpec(
            **_fields(section),
            topology=topology,
            slots={
                slot: self.choice(table[slot], plugins.slots[slot], f"{key}.{slot}") for slot in SLOTS if slot in table
            },
            collectives=algorithms,
            fastest=fastest,
        )

    def workload(self, section: WorkloadSection) -> WorkloadSpec:
        key, table = f"workloads.{section.name}", section.table
        if "jobs" in table:
            own = {name: table[name] for name in jobs.KEYS if name in table}
            workload: Workload = configure.build(
                Jobs, own, key_prefix=key, registries=lambda: self.plugins.registries, folder=self.folder
            )
        else:
            workload = self.choice(table["workload"], self.plugins.workloads, f"{key}.workload")
        return WorkloadSpec(**_fields(section), workload=workload)

    def unfit_fabric(self, section: FabricSection, error: InputError) -> FabricSpec:
        return FabricSpec(**_fields(section), topology=UnfitTopology(error))

    def unfit_workload(self, section: WorkloadSection, error: InputError) -> WorkloadSpec:
        return WorkloadSpec(**_fields(section), workload=UnfitWorkload(error))

    def collectives(self, value: object, key: str) -> Mapping[Pattern | None, tuple[CollectiveAlgorithm, ...]] | None:
        if value == "auto":
            return None
        if not isinstance(value, Mapping):
            accepted = 'auto, or a table such as { all-reduce = "ring", default = "direct" }'
            raise InputError(f"{value!r} is not a choice of algorithms", key=key, accepted=accepted)
        chosen: dict[Pattern | None, tuple[CollectiveAlgorithm, ...]] = {}
        check_keys(value, ("selection", "default", *map(str, Pattern)), key)
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

    def choice(self, value: object, registry: Registry[_T], key: str) -> _T:
        """Return the configured plugin that ``value`` names, see ``configure.choose``."""
        return configure.choose(
            value, registry, key_prefix=key, registries=lambda: self.plugins.registries, folder=self.folder
        )


def _tables(value: object, key: str) -> dict[str, Mapping[str, Any]]:
    return {name: as_table(one, f"{key}.{name}") for name, one in as_table(value, key).items()}


def _listed(content: Mapping[str, Any], name: str, cls: type[_T], section: str = "") -> tuple[_T, ...]:
    """Return what the list of tables ``name`` of a section describes."""
    tables, key = content.get(name, []), f"{section}.{name}" if section else name
    if not isinstance(tables, list):
        raise InputError(f"{tables!r} is not a list of tables", key=key, accepted=f"[[{key}]]")
    return tuple(
        configure.build(cls, as_table(one, f"{key}[{index}]"), key_prefix=f"{key}[{index}]")
        for index, one in enumerate(tables)
    )


def _texts(value: object, key: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise InputError(f"{value!r} is not a list", key=key, accepted="a list of texts")
    return tuple(as_text(one, key) for one in value)
