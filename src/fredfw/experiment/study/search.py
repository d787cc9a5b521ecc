"""Runs a study: asks the sampler for points, evaluates them as cells, and ranks what comes of them."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from attrs import define, evolve, field

from fredfw.errors import InputError, Interrupted, UnknownNameError, placed
from fredfw.experiment.cell.runner import describe
from fredfw.experiment.file import reading
from fredfw.experiment.file.overrides import with_values
from fredfw.experiment.file.spec import Experiment, plain
from fredfw.experiment.metrics import METRICS
from fredfw.experiment.progress import Progress
from fredfw.experiment.results import Cell, Failure, shared
from fredfw.experiment.run.cells import CellSpec, Means, Outcome, refused
from fredfw.experiment.study import samplers
from fredfw.experiment.study.reading import Study
from fredfw.experiment.study.results import Objective, RungCount, RungError, StudyPoint, StudyResult
from fredfw.experiment.study.space import FABRIC, WORKLOAD, Space
from fredfw.fidelities import ESTIMATE, EXACT
from fredfw.plugin.sampler import SearchSpace, Told, Trial
from fredfw.simulation.fidelity import Choice
from fredfw.units import Unit, render


def search(experiment: Experiment, means: Means, fidelity: Choice | None = None) -> StudyResult:
    study, sampler = experiment.study, experiment.sampler
    if study is None or sampler is None:
        accepted = "an experiment with [space] and [objective]"
        raise InputError("there is nothing to search", file=experiment.file, key="space", accepted=accepted)
    with placed(file=study.file):
        points = study.space(experiment)
        points.check()
        space = search_space(points, study.objectives)
    running = samplers.start(sampler, space)
    before = means.hits
    found = _Progress(experiment, study, points, means, fidelity or Choice(experiment.fidelity or EXACT))
    try:
        while asked := samplers.ask(running, space):
            wanted = [one for one in dict.fromkeys(asked) if one not in found.outcomes]
            rungs = sorted({str(one.rung) for one in asked})
            means.log("points asked for", points=len(asked), new=len(wanted), rungs=rungs)
            cells: list[tuple[Trial, CellSpec]] = []
            for one in wanted:
                spec = found.spec(one)
                if isinstance(spec, Failure):
                    found.add(one, spec)
                else:
                    cells.append((one, spec))
            if fidelity is None and experiment.fidelity is None:
                choice = means.choose([spec for one, spec in cells if study.rung(one.rung)[0] is None])
                if choice.fidelity != EXACT:  # all of them, also those that have been run
                    return search(experiment, means, choice)
            step = means.progress and _after(means.progress, len(found.outcomes))
            specs = [spec for _, spec in cells]
            with means.outcomes(specs, step) as outcomes:
                for number, outcome in outcomes:
                    found.add(cells[number][0], outcome)
            samplers.tell(running, [found.told(one) for one in asked])
    except KeyboardInterrupt:
        if not found.outcomes:
            raise
        raise Interrupted(found.result(complete=False, stored=means.hits - before)) from None
    return found.result(complete=True, stored=means.hits - before)


def search_space(space: Space, objectives: Sequence[Objective]) -> SearchSpace:
    """Return what a sampler sees of ``space``: where there are several cells, they are its first dimensions."""
    workloads, fabrics = (tuple(dict.fromkeys(names)) for names in zip(*space.cells, strict=True))
    several = [(name, known) for name, known in ((WORKLOAD, workloads), (FABRIC, fabrics)) if len(known) > 1]
    return SearchSpace(
        names=(*(name for name, _ in several), *(one.name for one in space.dimensions)),
        values=(*(known for _, known in several), *(one.values for one in space.dimensions)),
        points=tuple(
            (*(known.index(getattr(point, name)) for name, known in several), *point.choice) for point in space.points
        ),
        objectives=len(objectives),
    )


def _after(progress: Progress, before: int) -> Progress:
    return lambda done, total, what: progress(before + done, before + total, what)


@define
class _Progress:
    """Writes points as cells, and knows what has come of them so far."""

    experiment: Experiment
    study: Study
    space: Space
    means: Means
    fidelity: Choice
    outcomes: dict[Trial, Outcome] = field(factory=dict)
    order: dict[str | None, None] = field(factory=dict)  # the rungs, as they were asked for first

    def spec(self, trial: Trial) -> CellSpec | Failure:
        study, point = self.study, self.space.points[trial.point]
        fidelity, values = study.rung(trial.rung)
        settings = {**self.space.settings(point), **values}
        try:
            outline = reading.parse(with_values(study.content, settings), file=self.experiment.file)
            outline = outline.select(fabrics=[point.fabric], workloads=[point.workload])
            experiment = reading.configured(outline, self.means.plugins, trust_plugins=True)
            return self.means.spec(experiment, *experiment.cells[0], fidelity or self.fidelity.fidelity)
        except UnknownNameError as error:
            raise self._blamed(error) from None
        except InputError as error:
            return refused(point.workload, point.fabric, error)

    def _blamed(self, error: UnknownNameError) -> UnknownNameError:
        for dimension in self.study.dimensions:
            # The name of a plugin is blamed on its table.
            paths = {one for path in dimension.paths for one in (path, path.removesuffix(".name"))}
            if error.key and any(error.key == path or error.key.startswith(f"{path}.") for path in paths):
                file, key = self.study.file, f"space.{dimension.name}: {error.key}"
                return UnknownNameError(error.message, file=file, key=key, accepted=error.accepted)
        return error

    def add(self, trial: Trial, outcome: Outcome) -> None:
        self.order.setdefault(trial.rung)
        self.outcomes[trial] = outcome
        if isinstance(outcome, Failure):
            return
        wanted = [(one.metric, "objective") for one in self.study.objectives]
        for name, key in (*wanted, *((name, "objective.limits") for name in self.study.limits)):
            if METRICS[name].of(outcome) is None:
                message = f"{name} is not known of {outcome.workload} on {outcome.fabric}"
                raise InputError(message, file=self.study.file, key=key, accepted=", ".join(_metrics(outcome)))

    def told(self, trial: Trial) -> Told:
        outcome = self.outcomes[trial]
        if isinstance(outcome, Failure):
            return Told(trial, None, False)
        return Told(trial, _losses(_metrics(outcome), self.study.objectives), not self._broken(outcome))

    def _broken(self, cell: Cell) -> str:
        for name, limit in self.study.limits.items():
            metric = METRICS[name]
            value = metric.of(cell)
            if value is not None and (value > limit if metric.least else value < limit):
                side = "above" if metric.least else "below"
                return f"{name} {shown(value, metric.unit)} is {side} the limit of {shown(limit, metric.unit)}"
        return ""

    def result(self, *, complete: bool, stored: int) -> StudyResult:
        study = self.study
        latest = {trial.point: trial for trial in self.outcomes}
        with_result = {trial.rung for trial, one in self.outcomes.items() if isinstance(one, Cell)}
        final = next((rung for rung in reversed(self.order) if rung in with_result), None)
        points = [self._point(trial, final) for _, trial in sorted(latest.items())]
        ranked = [one for one in points if one.final and one.seconds is not None and not one.reason]
        losses = [_losses(one.metrics, study.objectives) for one in ranked]
        ranks = dict(zip((one.number for one in ranked), samplers.fronts(losses), strict=True))
        cells = [one for one in self.outcomes.values() if isinstance(one, Cell)]
        versions = {name: one for cell in cells for name, one in cell.provenance["versions"].items()}
        return StudyResult(
            title=self.experiment.title,
            names=tuple(one.name for one in study.dimensions),
            numeric=tuple(one.name for one in study.dimensions if one.numeric),
            objectives=study.objectives,
            limits=dict(study.limits),
            combinations=self.space.combinations,
            size=self.space.count,
            points=tuple(evolve(one, rank=ranks.get(one.number)) for one in points),
            rungs=tuple(self._counts()),
            sampler=describe(self.experiment.sampler),
            provenance={
                "study": plain(study.tables),
                "experiment": plain(study.content),
                "versions": dict(sorted(versions.items())),
            },
            complete=complete,
            colours={label: colour for cell in reversed(cells) for label, colour in cell.colours.items()},
            stored=stored,
            approximated=self.fidelity.reason,
        )

    def _point(self, trial: Trial, final: str | None) -> StudyPoint:
        point, outcome = self.space.points[trial.point], self.outcomes[trial]
        common: dict[str, Any] = {
            **shared(point, StudyPoint),
            "values": self.space.values(point),
            "rung": self._label(trial.rung),
            "final": trial.rung == final,
        }
        if isinstance(outcome, Failure):
            return StudyPoint(**common, reason=outcome.reason, failed=not outcome.infeasible)
        return StudyPoint(
            **common | shared(outcome, StudyPoint),
            metrics=_metrics(outcome),
            reason=self._broken(outcome),
            estimated=outcome.provenance["fidelity"] == ESTIMATE,
        )

    def _label(self, rung: str | None) -> str:
        return self.fidelity.fidelity if rung is None else rung

    def _counts(self) -> Iterator[RungCount]:
        rungs: dict[str | None, dict[int, Outcome]] = {rung: {} for rung in self.order}
        for trial, one in self.outcomes.items():
            rungs[trial.rung][trial.point] = one
        seconds = {
            rung: {point: one.seconds for point, one in mine.items() if isinstance(one, Cell)}
            for rung, mine in rungs.items()
        }
        for place, (rung, mine) in enumerate(rungs.items()):
            found = {other: _error(seconds[rung], seconds[other]) for other in list(self.order)[place + 1 :]}
            errors = {self._label(other): error for other, error in found.items() if error is not None}
            events = sum(one.statistics.get("events", 0) for one in mine.values() if isinstance(one, Cell))
            yield RungCount(self._label(rung), len(mine), len(seconds[rung]), events, errors)


def _error(seconds: Mapping[int, float], closer: Mapping[int, float]) -> RungError | None:
    """Return how far ``seconds`` of points are from those at a ``closer`` rung; ``None`` where none are at both."""
    found = [seconds[point] / closer[point] - 1 for point in seconds if closer.get(point)]
    return RungError(len(found), median(map(abs, found)), max(found, key=abs)) if found else None


def _metrics(cell: Cell) -> dict[str, float]:
    values = {name: one.of(cell) for name, one in METRICS.items()}
    return {name: value for name, value in values.items() if value is not None}


def _losses(metrics: Mapping[str, float], objectives: Sequence[Objective]) -> tuple[float, ...]:
    return tuple(metrics[one.metric] if one.least else -metrics[one.metric] for one in objectives)


_UNITS = {unit.value: unit for unit in (Unit.BYTES, Unit.SECONDS, Unit.JOULES)}


def shown(value: float, unit: str) -> str:
    return render(value, _UNITS[unit]) if unit in _UNITS else f"{value:,.6g} {unit}".rstrip()
