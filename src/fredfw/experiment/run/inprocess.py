"""Cells of one experiment in this process, with the plugins that it has already."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from fredfw.errors import FredfwError, InputError, SimulationError
from fredfw.experiment.cell.runner import Runner
from fredfw.experiment.cell.variation import Variation, changed
from fredfw.experiment.file.checks import check_causes, labels_of_sharing
from fredfw.experiment.file.spec import Experiment, FabricSpec, WorkloadSpec, error_of
from fredfw.experiment.progress import Log, Progress
from fredfw.experiment.results import Cell, Failure, RunResult
from fredfw.experiment.run.cells import CellSpec, Outcome, outcome
from fredfw.fidelities import ESTIMATE
from fredfw.plugin.manager import PluginManager

# How many tasks and links are kept of cells whose transfers are counted before they run.
_KEPT = 1_000_000


class InProcess:
    """Runs the cells of ``experiment``, one after the other; fabrics are let go when the next one is used.

    Args:
        experiment: The matrix.
        plugins: Configured it.
        log: Told of fabrics that are built and of cells that begin and end.
        progress: Told how many of ``total`` cells are done, and which share of the one that runs.
        total: How many cells there are.
    """

    def __init__(
        self, experiment: Experiment, plugins: PluginManager, log: Log, progress: Progress | None = None, total: int = 0
    ) -> None:
        self._experiment = self._matrix = experiment
        self._plugins = plugins
        self._log = log
        self._progress = progress
        self._total = total
        self._step: tuple[float, str] = 0.0, ""
        self._runner = Runner(experiment, plugins, log)
        self._latest: tuple[Variation | None, FabricSpec | None] = None, None
        self._untold: RunResult | None = None
        self._errors: dict[tuple[str, str], FredfwError] = {}

    def step(self, done: float, _total: int, what: str) -> None:
        """Take note that ``done`` cells are done, and ``what`` is run."""
        self._step = done, what
        self._share(0.0)

    def _share(self, share: float) -> None:
        done, what = self._step
        if self._progress:
            self._progress(done + share, self._total, what)

    def check(self, known: Mapping[tuple[str, str], Outcome | None], *, strict: bool) -> None:
        """Make sure, before anything runs, that there are the labels that the experiment names."""
        experiment = self._experiment
        named = experiment.priorities is not None or any(one.part is not None for one in experiment.savings)
        named = named or any(map(labels_of_sharing, experiment.fabrics))
        if not strict and not named:
            return
        causes: dict[tuple[str, str], Collection[str]] = {}
        for row, column in experiment.cells:
            try:
                if (error := error_of(row, column)) is not None:
                    raise error
                cell = known.get((row.name, column.name))
                found = cell.breakdown if isinstance(cell, Cell) else self._runner.check(row, column)
                causes[row.name, column.name] = found
            except InputError:
                if strict:
                    raise
        check_causes(experiment, causes)

    def transfers(self, specs: Sequence[CellSpec]) -> Iterator[int]:
        """Yield about how many transfers each of ``specs`` has; 0 where one cannot be run."""
        for spec in specs:
            row, column = self._experiment.workload(spec.workload), self._experiment.fabric(spec.fabric)
            self.step(0, len(specs), f"transfers of {spec}")
            yield self._runner.count(row, column)
            if self._runner.held > _KEPT:
                self._runner.forget(column)

    def run(self, spec: CellSpec) -> Outcome:
        """Return the outcome of one cell."""
        variation, latest = self._latest
        if spec.variation != variation:
            self._matrix = changed(self._experiment, spec.variation)
            self._runner, latest = Runner(self._matrix, self._plugins, self._log), None
        row, column = self._matrix.workload(spec.workload), self._matrix.fabric(spec.fabric)
        if latest is not None and latest is not column:
            self._runner.forget(latest)
        self._latest = spec.variation, column
        return outcome(row.name, column.name, lambda: self._simulate(row, column, spec.fidelity))

    def _simulate(self, row: WorkloadSpec, column: FabricSpec, fidelity: str) -> Cell:
        try:
            if fidelity == ESTIMATE:
                return self._runner.estimate(row, column)
            self._untold = self._runner.run(row, column, fidelity, self._share)
        except FredfwError as error:
            self._errors[row.name, column.name] = error
            raise
        return Cell.of(self._untold)

    def tell(self) -> None:
        """Call the hook after a run for the latest one, once what it gave is taken note of."""
        if self._untold is not None:
            result, self._untold = self._untold, None
            self._plugins.hook.fredfw_after_run(result=result)

    def error(self, failure: Failure) -> FredfwError:
        """Return the error that ``failure`` tells of."""
        known = self._errors.get((failure.workload, failure.fabric))
        if known is not None:
            return known
        if not failure.infeasible:
            return SimulationError(f"{failure.workload} on {failure.fabric}: {failure.reason}")
        return InputError(failure.reason, file=self._experiment.file, key=failure.key, accepted=failure.accepted)
