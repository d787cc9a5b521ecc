"""Studies for people and as CSV."""

import re
from collections.abc import Iterator, Mapping, Sequence

from fredfw.experiment.metrics import METRICS
from fredfw.experiment.naming import as_written
from fredfw.experiment.study.results import RungCount, StudyPoint, StudyResult
from fredfw.experiment.study.search import shown
from fredfw.report.data import to_csv
from fredfw.report.numbers import TIME_UNITS, decimals, unit_for
from fredfw.report.shown import GAP, Heading, Line, Part, Said, Span, Table

_NUMBER = re.compile(r"\d[\d.,]*")
_BESIDE = ("time", "tokens/s", "samples/s", "mfu", "memory")  # shown, too, where known; of the rates the first
_SCALES: Mapping[str, Sequence[tuple[str, float]]] = {
    "s": TIME_UNITS,
    "B": (("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0)),
    "J": (("J", 1.0), ("mJ", 1e-3), ("uJ", 1e-6)),
}


def study_report(study: StudyResult, top: int) -> list[Part]:
    report: list[Part] = [Heading(study.title), Line(_counted(study))]
    if not study.complete:
        report.append(Heading("interrupted: the sampler has not come to its end"))
    best = study.best[:top]
    report += [GAP, Line(_heading(study, len(best)))]
    if any(point.estimated for point in best):
        report.append(Line("times are estimates: no communication hinders another, and nothing was simulated"))
    if best:
        report.append(_table(study, best))
    others = [point for point in study.points if point.reason]
    if others:
        heading = Line(f"without a result, or beyond a limit: {_points(len(others))}")
        report += [GAP, heading, _reasons(study, others, top)]
    runs = [line for rung in study.rungs for line in _ran(rung)]
    runs += [study.approximated] if study.approximated else []
    return [*report, GAP, *map(Line, runs), Line(f"from the store: {_numbered(study.stored, 'cell')}")]


def _ran(rung: RungCount) -> Iterator[str]:
    counts = f"{_points(rung.cells)}, {_numbered(rung.results, 'result')}, {_numbered(rung.events, 'event')}"
    yield f"{rung.rung}: {counts}"
    for other, one in rung.errors.items():
        off = f"{100 * one.median:.2g} % (median), at most {100 * one.largest:+.2g} %"
        yield f"  its times are off those of {other} by {off}, at {_points(one.points)}"


def _counted(study: StudyResult) -> str:
    fits = sum(point.seconds is not None for point in study.points)
    unfit = len(study.without_result) - len(study.failed)
    space = f"{_numbered(study.combinations, 'combination')}, {_points(study.size)} in the space"
    tried = f"tried: {len(study.points):,}, with a result: {fits:,}, that do not fit: {unfit:,}"
    return f"{space}; {tried}" + (f", failed: {len(study.failed):,}" if study.failed else "")


def _numbered(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _points(count: int) -> str:
    return _numbered(count, "point")


def _heading(study: StudyResult, count: int) -> str:
    goals = " and ".join(f"{'least' if one.least else 'most'} {one.metric}" for one in study.objectives)
    ranked = len(study.best)
    limits = "".join(
        f", {name} {'at most' if METRICS[name].least else 'at least'} {shown(limit, METRICS[name].unit)}"
        for name, limit in study.limits.items()
    )
    if not count:
        fit = sum(point.seconds is not None for point in study.points)
        many = f"all {_points(fit)} with a result are beyond a limit"
        none = many if fit > 1 else "the only result is beyond a limit" if fit else "no point has a result"
        return f"{none} ({goals}{limits})"
    of = f"the best {count} of {ranked}" if count < ranked else f"all {ranked}" if ranked > 1 else "the only one"
    fronts = "; rank 1 is the Pareto front" if len(study.objectives) > 1 else ""
    return f"{of} by {goals}{limits}{fronts}"


def _table(study: StudyResult, points: Sequence[StudyPoint]) -> Table:
    names = _cell_names(study)
    metrics = [_column(metric, [point.metrics.get(metric) for point in points]) for metric in _shown_metrics(study)]
    rows: list[list[Said]] = []
    for place, point in enumerate(points):
        texts = [str(point.rank), *(str(getattr(point, name)) for name in names)]
        texts += [as_written(point.values[name]) if name in point.values else "-" for name in study.names]
        texts += [column[place] for _, column in metrics]
        rows.append([Span(text, "bold" if point.rank == 1 else "") for text in texts])
    header = ["rank", *names, *study.names, *(title for title, _ in metrics)]
    first = len(header) - len(metrics)
    fields = (number for number, name in enumerate(study.names, 1 + len(names)) if name in study.numeric)
    return Table(header, rows, right=[0, *fields, *range(first, len(header))])


def _cell_names(study: StudyResult) -> list[str]:
    return [name for name in ("workload", "fabric") if len({getattr(point, name) for point in study.points}) > 1]


def _shown_metrics(study: StudyResult) -> list[str]:
    known = {name for point in study.points for name, value in point.metrics.items() if value}
    wanted = dict.fromkeys([*(one.metric for one in study.objectives), *study.limits, *_BESIDE])
    rates = [name for name in ("tokens/s", "samples/s") if name in known]
    asked = {one.metric for one in study.objectives}.union(study.limits)
    return [name for name in wanted if name in known and (name in asked or name not in rates[1:])]


def _column(metric: str, values: Sequence[float | None]) -> tuple[str, list[str]]:
    unit = METRICS[metric].unit
    known = [value for value in values if value is not None]
    header, factor = metric, 1.0
    if metric == "mfu":
        header, factor = "MFU %", 0.01
    elif unit in _SCALES:
        name, factor = unit_for(max(map(abs, known), default=0.0), _SCALES[unit])
        header = f"{metric} ({name})"
    elif unit not in ("", metric):
        header = f"{metric} ({unit})"
    digits = decimals(max((abs(value) / factor for value in known), default=0.0))
    return header, ["-" if value is None else f"{value / factor:,.{digits}f}" for value in values]


def _reasons(study: StudyResult, points: Sequence[StudyPoint], top: int) -> Table:
    groups: dict[str, list[StudyPoint]] = {}
    for point in points:
        groups.setdefault(_NUMBER.sub("", point.reason), []).append(point)
    ordered = sorted(groups.values(), key=len, reverse=True)
    rows = []
    for group in ordered[:top]:
        first = group[0]
        names = [str(getattr(first, name)) for name in _cell_names(study)]
        values = [f"{name} = {as_written(value)}" for name, value in first.values.items()]
        rows.append((f"{len(group):,}", ", ".join([*names, *values]), first.reason))
    if others := ordered[top:]:
        rows.append((f"{sum(map(len, others)):,}", f"... of {len(others)} other reasons", ""))
    return Table(("points", "the first one", "its reason"), rows, right=(0,), folded=(2,))


def study_to_csv(study: StudyResult) -> str:
    metrics = [name for name in METRICS if any(name in point.metrics for point in study.points)]
    header = ("number", "rank", "workload", "fabric", *study.names, "rung", "final", *metrics, "status", "reason")

    def values(point: StudyPoint) -> Iterator[object]:
        yield from (point.number, point.rank, point.workload, point.fabric)
        yield from (as_written(point.values[name]) if name in point.values else "" for name in study.names)
        yield from (point.rung, point.final, *map(point.metrics.get, metrics), _status(point), point.reason)

    return to_csv(header, map(values, study.points))


def _status(point: StudyPoint) -> str:
    if point.seconds is not None:
        return "beyond a limit" if point.reason else "simulated"
    return "failed" if point.failed else "infeasible"
