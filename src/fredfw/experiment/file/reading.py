"""Reads experiment files: first the outline, then the plugins that it names are configured, before anything runs."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import attrs
from attrs import evolve, frozen

from fredfw import limits, units
from fredfw.collectives import CollectiveAlgorithm, Pattern
from fredfw.errors import InputError, PluginError, UnknownNameError, UnsupportedError, nearest, placed
from fredfw.experiment import jobs
from fredfw.experiment.file import checks, spec
from fredfw.experiment.file.overrides import expand, with_values
from fredfw.experiment.naming import fill, listed
from fredfw.fabric import SLOTS, MemoryTier, Prices
from fredfw.fidelities import checked
from fredfw.files import read_bounded, resolved
from fredfw.plugin import configure
from fredfw.plugin.manager import PluginManager, Registry
from fredfw.simulation.links import LinkEvent
from fredfw.simulation.variation import Variation
from fredfw.tables import as_choice, as_table, as_tables, as_text, check_keys, parse_toml
from fredfw.terminal import printable, quoted
from fredfw.workloads import Workload

_T = TypeVar("_T")
_Section = TypeVar("_Section", bound=spec.Section)
KEYS = (  # of the tables of an experiment
    *("title", "baseline", "npu", "priorities", "fidelity", "fabrics", "workloads"),
    *("references", "savings", "prices", "variation", "plugins"),
)
SEARCH = ("space", "constraints", "constants", "objective", "sampler", "rungs")  # of those that search a space
_BASE = "experiment"  # the key of the file that has all tables but those
_ONE = "all cells of an experiment have one fidelity"
_COLLECTIVES = 'auto, or a table such as { all-reduce = "ring", default = "direct" }'


def load(path: str | Path, values: Mapping[str, Any] | None = None) -> spec.AnyOutline:
    return parse(read_tables(path), values, file=str(path))


def read_tables(path: str | Path) -> dict[str, Any]:
    with placed(file=str(path)):
        try:
            text = read_bounded(path).decode("utf-8-sig")  # some editors begin with a mark
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise InputError(f"cannot be read: {reason}", accepted="a TOML file") from None
        return parse_toml(text)


def parse(
    content: Mapping[str, Any],
    values: Mapping[str, Any] | None = None,
    *,
    file: str | None = None,
    folder: Path | None = None,
) -> spec.AnyOutline:
    """Return the outline that the tables of ``content`` describe; paths are relative to ``folder``, or ``file``."""
    tables, source = _with_base(content, file)
    with placed(file=source):
        tables = with_values(tables, values or {})
        outline = _outline({key: one for key, one in tables.items() if key not in SEARCH}, source, folder)
        _ = outline.npu  # which refuses what is impossible
        checks.check(outline)
    asked = {key: tables[key] for key in SEARCH if key in tables}
    if not asked:
        return outline
    from fredfw.experiment.study import reading as study  # only a search pays for what it needs

    return evolve(outline, study=study.read(asked, {key: tables[key] for key in tables if key not in SEARCH}, file))


def _with_base(content: Mapping[str, Any], file: str | None) -> tuple[Mapping[str, Any], str | None]:
    if _BASE not in content:
        return content, file
    own = {key: one for key, one in content.items() if key != _BASE}
    path = content[_BASE]
    with placed(file=file):
        if not isinstance(path, str):
            raise InputError(f"{path!r} is not a path", key=_BASE, accepted="the path of an experiment")
        check_keys(own, ("title", *SEARCH), "")
    found = Path(path) if file is None else Path(file).parent / path
    return {**read_tables(found), **own}, str(found)


def _outline(content: Mapping[str, Any], file: str | None, folder: Path | None) -> spec.AnyOutline:
    check_keys(content, (*KEYS, *SEARCH, _BASE), "")
    sections = {}
    for kind, plugin, keys in (
        ("fabrics", "topology", spec.FabricSection.KEYS),
        ("workloads", "workload", spec.WorkloadSection.KEYS),
    ):
        tables = as_table(content.get(kind, {}), kind)
        tables = {name: as_table(one, f"{kind}.{name}") for name, one in tables.items()}
        sections[kind] = list(expand(tables, kind, plugin, keys))
    for kind, found in sections.items():
        if not found:
            accepted = f"at least one table [{kind}.NAME], or experiment = PATH of a file that has it"
            raise InputError(f"there are no {kind}", key=kind, accepted=accepted)
    limits.check("cells", len(sections["fabrics"]) * len(sections["workloads"]), key="fabrics")
    folder = folder or (Path(file).parent if file else Path())
    baseline = as_text(content.get("baseline", sections["fabrics"][0].name), "baseline")
    return spec.Outline(
        title=as_text(content.get("title", printable(Path(file).stem) if file else "experiment"), "title"),
        fabrics=tuple(_fabric(one, baseline, folder) for one in sections["fabrics"]),
        workloads=_scaled(list(map(_workload, sections["workloads"]))),
        baseline=baseline,
        npu_table=as_table(content.get("npu", {}), "npu"),
        priorities=_texts(content, "priorities"),
        fidelity=checked(content["fidelity"]) if "fidelity" in content else None,
        references=_listed(content, "references", spec.Reference),
        savings=_listed(content, "savings", spec.SavingSpec),
        prices=Prices.read(as_table(content.get("prices", {}), "prices")),
        variation=_variation(content),
        plugins=_texts(content, "plugins") or (),
        file=file,
        folder=folder,
    )


def _fabric(section: spec.Section, baseline: str, folder: Path) -> spec.FabricSection:
    key, table = f"fabrics.{section.name}", section.table
    if "fidelity" in table:
        raise InputError(_ONE, key=f"{key}.fidelity", accepted="fidelity of the experiment, beside baseline")
    check_keys(table, (*spec.FabricSection.KEYS, "sweep"), key, inside="topology")
    if "topology" not in table:
        raise InputError("the topology is missing", key=f"{key}.topology", accepted="a name, or { name = ..., ... }")
    own = as_text(table.get("baseline", baseline), f"{key}.baseline")
    return spec.FabricSection(
        **_fields(section),
        baseline=fill(own, section.settings),
        npu=spec.npu_from(as_table(table["npu"], f"{key}.npu"), f"{key}.npu", folder) if "npu" in table else None,
        scopes=_texts(table, "scopes", key),
        memories=_listed(table, "memories", MemoryTier, key),
        variation=_variation(table, key),
        events=_listed(table, "events", LinkEvent, key),
    )


def _workload(section: spec.Section) -> spec.WorkloadSection:
    key, table = f"workloads.{section.name}", section.table
    if "stepwise" in table:
        raise InputError(_ONE, key=f"{key}.stepwise", accepted="no such key: the default is exact")
    check_keys(table, (*spec.WorkloadSection.KEYS, "sweep"), key, inside="workload")
    if "jobs" in table:
        if "workload" in table:
            message = "there is a workload, too"
            raise InputError(message, key=f"{key}.jobs", accepted="one of the two: a workload, or jobs")
    elif others := [name for name in jobs.KEYS if name in table]:
        raise InputError("there are no jobs", key=f"{key}.{others[0]}", accepted=f"with {key}.jobs")
    elif "workload" not in table:
        raise InputError("the workload is missing", key=f"{key}.workload", accepted="a name, or { name = ..., ... }")
    texts = {one: as_text(table[one], f"{key}.{one}") for one in ("baseline", "scaled_like") if one in table}
    if "scaled_like" in table and ("compute_scale" in table or "calibration" in table):
        raise InputError("also has a compute_scale", key=f"{key}.scaled_like", accepted="one of the two")
    scale = table.get("compute_scale", 1.0)
    if isinstance(scale, bool) or not isinstance(scale, int | float) or not units.LEAST <= scale <= units.MOST:
        accepted = f"a number above 0, from {units.LEAST:g} to {units.MOST:g}"
        raise InputError(f"{scale!r} is not a scale", key=f"{key}.compute_scale", accepted=accepted)
    calibration = None
    if "calibration" in table:
        where = f"{key}.calibration"
        calibration = configure.build(spec.Calibration, as_table(table["calibration"], where), key_prefix=where)
    return spec.WorkloadSection(
        **_fields(section),
        baseline=fill(texts["baseline"], section.settings) if "baseline" in texts else None,
        compute_scale=float(scale),
        calibration=calibration,
        scaled_like=texts.get("scaled_like"),
        fitted=calibration is not None,
    )


def _scaled(sections: Sequence[spec.WorkloadSection]) -> tuple[spec.WorkloadSection, ...]:
    originals = {one.name: one for one in sections if one.scaled_like is None}

    def scaled(one: spec.WorkloadSection) -> spec.WorkloadSection:
        if one.scaled_like is None:
            return one
        original = originals.get(one.scaled_like)
        if original is None:
            message = f"no workload {one.scaled_like!r} with a compute_scale{nearest(one.scaled_like, originals)}"
            accepted = listed(list(map(quoted, originals))) or "a workload with a compute_scale"
            raise UnknownNameError(message, key=f"workloads.{one.name}.scaled_like", accepted=accepted)
        return evolve(one, compute_scale=original.compute_scale, fitted=original.fitted)

    return tuple(map(scaled, sections))


def _variation(table: Mapping[str, Any], section: str = "") -> Variation | None:
    """Return what ``table`` says of variation; one kind of stragglers need not be a list."""
    if "variation" not in table:
        return None
    key = _inside(section, "variation")
    given = dict(as_table(table["variation"], key))
    stragglers = given.get("stragglers")
    if isinstance(stragglers, Mapping):
        given["stragglers"] = [stragglers]
    # A table that was written out says what is not there, too.
    return configure.build(Variation, {name: one for name, one in given.items() if one is not None}, key_prefix=key)


def _listed(table: Mapping[str, Any], name: str, cls: type[_T], section: str = "") -> tuple[_T, ...]:
    key = _inside(section, name)
    tables = as_tables(table.get(name, []), key, accepted=f"[[{key}]]")
    return tuple(configure.build(cls, one, key_prefix=place) for place, one in tables)


def _texts(table: Mapping[str, Any], name: str, section: str = "") -> tuple[str, ...] | None:
    if name not in table:
        return None
    texts, key = table[name], _inside(section, name)
    if not isinstance(texts, list):
        raise InputError(f"{texts!r} is not a list", key=key, accepted="a list of texts")
    return tuple(as_text(one, key) for one in texts)


def _inside(section: str, name: str) -> str:
    return f"{section}.{name}" if section else name


def _fields(instance: Any) -> dict[str, Any]:
    return attrs.asdict(instance, recurse=False)


def configured(outline: spec.AnyOutline, plugins: PluginManager, *, trust_plugins: bool = False) -> spec.Experiment:
    load_plugins(outline, plugins, trust_plugins=trust_plugins)
    reader, searched = Reader(plugins, outline.folder), outline.study is not None
    with placed(file=outline.file):
        fabrics = _swept(outline.fabrics, reader.fabric, searched=searched)
        workloads = _swept(outline.workloads, reader.workload, searched=searched)
    sampler = None
    if outline.study is not None:
        with placed(file=outline.study.file):
            sampler = reader.choice(outline.study.sampler, plugins.samplers, "sampler")
    return spec.Experiment(**{**_fields(outline), "fabrics": fabrics, "workloads": workloads, "sampler": sampler})


def load_plugins(outline: spec.AnyOutline, plugins: PluginManager, *, trust_plugins: bool = False) -> None:
    places = {f"plugins[{index}]": name for index, name in enumerate(outline.plugins)}
    if not trust_plugins:  # of none of them, before any is executed
        for key, name in places.items():
            _check_trust(outline.folder / name, plugins, outline.file, key)
    for key, name in places.items():
        try:
            plugins.load_file(outline.folder / name)
        except InputError as error:
            raise InputError(f"{name!r} {error.message}", file=outline.file, key=key, accepted=error.accepted) from None
        except PluginError as error:
            place = f"{outline.file}: {key}" if outline.file else key
            raise PluginError(f"{place}: {error}") from error


def _check_trust(path: Path, plugins: PluginManager, file: str | None, key: str) -> None:
    try:
        found = resolved(path, "a Python file")
    except InputError as error:
        message = f"the plugin file {str(path)!r} {error.message}"
        raise InputError(message, file=file, key=key, accepted=error.accepted) from None
    if found not in plugins.files:
        message = f"the plugin file {str(path)!r} is not trusted: its code would run"
        named = f"fredfw --plugin {shlex.quote(str(path))}"
        accepted = f"fredfw --trust-plugins, {named}, or in Python Framework(trust_plugins=True)"
        raise InputError(message, file=file, key=key, accepted=accepted)


def _swept(
    sections: Sequence[_Section], configure: Callable[[_Section, spec.Unfit | None], _T], *, searched: bool
) -> tuple[_T, ...]:
    """Return ``sections``, configured with their plugin, or with ``Unfit`` in its place where others are possible."""
    found: list[_T] = []
    errors: dict[str, InputError] = {}
    possible: set[str] = set()
    for one in sections:
        try:
            found.append(configure(one, None))
            possible.add(one.template)
        except InputError as error:
            if not searched:
                if not one.settings:
                    raise
                errors.setdefault(one.template, error)
            found.append(configure(one, spec.Unfit(error)))
    for template, first in errors.items():
        if template not in possible:
            raise first
    return tuple(found)


@frozen
class Reader:
    """Configures the plugins of sections; paths of files are relative to ``folder``."""

    plugins: PluginManager
    folder: Path

    def fabric(self, section: spec.FabricSection, unfit: spec.Unfit | None) -> spec.FabricSpec:
        if unfit is not None:
            return spec.FabricSpec(**_fields(section), topology=unfit)
        key, table, plugins = f"fabrics.{section.name}", section.table, self.plugins
        topology = self.choice(table["topology"], plugins.topologies, f"{key}.topology")
        algorithms, fastest = self.collectives(table.get("collectives", "auto"), f"{key}.collectives")
        slots = {
            slot: self.choice(table[slot], plugins.slots[slot], f"{key}.{slot}") for slot in SLOTS if slot in table
        }
        return spec.FabricSpec(
            **_fields(section), topology=topology, slots=slots, collectives=algorithms, fastest=fastest
        )

    def workload(self, section: spec.WorkloadSection, unfit: spec.Unfit | None) -> spec.WorkloadSpec:
        key, table = f"workloads.{section.name}", section.table
        workload: Workload
        if unfit is not None:
            workload = unfit
        elif "jobs" in table:
            own = {name: table[name] for name in jobs.KEYS if name in table}
            workload = configure.build(jobs.Jobs, own, key_prefix=key, **self._surroundings)
        else:
            workload = self.choice(table["workload"], self.plugins.workloads, f"{key}.workload")
        return spec.WorkloadSpec(**_fields(section), workload=workload)

    def collectives(
        self, value: object, key: str
    ) -> tuple[Mapping[Pattern | None, tuple[CollectiveAlgorithm, ...]] | None, bool]:
        """Return the algorithms that ``value`` names at ``key``, ``None`` for all, and whether the fastest is taken."""
        if value == "auto":
            return None, True
        if not isinstance(value, Mapping):
            raise InputError(f"{value!r} is not a choice of algorithms", key=key, accepted=_COLLECTIVES)
        chosen: dict[Pattern | None, tuple[CollectiveAlgorithm, ...]] = {}
        check_keys(value, ("selection", "default", *map(str, Pattern)), key)
        for name, one in value.items():
            if name == "selection":
                continue
            pattern = None if name == "default" else Pattern(name)
            where = f"{key}.{name}"
            if one == []:
                raise InputError("names no algorithm", key=where, accepted=self._knowing(pattern))
            several = isinstance(one, list)
            entries = {f"{where}[{index}]": entry for index, entry in enumerate(one)} if several else {where: one}
            chosen[pattern] = tuple(self._algorithm(entry, pattern, place) for place, entry in entries.items())
        return chosen, as_choice(value.get("selection", "first"), ("first", "fastest"), f"{key}.selection") == "fastest"

    def _algorithm(self, value: object, pattern: Pattern | None, key: str) -> CollectiveAlgorithm:
        algorithm = self.choice(value, self.plugins.collectives, key)
        if pattern is not None and pattern not in algorithm.patterns:
            known = ", ".join(sorted(algorithm.patterns))
            message = f"{algorithm.name!r} does not do {pattern}, only {known}"
            raise UnsupportedError(message, key=key, accepted=self._knowing(pattern))
        return algorithm

    def _knowing(self, pattern: Pattern | None) -> str:
        return ", ".join(cls.name for cls in self.plugins.collectives if pattern is None or pattern in cls.patterns)

    def choice(self, value: object, registry: Registry[_T], key: str) -> _T:
        return configure.choose(value, registry, key_prefix=key, **self._surroundings)

    @property
    def _surroundings(self) -> dict[str, Any]:
        return {"registries": lambda: self.plugins.registries, "folder": self.folder}
