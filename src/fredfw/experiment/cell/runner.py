"""Composes topology, placement, workload, algorithms and engine into one simulated iteration."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from time import perf_counter
from typing import Any

import attrs
import numpy as np
from attrs import frozen

from fredfw.errors import InputError, UnsupportedError, placed
from fredfw.experiment import memories
from fredfw.experiment.cell.bench import Bench, Iteration
from fredfw.experiment.file.spec import Experiment, FabricSpec, WorkloadSpec
from fredfw.experiment.jobs import Course, Duration, Jobs, Part, breakdown_of, course, results_of, seconds_of, spilling
from fredfw.experiment.progress import Log, silent
from fredfw.experiment.results import Cell, GraphResult, RunResult, Throughput, injection_bandwidth, shared
from fredfw.fabric import SLOTS, Bill, answers as fabric_answers, with_memories
from fredfw.fidelities import ESTIMATE
from fredfw.keeping import Latest
from fredfw.plugin import configure
from fredfw.plugin.answers import billed, built
from fredfw.plugin.manager import PluginManager
from fredfw.simulation import Statistics, answers as simulation_answers, program as programs
from fredfw.simulation.fidelity import Choice, chosen, transfers
from fredfw.simulation.links import REROUTE, check, ending
from fredfw.typing import IntArray
from fredfw.workloads import Label, MemoryUse, Npu, Placement, System, TaskGraph, Work, answers as workload_answers
from fredfw.workloads.composition import composed
from fredfw.workloads.labels import BUBBLE, COMPUTE
from fredfw.workloads.placement import placement_of
from fredfw.workloads.spilling import Spill, with_spills

_ESTIMATED = (
    "estimated, not simulated: the longest path through the tasks, each communication as if nothing else used its links"
)


class Runner:
    """Runs cells of one experiment; fabrics, graphs and plans are built once and kept."""

    def __init__(
        self,
        experiment: Experiment,
        plugins: PluginManager,
        log: Log = silent,
        *,
        # What other experiments share that write the same in the same ``environment``, that of a ``CellSpec``.
        kept: tuple[Latest[str, Bench], Latest[str, TaskGraph]] | None = None,
        environment: str = "",
    ) -> None:
        self._experiment = experiment
        self._plugins = plugins
        self._log = log
        self._kept = kept
        self._environment = environment
        self._bench: dict[str, Bench] = {}
        self._cells: dict[str, dict[str, _Cell]] = {}  # by fabric and workload
        self._graphs: dict[tuple[str, System], TaskGraph] = {}

    def check(self, workload: WorkloadSpec, fabric: FabricSpec) -> tuple[str, ...]:
        """Return the causes that the breakdown will have; nothing is simulated to find out that the two do not fit."""
        return tuple(dict.fromkeys((COMPUTE, BUBBLE, *self._cell(workload, fabric).graph.label_names)))

    def count(self, workload: WorkloadSpec, fabric: FabricSpec) -> int:
        """Return about how many transfers ``workload`` has on ``fabric`` in all its runs; 0 where it cannot be run."""
        try:
            return self._cell(workload, fabric).transfers
        except MemoryError:
            raise
        except Exception:  # to run it says why
            return 0

    def choice(self, cells: Iterable[tuple[WorkloadSpec, FabricSpec]]) -> Choice:
        return chosen((f"{row.name} on {column.name}", self.count(row, column)) for row, column in cells)

    @property
    def held(self) -> int:
        graphs = {id(cell.graph): len(cell.graph) for cells in self._cells.values() for cell in cells.values()}
        return sum(graphs.values()) + sum(len(one.fabric.bandwidths) for one in self._bench.values())

    def forget(self, fabric: FabricSpec) -> None:
        self._bench.pop(fabric.name, None)
        self._cells.pop(fabric.name, None)

    def run(
        self, workload: WorkloadSpec, fabric: FabricSpec, fidelity: str, progress: Callable[[float], None] | None = None
    ) -> RunResult:
        cell = self._cell(workload, fabric)
        names = {"workload": workload.name, "fabric": fabric.name, "fidelity": fidelity}
        self._log("cell begins", **names, ranks=len(cell.places), tasks=len(cell.graph))
        begun = perf_counter()
        scale, runs = workload.compute_scale, 1 + len(cell.jobs)

        def simulate(
            iteration: Iteration, number: int, jobs: Sequence[Part]
        ) -> tuple[GraphResult, dict[int, list[Course]]]:
            courses: dict[int, list[Course]] = {job.index: [] for job in jobs}

            def note(run: GraphResult) -> None:
                for job in jobs:
                    courses[job.index].append(course(job, run.timeline))

            found = cell.bench.graph(
                iteration,
                name=f"{workload.name} on {fabric.name}",
                fidelity=fidelity,
                progress=None if progress is None else lambda share: progress((number + share) / runs),
                checked=True,
                variation=self._experiment.variation_of(fabric),
                events=fabric.events,
                watch=note,
            )
            return found, courses

        with self._asked(fabric):
            together = simulate(cell.iteration(scale), 0, cell.jobs)
            alone = [simulate(cell.alone(job, scale), number, [job]) for number, job in enumerate(cell.jobs, 1)]
        outcome, _ = together
        jobs = results_of(cell.jobs, together, alone, cell.npu, scale)
        common = self._common(cell, workload, fabric, fidelity, outcome.seconds)
        result = RunResult(
            **shared(outcome, RunResult)
            | common
            | {
                "fabric_name": fabric.name,
                "breakdown": breakdown_of(cell.jobs, jobs, outcome.seconds) if jobs else outcome.breakdown,
                "notes": (*common["notes"], *outcome.notes),
                "bill": self._bill(fabric),
                "jobs": jobs,
            }
        )
        facts = {"iteration": result.seconds, "events": outcome.statistics["events"], "algorithms": result.algorithms}
        self._log("cell ended", **names, took=round(perf_counter() - begun, 3), **facts)
        return result

    def cell(self, workload: WorkloadSpec, fabric: FabricSpec, fidelity: str) -> Cell:
        if fidelity == ESTIMATE:
            return self.estimate(workload, fabric)
        return Cell.of(self.run(workload, fabric, fidelity))

    def program(self, workload: WorkloadSpec, fabric: FabricSpec, fidelity: str, *, routes: bool) -> bytes:
        cell, key = self._cell(workload, fabric), f"fabrics.{fabric.name}"
        variation = self._experiment.variation_of(fabric)
        runs = 1 if variation is None else variation.runs
        if runs > 1:
            own = "" if fabric.variation is None else f"{key}."
            message = f"{runs} runs are {runs} programs, and a file has one"
            raise InputError(message, file=self._experiment.file, key=f"{own}variation.runs", accepted="1")
        if fabric.events:
            message = "links change while a program runs, which one in a file does not know"
            raise InputError(message, file=self._experiment.file, key=f"{key}.events", accepted="no events")
        with self._placed(workload.key):
            programs.check_graph(cell.graph)
        with self._placed(key):
            programs.check_network(cell.bench.simulator.network())
            messages = programs.routes_of_messages(cell.bench.fabric) if routes else None
        pace = None if variation is None else variation.pace(0, len(cell.bench.fabric.npus))
        with self._asked(fabric):
            iteration = cell.iteration(workload.compute_scale)
            return cell.bench.program(iteration, fidelity=fidelity, pace=pace, routes=messages)

    def estimate(self, workload: WorkloadSpec, fabric: FabricSpec) -> Cell:
        cell = self._cell(workload, fabric)
        if cell.jobs:
            message = "an estimate does not know what jobs do to each other"
            accepted = f"rungs without {ESTIMATE}, or a single workload"
            raise InputError(message, file=self._experiment.file, key=f"{workload.key}.jobs", accepted=accepted)
        if self._experiment.variation_of(fabric) is not None or fabric.events:
            message = "an estimate knows nothing of what varies"
            raise InputError(message, file=self._experiment.file, key="variation", accepted="a simulation")
        with self._asked(fabric):
            found = cell.bench.estimate(cell.iteration(workload.compute_scale))
        common, bill = self._common(cell, workload, fabric, ESTIMATE, found.seconds), self._bill(fabric)
        return Cell(
            **shared(found, Cell)
            | common
            | {
                "fabric": fabric.name,
                "figures": {},
                "notes": (*common["notes"], *cell.bench.fabric.notes, *found.notes, _ESTIMATED),
                "placement": tuple(cell.places.tolist()),
                "injection_bandwidth": injection_bandwidth(cell.bench.fabric, cell.places),
                "cost": None if bill is None else bill.dollars,
            }
        )

    @contextmanager
    def _asked(self, fabric: FabricSpec) -> Iterator[None]:
        """Add the file and what of ``fabric`` is to blame to errors of a simulation."""
        key = f"fabrics.{fabric.name}"
        try:
            yield
        except UnsupportedError as error:  # of the router, unless it names the slot whose plugin refuses
            named = str(error.key).partition(".")[0] in SLOTS
            raise error.at(file=self._experiment.file, key=key if named else f"{key}.router") from None
        except InputError as error:  # of an algorithm, whose schedules are written when they are needed
            raise error.at(file=self._experiment.file, key=f"{key}.collectives") from None

    def _common(
        self, cell: _Cell, workload: WorkloadSpec, fabric: FabricSpec, fidelity: str, seconds: float
    ) -> dict[str, Any]:
        scale = workload.compute_scale
        return {
            "workload": workload.name,
            "provenance": self._provenance(workload, fabric, cell, fidelity),
            "memory": cell.memory.parts,
            "notes": (*cell.memory_notes, *cell.npu.assumed(cell.graph, scale), *cell.notes),
            "omissions": cell.omissions,
            "work": cell.work,
            "throughput": Throughput.of(
                cell.work, seconds, npus=len(cell.places), peak=cell.npu.peak, compute_scale=scale
            ),
            "colours": cell.colours,
        }

    def _cell(self, workload: WorkloadSpec, fabric: FabricSpec) -> _Cell:
        """Put ``workload`` on ``fabric``, checked once; its ``compute_scale`` has no part in it."""
        known = self._cells.setdefault(fabric.name, {})
        if workload.name in known:
            return known[workload.name]
        key, model = f"fabrics.{fabric.name}", workload.workload
        with self._placed(key):
            bench = self._bench_of(fabric)
        on = bench.fabric
        with self._placed(f"{key}.topology"):
            placement = placement_of(on)
        variation = self._experiment.variation_of(fabric)
        if variation is not None:
            with self._placed("variation" if fabric.variation is None else f"{key}.variation"):
                variation.pace(0, len(on.npus))
        if fabric.events:
            with self._placed(f"{key}.events"):
                check(fabric.events, on)
                if isinstance(model, Jobs) and ending(fabric.events, on):
                    message = "a failure ends one of several jobs, whose restart is not simulated"
                    raise InputError(message, accepted=f"then = {REROUTE!r}")
        tiers_of_links = int(on.tiers.max(initial=-1)) + 1
        if fabric.scopes is not None and len(fabric.scopes) != tiers_of_links:
            message = f"{len(fabric.scopes)} scopes for {tiers_of_links} tiers of links"
            accepted = "a scope for each tier, the innermost first"
            raise InputError(message, file=self._experiment.file, key=f"{key}.scopes", accepted=accepted)
        with self._placed(""):
            npu = self._experiment.npu_of(fabric, on.accelerator)
        with self._placed(f"{key}.router"):
            fabric_answers.route(bench.simulator.lowering.router, on, on.npus[:1], on.npus[-1:])
        tiers = () if on.memories is None else on.memories.tiers
        sends = injection_bandwidth(on, np.arange(len(on.npus)))
        system = System(len(on.npus), len(on.controllers), tiers, sends, fabric.name)
        with self._placed(workload.key):
            jobs = model.parts(system) if isinstance(model, Jobs) else ()
            mesh = workload_answers.mesh(model, system)
        try:
            if jobs:
                places = np.concatenate([job.places(placement, on) for job in jobs])
            else:
                places = workload_answers.places(placement, on, mesh)
        except InputError as error:
            # The placement does not support the fabric or the workload, or the workload has too many workers.
            own = isinstance(error, UnsupportedError) or error.key is not None
            raise error.at(file=self._experiment.file, key=f"{key}.placement" if own else workload.key) from None
        with self._placed(workload.key):
            memory = workload_answers.memory(model, system)
            jobs = spilling(jobs, npu, tiers)
            spilled = () if jobs else memories.spilled(memory, npu, tiers, mesh.ranks)
            graph = self._graph(workload, system, mesh.ranks)
            work = workload_answers.work(model, system)
            if any(job.spilled for job in jobs):
                graph = composed([job.graph for job in jobs])
            graph = with_spills(graph, spilled, 1 if work is None else work.microbatches or 1)
            omissions = workload_answers.omissions(model, system)
            labels = model.labels(system) if jobs else workload_answers.labels(model, system)
            cell = _Cell(
                bench=bench,
                npu=npu,
                placement=placement,
                places=places,
                memory=memory,
                spilled=spilled,
                graph=graph,
                work=work,
                notes=(*workload_answers.notes(model, system), *omissions),
                omissions=omissions,
                priorities=self._priorities(graph.label_names, labels),
                colours={name: label.colour or "" for name, label in labels.items()},
                jobs=jobs,
                transfers=transfers(graph) * (1 if variation is None else variation.runs) * (2 if jobs else 1),
            )
            tasks = bench.assignment(Iteration(graph, places, npu.seconds, cell.priorities))
        with self._placed(f"{key}.collectives"):
            tasks.check_collectives()
        with self._placed(f"{key}.router"):
            tasks.check_streams()
        known[workload.name] = cell
        return cell

    def _priorities(self, names: Iterable[str], labels: Mapping[str, Label]) -> dict[str, int]:
        """Return the class of each label that has one: of the experiment, or as the workload declares them."""
        if self._experiment.priorities is not None:
            known = {label: rank for rank, label in enumerate(self._experiment.priorities)}
            # A label of the experiment stands for those of that name of all jobs, too.
            return {name: known[own] for name in names if (own := name.partition("/")[2]) in known} | known
        declared = {name: label.priority for name, label in labels.items() if label.priority is not None}
        classes = sorted(set(declared.values()))
        return {name: classes.index(declared[name]) for name in sorted(declared, key=declared.__getitem__)}

    def _placed(self, key: str) -> AbstractContextManager[None]:
        return placed(file=self._experiment.file, key=key)

    def _bench_of(self, spec: FabricSpec) -> Bench:
        def build() -> Bench:
            with self._placed("topology"):
                network = built(spec.topology).with_defaults(name=spec.name, **spec.slots)
            fabric = with_memories(network, spec.memories)
            with self._placed("topology"):
                bench = Bench(fabric, spec.collectives, self._plugins, fastest=spec.fastest)
            self._log("fabric built", **bench.facts())
            return bench

        if spec.name not in self._bench:
            kept, what = self._kept, (self._environment, spec.name, spec.written)
            self._bench[spec.name] = build() if kept is None else kept[0].get(json.dumps(what), build)
        return self._bench[spec.name]

    def _bill(self, spec: FabricSpec) -> Bill | None:
        prices = self._experiment.prices
        prices = prices if spec.scopes is None else attrs.evolve(prices, scopes=spec.scopes)
        return billed(spec.topology, prices, self._bench_of(spec).fabric.network)

    def _graph(self, spec: WorkloadSpec, system: System, workers: int) -> TaskGraph:
        def build() -> TaskGraph:
            return workload_answers.graph(spec.workload, system, workers)

        alike = attrs.evolve(system, fabric=None)  # whose name is for messages alone
        key = spec.name, alike
        if key not in self._graphs:
            kept, what = self._kept, (self._environment, spec.written, attrs.asdict(alike), workers)
            self._graphs[key] = build() if kept is None else kept[1].get(json.dumps(what), build)
        return self._graphs[key]

    def _provenance(self, workload: WorkloadSpec, fabric: FabricSpec, cell: _Cell, fidelity: str) -> dict[str, Any]:
        experiment, bench = self._experiment, cell.bench
        slots = {**attrs.asdict(bench.fabric.defaults, recurse=False), "sharing": bench.simulator.sharing}
        slots["placement"] = cell.placement
        ratio_error = simulation_answers.ratio_error(bench.fabric.defaults.transport, bench.fabric.network)
        used = [*configure.parts([fabric.topology, *slots.values(), workload.workload]), *bench.algorithms]
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
            "npu": configure.unstructure(cell.npu),
            **({"memories": [configure.unstructure(one) for one in fabric.memories]} if fabric.memories else {}),
            **({} if ratio_error is None else {"ratio_error": ratio_error}),
            "compute_scale": workload.compute_scale,
            "priorities": sorted(cell.priorities, key=cell.priorities.__getitem__),
            "fidelity": fidelity,
            "transfers": cell.transfers,
            **experiment.varied(fabric),
            "files": configure.files([*used, cell.npu]),
            "versions": self._plugins.versions(used=map(type, used)),
        }


@frozen(eq=False)
class _Cell:
    """A workload on a fabric, ready to run."""

    bench: Bench
    npu: Npu
    placement: Placement
    places: IntArray  # ``(workers,)`` NPU number of each rank
    memory: MemoryUse  # what an NPU needs
    spilled: tuple[Spill, ...]  # what of that is in memory tiers
    graph: TaskGraph
    work: Work | None  # what the iteration trains, if that is known
    notes: tuple[str, ...]  # what the workload has to say about every result
    omissions: tuple[str, ...]  # those of the notes that say what it leaves out
    priorities: dict[str, int]  # class by label, 0 the highest
    colours: dict[str, str]  # of the labels that the workload declares, empty for one that is free
    jobs: tuple[Part, ...]  # those that it consists of, if it is several; each runs alone, too
    transfers: int  # about how many it has, in all runs

    def iteration(self, scale: float) -> Iteration:
        graph = seconds_of(self.graph, self._durations(scale)) if self.jobs else self.graph
        return Iteration(graph, self.places, _seconds(scale, self.npu, self.memory), self.priorities)

    def alone(self, job: Part, scale: float) -> Iteration:
        places = job.places(self.placement, self.bench.fabric)
        seconds = _seconds(scale, self.npu, self.memory)
        return Iteration(seconds_of(composed([job.graph]), self._durations(scale)), places, seconds, self.priorities)

    def _durations(self, scale: float) -> dict[int, Duration]:
        return {job.index: _seconds(scale, self.npu, job.memory) for job in self.jobs}

    @property
    def memory_notes(self) -> tuple[str, ...]:
        if not self.jobs:
            return memories.notes(self.memory, self.npu, self.spilled)
        return tuple(note for job in self.jobs for note in job.memory_notes(self.npu))


def describe(plugin: Any) -> dict[str, Any]:
    return {"name": plugin.name, **configure.unstructure(plugin)}


def merged(counters: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total, known = Statistics(), set(Statistics().as_dict())
    for one in counters:  # of this release or an earlier one, which may have had others
        total = total + Statistics(**{name: count for name, count in one.items() if name in known})
    return total.as_dict()


def _seconds(scale: float, npu: Npu, memory: MemoryUse) -> Duration:
    computing = npu.holding(memory.total)
    return lambda *work: scale * computing.seconds(*work)
