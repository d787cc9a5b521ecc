"""Fits a workload's one free scalar, the factor on its compute times, to one published speed-up."""

import math
from collections.abc import Callable, Sequence
from itertools import count

from attrs import evolve, frozen

from fredfw.errors import InputError
from fredfw.experiment.cell.runner import Runner
from fredfw.experiment.file.spec import Experiment, FabricSpec, WorkloadSpec
from fredfw.experiment.matrix.comparison import speedup
from fredfw.experiment.progress import Log, Progress, silent
from fredfw.plugin.manager import PluginManager

LOWEST, HIGHEST, PER_DECADE = 1e-4, 10.0, 4  # of the scales that are tried, relative to the roofline
_STEPS = round(math.log10(HIGHEST / LOWEST) * PER_DECADE)
_SCALES = [LOWEST * (HIGHEST / LOWEST) ** (step / _STEPS) for step in range(_STEPS + 1)]
_RELATIVE = 1e-9
_ITERATIONS = 60
_REACHED = 1e-6  # how near to the target (relatively) a sign change must lead to be a solution and not a jump across it


@frozen
class Fit:
    """What fitting one workload found."""

    workload: str
    fabric: str  # the fabric whose published speed-up is fitted to
    target: float
    solutions: tuple[float, ...]  # every factor to the roofline that gives it, within the range searched
    range: tuple[float, float]  # the lowest and highest factor tried
    reached: tuple[float, float]  # the lowest and highest speed-up found in that range
    recorded: float


def calibrate(
    experiment: Experiment, plugins: PluginManager, *, progress: Progress | None = None, log: Log = silent
) -> tuple[Fit, ...]:
    wanted = {
        workload: experiment.fabric(workload.calibration.fabric)
        for workload in experiment.workloads
        if workload.calibration is not None
    }
    if not wanted:
        raise InputError("no workload has a calibration", file=experiment.file, accepted="[workloads.NAME.calibration]")
    runner = Runner(experiment, plugins, log)
    for workload, fabric in wanted.items():
        for one in (experiment.fabric(fabric.baseline), fabric):
            runner.check(workload, one)
    # As the comparison runs these cells, so that it shows the speed-up that was fitted.
    fidelity = experiment.fidelity or runner.choice(experiment.cells).fidelity

    def fit(done: int, workload: WorkloadSpec, fabric: FabricSpec) -> Fit:
        assert workload.calibration is not None
        tries = count()

        def speedup_at(scale: float) -> float:
            tried = next(tries)
            if progress and tried < len(_SCALES):  # how many more a root takes is not known
                progress(done + tried / len(_SCALES), len(wanted), workload.name)
            spec = evolve(workload, compute_scale=scale)
            baseline, cell = (runner.cell(spec, one, fidelity) for one in (experiment.fabric(fabric.baseline), fabric))
            return speedup(baseline, cell, experiment.file)

        target = workload.calibration.speedup
        solutions, reached = solve(speedup_at, target, _SCALES)
        return Fit(workload.name, fabric.name, target, solutions, (LOWEST, HIGHEST), reached, workload.compute_scale)

    fits = tuple(fit(done, *cell) for done, cell in enumerate(wanted.items()))
    if progress:
        progress(len(wanted), len(wanted), "")
    return fits


def solve(
    function: Callable[[float], float], target: float, grid: Sequence[float]
) -> tuple[tuple[float, ...], tuple[float, float]]:
    """Return where ``function`` is ``target``, and its least and greatest value on ``grid``, which is ascending."""
    values = [function(point) for point in grid]
    roots = [point for point, value in zip(grid, values, strict=True) if value == target]
    # One root between two neighbours on either side of the target; a jump across it is none.
    for low, high, below, above in zip(grid, grid[1:], values, values[1:], strict=False):
        if (below - target) * (above - target) < 0:
            root = _root(lambda point: function(point) - target, low, high, below - target, above - target)
            if abs(function(root) - target) <= _REACHED * abs(target):
                roots.append(root)
    return tuple(sorted(roots)), (min(values), max(values))


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
