"""Fits a workload's one free scalar, the factor on its compute times, to one published speed-up."""

from __future__ import annotations

import math
from collections.abc import Callable

from attrs import frozen

from fredfw.errors import InputError
from fredfw.experiment.runner import Runner
from fredfw.experiment.spec import Experiment, WorkloadSpec
from fredfw.plugin.manager import PluginManager

# Scales from a ten-thousandth of the roofline to ten times it, four to a decade.
LOWEST, HIGHEST, PER_DECADE = 1e-4, 10.0, 4
_RELATIVE = 1e-9
_ITERATIONS = 60


@frozen
class Fit:
    """What fitting one workload found.

    Args:
        workload: Name in the experiment.
        fabric: The fabric whose published speed-up is fitted to.
        target: That speed-up.
        solutions: Every factor to the roofline that gives it, within the range searched; none, one or more.
        range: The lowest and highest factor tried.
        reached: The lowest and highest speed-up found in that range.
        recorded: The factor in the experiment.
    """

    workload: str
    fabric: str
    target: float
    solutions: tuple[float, ...]
    range: tuple[float, float]
    reached: tuple[float, float]
    recorded: float


def calibrate(
    experiment: Experiment, plugins: PluginManager, *, progress: Callable[[int, int, str], None] | None = None
) -> tuple[Fit, ...]:
    """Fit every workload of ``experiment`` that has a ``calibration`` table.

    Raises:
        InputError: No workload has one.
    """
    wanted = [workload for workload in experiment.workloads if workload.calibration is not None]
    if not wanted:
        raise InputError("no workload has a calibration", file=experiment.file, accepted="[workloads.NAME.calibration]")
    fits = []
    for done, workload in enumerate(wanted):
        if progress:
            progress(done, len(wanted), workload.name)
        fits.append(_fit(experiment, workload, plugins))
    if progress:
        progress(len(wanted), len(wanted), "")
    return tuple(fits)


def _fit(experiment: Experiment, workload: WorkloadSpec, plugins: PluginManager) -> Fit:
    assert workload.calibration is not None
    target, fabric = workload.calibration.speedup, experiment.fabric(workload.calibration.fabric)
    baseline = experiment.fabric(experiment.baseline)
    runner = Runner(experiment, plugins)

    def speedup(scale: float) -> float:
        spec = experiment.with_compute_scale(workload.name, scale).workload(workload.name)
        # As the comparison runs these cells, so that it shows the speed-up that was fitted.
        seconds = [
            runner.run(spec, column, experiment.fidelity_of(spec, column)).seconds for column in (baseline, fabric)
        ]
        return seconds[0] / seconds[1]

    count = round(math.log10(HIGHEST / LOWEST) * PER_DECADE)
    scales = [LOWEST * (HIGHEST / LOWEST) ** (step / count) for step in range(count + 1)]
    values = [speedup(scale) for scale in scales]
    solutions = [scale for scale, value in zip(scales, values, strict=True) if value == target]
    for low, high, below, above in zip(scales, scales[1:], values, values[1:], strict=False):
        if (below - target) * (above - target) < 0:
            solutions.append(_root(lambda scale: speedup(scale) - target, low, high, below - target, above - target))
    return Fit(
        workload=workload.name,
        fabric=fabric.name,
        target=target,
        solutions=tuple(sorted(solutions)),
        range=(LOWEST, HIGHEST),
        reached=(min(values), max(values)),
        recorded=workload.compute_scale,
    )


def _root(function: Callable[[float], float], low: float, high: float, below: float, above: float) -> float:
    """Return a root between ``low`` and ``high``, where ``function`` has opposite signs (Illinois false position)."""
    side = 0
    middle = low
    for _ in range(_ITERATIONS):
        middle = (low * above - high * below) / (above - below)
        value = function(middle)
        if value == 0 or high - low <= _RELATIVE * high:
            break
        if value * above > 0:
            high, above = middle, value
            below = below / 2 if side == 1 else below
            side = 1
        else:
            low, below = middle, value
            above = above / 2 if side == -1 else above
            side = -1
        if abs(value) <= _RELATIVE:
            break
    return middle
