"""The page of a study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fredfw.experiment.metrics import METRICS
from fredfw.experiment.naming import as_written
from fredfw.experiment.results import Status
from fredfw.experiment.study.results import StudyPoint, StudyResult
from fredfw.report.charts import cause_colours
from fredfw.report.data import ordered
from fredfw.report.html import svg
from fredfw.report.html.charts import metric_axis, time_bars
from fredfw.report.html.svg import Axis, Bar, Dot
from fredfw.report.pages import again, assumptions, busiest, provenance
from fredfw.report.pictures import scale_of
from fredfw.report.shown import Figure, Page, Part, Section
from fredfw.report.studies import study_report
from fredfw.units import Unit, render

_TOP = 30
_MOST_DOTS = 1500  # of a picture, so that the file stays small
_PAIR = 2


def study_page(study: StudyResult, command: str) -> Page:
    """Return the page of ``study``, which ``command`` makes again."""
    # Without the title, and without what came from a store, which differs from one time to the next.
    _, counted, *report = study_report(study, _TOP)[:-1]
    return Page(
        study.title,
        (),
        (
            Section("results", "Results", (counted, *report)),
            Section("pictures", "Pictures", _pictures(study)),
            Section("time", "Where the time goes", _times(study.best[:_TOP], study.colours)),
            busiest("point", ((_named(point), point.fabric, point.tiers) for point in study.best[:_TOP])),
            assumptions({Status.SIMULATED}, {one.rung for one in study.rungs}, ()),
            provenance([(study.title, study.provenance)]),
            again(command),
        ),
    )


def _pictures(study: StudyResult) -> list[Part]:
    """Return the objectives against each other, or the only one over each dimension whose values are numbers."""
    names = [one.metric for one in study.objectives]
    known = [point for point in study.points if point.final and all(name in point.metrics for name in names)]
    step = -(-len(known) // _MOST_DOTS) or 1
    front = {id(point) for point in study.front}
    shown = [point for number, point in enumerate(known) if number % step == 0 or id(point) in front]
    if not shown:
        return []
    more = f"; one point of {step}" if step > 1 else ""
    if len(names) >= _PAIR:
        x, y = names[:_PAIR]
        dots = [_dot(point, point.metrics[x], point.metrics[y], strong=id(point) in front) for point in shown]
        axes = [_axis(name, [point.metrics[name] for point in shown]) for name in (x, y)]
        return [Figure(svg.dots(dots, *axes), f"{y} over {x}; joined: no other point beats these{more}")]
    (name,) = names
    up = _axis(name, [point.metrics[name] for point in shown])
    found: list[Part] = []
    for dimension in study.numeric:
        mine = [point for point in shown if dimension in point.values]
        scale = scale_of([point.values[dimension] for point in mine])
        if scale is None or len(scale.numbers) < _PAIR:
            continue
        dots = [
            _dot(point, scale.numbers[as_written(point.values[dimension])], point.metrics[name], strong=False)
            for point in mine
        ]
        best = ", ".join(as_written(point.values[dimension]) for point in study.front if dimension in point.values)
        found.append(
            Figure(svg.dots(dots, Axis.of(dimension, scale), up), f"{name} over {dimension}; best: {best}{more}")
        )
    return found


def _axis(name: str, values: Sequence[float]) -> Axis:
    return metric_axis(METRICS[name], log=svg.needs_log(values))


def _dot(point: StudyPoint, x: float, y: float, *, strong: bool) -> Dot:
    return Dot(x, y, _named(point), strong=strong)


def _named(point: StudyPoint) -> str:
    return ", ".join(f"{key} {as_written(value)}" for key, value in point.values.items()) or point.fabric


def _times(points: Sequence[StudyPoint], declared: Mapping[str, str]) -> list[Part]:
    shown = [point for point in points if point.breakdown and point.seconds is not None]
    causes = ordered({cause for point in shown for cause, seconds in point.breakdown.items() if seconds}, [declared])
    bars = [
        Bar(_named(point), point.breakdown, render(point.seconds or 0.0, Unit.SECONDS, 4), point.rank == 1)
        for point in shown
    ]
    return [time_bars("Of the best points, the best first", bars, cause_colours(causes, [declared]))] if bars else []
