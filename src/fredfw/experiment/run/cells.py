"""Cells as plain data: what decides a result, how it is run here or elsewhere, and how many are run."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import closing, contextmanager
from functools import cache, cached_property, partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from attrs import asdict, evolve, frozen

from fredfw import limits
from fredfw.answers import explain
from fredfw.errors import FredfwError, InputError, LimitError
from fredfw.experiment.cell.bench import Bench
from fredfw.experiment.cell.runner import Runner
from fredfw.experiment.cell.variation import Variation, changed
from fredfw.experiment.document import digest
from fredfw.experiment.file import reading
from fredfw.experiment.file.spec import AnyOutline, Experiment, FabricSection, FabricSpec, WorkloadSection, WorkloadSpec
from fredfw.experiment.progress import Log, Progress, silent
from fredfw.experiment.results import Cell, Failure
from fredfw.experiment.store import Store
from fredfw.fidelities import COMPRESSED, ESTIMATE
from fredfw.keeping import Latest
from fredfw.plugin import configure
from fredfw.plugin.manager import PluginManager, Setup
from fredfw.simulation import engine
from fredfw.simulation.fidelity import Choice, chosen
from fredfw.workloads import TaskGraph

Outcome = Cell | Failure  # what is known of a cell once it was run
Share = Callable[[float], None]  # told now and then which share of a cell is done
Run = Callable[["CellSpec", Share | None], Outcome]
# Of what cells share, fabrics, and tasks of all graphs together: a sweep comes back to them, and both can be large.
_FABRICS_KEPT = 4
_TASKS_KEPT = 1_000_000
_AHEAD = 32  # cells that wait in an executor for each that it runs at once: enough that none of its processes waits
_MANY = 64  # how many cells an executor runs at once where that is not known


@frozen
class CellSpec:
    """One workload on one fabric, as plain data that can be sent to another process."""

    content: Mapping[str, Any]  # tables of an experiment that has this cell alone, with swept fields in their place
    workload: str
    fabric: str
    fidelity: str  # how closely it is simulated; ``ESTIMATE`` for not at all
    folder: str  # what paths in ``content`` are relative to
    file: str | None
    key: str  # SHA-256 of all that is written about the cell
    environment: str  # SHA-256 of the code, the files and the limits that decide the result beside that
    kept: bool = True  # whether a store may have it: not where its code is not known
    variation: Variation | None = None  # what of the machine is changed, if something is

    @property
    def identity(self) -> tuple[str, str]:
        return self.key, self.environment

    def __str__(self) -> str:
        changed = "" if self.variation is None else f", {self.variation}"
        return f"{self.workload} on {self.fabric}{changed}"

    def with_fidelity(self, fidelity: str) -> CellSpec:
        return evolve(self, fidelity=fidelity, key=key_of(self.content, fidelity))

    def with_variation(self, variation: Variation) -> CellSpec:
        return evolve(self, variation=variation, key=digest({"key": self.key, "variation": asdict(variation)}))


def key_of(content: Mapping[str, Any], fidelity: str) -> str:
    return digest({"content": content, "fidelity": fidelity})


def tables(outline: AnyOutline, workload: WorkloadSection, fabric: FabricSection) -> dict[str, Any]:
    """Return an experiment that has ``workload`` and ``fabric`` alone, JSON-ready; no plugin is needed for that."""
    return {
        "npu": outline.written_npu(fabric),
        **({} if outline.priorities is None else {"priorities": list(outline.priorities)}),
        **({"prices": dict(outline.prices.written)} if outline.prices.written else {}),
        **outline.varied(fabric),
        "fabrics": {fabric.name: {**fabric.written, **({} if fabric.scopes is None else {"scopes": [*fabric.scopes]})}},
        "workloads": {workload.name: {**workload.written, "compute_scale": workload.compute_scale}},
    }


class CellRunner:
    """Runs cells that come as plain data in this process; what they share is kept."""

    def __init__(self, plugins: PluginManager, log: Log = silent) -> None:
        self._plugins = plugins
        self._log = log
        self._kept = Latest[str, Bench](_FABRICS_KEPT, lambda _: 1), Latest[str, TaskGraph](_TASKS_KEPT, len)

    def count(self, spec: CellSpec) -> int:
        try:
            runner, experiment = self._runner(spec)
        except FredfwError:  # to run it says why
            return 0
        return runner.count(*experiment.cells[0])

    def run(self, spec: CellSpec, share: Share | None = None) -> Outcome:
        """Return the outcome of one cell; hooks are not told of estimates and variations."""

        def simulate() -> Cell:
            runner, experiment = self._runner(spec)
            cell = experiment.cells[0]
            if spec.variation is not None or spec.fidelity == ESTIMATE:
                return runner.cell(*cell, spec.fidelity)
            with observed(self._plugins, experiment):
                result = runner.run(*cell, spec.fidelity, share)
            self._plugins.hook.fredfw_after_run(result=result)
            return Cell.of(result)

        return outcome(spec.workload, spec.fabric, simulate)

    def _runner(self, spec: CellSpec) -> tuple[Runner, Experiment]:
        outline = reading.parse(spec.content, file=spec.file, folder=Path(spec.folder))
        experiment = changed(reading.configured(outline, self._plugins), spec.variation)
        # What is written of a machine that is changed is what is written of the machine itself.
        environment = f"{spec.environment} {spec.variation!r}"
        runner = Runner(experiment, self._plugins, self._log, kept=self._kept, environment=environment)
        return runner, experiment


@contextmanager
def observed(plugins: PluginManager, experiment: Experiment) -> Iterator[None]:
    plugins.hook.fredfw_before_run(experiment=experiment)
    try:
        yield
    except Exception as error:
        plugins.hook.fredfw_on_run_error(experiment=experiment, error=error)
        raise


def outcome(workload: str, fabric: str, simulate: Callable[[], Cell]) -> Outcome:
    try:
        return simulate()
    except InputError as error:
        return refused(workload, fabric, error)
    except FredfwError as error:
        return Failure(workload, fabric, str(error), infeasible=False)
    except MemoryError:  # is nobody's mistake, and the next cell would have no memory either
        raise
    except Exception as error:  # a mistake in a model, which costs no other cell
        return Failure(workload, fabric, explain(error, __name__), infeasible=False)


def refused(workload: str, fabric: str, error: InputError) -> Failure:
    # A limit is the caller's: the next one may raise it, so that a store must not know of it.
    infeasible = not isinstance(error, LimitError)
    return Failure(workload, fabric, error.message, infeasible, key=error.key, accepted=error.accepted)


@cache
def _runner(setup: Setup) -> CellRunner:
    return CellRunner(setup.manager())


def run_cell(spec: CellSpec, setup: Setup) -> Outcome:
    with limits.allowed(dict(setup.limits)):
        return _runner(setup).run(spec)


def count_cell(spec: CellSpec, setup: Setup) -> int:
    with limits.allowed(dict(setup.limits)):
        return _runner(setup).count(spec)


@frozen(eq=False)
class Workers:
    """Other processes that run cells."""

    executor: Executor
    jobs: int  # how many cells they run at once, at most
    setup: Setup


@contextmanager
def workers(jobs: int, executor: Executor | str | None, plugins: PluginManager) -> Iterator[Workers | None]:
    """Give ``jobs`` other processes with the same plugins, or those of an ``executor``; ``None`` to run cells here."""
    if jobs < 1:
        raise InputError(f"{jobs!r} is not a number of processes", key="jobs", accepted="a whole number of at least 1")
    if executor is None and jobs == 1:
        yield None
        return
    setup = Setup.of(plugins)
    if isinstance(executor, Executor):
        yield Workers(executor, _MANY if jobs == 1 else jobs, setup)
        return
    from fredfw.experiment.run.executors import Processes, connect

    opened = Processes(jobs) if executor is None else connect(executor)
    with opened as found:
        yield Workers(found, jobs if executor is None else _MANY, setup)


@frozen(eq=False)
class Means:
    """What the cells of an experiment are run with."""

    plugins: PluginManager
    store: Store | None = None  # has cells of earlier runs, and takes those of this one
    workers: Workers | None = None  # where this process does not run them itself
    progress: Progress | None = None
    log: Log = silent

    @cached_property
    def here(self) -> CellRunner:
        return CellRunner(self.plugins, self.log)

    @cached_property
    def _code(self) -> Callable[[frozenset[type]], Mapping[str, str] | None]:
        return cache(self.plugins.code)

    @property
    def hits(self) -> int:
        return 0 if self.store is None else self.store.hits

    def spec(self, experiment: Experiment, workload: WorkloadSpec, fabric: FabricSpec, fidelity: str) -> CellSpec:
        content = tables(experiment, workload, fabric)
        used = [*configure.parts([workload.workload, *fabric.configured])]
        # auto chooses from all algorithms.
        types = {*map(type, used), *(self.plugins.collectives if fabric.collectives is None else ())}
        files = configure.files([*used, fabric.npu or experiment.npu])
        code = {} if self.store is None else self._code(frozenset(types))  # which takes time to read
        raised = limits.current().items() - limits.DEFAULTS.items()
        decides = {"code": code, "engine": engine.build(), "files": files, "limits": sorted(raised)}
        return CellSpec(
            content=content,
            workload=workload.name,
            fabric=fabric.name,
            fidelity=fidelity,
            folder=str(experiment.folder.absolute()),
            file=experiment.file,
            key=key_of(content, fidelity),
            environment=digest(decides),
            kept=code is not None,
        )

    def stored(self, spec: CellSpec) -> Outcome | None:
        """Return what the store knows of ``spec``, or of it compressed."""
        return self._found(spec) or self._found(spec.with_fidelity(COMPRESSED))

    def _found(self, spec: CellSpec) -> Outcome | None:
        return self.store.get(*spec.identity) if self.store is not None and spec.kept else None

    def keep(self, spec: CellSpec, result: Outcome) -> None:
        """Store ``result``, unless it may be another one next time."""
        if self.store is not None and spec.kept and (isinstance(result, Cell) or result.infeasible):
            self.store.put(*spec.identity, result)

    def choose(
        self, specs: Sequence[CellSpec], *, names: Sequence[str] = (), count: Callable[[CellSpec], int] | None = None
    ) -> Choice:
        """Return the fidelity of ``specs`` that nobody has asked one for, by the transfers of each, see ``chosen``."""
        counts = [_transfers(self.stored(one)) for one in specs]
        uncounted = [one for one, found in zip(specs, counts, strict=True) if found is None]
        others: Iterator[int] = map(count or self.here.count, uncounted)
        if self.workers is not None:
            others = self.workers.executor.map(partial(count_cell, setup=self.workers.setup), uncounted)
        found = (next(others) if one is None else one for one in counts)
        return chosen(zip(names or map(str, specs), found, strict=True))

    def outcomes(
        self, specs: Sequence[CellSpec], progress: Progress | None = None, run: Run | None = None
    ) -> closing[Generator[tuple[int, Outcome], None, None]]:
        """Give what yields (number in ``specs``, outcome) of each cell: first what is stored, then others as they end.

        Each different cell is run once; where there are no workers, by ``run`` or what is ``here``. What is done is
        stored before it is yielded, and stays stored whatever happens. ``progress`` is told of ``specs``.
        """
        return closing(self._outcomes(specs, progress, run or self.here.run))

    def _outcomes(
        self, specs: Sequence[CellSpec], progress: Progress | None, run: Run
    ) -> Generator[tuple[int, Outcome], None, None]:
        waiting: dict[tuple[str, str], list[int]] = {}
        done = 0
        for number, spec in enumerate(specs):
            found = self._found(spec)
            if self.store is None or found is None:
                waiting.setdefault(spec.identity, []).append(number)
            else:
                self.store.hits += 1
                done += 1
                yield number, found

        different = [numbers[0] for numbers in waiting.values()]

        def tell(count: float, number: int) -> None:
            if progress:
                progress(done + count, len(specs), str(specs[number]))

        def here() -> Iterator[tuple[int, Outcome]]:
            for count, number in enumerate(different):
                tell(count, number)

                def share(part: float, count: int = count, number: int = number) -> None:
                    tell(count + part, number)

                yield number, run(specs[number], share if progress else None)

        ended = here() if self.workers is None else self._elsewhere(self.workers, specs, different, tell)
        for first, result in ended:
            self.keep(specs[first], result)
            for number in waiting[specs[first].identity]:
                yield number, result
        if progress:
            progress(len(specs), len(specs), "")

    def _elsewhere(
        self, workers: Workers, specs: Sequence[CellSpec], numbers: Sequence[int], tell: Callable[[float, int], None]
    ) -> Iterator[tuple[int, Outcome]]:
        queue = list(reversed(numbers))
        running: dict[Future[Outcome], int] = {}
        ended: SimpleQueue[Future[Outcome]] = SimpleQueue()
        count = 0
        try:
            while queue or running:
                while queue and len(running) < workers.jobs * _AHEAD:
                    number = queue.pop()
                    future = workers.executor.submit(run_cell, specs[number], workers.setup)
                    running[future] = number
                    future.add_done_callback(ended.put)
                tell(count, min(running.values()))
                future = ended.get()
                number = running.pop(future)
                count += 1
                try:
                    result = future.result()
                except BrokenExecutor as error:  # the process has died of it
                    result = Failure(specs[number].workload, specs[number].fabric, str(error), infeasible=False)
                yield number, result
        finally:
            # After an interrupt: what has ended meanwhile is not lost.
            for future, number in running.items():
                if not future.cancel() and future.done() and future.exception() is None:
                    self.keep(specs[number], future.result())


def _transfers(known: Outcome | None) -> int | None:
    if isinstance(known, Cell):
        return known.provenance.get("transfers")
    return None if known is None else 0
