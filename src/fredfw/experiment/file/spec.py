"""What an experiment says: its outline, which needs no plugins, and the experiment itself, which is configured."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, Self, TypeVar

import attrs
from attrs import evolve, field, frozen

from fredfw.collectives import CollectiveAlgorithm, Pattern
from fredfw.errors import InputError, UnknownNameError, nearest, placed
from fredfw.experiment import jobs
from fredfw.experiment.naming import as_written, fill, listed
from fredfw.fabric import SLOTS, MemoryTier, Prices, Topology
from fredfw.plugin import configure, schema
from fredfw.simulation.links import LinkEvent
from fredfw.simulation.variation import Variation
from fredfw.tables import as_choice, as_table, as_text, check_keys
from fredfw.terminal import quoted
from fredfw.workloads import Npu, Workload, npus

if TYPE_CHECKING:  # only an experiment with a space has them
    from fredfw.experiment.study.reading import Study
    from fredfw.plugin.sampler import Sampler

_AXES = 2  # of the table or the map that a saving is drawn as


def _positive(_instance: object, attribute: attrs.Attribute[float], value: float) -> None:
    if not value > 0:
        raise InputError(f"{value!r} is not a speed-up", key=attribute.name, accepted="a finite number above 0")


def _share(_instance: object, attribute: attrs.Attribute[float], value: float) -> None:
    if not value <= 1:
        accepted = "a share of at most 1, such as 0.368"
        raise InputError(f"{value!r} is not a saving", key=attribute.name, accepted=accepted)


def _some(_instance: object, attribute: attrs.Attribute[Any], value: tuple[str, ...] | None) -> None:
    if value == ():
        raise InputError("names no workload", key=attribute.name, accepted="names of workloads; all without the key")


def _axes(_instance: object, attribute: attrs.Attribute[Any], value: tuple[str, ...]) -> None:
    if len(value) > _AXES or len(set(value)) < len(value):
        accepted = "one or two different swept fields"
        raise InputError(f"{list(value)} is not one or two fields", key=attribute.name, accepted=accepted)


@frozen
class Calibration:
    """What a workload's ``compute_scale`` is fitted to: the published speed-up over the baseline on one fabric."""

    fabric: str
    speedup: float = field(validator=_positive)


@frozen
class Reference:
    """A published speed-up over the baseline, to print beside a simulated one."""

    workload: str
    fabric: str
    speedup: float = field(validator=_positive)
    source: str = ""


@frozen
class SavingReference:
    """A published saving, a share of the time, to print beside a simulated one."""

    saving: float = field(validator=_share)
    at: Mapping[str, Any] = field(factory=dict)  # swept values of the group it is about; none where it is about all
    source: str = ""


@frozen
class SavingSpec:
    """Asks for the mean of 1 - T_of / T_over over pairs of fabrics and over workloads."""

    name: str
    of: str  # name or template of the fabrics that save time
    over: str  # name of the fabric that each is compared with; the settings of that fabric fill its placeholders
    workloads: tuple[str, ...] | None = field(default=None, validator=_some)  # names or templates; ``None`` for all
    part: str | None = None  # a label: its exposed time is compared instead of the whole iteration
    by: tuple[str, ...] = field(default=(), validator=_axes)  # one or two swept fields, each value with its own mean
    references: tuple[SavingReference, ...] = ()

    def is_claim(self, reference: SavingReference) -> bool:
        """Return whether ``reference`` is about none of several groups."""
        return bool(self.by) and not reference.at

    def group(self, settings: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(as_written(settings[key]) for key in self.by)


@frozen(eq=False)
class Pair:
    """Two cells of a workload that a saving compares, with the swept fields of it and of the fabric ``of``."""

    workload: str
    of: str
    over: str
    settings: Mapping[str, Any]


@frozen(eq=False, kw_only=True)
class Section:
    """A table ``[fabrics.NAME]`` or ``[workloads.NAME]``, or one of those that a table with a sweep stands for."""

    name: str
    template: str  # name of the table in the file; differs from ``name`` where it has placeholders
    settings: Mapping[str, Any]  # the swept fields, as written
    table: Mapping[str, Any]  # the table, with the swept fields in their place

    PLUGINS: ClassVar[tuple[str, ...]]  # the keys that configure plugins and what is built of them
    KEYS: ClassVar[tuple[str, ...]]  # all keys but ``sweep``

    @property
    def written(self) -> dict[str, Any]:
        return {key: plain(self.table[key]) for key in self.PLUGINS if key in self.table}

    def is_called(self, names: Sequence[str]) -> bool:
        return self.name in names or self.template in names


@frozen(eq=False, kw_only=True)
class FabricSection(Section):
    """What one column of the matrix is called."""

    PLUGINS: ClassVar[tuple[str, ...]] = ("topology", *SLOTS, "collectives", "memories", "events")
    KEYS: ClassVar[tuple[str, ...]] = (*PLUGINS, "baseline", "npu", "scopes", "variation")

    baseline: str  # name of the fabric that its speed-ups refer to
    npu: Npu | None = None  # what computes on it, or ``None`` for the experiment's own
    scopes: tuple[str, ...] | None = None  # what links of each tier join, for prices; ``None``: as the topology says
    memories: tuple[MemoryTier, ...] = ()
    variation: Variation | None = None  # what varies on it, or ``None`` for the experiment's own
    events: tuple[LinkEvent, ...] = ()


@frozen(eq=False, kw_only=True)
class WorkloadSection(Section):
    """What one row of the matrix is called, and how its computation is scaled."""

    PLUGINS: ClassVar[tuple[str, ...]] = ("workload", *jobs.KEYS)
    KEYS: ClassVar[tuple[str, ...]] = (*PLUGINS, "baseline", "compute_scale", "calibration", "scaled_like")

    baseline: str | None = None  # the workload that its speed-ups refer to, or ``None`` where none is named
    compute_scale: float = 1.0  # factor between the compute times used and the NPU's roofline
    calibration: Calibration | None = None  # what ``compute_scale`` is fitted to, if it is
    scaled_like: str | None = None  # the workload whose ``compute_scale`` this one shares, if it does
    fitted: bool = False  # whether there is a calibration, of its own or of the workload whose scale it shares


@frozen(eq=False, kw_only=True)
class FabricSpec(FabricSection):
    """One column of the matrix."""

    topology: Topology
    slots: Mapping[str, Any] = field(factory=dict)  # what is used instead of the fabric's defaults, by slot
    # Algorithms in order of preference by pattern, under ``None`` for all others; ``None`` for ``auto``, the fastest.
    collectives: Mapping[Pattern | None, tuple[CollectiveAlgorithm, ...]] | None = None
    fastest: bool = False  # whether the fastest of those is taken, or the first that can serve a request

    @property
    def configured(self) -> tuple[Any, ...]:
        algorithms = (one for listed in (self.collectives or {}).values() for one in listed)
        return self.topology, *self.slots.values(), *algorithms


@frozen(eq=False, kw_only=True)
class WorkloadSpec(WorkloadSection):
    """One row of the matrix; ``workload`` is what to run: ``Jobs`` where it is several jobs at once."""

    workload: Workload

    @property
    def key(self) -> str:
        whole = f"workloads.{self.name}"
        return whole if isinstance(self.workload, jobs.Jobs) else f"{whole}.workload"


@frozen(eq=False)
class Unfit(Topology, Workload):
    """Stands for a topology or a workload that cannot be configured, because of ``error``."""

    name: ClassVar[str] = "unfit"

    error: InputError

    def build(self, system: object = None) -> NoReturn:
        del system
        raise self.error

    mesh = graph = build


def npu_from(table: Mapping[str, Any], key: str, folder: Path) -> Npu:
    """Return what the table ``key`` says computes: an accelerator by name, with values in place of its own."""
    check_keys(table, ("preset", *schema.settings(Npu)), key)
    given = {key: value for key, value in table.items() if key != "preset"}
    if "preset" in table:
        preset = as_text(table["preset"], f"{key}.preset")
        precision = as_choice(table.get("precision", npus.PRECISIONS[0]), npus.PRECISIONS, f"{key}.precision")
        with placed(key=key):
            known = npus.values(preset, precision, roofline="efficiency" in given)
        kernels = {**known["kernels"], **as_table(given.get("kernels", {}), f"{key}.kernels")}
        given = {**known, **given, "kernels": kernels}
    elif "kernel_tables" in given:
        given = {"compute": npus.MODELS[1], **given}
    return configure.build(Npu, given, key_prefix=key, folder=folder)


_Fabric = TypeVar("_Fabric", bound=FabricSection, covariant=True)
_Workload = TypeVar("_Workload", bound=WorkloadSection, covariant=True)
_Section = TypeVar("_Section", bound=Section)


@frozen(eq=False, kw_only=True)
class Outline(Generic[_Fabric, _Workload]):
    """A matrix of fabrics and workloads: which cells there are and what is made of them, whatever the plugins do."""

    title: str
    fabrics: tuple[_Fabric, ...]
    workloads: tuple[_Workload, ...]
    baseline: str  # the fabric that speed-ups refer to where a fabric has no baseline of its own, as written
    npu_table: Mapping[str, Any] = field(factory=dict)  # what computes, on fabrics that do not say so, as written
    priorities: tuple[str, ...] | None = None  # labels, the highest class first; ``None`` for each workload's own
    fidelity: str | None = None  # of all cells; ``None`` for ``exact`` unless one has too many transfers
    references: tuple[Reference, ...] = ()
    savings: tuple[SavingSpec, ...] = ()  # what is compared over many cells
    prices: Prices = field(factory=Prices.published)
    variation: Variation | None = None  # what varies from NPU to NPU and from run to run, if anything does
    plugins: tuple[str, ...] = ()  # files of plugins that are not installed, as written: relative to ``file``
    file: str | None = None
    complete: bool = True  # whether all fabrics and workloads of the file are part of it
    folder: Path = Path()  # what paths in it are relative to
    study: Study | None = None  # what is searched for and where, if the experiment has a space

    @cached_property
    def npu(self) -> Npu:
        return npu_from(self.npu_table, "npu", self.folder)

    @cached_property
    def _by_name(self) -> dict[str, dict[str, Any]]:
        kinds = {"fabric": self.fabrics, "workload": self.workloads}
        return {kind: {one.name: one for one in sections} for kind, sections in kinds.items()}

    @property
    def cells(self) -> list[tuple[_Workload, _Fabric]]:
        """Every workload on every fabric, workload by workload."""
        return [(workload, fabric) for workload in self.workloads for fabric in self.fabrics]

    def fabric(self, name: str) -> _Fabric:
        """Return the fabric called ``name``; raises ``UnknownNameError``."""
        found: _Fabric = self._named("fabric", name)
        return found

    def workload(self, name: str) -> _Workload:
        """Return the workload called ``name``; raises ``UnknownNameError``."""
        found: _Workload = self._named("workload", name)
        return found

    def fabrics_called(self, name: str) -> tuple[_Fabric, ...]:
        """Return the fabrics with ``name`` as name or template, one or more; raises ``UnknownNameError``."""
        return self._called("fabric", self.fabrics, [name])

    def baseline_of(self, workload: WorkloadSection, fabric: FabricSection) -> tuple[str, str]:
        """Return the workload and the fabric of the cell that the speed-up of a cell is over."""
        if workload.baseline is not None:
            return workload.baseline, fabric.baseline
        # Where every fabric is its own baseline, the same workload would make every speed-up 1.
        if workload.settings and all(one.baseline == one.name for one in self.fabrics):
            workload = next(one for one in self.workloads if one.template == workload.template)
        return workload.name, fabric.baseline

    def written_npu(self, fabric: FabricSection) -> dict[str, Any]:
        found: dict[str, Any] = plain(fabric.table.get("npu", self.npu_table))
        return found

    def npu_of(self, fabric: FabricSection, accelerator: str = "") -> Npu:
        """Return what computes on ``fabric``: the ``accelerator`` of its topology, if the experiment names none."""
        written, key = self.written_npu(fabric), f"fabrics.{fabric.name}.npu" if fabric.npu else "npu"
        if accelerator and not written.keys() & {"preset", "peak"}:
            return npu_from({"preset": accelerator, **written}, key, self.folder)
        if "precision" in written and not written.keys() & {"preset", "kernel_tables"}:
            message = "there is no preset whose rate it chooses"
            raise InputError(message, key=f"{key}.precision", accepted=f"with {key}.preset")
        return fabric.npu or self.npu

    def variation_of(self, fabric: FabricSection) -> Variation | None:
        return self.variation if fabric.variation is None else fabric.variation

    def varied(self, fabric: FabricSection) -> dict[str, Any]:
        variation = self.variation_of(fabric)
        return {} if variation is None else {"variation": plain(attrs.asdict(variation))}

    def pairs(self, saving: SavingSpec) -> list[Pair]:
        """Return the cells that ``saving`` compares, workload by workload."""
        with placed(key="of"):
            fabrics = self.fabrics_called(saving.of)
        with placed(key="workloads"):
            workloads = self._called("workload", self.workloads, saving.workloads)
        pairs = []
        for workload in workloads:
            for fabric in fabrics:
                with placed(key="over"):
                    over = self.fabric(fill(saving.over, fabric.settings)).name
                settings = {**workload.settings, **fabric.settings}
                for key in saving.by:
                    if key not in settings:
                        message = f"{workload.name!r} on {fabric.name!r} has no swept field {key!r}"
                        raise InputError(message, key="by", accepted=", ".join(settings) or "a field that is swept")
                pairs.append(Pair(workload.name, fabric.name, over, settings))
        return pairs

    def check_matrix(self) -> None:
        """Make sure that its cells are meant, not the points of a space; raises ``InputError``."""
        if self.study is not None:
            message = "is searched, so there is no matrix of cells"
            accepted = "fredfw compare, or in Python Framework.study, which runs its points"
            raise InputError(message, file=self.study.file, key="space", accepted=accepted)

    def select(
        self, *, fabrics: Sequence[str] | None = None, workloads: Sequence[str] | None = None, baselines: bool = False
    ) -> Self:
        """Return the part with some fabrics and workloads, by name or template; ``UnknownNameError`` for others.

        It has the published values and savings that are all in it; with ``baselines``, what speed-ups refer to, too.
        """
        if fabrics is None and workloads is None:
            return self
        with placed(key="fabric"):
            columns = {one.name for one in self._called("fabric", self.fabrics, fabrics)}
        with placed(key="workload"):
            rows = {one.name for one in self._called("workload", self.workloads, workloads)}
        if baselines:
            rows |= {one.baseline for one in self.workloads if one.name in rows and one.baseline is not None}
            while missing := {self.fabric(name).baseline for name in columns} - columns:
                columns |= missing
        cells = {(row, column) for row in rows for column in columns}
        return evolve(
            self,
            complete=self.complete and len(cells) == len(self.cells),
            fabrics=tuple(one for one in self.fabrics if one.name in columns),
            workloads=tuple(one for one in self.workloads if one.name in rows),
            references=tuple(one for one in self.references if (one.workload, one.fabric) in cells),
            savings=covered(self, cells),
        )

    def _called(self, kind: str, sections: tuple[_Section, ...], names: Sequence[str] | None) -> tuple[_Section, ...]:
        if names is None:
            return sections
        known = dict.fromkeys(name for one in sections for name in (one.template, one.name))
        for name in names:
            if name not in known:
                raise self._unknown(kind, name, list(known))
        return tuple(one for one in sections if one.is_called(names))

    def _named(self, kind: str, name: str) -> Any:
        sections = self._by_name[kind]
        if name not in sections:
            raise self._unknown(kind, name, list(sections))
        return sections[name]

    def _unknown(self, kind: str, name: str, known: Sequence[str]) -> UnknownNameError:
        message = f"no {kind} {name!r}{nearest(name, known)}"
        return UnknownNameError(message, file=self.file, accepted=listed(list(map(quoted, known))))


AnyOutline = Outline[FabricSection, WorkloadSection]


def covered(outline: AnyOutline, cells: Collection[tuple[str, str]]) -> tuple[SavingSpec, ...]:
    return tuple(
        saving
        for saving in outline.savings
        if all((one.workload, name) in cells for one in outline.pairs(saving) for name in (one.of, one.over))
    )


@frozen(eq=False, kw_only=True)
class Experiment(Outline[FabricSpec, WorkloadSpec]):
    """A matrix of fabrics and workloads whose plugins are configured."""

    reader: Callable[[Mapping[str, Any]], Experiment] | None = None  #: Reads it again, with values in place of its own.
    sampler: Sampler | None = None  #: Which points of the space are run, if there is one.

    def with_values(self, values: Mapping[str, Any]) -> Experiment:
        """Return the experiment with ``values`` in place of its own; it has all of its fabrics and workloads.

        They are by the path of the key as TOML writes it, such as ``{"fabrics.mesh.topology.rows": 5}``. Raises
        ``InputError`` for a path that leads nowhere, or an impossible value.
        """
        if self.reader is None:
            raise InputError("was not read from a file or tables", file=self.file, accepted="fredfw.load_experiment")
        return self.reader(values)

    def with_compute_scale(self, workload: str, scale: float) -> Experiment:
        """Return the experiment with another ``compute_scale`` for ``workload``."""
        self.workload(workload)
        changed = (evolve(one, compute_scale=scale) if one.name == workload else one for one in self.workloads)
        return evolve(self, workloads=tuple(changed))


def plain(value: Any) -> Any:
    """Return a value of a table as JSON would give it back."""
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
