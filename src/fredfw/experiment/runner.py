"""Composes topology, placement, workload, algorithms and engine into one simulated iteration."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Any, Generic, TypeVar

import attrs
import numpy as np
from attrs import frozen

from fredfw.collectives import CollectiveAlgorithm, CollectiveRequest, Pattern
from fredfw.errors import InputError, SimulationError, UnsupportedError
from fredfw.experiment.progress import Log, silent
from fredfw.experiment.results import CollectiveResult, GraphResult, RunResult, Throughput
from fredfw.experiment.spec import Experiment, FabricSpec, WorkloadSpec
from fredfw.fabric import SLOTS, Bill, Fabric
from fredfw.fabric import answers as fabric_answers
from fredfw.plugin import configure
from fredfw.plugin.contract import billed, built
from fredfw.plugin.manager import PluginManager
from fredfw.simulation import (
    Executor,
    RateSolver,
    Simulator,
    Statistics,
    answers,
)
from fredfw.simulation.assignment import Assignment
from fredfw.simulation.demands import Demands
from fredfw.simulation.fidelity import COMPRESSED, block_notes, run_of
from fredfw.simulation.fidelity import notes as fidelity_notes
from fredfw.simulation.planner import too_fast
from fredfw.typing import FloatArray, IntArray
from fredfw.units import Unit, render
from fredfw.workloads import Kernels, Label, MemoryUse, Npu, Placement, System, TaskGraph, Work
from fredfw.workloads import answers as workload_answers
from fredfw.workloads.labels import BUBBLE, COMPUTE
from fredfw.workloads.placement import placement_of

_T = TypeVar("_T")
# Of what cells share, fabrics, and tasks of all graphs together: a sweep comes back to them, and both can be large.
_FABRICS_KEPT = 4
_TASKS_KEPT = 1_000_000
# An iteration must be accounted for to this relative accuracy.
_EXACT = 1e-9
_MET = (
    "parts of the schedule met while their repetitions were simulated as one, so the time is an approximation; "
    "--fidelity stepwise simulates each repetition"
)
_MEMORY_PARTS = ("weights", "gradients", "optimizer", "activations")


class Runner:
    """Runs cells of one experiment; fabrics, graphs and plans are built once and kept.

    Args:
        experiment: The matrix.
        plugins: Where defaults are looked up by name.
        log: Told of fabrics that are built and of cells that begin and end.
        kept: Fabrics and graphs of other experiments, which this one shares where it writes the same.
        environment: What decides them beside what is written, see ``CellSpec``.
    """

    def __init__(
        self,
        experiment: Experiment,
        plugins: PluginManager,
        log: Log = silent,
        *,
        kept: Kept | None = None,
        environment: str = "",
    ) -> None:
        self._experiment = experiment
        self._plugins = plugins
        self._log = log
        self._kept = kept
        self._environment = environment
        self._bench: dict[str, Bench] = {}
        self._bills: dict[str, Bill | None] = {}
        self._cells: dict[str, dict[str, _Cell]] = {}  # by fabric and workload
        self._graphs: dict[tuple[str, System], TaskGraph] = {}

    def check(self, workload: WorkloadSpec, fabric: FabricSpec) -> tuple[str, ...]:
        """Make sure that ``workload`` fits ``fabric``, as far as that can be known without simulating anything.

        Returns:
            The causes that the breakdown of the iteration will have.

        Raises:
            InputError: More workers than NPUs, more memory than an NPU has, a collective that no algorithm can serve, a
                router that does not fit the network.
        """
        return (COMPUTE, BUBBLE, *self._cell(workload, fabric).graph.label_names)

    def forget(self, fabric: FabricSpec) -> None:
        """Let go of all that is kept of ``fabric`` and its cells."""
        self._bench.pop(fabric.name, None)
        self._bills.pop(fabric.name, None)
        self._cells.pop(fabric.name, None)

    def run(
        self,
        workload: WorkloadSpec,
        fabric: FabricSpec,
        fidelity: str,
        progress: Callable[[float], None] | None = None,
    ) -> RunResult:
        """Simulate one iteration of ``workload`` on ``fabric``.

        Args:
            workload: The row.
            fabric: The column.
            fidelity: One of ``FIDELITIES``.
            progress: Called now and then with the share of the simulated tasks that has ended.

        Raises:
            InputError: The two do not fit each other.
            SimulationError: The result would be wrong.
        """
        cell = self._cell(workload, fabric)
        bench, memory = cell.bench, cell.memory
        names = {"workload": workload.name, "fabric": fabric.name, "fidelity": fidelity}
        self._log("cell begins", **names, ranks=len(cell.places), tasks=len(cell.graph))
        begun = perf_counter()
        npu = self._experiment.npu_of(fabric)
        computing = npu.holding(memory.total)
        key = f"fabrics.{fabric.name}"
        try:
            outcome = bench.graph(
                cell.graph,
                cell.places,
                lambda *work: workload.compute_scale * computing.seconds(*work),
                name=f"{workload.name} on {fabric.name}",
                priorities=cell.priorities,
                fidelity=fidelity,
                solver=cell.solver,
                progress=progress,
                checked=True,
            )
        except UnsupportedError as error:  # of the router, unless it names the slot whose plugin refuses
            raise error.at(file=self._experiment.file, key=key if error.key in SLOTS else f"{key}.router") from None
        except InputError as error:  # of an algorithm, whose schedules are written when they are needed
            raise error.at(file=self._experiment.file, key=f"{key}.collectives") from None
        result = RunResult(
            workload=workload.name,
            fabric_name=fabric.name,
            fabric=bench.fabric,
            timeline=outcome.timeline,
            placement=cell.places,
            seconds=outcome.seconds,
            breakdown=outcome.breakdown,
            bytes_by_cause=outcome.bytes_by_cause,
            link_bytes=outcome.link_bytes,
            energy=outcome.energy,
            memory={part: getattr(memory, part) for part in _MEMORY_PARTS},
            algorithms=outcome.algorithms,
            provenance=self._provenance(workload, fabric, cell, fidelity),
            statistics=outcome.statistics,
            figures=outcome.figures,
            notes=(*self._memory_notes(memory, npu), *cell.notes, *outcome.notes),
            work=cell.work,
            throughput=Throughput.of(
                cell.work,
                outcome.seconds,
                npus=len(cell.places),
                peak=npu.peak,
                compute_scale=workload.compute_scale,
            ),
            link_bytes_by_label=outcome.link_bytes_by_label,
            omissions=cell.omissions,
            colours=cell.colours,
            demands=outcome.demands,
            bill=self._bill(fabric),
        )
        self._log(
            "cell ended",
            **names,
            took=round(perf_counter() - begun, 3),
            iteration=result.seconds,
            events=outcome.statistics["events"],
            algorithms=result.algorithms,
        )
        return result

    def _cell(self, workload: WorkloadSpec, fabric: FabricSpec) -> _Cell:
        """Put ``workload`` on ``fabric``, checked once; its ``compute_scale`` has no part in it."""
        known = self._cells.setdefault(fabric.name, {})
        if workload.name in known:
            return known[workload.name]
        with self._placed(f"fabrics.{fabric.name}.topology"):
            bench = self._bench_of(fabric)
            placement = placement_of(bench.fabric)
        npus = bench.fabric.npus
        with self._placed(f"fabrics.{fabric.name}.scopes"):
            _check_scopes(fabric, bench.fabric)
        with self._placed(f"fabrics.{fabric.name}.router"):
            fabric_answers.route(bench.simulator.lowering.router, bench.fabric, npus[:1], npus[-1:])
        system = System(len(npus), len(bench.fabric.controllers))
        work = f"workloads.{workload.name}.workload"
        with self._placed(work):
            mesh = workload_answers.mesh(workload.workload, system)
        try:
            places = workload_answers.places(placement, bench.fabric, mesh)
        except InputError as error:
            # The placement does not support the fabric or the workload, or the workload has too many workers.
            own = isinstance(error, UnsupportedError) or error.key is not None
            key = f"fabrics.{fabric.name}.placement" if own else work
            raise error.at(file=self._experiment.file, key=key) from None
        with self._placed(work):
            memory = workload_answers.memory(workload.workload, system)
            self._check_memory(memory, self._experiment.npu_of(fabric))
            graph = self._graph(workload, system, mesh.ranks)
            trained = workload_answers.work(workload.workload, system)
            omissions = workload_answers.omissions(workload.workload, system)
            labels = workload_answers.labels(workload.workload, system)
            notes = (*workload_answers.notes(workload.workload, system), *omissions)
        priorities = self._priorities(labels)
        # Not the bench's solver: what a cell counts must not depend on the cells that ran before it.
        solver = bench.simulator.solver()
        with self._placed(work):
            tasks = Assignment(
                graph,
                fabric=bench.fabric,
                placement=places,
                planner=bench.planner,
                lowering=bench.simulator.lowering,
                priorities=priorities,
                bounds=bench.simulator.bounds,
            )
        with self._placed(f"fabrics.{fabric.name}.collectives"):
            tasks.check_collectives()
        with self._placed(f"fabrics.{fabric.name}.router"):
            tasks.check_streams()
        colours = {name: label.colour or "" for name, label in labels.items()}
        cell = _Cell(bench, placement, places, memory, graph, solver, trained, notes, omissions, priorities, colours)
        known[workload.name] = cell
        return cell

    def _priorities(self, labels: Mapping[str, Label]) -> dict[str, int]:
        """Return the class of each label that has one: of the experiment, or as the workload declares them."""
        given: Sequence[str] | None = self._experiment.priorities
        if given is None:
            declared = {name: label.priority for name, label in labels.items() if label.priority is not None}
            given = sorted(declared, key=declared.__getitem__)
        return {label: rank for rank, label in enumerate(given)}

    @contextmanager
    def _placed(self, key: str, kind: type[InputError] = InputError) -> Iterator[None]:
        """Add the file and ``key`` to errors of ``kind``."""
        try:
            yield
        except kind as error:
            raise error.at(file=self._experiment.file, key=key) from None

    def _bench_of(self, spec: FabricSpec) -> Bench:
        def build() -> Bench:
            fabric = built(spec.topology).with_defaults(name=spec.name, **spec.slots)
            bench = Bench(fabric, spec.collectives, self._plugins, fastest=spec.fastest)
            self._log("fabric built", **bench.facts())
            return bench

        if spec.name not in self._bench:
            kept = self._kept
            what = spec.name, spec.written
            self._bench[spec.name] = build() if kept is None else kept.bench(self._environment, what, build)
        return self._bench[spec.name]

    def _bill(self, spec: FabricSpec) -> Bill | None:
        if spec.name not in self._bills:
            prices = self._experiment.prices_of(spec)
            self._bills[spec.name] = billed(spec.topology, prices, self._bench_of(spec).fabric)
        return self._bills[spec.name]

    def _graph(self, spec: WorkloadSpec, system: System, workers: int) -> TaskGraph:
        def build() -> TaskGraph:
            return workload_answers.graph(spec.workload, system, workers)

        key = spec.name, system
        if key not in self._graphs:
            kept = self._kept
            what = spec.written, attrs.asdict(system), workers
            self._graphs[key] = build() if kept is None else kept.graph(self._environment, what, build)
        return self._graphs[key]

    @staticmethod
    def _check_memory(memory: MemoryUse, npu: Npu) -> None:
        if memory.must_fit and memory.total > npu.capacity:
            accepted = (
                "a larger split, a smaller microbatch, recomputation, a higher ZeRO stage, or more npu.memory or "
                "npu.expanded_memory"
            )
            raise InputError(_memory_text(memory, npu), accepted=accepted)

    @staticmethod
    def _memory_notes(memory: MemoryUse, npu: Npu) -> tuple[str, ...]:
        if memory.total <= npu.memory:
            return ()
        expanded = npu.expanded(memory.total)
        told = ""
        if expanded:
            bandwidth = render(npu.holding(memory.total).memory_bandwidth, Unit.BYTES_PER_SECOND)
            outside = render(expanded, Unit.BYTES)
            told = f"; {outside} are in its expanded memory, so computation moves bytes at {bandwidth}"
        if memory.total > npu.capacity:
            told += "; the rest is assumed to be stored outside the NPU at no cost"
        return (f"{_memory_text(memory, npu)}{told}",)

    def _provenance(self, workload: WorkloadSpec, fabric: FabricSpec, cell: _Cell, fidelity: str) -> dict[str, Any]:
        experiment, bench = self._experiment, cell.bench
        slots = {**attrs.asdict(bench.fabric.defaults, recurse=False), "sharing": bench.simulator.sharing}
        slots["placement"] = cell.placement
        used: list[Any] = [fabric.topology, *slots.values(), workload.workload, *bench.algorithms]
        return {
            "written": {"fabric": fabric.written, "workload": workload.written},
            "topology": describe(fabric.topology),
            # What a topology makes of its fields to admit flows is described by these fields.
            **{
                slot: describe(one) if slot != "admission" or slot in fabric.slots else {"name": one.name}
                for slot, one in slots.items()
            },
            "workload": describe(workload.workload),
            "collectives": "auto"
            if fabric.collectives is None
            else {
                str(pattern or "default"): [describe(one) for one in algorithms]
                for pattern, algorithms in fabric.collectives.items()
            },
            "selection": "fastest" if fabric.fastest else "first",
            "npu": configure.unstructure(experiment.npu_of(fabric)),
            "compute_scale": workload.compute_scale,
            "priorities": sorted(cell.priorities, key=cell.priorities.__getitem__),
            "fidelity": fidelity,
            "files": configure.files(used),
            "versions": self._plugins.versions(used=[type(part) for one in used for part in configure.parts(one)]),
        }


class Kept:
    """Fabrics and graphs that cells of several experiments share: those that were used last."""

    def __init__(self) -> None:
        self._benches = _Latest[Bench](_FABRICS_KEPT, lambda _: 1)
        self._graphs = _Latest[TaskGraph](_TASKS_KEPT, len)

    def bench(self, environment: str, what: object, build: Callable[[], Bench]) -> Bench:
        """Return the fabric of what is written in ``what``, JSON-ready, in ``environment``."""
        return self._benches.get(json.dumps([environment, what]), build)

    def graph(self, environment: str, what: object, build: Callable[[], TaskGraph]) -> TaskGraph:
        """Return the graph, likewise."""
        return self._graphs.get(json.dumps([environment, what]), build)


class _Latest(Generic[_T]):
    """The values that were asked for last, whose sizes add up to at most ``room``; the last one always."""

    def __init__(self, room: int, size: Callable[[_T], int]) -> None:
        self._room = room
        self._size = size
        self._values: OrderedDict[str, _T] = OrderedDict()

    def get(self, key: str, make: Callable[[], _T]) -> _T:
        if key not in self._values:
            self._values[key] = made = make()
            self._room -= self._size(made)
            while self._room < 0 and len(self._values) > 1:
                _, oldest = self._values.popitem(last=False)
                self._room += self._size(oldest)
        self._values.move_to_end(key)
        return self._values[key]


@frozen(eq=False)
class _Cell:
    """A workload on a fabric, ready to run.

    Args:
        bench: The fabric.
        placement: Decides who goes where.
        places: ``(workers,)`` NPU number of each rank.
        memory: What an NPU needs.
        graph: The iteration.
        solver: Knows the rates of its earlier runs.
        work: What the iteration trains, if that is known.
        notes: What the workload has to say about every result.
        omissions: Those of the notes that say what it leaves out.
        priorities: Class by label, 0 the highest.
        colours: Of the labels that the workload declares, empty for one that is free.
    """

    bench: Bench
    placement: Placement
    places: IntArray
    memory: MemoryUse
    graph: TaskGraph
    solver: RateSolver
    work: Work | None
    notes: tuple[str, ...]
    omissions: tuple[str, ...]
    priorities: dict[str, int]
    colours: dict[str, str]


class Bench:
    """A built fabric with all that is kept between simulations on it.

    Args:
        fabric: The network.
        collectives: Candidates by pattern, or ``None`` for all registered ones.
        plugins: Where those are registered.
        fastest: Whether the fastest candidate is taken, or the first that can serve a request.
    """

    def __init__(
        self,
        fabric: Fabric,
        collectives: Mapping[Pattern | None, tuple[CollectiveAlgorithm, ...]] | None,
        plugins: PluginManager,
        *,
        fastest: bool,
    ) -> None:
        self.fabric = fabric
        self.simulator = Simulator(fabric)
        candidates = collectives
        if candidates is None:
            candidates = self.simulator.automatic(plugins.collectives)
        self.algorithms = [one for listed in candidates.values() for one in listed]
        self.planner = self.simulator.planner(
            candidates, fastest=fastest, others=lambda: [cls() for cls in plugins.collectives]
        )

    def facts(self) -> dict[str, Any]:
        """Return what a log says of the fabric."""
        fabric = self.fabric
        return {
            "fabric": fabric.name,
            "npus": len(fabric.npus),
            "links": len(fabric.bandwidths),
            "router": fabric.defaults.router.name,
            "sharing": self.simulator.sharing.name,
            "transport": fabric.defaults.transport.name,
        }

    def graph(
        self,
        graph: TaskGraph,
        places: IntArray,
        compute_seconds: Callable[[float, float, Kernels | None], float],
        *,
        name: str,
        priorities: Mapping[str, int],
        fidelity: str = COMPRESSED,
        attribution: bool = True,
        solver: RateSolver | None = None,
        progress: Callable[[float], None] | None = None,
        checked: bool = False,
    ) -> GraphResult:
        """Simulate a task graph whose ranks are on the NPUs numbered ``(ranks,)`` ``places``.

        Args:
            graph: What to do.
            places: Where.
            compute_seconds: See ``Executor``.
            name: For messages.
            priorities: Class by label.
            fidelity: One of ``FIDELITIES``.
            attribution: Whether to find out what the ranks have waited for.
            solver: Knows rates of earlier runs.
            progress: Called now and then with the share of the tasks that has ended.
            checked: Whether it is known that there are algorithms for all collectives and links for all streams.

        Raises:
            InputError: The graph does not fit the fabric, or no algorithm can serve a collective.
            SimulationError: The result would be wrong.
        """
        network = self.simulator.network(solver)
        executor = Executor(
            graph,
            fabric=self.fabric,
            network=network,
            placement=places,
            planner=self.planner,
            lowering=self.simulator.lowering,
            compute_seconds=compute_seconds,
            priorities=priorities,
            fidelity=fidelity,
            bounds=self.simulator.bounds,
            progress=progress,
        )
        if not checked:
            executor.check()
        timeline = executor.run()
        if attribution:
            _check_account(name, timeline.breakdown_by_rank, timeline.duration)
        by_label = executor.link_bytes()
        link_bytes = sum(by_label.values(), np.zeros(len(self.fabric.bandwidths)))
        return GraphResult(
            fabric=self.fabric,
            timeline=timeline,
            placement=places,
            seconds=timeline.duration,
            breakdown=timeline.breakdown if attribution else {},
            bytes_by_cause={label: float(loads.sum()) for label, loads in sorted(by_label.items())},
            link_bytes=link_bytes,
            link_bytes_by_label=dict(sorted(by_label.items())),
            energy=float(link_bytes @ self.fabric.energies),
            algorithms=dict(sorted(executor.algorithms.items())),
            statistics=network.statistics.as_dict(),
            figures=answers.figures(network.admission),
            notes=(
                *self.fabric.notes,
                *block_notes(graph, fidelity),
                *fidelity_notes(fidelity, network),
                *answers.notes(network.admission),
                *executor.notes.values(),
            ),
            demands=Demands(
                timeline.graph,
                fabric=self.fabric,
                placement=places,
                planner=self.planner,
                lowering=self.simulator.lowering,
                priorities=priorities,
                bounds=self.simulator.bounds,
            ),
        )

    def collective(self, request: CollectiveRequest, group: IntArray, fidelity: str = COMPRESSED) -> CollectiveResult:
        """Simulate one collective among the NPUs numbered ``group`` on the otherwise idle fabric.

        Raises:
            UnsupportedError: No algorithm can serve it.
            ScheduleError: What the algorithm wrote is not a valid schedule, or does something else.
            SimulationError: Flows cannot move.
        """
        plan = self.planner.plan(request, group)
        network = self.simulator.network()
        label = str(request.pattern)
        run_of(
            fidelity,
            network,
            self.simulator.lowering,
            plan.schedule,
            self.fabric.npus[group][None, :],
            lambda _: None,
            label=label,
        ).start()
        network.advance()
        if not network.idle:
            raise SimulationError(f"{plan.algorithm} {label}: flows that cannot move on {self.fabric.name!r}")
        link_bytes = network.link_bytes().get(label, np.zeros(len(self.fabric.bandwidths)))
        duration = network.now
        algbw = request.size / duration if duration > 0 else 0.0
        bound = self.simulator.bounds.of(request, group)
        notes = [*self.fabric.notes, *fidelity_notes(fidelity, network), *answers.notes(network.admission), *plan.notes]
        if network.statistics.met:
            notes.append(_MET)
        note = too_fast(plan.algorithm, request, duration, bound.seconds, network.now)
        if note is not None:
            notes.append(note)
        return CollectiveResult(
            pattern=label,
            algorithm=plan.algorithm,
            ranks=request.ranks,
            size=request.size,
            duration=duration,
            algbw=algbw,
            busbw=algbw * request.pattern.bus_factor(request.ranks),
            steps=plan.schedule.steps,
            link_bytes=link_bytes,
            link_utilization=link_bytes / (self.fabric.bandwidths * duration) if duration > 0 else link_bytes,
            energy=float(link_bytes @ self.fabric.energies),
            bound=bound,
            candidates=dict(plan.candidates),
            statistics=network.statistics.as_dict(),
            figures=answers.figures(network.admission),
            notes=tuple(notes),
            fabric=self.fabric,
            group=group,
            schedule=plan.schedule,
        )


def _check_scopes(spec: FabricSpec, fabric: Fabric) -> None:
    """Make sure that the experiment says of each tier of ``fabric`` what its links join, if it does of any."""
    tiers = int(fabric.tiers.max(initial=-1)) + 1
    if spec.scopes is not None and len(spec.scopes) != tiers:
        message = f"{len(spec.scopes)} scopes for {tiers} tiers of links"
        raise InputError(message, accepted="a scope for each tier, the innermost first")


def _check_account(name: str, parts: Mapping[str, FloatArray], duration: float) -> None:
    """Make sure that for every rank the parts add up to the iteration."""
    total = sum(parts.values(), np.zeros(1))
    if (np.abs(total - duration) > _EXACT * duration).any():
        rank = int(np.abs(total - duration).argmax())
        raise SimulationError(f"{name}: the parts of rank {rank} add up to {total[rank]!r} s, not to {duration!r} s")


def describe(plugin: Any) -> dict[str, Any]:
    """Return the name and the configuration of a configured plugin, JSON-ready."""
    return {"name": plugin.name, **configure.unstructure(plugin)}


def merged(counters: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the engine's counters over several simulations."""
    total = Statistics()
    for one in counters:
        total = total + Statistics(**one)
    return total.as_dict()


def _memory_text(memory: MemoryUse, npu: Npu) -> str:
    parts = ", ".join(
        f"{part} {render(getattr(memory, part), Unit.BYTES)}" for part in _MEMORY_PARTS if getattr(memory, part)
    )
    total, capacity = render(memory.total, Unit.BYTES), render(npu.memory, Unit.BYTES)
    more = f" and {render(npu.expanded_memory, Unit.BYTES)} of expanded memory" if npu.expanded_memory else ""
    return f"needs {total} of memory per NPU ({parts}), but an NPU has {capacity}{more}"
