"""Runs cells of an experiment on machines that are changed, each once: from a store, here or on other processes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from attrs import define, field

from fredfw.errors import InputError, SimulationError
from fredfw.experiment.cell.runner import Runner
from fredfw.experiment.cell.variation import Variation, changed
from fredfw.experiment.file.spec import Experiment
from fredfw.experiment.progress import Log, Progress, silent
from fredfw.experiment.results import Cell
from fredfw.experiment.run.cells import CellSpec, CellStore, Outcome, SpecWriter, evaluate, outcome
from fredfw.experiment.run.workers import Workers
from fredfw.plugin.manager import PluginManager


def simulate(
    experiment: Experiment,
    plugins: PluginManager,
    variations: Sequence[Variation],
    *,
    cells: Collection[tuple[str, str]],
    fidelity: str,
    store: CellStore | None = None,
    workers: Workers | None = None,
    progress: Progress | None = None,
    log: Log = silent,
) -> list[Mapping[tuple[str, str], float]]:
    """Return for each variation the iteration times of the cells that it concerns, by workload and fabric.

    Args:
        experiment: The matrix.
        plugins: Configured it.
        variations: What is changed, each alone.
        cells: Those to run, by workload and fabric.
        fidelity: How closely they are simulated.
        store: Has cells of earlier runs, and takes those of this one.
        workers: Other processes that run cells; this one by default.
        progress: Called with (cells done, all of them, a cell that runs).
        log: Told of fabrics that are built and of cells that begin and end.

    Raises:
        InputError: A cell cannot be run with a variation.
        SimulationError: A model or a plugin failed.
    """
    writer = SpecWriter(plugins)
    places: list[tuple[int, tuple[str, str]]] = []
    specs: list[CellSpec] = []
    for row, column in experiment.cells:
        if (row.name, column.name) in cells:
            spec = writer.spec(experiment, row, column, fidelity)
            for number, variation in enumerate(variations):
                if variation.fabric in (None, column.name):
                    places.append((number, (row.name, column.name)))
                    specs.append(spec.with_variation(variation))
    # One machine after the other, since what is built of it is let go with the next one.
    order = sorted(range(len(specs)), key=lambda one: places[one][0])
    run: Callable[[CellSpec], Outcome] = _Here(experiment, plugins, log).run if workers is None else workers.run
    found: list[dict[tuple[str, str], float]] = [{} for _ in variations]
    outcomes = evaluate(
        [specs[one] for one in order],
        run,
        store=store,
        executor=None if workers is None else workers.executor,
        jobs=1 if workers is None else workers.jobs,
        progress=progress,
    )
    for number, result in outcomes:
        place, cell = places[order[number]]
        if not isinstance(result, Cell):
            message = f"{specs[order[number]]}: {result.reason}"
            if result.infeasible:
                raise InputError(message, file=experiment.file, key=result.key, accepted=result.accepted)
            raise SimulationError(message)
        found[place][cell] = result.seconds
    return list(found)


@define
class _Here:
    """Runs cells of ``experiment`` in this process; what is built of a machine serves the cells that come in turn."""

    experiment: Experiment
    plugins: PluginManager
    log: Log
    _latest: tuple[Variation, Experiment, Runner] | None = field(default=None, init=False)

    def run(self, spec: CellSpec) -> Outcome:
        """Return the outcome of one cell, which has a variation."""
        assert spec.variation is not None  # all of them have
        if self._latest is None or self._latest[0] != spec.variation:
            matrix = changed(self.experiment, spec.variation)
            self._latest = spec.variation, matrix, Runner(matrix, self.plugins, self.log)
        _, matrix, runner = self._latest
        row, column = matrix.workload(spec.workload), matrix.fabric(spec.fabric)
        return outcome(row.name, column.name, lambda: runner.cell(row, column, spec.fidelity))
