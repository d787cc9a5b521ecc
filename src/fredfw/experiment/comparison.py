"""The matrix of an experiment: every workload on every fabric, and the speed-ups over the baseline."""

from __future__ import annotations

from collections.abc import Callable

from fredfw.experiment.results import Comparison, Row, RunResult, Status
from fredfw.experiment.runner import Runner, merged
from fredfw.experiment.spec import Experiment, FabricSpec, WorkloadSpec
from fredfw.plugin.manager import PluginManager

# How near its target a calibrated cell must be; a stepwise run may differ a little from the one that was fitted.
_STILL_FITS = 0.005

Progress = Callable[[int, int, str], None]


def compare(
    experiment: Experiment, plugins: PluginManager, *, fidelity: str | None = None, progress: Progress | None = None
) -> Comparison:
    """Run every cell of ``experiment``, once it is known that all of them can run.

    With ``fidelity`` ``stepwise`` every cell is run both ways: the rows hold the step-by-step results, and the largest
    difference to the compressed ones is reported.

    Args:
        experiment: The matrix.
        plugins: The registered plugins.
        fidelity: Instead of the experiment's own.
        progress: Called with (cells done, cells in all, what comes next) before each cell and at the end.

    Raises:
        InputError: A workload does not fit a fabric, or takes no time on one, so that there is no speed-up.
        SimulationError: The model misbehaved.
    """
    runner = Runner(experiment, plugins)
    cells = [(workload, fabric) for workload in experiment.workloads for fabric in experiment.fabrics]
    # All of them before the first one runs, which may take long.
    for workload, fabric in cells:
        runner.check(workload, fabric)
    results: dict[tuple[str, str], RunResult] = {}
    counters: list[dict[str, int]] = []
    worst = None
    for done, (workload, fabric) in enumerate(cells):
        if progress:
            progress(done, len(cells), f"{workload.name} on {fabric.name}")
        result = runner.run(workload, fabric, fidelity or experiment.fidelity_of(workload, fabric))
        counters.append(result.statistics)
        if fidelity == "stepwise":
            compressed = runner.run(workload, fabric, "compressed")
            counters.append(compressed.statistics)
            worst = max(worst or 0.0, abs(1.0 - runner.speedup(compressed, result)))
        results[workload.name, fabric.name] = result
        plugins.hook.fredfw_after_run(result=result)
    if progress:
        progress(len(cells), len(cells), "")
    rows = [
        _row(
            experiment,
            workload,
            fabric,
            results[workload.name, fabric.name],
            runner.speedup(results[workload.name, experiment.baseline], results[workload.name, fabric.name]),
        )
        for workload, fabric in cells
    ]
    return Comparison(
        title=experiment.title,
        baseline=experiment.baseline,
        rows=tuple(rows),
        provenance={
            "cells": [
                {"workload": workload, "fabric": fabric, **result.provenance}
                for (workload, fabric), result in results.items()
            ],
        },
        statistics=merged(counters),
        fidelity_difference=worst,
    )


def _row(
    experiment: Experiment,
    workload: WorkloadSpec,
    fabric: FabricSpec,
    result: RunResult,
    speedup: float,
) -> Row:
    reference = next(
        (one for one in experiment.references if (one.workload, one.fabric) == (workload.name, fabric.name)), None
    )
    status = _status(experiment, workload, fabric)
    return Row(
        workload=workload.name,
        fabric=fabric.name,
        seconds=result.seconds,
        speedup=speedup,
        reference_speedup=reference.speedup if reference else None,
        reference_source=reference.source if reference else None,
        status=status,
        breakdown=result.breakdown,
        compute_scale=workload.compute_scale,
        fidelity=result.provenance["fidelity"],
        energy=result.energy,
        figures=result.figures,
        notes=result.notes + (_outdated(workload, speedup) if status is Status.CALIBRATED else ()),
    )


def _outdated(workload: WorkloadSpec, speedup: float) -> tuple[str, ...]:
    """Return a note where a recorded scalar no longer gives the speed-up that it was fitted to."""
    assert workload.calibration is not None  # as in every calibrated cell
    target = workload.calibration.speedup
    if abs(speedup / target - 1) <= _STILL_FITS:
        return ()
    return (f"compute_scale gives {speedup:.4g} here, not the {target:g} it was fitted to: run fredfw calibrate",)


def _status(experiment: Experiment, workload: WorkloadSpec, fabric: FabricSpec) -> Status:
    original = workload if workload.scaled_like is None else experiment.workload(workload.scaled_like)
    # A factor of 1 is the roofline itself: the fit is asked for, but not recorded yet.
    if original.calibration is None or workload.compute_scale == 1.0:
        return Status.SIMULATED
    return (
        Status.CALIBRATED if original is workload and fabric.name == original.calibration.fabric else Status.PREDICTED
    )
