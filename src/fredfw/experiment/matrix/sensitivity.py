"""How far results may be off if the machines are: one parameter at a time, a little less and a little more of it."""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import combinations

from fredfw.errors import FredfwError, InputError, PluginError, SimulationError
from fredfw.experiment import results
from fredfw.experiment.cell.variation import ALL, ALPHAS, BANDWIDTH, COMPUTE, LATENCY, Variation, parameters, varied
from fredfw.experiment.file.spec import Experiment, FabricSpec
from fredfw.experiment.run.cells import Means
from fredfw.experiment.why import critical_path
from fredfw.fabric import Fabric, with_memories
from fredfw.plugin.answers import built

_EXACT = 1e-9  # what makes no difference is told apart from rounding
_STEP = 1.01  # what a derivative is measured with

Names = tuple[str, str]  # of the workload and the fabric of a cell
Seconds = Mapping[Names, float]


def check_share(share: float) -> float:
    if not 0 < share < 1:
        message = f"{share * 100:g} per cent is not possible"
        raise InputError(message, key="sensitivity", accepted="more than 0 and less than 100")
    return share


def check_factor(factor: float, *, key: str = "factor") -> float:
    if not 1 < factor < math.inf:
        raise InputError(f"{factor:g} times better is not possible", key=key, accepted="a number above 1")
    return factor


def simulate(
    experiment: Experiment, means: Means, variations: Sequence[Variation], *, cells: Collection[Names], fidelity: str
) -> list[Seconds]:
    """Return for each variation the iteration times of those of ``cells`` that it concerns; raises where one fails."""
    nominal = [
        means.spec(experiment, row, column, fidelity)
        for column in experiment.fabrics
        for row in experiment.workloads
        if (row.name, column.name) in cells
    ]
    # One machine after the other, since what is built of it is let go with the next one.
    specs = [
        (number, spec.with_variation(variation))
        for number, variation in enumerate(variations)
        for spec in nominal
        if variation.fabric in (None, spec.fabric)
    ]
    found: list[dict[Names, float]] = [{} for _ in variations]
    with means.outcomes([spec for _, spec in specs], means.progress) as outcomes:
        for place, result in outcomes:
            number, spec = specs[place]
            if not isinstance(result, results.Cell):
                message = f"{spec}: {result.reason}"
                if result.infeasible:
                    raise InputError(message, file=experiment.file, key=result.key, accepted=result.accepted)
                raise SimulationError(message)
            found[number][spec.workload, spec.fabric] = result.seconds
    return list(found)


def of_run(experiment: Experiment, result: results.RunResult, factor: float, means: Means) -> results.WhatIf:
    (spec,) = experiment.fabrics
    path, cells = critical_path(result), [(result.workload, result.fabric_name)]
    names = *parameters(_machine(spec)), COMPUTE
    variations = [
        Variation(None if name == COMPUTE else spec.name, name, 1 / times if name in (LATENCY, ALPHAS) else times)
        for name in names
        for times in (_STEP, factor)
    ]
    runs = simulate(experiment, means, variations, cells=cells, fidelity=result.provenance["fidelity"])
    times = [next(iter(seconds.values())) for seconds in runs]
    found = []
    for name, slightly, much in zip(names, times[::2], times[1::2], strict=True):
        on_path = math.fsum(
            seconds
            for limit, seconds in path.by_limit.items()
            if limit == name or (name == ALL and limit.startswith(BANDWIDTH))
        )
        found.append(
            results.Improvement(
                parameter=name,
                on_path=on_path,
                estimated_exponent=-on_path / path.seconds if path.seconds else 0.0,
                exponent=math.log(slightly / path.seconds) / math.log(_STEP) if path.seconds else 0.0,
                estimated_seconds=path.seconds - on_path * (1 - 1 / factor),
                seconds=much,
            )
        )
    return results.WhatIf(path.seconds, factor, tuple(sorted(found, key=lambda one: (one.seconds, one.parameter))))


def _machine(spec: FabricSpec) -> Fabric:
    return with_memories(built(spec.topology).with_defaults(**spec.slots), spec.memories)


def of_comparison(
    experiment: Experiment, comparison: results.Comparison, share: float, means: Means
) -> results.Sensitivity:
    """Return how speed-ups change when one parameter of one fabric, or the NPUs of all, are changed."""
    nominal = {(row.workload, row.fabric): row.seconds for row in comparison.rows}
    used = {row.fabric for row in comparison.rows}
    machines = [one for one in experiment.fabrics if one.name in used]
    changes = [*((one.name, name) for one in machines for name in parameters(_machine(one))), (None, COMPUTE)]
    variations = [Variation(*change, factor) for change in changes for factor in (1 - share, 1 + share)]
    runs = simulate(experiment, means, variations, cells=nominal, fidelity=comparison.rows[0].fidelity)
    found = [(one, {**nominal, **seconds}) for one, seconds in zip(variations, runs, strict=True)]
    return results.Sensitivity(
        share=share,
        effects=tuple(_effects(nominal, found)),
        intervals=tuple(_intervals(comparison, found)),
        flips=tuple(_flips(comparison, nominal, found)),
    )


def of_collective(
    fabric: Fabric, result: results.CollectiveResult, share: float, run: Callable[[Fabric], results.CollectiveResult]
) -> tuple[results.Effect, ...]:
    nominal = {(result.pattern, fabric.name): result.duration}
    found: list[tuple[Variation, Seconds]] = []
    for parameter in parameters(fabric):
        for factor in (1 - share, 1 + share):
            with _blamed_on(Variation(None, parameter, factor)):
                changed = run(varied(fabric, parameter, factor)).duration
            found.append((Variation(fabric.name, parameter, factor), {(result.pattern, fabric.name): changed}))
    return tuple(_effects(nominal, found))


@contextmanager
def _blamed_on(variation: Variation) -> Iterator[None]:
    try:
        yield
    except PluginError:
        raise
    except InputError as error:
        error.message = f"{variation}: {error.message}"
        raise
    except FredfwError as error:
        raise SimulationError(f"{variation}: {error}") from error


def _effects(nominal: Seconds, found: Sequence[tuple[Variation, Seconds]]) -> Iterator[results.Effect]:
    for (workload, fabric), seconds in nominal.items():
        effects = []
        for (less, low), (more, high) in zip(found[::2], found[1::2], strict=True):
            if less.fabric not in (None, fabric):
                continue
            ends = low[workload, fabric], high[workload, fabric]
            exponent = math.log(ends[1] / ends[0]) / math.log(more.factor / less.factor) if min(ends) > 0 else 0.0
            effects.append(results.Effect(workload, fabric, less.parameter, seconds, *ends, exponent))
        yield from sorted(effects, key=lambda one: (-one.size, one.parameter))


def _intervals(
    comparison: results.Comparison, found: Sequence[tuple[Variation, Seconds]]
) -> Iterator[results.Interval]:
    for row in comparison.rows:
        if row.speedup is None:
            continue
        cell, over = (row.workload, row.fabric), (row.baseline_workload, row.baseline)
        speedups = {"": row.speedup}
        speedups |= {str(variation): seconds[over] / seconds[cell] for variation, seconds in found}
        low, high = (choose(speedups, key=lambda name: speedups[name]) for choose in (min, max))
        yield results.Interval(row.workload, row.fabric, row.speedup, speedups[low], speedups[high], low, high)


def _flips(
    comparison: results.Comparison, nominal: Seconds, found: Sequence[tuple[Variation, Seconds]]
) -> Iterator[results.Flip]:
    """Yield each two fabrics of a workload of which a variation makes the slower one the faster, once."""
    fabrics: dict[str, list[str]] = {}
    for row in comparison.rows:
        fabrics.setdefault(row.workload, []).append(row.fabric)
    for workload, names in fabrics.items():
        for faster, slower in combinations(sorted(names, key=lambda fabric: nominal[workload, fabric]), 2):
            if nominal[workload, slower] <= nominal[workload, faster] * (1 + _EXACT):
                continue  # they are equal
            causes = [
                str(variation)
                for variation, seconds in found
                if seconds[workload, slower] < seconds[workload, faster] * (1 - _EXACT)
            ]
            if causes:
                yield results.Flip(workload, faster, slower, tuple(causes))
