"""The entry point for programs: one object that knows the plugins and runs experiments."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from attrs import evolve

from fredfw.collectives import CollectiveAlgorithm, CollectiveRequest, Pattern
from fredfw.collectives.pattern import pattern_of
from fredfw.errors import InputError, UnknownNameError, UnsupportedError, nearest, placed
from fredfw.experiment.cell.bench import Bench, Iteration
from fredfw.experiment.cell.runner import Runner
from fredfw.experiment.file import checks, reading
from fredfw.experiment.file.spec import AnyOutline, Experiment, FabricSpec, Outline, WorkloadSpec
from fredfw.experiment.matrix import calibration, comparison, merge, sensitivity as sensitivities
from fredfw.experiment.naming import listed
from fredfw.experiment.progress import Log, Progress, silent
from fredfw.experiment.results import Cell, CollectiveResult, Comparison, Effect, GraphResult, RunResult, WhatIf
from fredfw.experiment.run.cells import Means, observed, refused, workers
from fredfw.experiment.store import Store, opened
from fredfw.fabric import Fabric, Topology
from fredfw.fidelities import ESTIMATE, FIDELITIES, SIMULATED, called
from fredfw.plugin import configure
from fredfw.plugin.manager import PluginManager, given_or_installed
from fredfw.simulation.checks import check_fabric, members_of
from fredfw.simulation.choice import CLOSE
from fredfw.simulation.fidelity import Choice, chosen, transfers, transfers_of
from fredfw.simulation.links import LinkEvent
from fredfw.simulation.variation import Variation
from fredfw.tables import as_choice
from fredfw.terminal import quoted
from fredfw.typing import IntArray
from fredfw.units import Unit, counted, parse
from fredfw.workloads import Npu, TaskGraph

_Result = TypeVar("_Result", CollectiveResult, GraphResult, RunResult)

if TYPE_CHECKING:
    from fredfw.experiment.study.results import StudyResult


class Framework:
    """Knows the installed plugins and composes them; two frameworks share nothing.

    Whatever simulates raises ``InputError`` for what cannot be used, and ``SimulationError`` where a model misbehaves.

    Args:
        plugins: All installed ones by default.
        trust_plugins: Whether plugin files that an experiment names are executed; else it is refused, unless
            ``plugins`` has loaded them.
        log: Called with the name of each event and its values as keyword arguments, as structlog's ``info`` is.
    """

    def __init__(self, plugins: PluginManager | None = None, *, trust_plugins: bool = False, log: Log = silent) -> None:
        self.plugins = given_or_installed(plugins)
        self._trust_plugins = trust_plugins
        self._log = log
        self._latest: tuple[Fabric, object, Bench] | None = None  # a sweep over sizes asks for the same one again

    def topology(self, name: str, **fields: Any) -> Topology:
        """Return the topology ``name``, configured with ``fields``: numbers in SI, or text with units.

        Raises ``UnknownNameError`` if there is no such topology, ``InputError`` for impossible fields.
        """
        return configure.build(self.plugins.topologies.get(name), fields, registries=lambda: self.plugins.registries)

    def simulate_collective(
        self,
        fabric: Fabric,
        pattern: str,
        *,
        size: float | str,
        group: Sequence[int] | None = None,
        algorithm: str = "auto",
        root: int = 0,
        fidelity: str | None = None,
        auto_effort: str = "normal",
        **options: Any,
    ) -> CollectiveResult:
        """Simulate one collective on the otherwise idle ``fabric``.

        Args:
            fabric: The network.
            pattern: Such as ``all-reduce``.
            size: Bytes of the per-rank buffer, the larger of input and output; text may have a unit.
            group: NPU numbers in rank order; all of them by default.
            algorithm: A name, or ``auto`` for the fastest of those that can serve the request.
            root: The special rank of a rooted pattern.
            fidelity: ``exact`` or ``compressed``; by default ``exact`` up to the limit ``exact`` of ``fredfw.limits``.
            auto_effort: How long ``auto`` looks: ``normal``, or ``low`` until no other algorithm can be 5 % faster.
            **options: Fields of the algorithm.

        Raises:
            UnsupportedError: No algorithm can serve it.
        """
        check_fabric(fabric)
        if not isinstance(algorithm, str):
            raise InputError(
                f"{algorithm!r} is not a name", key="algorithm", accepted="a name; options are keyword arguments"
            )
        members = members_of(group, fabric)
        kind = pattern_of(pattern)
        with placed(key="size"):
            buffer = parse(size, Unit.BYTES)
        if buffer <= 0:
            raise InputError(f"{size!r} is not a size", key="size", accepted="more than 0 bytes")
        request = CollectiveRequest(kind, len(members), buffer, root)
        choice = _allowed(called(fidelity), "the collective", transfers_of(request.pattern, request.ranks))
        bench = self._bench(fabric, algorithm, options, as_choice(auto_effort, CLOSE, "auto_effort"))
        try:
            bench.planner.able(request, fabric.view(members))
        except UnsupportedError as error:
            raise error.at(key="algorithm") from None
        result = _explained(bench.collective(request, members, choice.fidelity), choice)
        facts = {name: getattr(result, name) for name in ("pattern", "ranks", "size", "algorithm", "duration")}
        self._log("collective ended", fabric=fabric.name, **facts, events=result.statistics["events"])
        return result

    def simulate_graph(
        self,
        graph: TaskGraph,
        fabric: Fabric,
        *,
        placement: Sequence[int] | IntArray | None = None,
        npu: Npu | None = None,
        collectives: str | Mapping[str, Any] = "auto",
        priorities: Sequence[str] = (),
        fidelity: str | None = None,
        attribution: bool = True,
        progress: Callable[[float], None] | None = None,
        variation: Variation | None = None,
        events: Sequence[LinkEvent] = (),
    ) -> GraphResult:
        """Simulate the tasks of ``graph`` on the otherwise idle ``fabric``.

        Args:
            graph: See ``GraphBuilder`` and ``TaskGraph.from_columns``.
            fabric: The network.
            placement: NPU number of each rank; by default rank r is on NPU r.
            npu: Computes what is given by FLOPs and bytes; by default the fabric's ``accelerator``, or ``Npu()``.
            collectives: As in an experiment: ``auto``, or algorithms by pattern, such as ``{"default": "ring"}``.
            priorities: Labels of the graph, the first of the highest class; all others come after them.
            fidelity: As in ``simulate_collective``.
            attribution: Whether to find out what the ranks have waited for, ``breakdown``.
            progress: Called now and then with the share of the tasks that has ended.
            variation: Stragglers, jitter and repeated runs.
            events: What happens to links meanwhile.

        Raises:
            UnsupportedError: No algorithm can serve a collective.
            DeadlockError: Tasks wait for each other.
        """
        check_fabric(fabric)
        if not isinstance(graph, TaskGraph):
            raise InputError(f"{graph!r} is not a task graph", key="graph", accepted="a fredfw.TaskGraph")
        for key, one, kind in (("npu", npu, Npu), ("variation", variation, Variation)):
            if one is not None and not isinstance(one, kind):
                raise InputError(f"{one!r} is refused", key=key, accepted=f"a fredfw.{kind.__name__}")
        timed: object = events
        if not isinstance(timed, Sequence) or not all(isinstance(one, LinkEvent) for one in timed):
            raise InputError(f"{events!r} is refused", key="events", accepted="a list of fredfw.simulation.LinkEvent")
        count = transfers(graph) * (1 if variation is None else variation.runs)
        choice = _allowed(called(fidelity), "the graph", count)
        checks.check_labels(priorities, graph.label_names, "the graph has no label")
        npus = len(fabric.npus)
        if placement is None and graph.ranks > npus:
            message = f"a graph of {counted(graph.ranks, 'rank')}, and {fabric.name!r} has {counted(npus, 'NPU')}"
            raise InputError(message, key="graph", accepted=f"at most {counted(npus, 'rank')}")
        places = np.arange(graph.ranks) if placement is None else members_of(placement, fabric, key="placement")
        if len(places) != graph.ranks:
            message = f"{counted(len(places), 'NPU')} for {counted(graph.ranks, 'rank')}"
            raise InputError(message, key="placement", accepted=str(graph.ranks))
        chosen, fastest = reading.Reader(self.plugins, Path()).collectives(collectives, "collectives")
        bench = Bench(fabric, chosen, self.plugins, fastest=fastest)
        self._log("fabric built", **bench.facts())
        self._log("graph begins", fabric=fabric.name, fidelity=choice.fidelity, ranks=graph.ranks, tasks=len(graph))
        try:
            if npu is None:
                npu = Npu.of(fabric.accelerator) if fabric.accelerator else Npu()
            classes = {label: rank for rank, label in enumerate(priorities)}
            result = bench.graph(
                Iteration(graph, places, npu.seconds, classes),
                name=f"the graph on {fabric.name}",
                fidelity=choice.fidelity,
                attribution=attribution,
                progress=progress,
                variation=variation,
                events=events,
            )
        except UnsupportedError as error:  # of an algorithm, unless it names another slot
            raise (error if error.key else error.at(key="collectives")) from None
        self._log("graph ended", fabric=fabric.name, duration=result.seconds, events=result.statistics["events"])
        return _explained(result, choice)

    def _bench(self, fabric: Fabric, algorithm: str, options: dict[str, Any], effort: str) -> Bench:
        chosen: dict[Pattern | None, tuple[CollectiveAlgorithm, ...]] | None = None
        if algorithm != "auto":
            cls = self.plugins.collectives.get(algorithm)
            chosen = {None: (configure.build(cls, options, registries=lambda: self.plugins.registries),)}
        elif options:
            raise InputError(f"{sorted(options)} given without an algorithm", key="algorithm", accepted="a name")
        if self._latest is not None and self._latest[0] is fabric and self._latest[1] == (chosen, effort):
            return self._latest[2]
        bench = Bench(fabric, chosen, self.plugins, fastest=chosen is None, effort=effort)
        self._latest = fabric, (chosen, effort), bench
        self._log("fabric built", **bench.facts())
        return bench

    def outline(self, source: str | Path | Mapping[str, Any], *, values: Mapping[str, Any] | None = None) -> AnyOutline:
        """Read which cells an experiment has and what is made of them; its plugins need not be installed.

        Arguments and errors are those of ``load_experiment``.
        """
        return reading.parse(source, values) if isinstance(source, Mapping) else reading.load(source, values)

    def load_experiment(
        self,
        source: str | Path | Mapping[str, Any],
        *,
        fabrics: Sequence[str] | None = None,
        workloads: Sequence[str] | None = None,
        baselines: bool = False,
        values: Mapping[str, Any] | None = None,
    ) -> Experiment:
        """Read an experiment and configure the plugins that it names.

        Args:
            source: A path, or the tables themselves.
            fabrics: The only ones to configure, by name or template; plugins of others need not be installed.
            workloads: Likewise.
            baselines: Whether to add the fabrics that the speed-ups of those named refer to, as a comparison needs.
            values: Take the place of what the tables say, by path: ``{"fabrics.mesh.topology.rows": 5}``.
        """
        given = dict(values or {})
        outline = self.outline(source, values=given).select(fabrics=fabrics, workloads=workloads, baselines=baselines)
        experiment = reading.configured(outline, self.plugins, trust_plugins=self._trust_plugins)
        used: list[object] = [one.workload for one in experiment.workloads]
        used += [one for fabric in experiment.fabrics for one in fabric.configured]
        counts = {"fabrics": len(experiment.fabrics), "workloads": len(experiment.workloads)}
        versions = self.plugins.versions(used=map(type, configure.parts(used)))
        self._log("experiment read", file=experiment.file, title=experiment.title, **counts, plugins=versions)
        return evolve(experiment, reader=lambda others: self.load_experiment(source, values={**given, **others}))

    def run(
        self,
        experiment: Experiment | str | Path,
        *,
        workload: str | None = None,
        fabric: str | None = None,
        fidelity: str | None = None,
        store: Store | str | Path | None = None,
        progress: Progress | None = None,
    ) -> RunResult:
        """Simulate one cell of an experiment; names may be left out where there is only one to choose from.

        Args:
            experiment: The matrix, or its file, of which only what is named needs its plugins.
            workload: Name of the row.
            fabric: Name of the column.
            fidelity: As in ``simulate_collective``, instead of the experiment's own.
            store: Takes what a comparison needs of the result; or its path.
            progress: Called with (share of the cell that is done, 1, the cell) now and then, and at the end.
        """
        fidelity = called(fidelity)
        matrix = self._matrix(experiment, workload, fabric)
        row, column = _cell(matrix, workload, fabric)
        what = f"{row.name} on {column.name}"
        tell: Callable[[float], None] | None = None if progress is None else lambda share: progress(share, 1, what)
        with observed(self.plugins, matrix):
            runner = Runner(matrix, self.plugins, self._log)
            choice = self._choice(runner, matrix, row, column, fidelity)
            with opened(store) as cells:
                means = Means(self.plugins, cells)
                spec = None if cells is None else means.spec(matrix, row, column, choice.fidelity)
                try:
                    _check_cell(runner, matrix, row, column)
                    if tell:
                        tell(0.0)
                    result = runner.run(row, column, choice.fidelity, tell)
                except InputError as error:
                    if spec is not None:  # that the two do not fit is kept, too
                        means.keep(spec, refused(row.name, column.name, error))
                    raise
                if spec is not None:
                    means.keep(spec, Cell.of(result))
            result = _explained(result, choice)
            if tell:
                tell(1.0)
            self.plugins.hook.fredfw_after_run(result=result)
            return result

    def _choice(
        self, runner: Runner, experiment: Experiment, row: WorkloadSpec, column: FabricSpec, fidelity: str | None
    ) -> Choice:
        """Return the fidelity of one cell; raises where it is ``ESTIMATE``, which is no simulation."""
        asked = fidelity or experiment.fidelity
        if asked is None:
            return runner.choice([(row, column)])
        if asked == ESTIMATE:
            file = None if fidelity else experiment.file
            raise InputError(f"{asked!r} is no simulation", file=file, key="fidelity", accepted=", ".join(SIMULATED))
        return Choice(asked)

    def export_program(
        self,
        experiment: Experiment | str | Path,
        *,
        workload: str | None = None,
        fabric: str | None = None,
        fidelity: str | None = None,
        routes: bool = False,
    ) -> bytes:
        """Return one cell of an experiment as a file that programs in C and C++ run, see ``fredfw_program_read``.

        They get the times that ``run`` gets, to the last bit. The cell is given as there; with ``routes`` the file has
        those of messages between all NPUs, too. Raises ``InputError`` where Python is asked while the cell runs, by an
        admission, a sharing policy, loads, stores or events of links, or a transport that is asked for each message.
        """
        fidelity = called(fidelity)
        matrix = self._matrix(experiment, workload, fabric)
        row, column = _cell(matrix, workload, fabric)
        runner = Runner(matrix, self.plugins, self._log)
        _check_cell(runner, matrix, row, column)
        choice = self._choice(runner, matrix, row, column, fidelity)
        content = runner.program(row, column, choice.fidelity, routes=routes)
        self._log("program exported", workload=row.name, fabric=column.name, bytes=len(content))
        return content

    def what_if(
        self,
        experiment: Experiment | str | Path,
        *,
        workload: str | None = None,
        fabric: str | None = None,
        fidelity: str | None = None,
        factor: float = 2.0,
        result: RunResult | None = None,
        store: Store | str | Path | None = None,
        jobs: int = 1,
        executor: Executor | str | None = None,
        progress: Progress | None = None,
    ) -> WhatIf:
        """Return what would make one cell of an experiment faster, the most helpful parameter first.

        Each parameter of the machine is made better alone: by one per cent, and ``factor`` (above 1) times. Both runs
        stand beside what the critical path lets expect. The cell is given as in ``run``; ``result`` is what that
        returned, where it is known. Where the runs are made and kept is as in ``compare``. ``progress`` is called with
        (runs done, all of them, a run that is made), and at the end.
        """
        sensitivities.check_factor(factor)
        fidelity = called(fidelity)
        matrix = self._matrix(experiment, workload, fabric)
        if result is None:
            result = self.run(matrix, workload=workload, fabric=fabric, fidelity=fidelity)
        matrix = matrix.select(fabrics=[result.fabric_name], workloads=[result.workload])
        with observed(self.plugins, matrix), self._means(store, jobs, executor, progress) as means:
            return sensitivities.of_run(matrix, result, factor, means)

    def compare(
        self,
        experiment: Experiment | str | Path,
        *,
        fidelity: str | None = None,
        sensitivity: float | None = None,
        strict: bool = False,
        store: Store | str | Path | None = None,
        jobs: int = 1,
        executor: Executor | str | None = None,
        progress: Progress | None = None,
    ) -> Comparison:
        """Simulate every cell of an experiment; see ``fredfw.experiment.matrix.comparison.compare``.

        Args:
            experiment: The matrix, or its file.
            fidelity: Of all cells, as in ``simulate_collective``, or ``estimate``; instead of the experiment's own.
            sensitivity: A share, such as 0.2, by which each parameter of each machine is made less and more, one at a
                time: the result says how speed-ups change.
            strict: Whether a cell that cannot be run is an error; otherwise it is one of ``failures``.
            store: Has cells of earlier runs, which are not run again, and takes those of this one; or its path.
            jobs: How many processes run cells; with one it is this process.
            executor: Runs cells instead: one of ``concurrent.futures``, or a Dask scheduler, ``dask://HOST:PORT``. As
                with ``jobs``, plugins must be installed or in files.
            progress: Called with (cells done, cells in all, the cell that runs), then so for all variations.
        """
        fidelity = called(fidelity, FIDELITIES)
        share = None if sensitivity is None else sensitivities.check_share(sensitivity)
        matrix = self._matrix(experiment)
        matrix.check_matrix()
        with observed(self.plugins, matrix), self._means(store, jobs, executor, progress) as means:
            found = comparison.compare(matrix, means, fidelity=fidelity, strict=strict)
            if share is None:
                return found
            return evolve(found, sensitivity=sensitivities.of_comparison(matrix, found, share, means))

    def load_study(
        self, source: str | Path | Mapping[str, Any], *, values: Mapping[str, Any] | None = None
    ) -> Experiment:
        """Deprecated: ``load_experiment`` reads experiments with a space, too."""
        warnings.warn("Framework.load_study is Framework.load_experiment now", DeprecationWarning, stacklevel=2)
        return self.load_experiment(source, values=values)

    def study(
        self,
        experiment: Experiment | str | Path | Mapping[str, Any],
        *,
        values: Mapping[str, Any] | None = None,
        fidelity: str | None = None,
        store: Store | str | Path | None = None,
        jobs: int = 1,
        executor: Executor | str | None = None,
        progress: Progress | None = None,
    ) -> StudyResult:
        """Search the space of an experiment for its best points; see ``fredfw.experiment.study.search.search``.

        ``values`` are for a file or tables that are not loaded yet; all else is as in ``compare``. ``fidelity`` is that
        of points whose rung has none, and ``progress`` is called with (cells done, asked for so far, one that runs).

        Raises:
            Interrupted: A ``KeyboardInterrupt`` came after the first cell; has the result so far.
            InputError: The space is empty or too large, or a cell lacks the objective.
            PluginError: The sampler misbehaved.
        """
        from fredfw.experiment.study.search import search  # only a study pays for it

        if not isinstance(experiment, Experiment):
            experiment = self.load_experiment(experiment, values=values)
        elif values:
            raise InputError("the experiment is read already", key="values", accepted="the values of load_experiment")
        known = called(fidelity, FIDELITIES)
        with self._means(store, jobs, executor, progress) as means:
            return search(experiment, means, None if known is None else Choice(known))

    def collective_sensitivity(
        self, fabric: Fabric, pattern: str, *, size: float | str, share: float = 0.2, **given: Any
    ) -> tuple[Effect, ...]:
        """Return what each parameter of ``fabric`` does to the time of a collective, the largest effect first.

        That ``share``, between 0 and 1, of each is taken away and added, one at a time. All else is for
        ``simulate_collective``; what ``auto`` chooses is chosen anew each time.
        """
        sensitivities.check_share(share)

        def run(on: Fabric) -> CollectiveResult:
            return self.simulate_collective(on, pattern, size=size, **given)

        return sensitivities.of_collective(fabric, run(fabric), share, run)

    def merge(
        self,
        source: str | Path | Mapping[str, Any],
        stores: Iterable[Store | str | Path],
        *,
        values: Mapping[str, Any] | None = None,
    ) -> Comparison:
        """Return the comparison of an experiment from what stores have of its cells; its plugins are not needed.

        ``source`` and ``values``, those that the cells were run with, are as in ``load_experiment``. Raises
        ``InputError`` where a cell is missing, or was run with other versions or files than the rest.
        """
        outline = self.outline(source, values=values)
        outline.check_matrix()
        with ExitStack() as stack:
            found = [stack.enter_context(opened(one, new=False)) for one in stores]
            return merge.merge(outline, [one for one in found if one is not None])

    def stored(self, outline: AnyOutline | str | Path, store: Store | str | Path) -> Mapping[tuple[str, str], str]:
        """Return what ``store`` has of each cell, by workload and fabric: ``done``, ``infeasible`` or ``missing``.

        The plugins of the experiment need not be installed. Raises ``InputError`` where there is no such store, or it
        has results of a cell that differ.
        """
        matrix = outline if isinstance(outline, Outline) else self.outline(outline)
        matrix.check_matrix()
        with opened(store, new=False) as found:
            stores = [] if found is None else [found]
            how = merge.fidelity_of(matrix, stores)
            known = {(one.name, other.name): merge.find(matrix, one, other, stores, how) for one, other in matrix.cells}
        return {
            key: "missing" if one is None else "done" if isinstance(one, Cell) else one.status
            for key, one in known.items()
        }

    def calibrate(
        self, experiment: Experiment | str | Path, *, progress: Progress | None = None
    ) -> tuple[calibration.Fit, ...]:
        """Fit the compute scale of every workload that asks for it; see ``fredfw.experiment.matrix.calibration``."""
        matrix = self._matrix(experiment)
        matrix.check_matrix()
        return calibration.calibrate(matrix, self.plugins, progress=progress, log=self._log)

    def _matrix(
        self, experiment: Experiment | str | Path, workload: str | None = None, fabric: str | None = None
    ) -> Experiment:
        """Return ``experiment``; of a file only what is named is configured."""
        if isinstance(experiment, Experiment):
            return experiment
        fabrics, workloads = (None if one is None else [one] for one in (fabric, workload))
        return self.load_experiment(experiment, fabrics=fabrics, workloads=workloads)

    @contextmanager
    def _means(
        self, store: Store | str | Path | None, jobs: int, executor: Executor | str | None, progress: Progress | None
    ) -> Iterator[Means]:
        with opened(store) as cells, workers(jobs, executor, self.plugins) as others:
            yield Means(self.plugins, cells, others, progress, self._log)


def _cell(experiment: Experiment, workload: str | None, fabric: str | None) -> tuple[WorkloadSpec, FabricSpec]:
    rows, columns = ([one.name for one in specs] for specs in (experiment.workloads, experiment.fabrics))
    row = experiment.workload(_chosen(workload, rows, "workload", experiment.file))
    return row, experiment.fabric(_chosen(fabric, columns, "fabric", experiment.file))


def _check_cell(runner: Runner, experiment: Experiment, workload: WorkloadSpec, fabric: FabricSpec) -> None:
    causes = {(workload.name, fabric.name): runner.check(workload, fabric)}
    if len(experiment.cells) == 1:
        checks.check_causes(experiment, causes)


def _allowed(fidelity: str | None, what: str, count: int) -> Choice:
    """Return ``fidelity``, or what ``count`` transfers allow."""
    return chosen([(what, count)]) if fidelity is None else Choice(fidelity)


def _explained(result: _Result, choice: Choice) -> _Result:
    """Return ``result``, with a note where it is not exact and nobody has asked for that."""
    return evolve(result, notes=(*result.notes, choice.reason)) if choice.reason else result


def _chosen(name: str | None, names: Sequence[str], kind: str, file: str | None) -> str:
    accepted = f"one of {listed(list(map(quoted, names)))}"
    if name is None and len(names) > 1:
        raise InputError(f"there are {len(names)} {kind}s, and none is chosen", file=file, key=kind, accepted=accepted)
    if name is not None and name not in names:
        raise UnknownNameError(f"no {kind} {name!r}{nearest(name, names)}", file=file, key=kind, accepted=accepted)
    return names[0] if name is None else name
