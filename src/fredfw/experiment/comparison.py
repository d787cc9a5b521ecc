"""The matrix of an experiment: every workload on every fabric, and the speed-ups over the baseline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from attrs import evolve, frozen

from fredfw.errors import InputError, Interrupted, nearest
from fredfw.experiment.progress import Log, Progress, silent
from fredfw.experiment.results import Cell, Comparison, Row, Status, Throughput
from fredfw.experiment.runner import Runner, merged
from fredfw.experiment.savings import Causes, check_parts, savings
from fredfw.experiment.spec import (
    AnyOutline,
    Experiment,
    FabricSection,
    FabricSpec,
    WorkloadSection,
    covered,
)
from fredfw.plugin.manager import PluginManager
from fredfw.simulation.fidelity import COMPRESSED
from fredfw.terminal import quoted
from fredfw.workloads import Work
from fredfw.workloads.labels import RESERVED

# How near its target a calibrated cell must be; a stepwise run may differ a little from the one that was fitted.
_STILL_FITS = 0.005

# How many times the bandwidth of the baseline's NPUs a fabric may have without a note; a sum may be rounded.
_COMPARABLE = 2.0 * (1 + 1e-9)


def compare(
    experiment: Experiment,
    plugins: PluginManager,
    *,
    fidelity: str | None = None,
    progress: Progress | None = None,
    log: Log = silent,
) -> Comparison:
    """Run every cell of ``experiment``, once it is known that all of them can run.

    If ``fidelity`` is not ``compressed``, every cell is run both ways: the rows hold the results of that one, and
    the largest difference to the compressed ones is reported. A fabric runs after those that its speed-ups refer to, so
    that an interrupt leaves rows that are complete.

    Args:
        experiment: The matrix.
        plugins: The registered plugins.
        fidelity: Instead of the experiment's own.
        progress: Called with (cells done, cells in all, the cell that runs) before each cell, now and then in it, and
            at the end. A share of the running cell counts as a fraction.
        log: Told of fabrics that are built and of cells that begin and end.

    Raises:
        Interrupted: A ``KeyboardInterrupt`` came after the first cell; has the comparison of the finished cells.
        InputError: A workload does not fit a fabric, or takes no time on one, so that there is no speed-up.
        SimulationError: The model misbehaved.
    """
    runner = Runner(experiment, plugins, log)
    cells = experiment.cells
    # All of them before the first one runs, which may take long.
    causes = {(row.name, column.name): runner.check(row, column) for row, column in cells}
    check_labels(experiment, lambda workload, fabric: causes[workload, fabric])
    found: dict[tuple[str, str], Cell] = {}
    counters: list[Mapping[str, int]] = []
    worst = None
    both = fidelity not in (None, COMPRESSED)
    runs = 2 if both else 1
    try:
        # Fabric by fabric: what is kept of one is let go before the next is simulated.
        for fabric in _baselines_first(experiment):
            for workload in experiment.workloads:
                what = f"{workload.name} on {fabric.name}"
                before = len(found)
                if progress:
                    progress(before, len(cells), what)
                tell = progress and _Part(progress, before, len(cells), what, 1 / runs)
                result = runner.run(workload, fabric, fidelity or experiment.fidelity_of(workload, fabric), tell)
                cell = Cell.of(result)
                if both:
                    if progress:
                        progress(before + 0.5, len(cells), what)
                    tell = progress and _Part(progress, before + 0.5, len(cells), what, 1 / runs)
                    compressed = Cell.of(runner.run(workload, fabric, COMPRESSED, tell))
                    counters.append(compressed.statistics)
                    worst = max(worst or 0.0, abs(1.0 - speedup(compressed, cell, experiment.file)))
                counters.append(cell.statistics)
                found[workload.name, fabric.name] = cell
                plugins.hook.fredfw_after_run(result=result)
            runner.forget(fabric)
    except KeyboardInterrupt:
        finished = _finished(experiment, found)
        if not finished:
            raise
        raise Interrupted(assemble(experiment, finished, counters, worst)) from None
    if progress:
        progress(len(cells), len(cells), "")
    return assemble(experiment, found, counters, worst)


def check_labels(outline: AnyOutline, causes: Causes) -> None:
    """Make sure that workloads have the labels that ``outline`` names.

    The labels of ``priorities`` are checked where all cells are known.

    Args:
        outline: The matrix.
        causes: Returns the causes in the breakdown of (workload, fabric).

    Raises:
        InputError: A label of ``priorities`` occurs in no cell, or the part of a saving not in one that it compares.
    """
    check_parts(outline, causes)
    if not outline.complete or outline.priorities is None:
        return
    found = dict.fromkeys(cause for row, column in outline.cells for cause in causes(row.name, column.name))
    check_priorities(outline.priorities, found, "no workload has the label", file=outline.file)


def check_priorities(labels: Sequence[str], causes: Iterable[str], missing: str, *, file: str | None = None) -> None:
    """Raise ``InputError``, which begins with what is ``missing``, for one of ``labels`` that is not in ``causes``."""
    known = [cause for cause in causes if cause not in RESERVED]
    for index, label in enumerate(labels):
        if label not in known:
            raise InputError(
                f"{missing} {label!r}{nearest(str(label), known)}",
                file=file,
                key=f"priorities[{index}]",
                accepted=", ".join(map(quoted, known)) or "an empty list",
            )


@frozen
class _Part:
    """Tells the progress of one of the runs of a cell: ``before`` cells are done, it is ``share`` of the next."""

    progress: Progress
    before: float
    total: int
    what: str
    share: float

    def __call__(self, done: float) -> None:
        self.progress(self.before + self.share * done, self.total, self.what)


def _baselines_first(experiment: Experiment) -> list[FabricSpec]:
    """Return the fabrics in the order of the file, but each after its baseline."""
    ordered: dict[str, FabricSpec] = {}
    for fabric in experiment.fabrics:
        chain = [fabric]
        while (baseline := experiment.fabric(chain[-1].baseline)) not in chain:
            chain.append(baseline)
        ordered |= {one.name: one for one in reversed(chain) if one.name not in ordered}
    return list(ordered.values())


def _finished(experiment: Experiment, found: Mapping[tuple[str, str], Cell]) -> dict[tuple[str, str], Cell]:
    """Return the cells that have a speed-up; where baselines refer to each other, one that ran may have none yet."""
    cells = ((row, column) for row, column in experiment.cells if (row.name, column.name) in found)
    ended = ((row.name, column.name) for row, column in cells if experiment.baseline_of(row, column) in found)
    return {key: found[key] for key in ended}


def assemble(
    outline: AnyOutline,
    cells: Mapping[tuple[str, str], Cell],
    counters: Iterable[Mapping[str, int]],
    fidelity_difference: float | None = None,
) -> Comparison:
    """Return what the comparison of ``cells`` shows.

    Args:
        outline: The matrix.
        cells: All of its cells, by workload and fabric; or some, each with the cell of its baseline.
        counters: Of all simulations.
        fidelity_difference: Largest relative difference between the iteration times of the cells and the compressed
            ones, where both were simulated.

    Raises:
        InputError: A cell takes no time, so that there is no speed-up.
    """
    references = {(one.workload, one.fabric): one for one in outline.references}
    uneven = _uneven(outline, cells)
    rows = []
    missing = []
    for workload, fabric in outline.cells:
        if (workload.name, fabric.name) not in cells:
            missing.append((workload.name, fabric.name))
            continue
        cell, baseline = cells[workload.name, fabric.name], cells[outline.baseline_of(workload, fabric)]
        faster = speedup(baseline, cell, outline.file)
        status = _status(workload, fabric)
        reference = references.get((workload.name, fabric.name))
        rows.append(
            Row(
                workload=workload.name,
                fabric=fabric.name,
                baseline=fabric.baseline,
                seconds=cell.seconds,
                speedup=faster,
                reference_speedup=reference.speedup if reference else None,
                reference_source=reference.source if reference else None,
                status=status,
                breakdown=cell.breakdown,
                npus=len(cell.placement),
                algorithms=cell.algorithms,
                compute_scale=workload.compute_scale,
                fidelity=cell.provenance["fidelity"],
                energy=cell.energy,
                figures=cell.figures,
                notes=(
                    *cell.notes,
                    *_unlike(cell, baseline),
                    *(uneven.get((workload.template, fabric.name)) or _other_work(cell, baseline)),
                    *(_outdated(workload, faster) if status is Status.CALIBRATED else ()),
                ),
                work=cell.work,
                throughput=Throughput.of(
                    cell.work,
                    cell.seconds,
                    npus=len(cell.placement),
                    peak=outline.npu_of(fabric).peak,
                    compute_scale=workload.compute_scale,
                ),
                baseline_workload=baseline.workload,
                workload_template=workload.template,
                workload_settings=dict(workload.settings),
                fabric_template=fabric.template,
                fabric_settings=dict(fabric.settings),
                omissions=cell.omissions,
                colours=cell.colours,
            )
        )
    return Comparison(
        title=outline.title,
        baseline=outline.baseline,
        rows=tuple(rows),
        savings=savings(evolve(outline, savings=covered(outline, cells)), cells),
        provenance={
            "cells": [
                {"workload": row.workload, "fabric": row.fabric, **cells[row.workload, row.fabric].provenance}
                for row in rows
            ],
        },
        statistics=merged(counters),
        fidelity_difference=fidelity_difference,
        missing=tuple(missing),
    )


def speedup(baseline: Cell, cell: Cell, file: str | None = None) -> float:
    """Return how many times faster ``cell`` is than ``baseline``.

    Raises:
        InputError: One of the two takes no time at all; names ``file``, the experiment's.
    """
    for one in (baseline, cell):
        if one.seconds == 0:
            raise InputError(
                f"takes no time on {one.fabric!r}, so there is no speed-up",
                file=file,
                key=f"workloads.{one.workload}",
                accepted="a workload that computes or communicates on every fabric",
            )
    return baseline.seconds / cell.seconds


def _unlike(cell: Cell, baseline: Cell) -> tuple[str, ...]:
    """Return notes where the two run on different numbers of NPUs, or their NPUs can send at very different rates."""
    notes = []
    count, others = len(cell.placement), len(baseline.placement)
    if count != others:
        other = baseline.fabric if baseline.fabric != cell.fabric else baseline.workload
        notes.append(f"runs on {count} NPUs, {other!r} on {others}: the speed-up compares machines of different size")
    slow, fast = sorted((cell.injection_bandwidth, baseline.injection_bandwidth))
    if fast > _COMPARABLE * slow > 0:
        # A ratio without names, so that the fabrics of a sweep share one footnote.
        ratio = cell.injection_bandwidth / baseline.injection_bandwidth
        notes.append(
            f"an NPU can send {ratio:.3g} times the baseline's bandwidth: the links differ, not only the topology"
        )
    if cell.provenance.get("npu") != baseline.provenance.get("npu"):
        notes.append("other NPUs than the baseline's compute: computation differs, not only the network")
    return tuple(notes)


def _uneven(outline: AnyOutline, cells: Mapping[tuple[str, str], Cell]) -> Mapping[tuple[str, str], tuple[str, ...]]:
    """Return a note for each sweep whose rows train different amounts, by the sweep's template and the fabric."""
    works: dict[tuple[str, str], list[Work]] = {}
    for workload, fabric in outline.cells:
        cell = cells.get((workload.name, fabric.name))
        if cell is not None and (work := cell.work) is not None:
            works.setdefault((workload.template, fabric.name), []).append(work)
    notes = {}
    for key, found in works.items():
        unit, amounts = _amounts(found)
        low, high = min(amounts), max(amounts)
        if low != high:
            text = f"rows of this sweep train from {low:,.15g} to {high:,.15g} {unit} per iteration"
            notes[key] = (f"{text}: compare {unit}/s, not times",)
    return notes


def _other_work(cell: Cell, baseline: Cell) -> tuple[str, ...]:
    """Return a note where the two train different amounts in an iteration."""
    if cell.work is None or baseline.work is None:
        return ()
    unit, (own, other) = _amounts([cell.work, baseline.work])
    if own == other:
        return ()
    name = baseline.workload if baseline.fabric == cell.fabric else baseline.fabric
    return (f"trains {own:,.15g} {unit} per iteration, {name!r} {other:,.15g}: compare {unit}/s, not times",)


def _amounts(works: Sequence[Work]) -> tuple[str, list[float]]:
    """Return how much each of ``works`` is, in a unit that they can be compared in: samples of equal length, or tokens.

    Where some have no tokens, there is nothing better than samples.
    """
    tokens = [work.tokens for work in works if work.tokens is not None]
    if len(tokens) < len(works) or len({work.tokens_per_sample for work in works}) == 1:
        return "samples", [work.samples for work in works]
    return "tokens", tokens


def _outdated(workload: WorkloadSection, speedup: float) -> tuple[str, ...]:
    """Return a note where a recorded scalar no longer gives the speed-up that it was fitted to."""
    assert workload.calibration is not None  # as in every calibrated cell
    target = workload.calibration.speedup
    if abs(speedup / target - 1) <= _STILL_FITS:
        return ()
    return (f"compute_scale gives {speedup:.4g} here, not the {target:g} it was fitted to: run fredfw calibrate",)


def _status(workload: WorkloadSection, fabric: FabricSection) -> Status:
    # A factor of 1 is the roofline itself: the fit is asked for, but not recorded yet.
    if not workload.fitted or workload.compute_scale == 1.0:
        return Status.SIMULATED
    fits = workload.calibration is not None and workload.calibration.fabric == fabric.name
    return Status.CALIBRATED if fits else Status.PREDICTED
