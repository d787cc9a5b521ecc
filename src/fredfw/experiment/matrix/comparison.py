"""The matrix of an experiment: every workload on every fabric, and the speed-ups over the baseline."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from attrs import evolve

from fredfw.errors import FredfwError, InputError, Interrupted
from fredfw.experiment import results
from fredfw.experiment.cell.runner import Runner, merged
from fredfw.experiment.file.checks import check_causes, error_of, labels_of_sharing
from fredfw.experiment.file.spec import AnyOutline, Experiment, FabricSpec, SavingSpec, WorkloadSpec, covered
from fredfw.experiment.results import Cell, Comparison, Failure, RunResult, Status, shared
from fredfw.experiment.run.cells import CellSpec, Means, Outcome, Share, outcome, refused
from fredfw.fidelities import ESTIMATE, EXACT
from fredfw.simulation.fidelity import Choice
from fredfw.units import counted
from fredfw.workloads import Work
from fredfw.workloads.labels import COMPUTE

_STILL_FITS = 0.0005  # how near its target a calibrated cell must be
_KEPT = 1_000_000  # how many tasks and links are kept of cells whose transfers are counted before they run
_COMPARABLE = 2.0 * (1 + 1e-9)  # times the bandwidth of the baseline's NPUs that need no note; a sum may be rounded


def compare(experiment: Experiment, means: Means, *, fidelity: str | None = None, strict: bool = False) -> Comparison:
    """Run every cell of ``experiment``; one that cannot be run costs no other, unless ``strict``.

    All cells have one fidelity, see ``Means.choose``. A fabric runs after those that its speed-ups refer to, so that an
    interrupt leaves rows that are complete: they are in the ``Interrupted`` that is raised where there are any.
    """
    cells = [(row, column) for column in _baselines_first(experiment) for row in experiment.workloads]
    unfit = {(row.name, column.name): error_of(row, column) for row, column in cells}
    wanted = [(row, column) for row, column in cells if unfit[row.name, column.name] is None]
    here = _Here(experiment, means)
    asked = fidelity or experiment.fidelity
    specs = [means.spec(experiment, *one, asked or EXACT) for one in wanted]
    if means.workers is None:
        here.check(specs, strict=strict)

    def count(spec: CellSpec) -> int:
        if means.progress:
            means.progress(0, len(specs), f"transfers of {spec}")
        return here.count(spec)

    choice = means.choose(specs, count=count) if asked is None else Choice(asked)
    specs = [one.with_fidelity(choice.fidelity) for one in specs]
    found: dict[tuple[str, str], Cell] = {}
    failures = {key: refused(*key, error) for key, error in unfit.items() if error is not None}
    before = means.hits

    def comparison(shown: Mapping[tuple[str, str], Cell]) -> Comparison:
        counters = [cell.statistics for cell in found.values()]
        return assemble(experiment, shown, counters, choice.reason, failures, stored=means.hits - before)

    try:
        with means.outcomes(specs, means.progress, here.run) as outcomes:
            for number, one in outcomes:
                row, column = wanted[number]
                result = comparable(one)
                if isinstance(result, Cell):
                    found[row.name, column.name] = result
                elif strict:
                    raise here.error(result)
                else:
                    failures.setdefault((row.name, column.name), result)
                here.tell()
    except KeyboardInterrupt:
        if not found:
            raise
        raise Interrupted(comparison(_finished(experiment, found, failures))) from None
    if not found:
        raise here.error(next(iter(failures.values())))
    if means.workers is not None:
        check_causes(experiment, {key: cell.breakdown for key, cell in found.items()})
    return comparison(found)


class _Here:
    """Runs the cells of ``experiment`` in this process; fabrics are let go when the next one is used."""

    def __init__(self, experiment: Experiment, means: Means) -> None:
        self._experiment = experiment
        self._means = means
        self._runner = Runner(experiment, means.plugins, means.log)
        self._latest: FabricSpec | None = None
        self._untold: RunResult | None = None  # that the hook after a run is not called for
        self._errors: dict[tuple[str, str], FredfwError] = {}

    def check(self, specs: Sequence[CellSpec], *, strict: bool) -> None:
        """Make sure, before any of ``specs`` runs, that there are the labels that the experiment names."""
        experiment = self._experiment
        named = experiment.priorities is not None or any(one.part is not None for one in experiment.savings)
        if not strict and not named and not any(map(labels_of_sharing, experiment.fabrics)):
            return
        known = {(one.workload, one.fabric): self._means.stored(one) for one in specs}
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

    def count(self, spec: CellSpec) -> int:
        row, column = self._cell(spec)
        found = self._runner.count(row, column)
        if self._runner.held > _KEPT:
            self._runner.forget(column)
        return found

    def run(self, spec: CellSpec, share: Share | None) -> Outcome:
        row, column = self._cell(spec)
        if self._latest is not None and self._latest is not column:
            self._runner.forget(self._latest)
        self._latest = column

        def simulate() -> Cell:
            try:
                if spec.fidelity == ESTIMATE:
                    return self._runner.estimate(row, column)
                self._untold = self._runner.run(row, column, spec.fidelity, share)
            except FredfwError as error:
                self._errors[row.name, column.name] = error
                raise
            return Cell.of(self._untold)

        return outcome(row.name, column.name, simulate)

    def _cell(self, spec: CellSpec) -> tuple[WorkloadSpec, FabricSpec]:
        return self._experiment.workload(spec.workload), self._experiment.fabric(spec.fabric)

    def tell(self) -> None:
        """Call the hook after a run for the latest one, once what it gave is taken note of."""
        if self._untold is not None:
            result, self._untold = self._untold, None
            self._means.plugins.hook.fredfw_after_run(result=result)

    def error(self, failure: Failure) -> FredfwError:
        return self._errors.get((failure.workload, failure.fabric)) or failure.error(self._experiment.file)


def _baselines_first(experiment: Experiment) -> list[FabricSpec]:
    ordered: dict[str, FabricSpec] = {}
    for fabric in experiment.fabrics:
        chain = [fabric]
        while (baseline := experiment.fabric(chain[-1].baseline)) not in chain:
            chain.append(baseline)
        ordered |= {one.name: one for one in reversed(chain) if one.name not in ordered}
    return list(ordered.values())


def _finished(
    experiment: Experiment, found: Mapping[tuple[str, str], Cell], failures: Mapping[tuple[str, str], Failure]
) -> dict[tuple[str, str], Cell]:
    """Return the cells that can have a speed-up; after an interrupt, the baseline of some may not have run yet."""
    cells = [(row, column) for row, column in experiment.cells if (row.name, column.name) in found]
    over = {(row.name, column.name): experiment.baseline_of(row, column) for row, column in cells}
    return {key: found[key] for key, baseline in over.items() if baseline in found or baseline in failures}


def assemble(
    outline: AnyOutline,
    cells: Mapping[tuple[str, str], Cell],
    counters: Iterable[Mapping[str, int]],
    approximated: str = "",
    failures: Mapping[tuple[str, str], Failure] = MappingProxyType({}),
    stored: int = 0,
) -> Comparison:
    references = {(one.workload, one.fabric): one for one in outline.references}
    uneven = _uneven(outline, cells)
    rows: list[results.Row] = []
    missing = []
    failed = []
    for workload, fabric in outline.cells:
        key = workload.name, fabric.name
        names: dict[str, Any] = {
            "workload_template": workload.template,
            "workload_settings": dict(workload.settings),
            "fabric_template": fabric.template,
            "fabric_settings": dict(fabric.settings),
        }
        if key in failures:
            failed.append(evolve(failures[key], place=len(rows), **names))
            continue
        if key not in cells:
            missing.append(key)
            continue
        cell, baseline = cells[key], cells.get(outline.baseline_of(workload, fabric))
        faster = None if baseline is None else speedup(baseline, cell, outline.file)
        # A factor of 1 is the roofline itself: the fit is asked for, but not recorded yet.
        fitted, fit = workload.fitted and workload.compute_scale != 1.0, workload.calibration
        if fit is not None and not (fitted and fit.fabric == fabric.name):
            fit = None  # is not one of this cell
        status = Status.PREDICTED if fitted else Status.SIMULATED
        reference = references.get((workload.name, fabric.name))
        own = {
            "baseline": fabric.baseline,
            "speedup": faster,
            "reference_speedup": reference.speedup if reference else None,
            "reference_source": reference.source if reference else None,
            "status": status if fit is None else Status.CALIBRATED,
            "npus": len(cell.placement),
            "compute_scale": workload.compute_scale,
            "fidelity": cell.provenance["fidelity"],
            "notes": (
                *cell.notes,
                *(() if baseline is None else _unlike(cell, baseline)),
                *(uneven.get((workload.template, fabric.name)) or _other_work(cell, baseline)),
                *(_outdated(fit.speedup, faster) if fit is not None and faster else ()),
            ),
            "baseline_workload": outline.baseline_of(workload, fabric)[0],
        }
        rows.append(results.Row(**shared(cell, results.Row) | own | names))
    return Comparison(
        title=outline.title,
        baseline=outline.baseline,
        rows=tuple(rows),
        savings=tuple(_saving(outline, *one, cells) for one in enumerate(covered(outline, cells))),
        provenance={
            "cells": [
                # Of a provenance, "workload" is how it is configured.
                {"cell": {"workload": row.workload, "fabric": row.fabric}, **cells[row.workload, row.fabric].provenance}
                for row in rows
            ]
        },
        statistics=merged(counters),
        approximated=approximated,
        missing=tuple(missing),
        failures=tuple(failed),
        stored=stored,
    )


def _saving(outline: AnyOutline, index: int, spec: SavingSpec, cells: Mapping[tuple[str, str], Cell]) -> results.Saving:
    def seconds(workload: str, fabric: str) -> float:
        cell = cells[workload, fabric]
        return cell.seconds if spec.part is None else cell.breakdown[spec.part]

    pairs = outline.pairs(spec)
    shares: dict[tuple[str, ...], list[float]] = {}
    at: dict[tuple[str, ...], dict[str, Any]] = {}
    for pair in pairs:
        if (over := seconds(pair.workload, pair.over)) == 0:
            message = f"{pair.workload!r} spends no time on {spec.part} on {pair.over!r}"
            accepted = "fabrics and workloads with something to save over"
            message += ", so nothing can be saved over it"
            raise InputError(message, file=outline.file, key=f"savings[{index}]", accepted=accepted)
        group = spec.group(pair.settings)
        shares.setdefault(group, []).append(1 - seconds(pair.workload, pair.of) / over)
        at.setdefault(group, {key: pair.settings[key] for key in spec.by})
    references = {spec.group(one.at): (one.saving, one.source) for one in spec.references if not spec.is_claim(one)}
    means = tuple(
        results.SavingGroup(
            at[group], math.fsum(own) / len(own), min(own), max(own), len(own), *references.get(group, (None, None))
        )
        for group, own in shares.items()
    )
    claims = [one for one in spec.references if spec.is_claim(one)]
    return results.Saving(
        **shared(spec, results.Saving)
        | {
            "workloads": tuple(dict.fromkeys(pair.workload for pair in pairs)),
            "groups": means,
            "claims": tuple(
                results.SavingClaim(one.saving, one.source, _between(spec, means, one.saving)) for one in claims
            ),
        }
    )


def _between(spec: SavingSpec, groups: Sequence[results.SavingGroup], claimed: float) -> tuple[tuple[Any, Any], ...]:
    """Return the values of the only field of ``spec`` between which the mean passes ``claimed``."""
    if len(spec.by) != 1:
        return ()
    (key,) = spec.by
    return tuple(
        (one.at[key], other.at[key])
        for one, other in pairwise(groups)
        if min(one.saving, other.saving) <= claimed <= max(one.saving, other.saving)
    )


def comparable(outcome: Outcome) -> Outcome:
    """Return ``outcome``; a cell that takes no time cannot be compared, which is a failure."""
    if isinstance(outcome, Failure) or outcome.seconds > 0:
        return outcome
    reason = f"takes no time on {outcome.fabric!r}, so there is no speed-up"
    accepted = "a workload that computes or communicates on every fabric"
    key = f"workloads.{outcome.workload}"
    return Failure(outcome.workload, outcome.fabric, reason, infeasible=True, key=key, accepted=accepted)


def speedup(baseline: Cell, cell: Cell, file: str | None = None) -> float:
    for one in map(comparable, (baseline, cell)):
        if isinstance(one, Failure):
            raise one.error(file)
    return baseline.seconds / cell.seconds


def _unlike(cell: Cell, baseline: Cell) -> tuple[str, ...]:
    """Return notes where the two run on different numbers of NPUs, or their NPUs can send at very different rates."""
    notes = []
    count, others = len(cell.placement), len(baseline.placement)
    if count != others:
        other = baseline.fabric if baseline.fabric != cell.fabric else baseline.workload
        where = f"runs on {counted(count, 'NPU')}, {other!r} on {others}"
        notes.append(f"{where}: the speed-up compares machines of different size")
    slow, fast = sorted((cell.injection_bandwidth, baseline.injection_bandwidth))
    if fast > _COMPARABLE * slow > 0:
        # A ratio without names, so that the fabrics of a sweep share one footnote.
        ratio = cell.injection_bandwidth / baseline.injection_bandwidth
        notes.append(
            f"an NPU can send {ratio:.3g} times the baseline's bandwidth: the links differ, not only the topology"
        )
    if cell.provenance.get("npu") != baseline.provenance.get("npu"):
        notes.append("other NPUs than the baseline's compute: computation differs, not only the network")
    errors = [one.provenance["ratio_error"] for one in (cell, baseline) if "ratio_error" in one.provenance]
    if cell is not baseline and len(errors) == 2:
        communicating = max(one.seconds - one.breakdown.get(COMPUTE, 0.0) for one in (cell, baseline))
        if abs(cell.seconds - baseline.seconds) < max(errors) * communicating:
            off = f"{100 * max(errors):.0f} %"
            notes.append(f"too close to the baseline to call: ratios of communication are {off} off")
    return tuple(notes)


def _uneven(outline: AnyOutline, cells: Mapping[tuple[str, str], Cell]) -> Mapping[tuple[str, str], tuple[str, ...]]:
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


def _other_work(cell: Cell, baseline: Cell | None) -> tuple[str, ...]:
    if cell.work is None or baseline is None or baseline.work is None:
        return ()
    unit, (own, other) = _amounts([cell.work, baseline.work])
    if own == other:
        return ()
    name = baseline.workload if baseline.fabric == cell.fabric else baseline.fabric
    return (f"works on {own:,.15g} {unit} per iteration, {name!r} {other:,.15g}: compare {unit}/s, not times",)


def _amounts(works: Sequence[Work]) -> tuple[str, list[float]]:
    """Return how much each of ``works`` is, in a unit to compare them in: samples of equal length, or tokens."""
    tokens = [work.tokens for work in works if work.tokens is not None]
    if len(tokens) < len(works) or len({work.tokens_per_sample for work in works}) == 1:
        return "samples", [work.samples for work in works]  # of those without tokens there is nothing better
    return "tokens", tokens


def _outdated(target: float, speedup: float) -> tuple[str, ...]:
    if abs(speedup / target - 1) <= _STILL_FITS:
        return ()
    return (f"compute_scale gives {speedup:.4g} here, not the {target:g} it was fitted to: run fredfw calibrate",)
