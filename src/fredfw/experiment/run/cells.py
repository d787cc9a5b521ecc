"""Cells as plain data: what decides a result, how it is run anywhere, and how many are run."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Protocol

from attrs import asdict, define, evolve, frozen

from fredfw import limits
from fredfw.answers import explain
from fredfw.errors import FredfwError, InputError, LimitError
from fredfw.experiment.cell.kept import Kept
from fredfw.experiment.cell.runner import Runner
from fredfw.experiment.cell.variation import Variation, changed
from fredfw.experiment.document import digest
from fredfw.experiment.file import reading
from fredfw.experiment.file.spec import AnyOutline, Experiment, FabricSection, FabricSpec, WorkloadSection, WorkloadSpec
from fredfw.experiment.progress import Progress
from fredfw.experiment.results import Cell, Failure
from fredfw.fidelities import ESTIMATE
from fredfw.plugin import configure
from fredfw.plugin.manager import PluginManager
from fredfw.plugin.setup import Setup
from fredfw.workloads import Npu

Outcome = Cell | Failure
"""What is known of a cell once it was run."""

# Cells that wait in an executor for each that it runs at once: enough that none of its processes waits.
_AHEAD = 32


@frozen
class CellSpec:
    """One workload on one fabric, as plain data that can be sent to another process.

    Args:
        content: Tables of an experiment that has this fabric and this workload alone, with swept fields in their place.
        workload: Name of the workload.
        fabric: Name of the fabric.
        fidelity: How closely it is simulated; ``ESTIMATE`` for not at all.
        folder: What paths in ``content`` are relative to.
        file: The experiment's file, for messages.
        key: SHA-256 of all that is written about the cell.
        environment: SHA-256 of the code and the files that decide the result beside that.
        variation: What of the machine is changed, if something is.
    """

    content: Mapping[str, Any]
    workload: str
    fabric: str
    fidelity: str
    folder: str
    file: str | None
    key: str
    environment: str
    variation: Variation | None = None

    @property
    def identity(self) -> tuple[str, str]:
        """What a result of the cell is stored under."""
        return self.key, self.environment

    def __str__(self) -> str:
        changed = "" if self.variation is None else f", {self.variation}"
        return f"{self.workload} on {self.fabric}{changed}"

    def with_fidelity(self, fidelity: str) -> CellSpec:
        """Return the same cell, simulated as ``fidelity`` says."""
        return evolve(self, fidelity=fidelity, key=key_of(self.content, fidelity))

    def with_variation(self, variation: Variation) -> CellSpec:
        """Return the same cell of a machine that is changed."""
        return evolve(self, variation=variation, key=digest({"key": self.key, "variation": asdict(variation)}))


def key_of(content: Mapping[str, Any], fidelity: str) -> str:
    """Return the key of the cell that ``content``, see ``tables``, describes."""
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


class SpecWriter:
    """Writes the cells of experiments as plain data.

    Args:
        plugins: Those that configured the experiments.
    """

    def __init__(self, plugins: PluginManager) -> None:
        self._plugins = plugins
        self._code: dict[frozenset[type], dict[str, str]] = {}

    def spec(self, experiment: Experiment, workload: WorkloadSpec, fabric: FabricSpec, fidelity: str) -> CellSpec:
        """Return what to run, and what decides the result."""
        content = tables(experiment, workload, fabric)
        folder = experiment.folder.absolute()
        return CellSpec(
            content=content,
            workload=workload.name,
            fabric=fabric.name,
            fidelity=fidelity,
            folder=str(folder),
            file=experiment.file,
            key=key_of(content, fidelity),
            environment=self._environment(workload, fabric, fabric.npu or experiment.npu),
        )

    def _environment(self, workload: WorkloadSpec, fabric: FabricSpec, npu: Npu) -> str:
        used: list[Any] = [workload.workload, fabric.topology, *fabric.slots.values()]
        used += [one for listed in (fabric.collectives or {}).values() for one in listed]
        types = {type(part) for one in used for part in configure.parts(one)}
        if fabric.collectives is None:  # auto chooses from all of them
            types.update(self._plugins.collectives)
        known = frozenset(types)
        if known not in self._code:
            self._code[known] = self._plugins.code(known)
        return digest({"code": self._code[known], "files": configure.files([*used, npu])})


def run_cell(spec: CellSpec, setup: Setup) -> Outcome:
    """Run ``spec`` in this process, with plugins of its own; what cells share is kept between calls.

    The hooks around a run are called for each cell, with the experiment that has this cell alone.

    Args:
        spec: What to run.
        setup: Which plugins there are.
    """
    worker = _worker(setup)
    with limits.allowed(dict(setup.limits)):
        return worker.run(spec)


def count_cell(spec: CellSpec, setup: Setup) -> int:
    """Return about how many transfers ``spec`` has, see ``run_cell``."""
    worker = _worker(setup)
    with limits.allowed(dict(setup.limits)):
        return worker.count(spec)


@cache
def _worker(setup: Setup) -> CellRunner:
    return CellRunner(setup.manager())


class CellRunner:
    """Runs cells that come as plain data in this process; what cells share is kept.

    Args:
        plugins: Those that they name.
    """

    def __init__(self, plugins: PluginManager) -> None:
        self._plugins = plugins
        self._kept = Kept()

    def count(self, spec: CellSpec) -> int:
        """Return about how many transfers one cell has; 0 where it cannot be run."""
        try:
            experiment = self._experiment(spec)
        except FredfwError:  # to run it says why
            return 0
        runner = Runner(experiment, self._plugins, kept=self._kept, environment=spec.environment)
        return runner.count(experiment.workloads[0], experiment.fabrics[0])

    def transfers(self, specs: Sequence[CellSpec]) -> Iterator[int]:
        """Yield the same of each of ``specs``."""
        return map(self.count, specs)

    def _experiment(self, spec: CellSpec) -> Experiment:
        outline = reading.parse(spec.content, file=spec.file, folder=Path(spec.folder))
        return reading.configured(outline, self._plugins)

    def run(self, spec: CellSpec) -> Outcome:
        """Return the outcome of one cell; hooks are not told of estimates and variations."""
        hook = self._plugins.hook

        def simulate() -> Cell:
            experiment = self._experiment(spec)
            if spec.variation is not None:
                # Nothing of it is kept for others: what is written of it is what is written of the machine itself.
                experiment = changed(experiment, spec.variation)
                runner = Runner(experiment, self._plugins)
                return runner.cell(experiment.workloads[0], experiment.fabrics[0], spec.fidelity)
            runner = Runner(experiment, self._plugins, kept=self._kept, environment=spec.environment)
            if spec.fidelity == ESTIMATE:
                return runner.estimate(experiment.workloads[0], experiment.fabrics[0])
            hook.fredfw_before_run(experiment=experiment)
            try:
                result = runner.run(experiment.workloads[0], experiment.fabrics[0], spec.fidelity)
            except Exception as error:
                hook.fredfw_on_run_error(experiment=experiment, error=error)
                raise
            hook.fredfw_after_run(result=result)
            return Cell.of(result)

        return outcome(spec.workload, spec.fabric, simulate)


def outcome(workload: str, fabric: str, simulate: Callable[[], Cell]) -> Outcome:
    """Return the cell that ``simulate`` returns, or why there is none."""
    try:
        cell = simulate()
    except InputError as error:
        return refused(workload, fabric, error)
    except FredfwError as error:
        return Failure(workload, fabric, str(error), infeasible=False)
    except MemoryError:  # is nobody's mistake, and the next cell would have no memory either
        raise
    except Exception as error:  # a mistake in a model, which costs no other cell
        return Failure(workload, fabric, explain(error, __name__), infeasible=False)
    return cell


def refused(workload: str, fabric: str, error: InputError) -> Failure:
    """Return the cell that ``error`` says cannot be run."""
    # A limit is the caller's: the next one may raise it, so that a store must not know of it.
    infeasible = not isinstance(error, LimitError)
    return Failure(workload, fabric, error.message, infeasible, key=error.key, accepted=error.accepted)


class CellStore(Protocol):
    """Where outcomes are kept, see ``fredfw.experiment.store``."""

    def get(self, key: str, environment: str) -> Outcome | None:
        """Return what is known of a cell."""

    def put(self, spec: CellSpec, outcome: Outcome) -> None:
        """Keep what is known of a cell; it becomes durable soon, whatever runs meanwhile."""


@define
class Counted:
    """A store that counts what it had."""

    store: CellStore
    hits: int = 0

    def get(self, key: str, environment: str) -> Outcome | None:
        """See ``CellStore.get``."""
        found = self.store.get(key, environment)
        self.hits += found is not None
        return found

    def put(self, spec: CellSpec, outcome: Outcome) -> None:
        """See ``CellStore.put``."""
        self.store.put(spec, outcome)


def evaluate(
    specs: Sequence[CellSpec],
    run: Callable[[CellSpec], Outcome],
    *,
    store: CellStore | None = None,
    executor: Executor | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
) -> Generator[tuple[int, Outcome], None, None]:
    """Yield (number in ``specs``, outcome) of each cell: first what ``store`` has, then the others as they end.

    Each different cell is run once. What is done is stored before it is yielded, and stays stored whatever happens.

    Args:
        specs: What to run.
        run: Runs one; in another process where there is an ``executor``, so that it can be pickled then.
        store: Has cells of earlier runs, and takes those of this one; only what a repetition would find again.
        executor: Runs them; ``None`` for this process.
        jobs: How many it runs at once.
        progress: Called with (cells done, cells in all, a cell that runs).
    """
    waiting: OrderedDict[tuple[str, str], list[int]] = OrderedDict()
    done = 0
    for number, spec in enumerate(specs):
        found = None if store is None else store.get(*spec.identity)
        if found is None:
            waiting.setdefault(spec.identity, []).append(number)
        else:
            done += 1
            yield number, found
    different = [numbers[0] for numbers in waiting.values()]
    for first, result in _run(specs, different, run, store, executor, jobs, progress, done):
        keep(store, specs[first], result)
        for number in waiting[specs[first].identity]:
            done += 1
            yield number, result
    if progress:
        progress(len(specs), len(specs), "")


def keep(store: CellStore | None, spec: CellSpec, result: Outcome) -> None:
    """Store ``result``, unless it may be another one next time."""
    if store is not None and (isinstance(result, Cell) or result.infeasible):
        store.put(spec, result)


def _ended(spec: CellSpec, future: Future[Outcome]) -> Outcome:
    """Return what another process has made of ``spec``, or that it has died of it."""
    try:
        return future.result()
    except BrokenExecutor as error:
        return Failure(spec.workload, spec.fabric, str(error), infeasible=False)


def _run(
    specs: Sequence[CellSpec],
    numbers: Sequence[int],
    run: Callable[[CellSpec], Outcome],
    store: CellStore | None,
    executor: Executor | None,
    jobs: int,
    progress: Progress | None,
    before: int,
) -> Iterator[tuple[int, Outcome]]:
    if executor is None:
        for count, number in enumerate(numbers):
            if progress:
                progress(before + count, len(specs), str(specs[number]))
            yield number, run(specs[number])
        return
    queue = list(reversed(numbers))
    running: dict[Future[Outcome], int] = {}
    ended: SimpleQueue[Future[Outcome]] = SimpleQueue()
    count = 0
    try:
        while queue or running:
            while queue and len(running) < jobs * _AHEAD:
                number = queue.pop()
                future = executor.submit(run, specs[number])
                running[future] = number
                future.add_done_callback(ended.put)
            if progress:
                progress(before + count, len(specs), str(specs[min(running.values())]))
            future = ended.get()
            number = running.pop(future)
            count += 1
            yield number, _ended(specs[number], future)
    finally:
        # After an interrupt: what has ended meanwhile is not lost.
        for future, number in running.items():
            if not future.cancel() and future.done() and future.exception() is None:
                keep(store, specs[number], future.result())
