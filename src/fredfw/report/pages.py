"""The pages of results: the tables of a terminal, with pictures, provenance and the command to make it again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import evolve

from fredfw.errors import UnsupportedError
from fredfw.experiment.metrics import METRICS
from fredfw.experiment.naming import as_written
from fredfw.experiment.results import Comparison, Row, RunResult, Status, TierLoad
from fredfw.experiment.study.results import StudyPoint, StudyResult
from fredfw.experiment.why import critical_path
from fredfw.fidelities import MEANINGS as FIDELITIES
from fredfw.report.cells import best_cells, fields_of, groups, items, key_columns
from fredfw.report.charts import charts, check_maps, metric_axis, saving_maps, time_bars, title_of, trade_offs
from fredfw.report.comparison import MEANINGS, comparison_report, sensitivity_report
from fredfw.report.pictures import Axis, Bar, Bars, Dot, Dots, Picture
from fredfw.report.ranking import Ranking
from fredfw.report.runs import result_name, run_report, tiers_table, why_report
from fredfw.report.shown import GAP, Code, Details, Heading, Line, Page, Part, Section, Table
from fredfw.report.studies import study_report
from fredfw.units import Unit, counted, render

_MOST_BARS = 60  # rows whose time is shown in parts
_MOST_TIERS = 30  # rows of tiers
_TOP = 30
MOST_DOTS = 1500  # of a picture, so that the file stays small


def page_of(result: object, command: str = "", *, sort: str = "", best: int = 0, pareto: str = "") -> Page:
    """Return the page of a comparison, a run, a study or a validation, which ``command`` makes again.

    The others say which rows of a comparison are shown, as the options ``--sort``, ``--best`` and ``--pareto``. Raises
    ``UnsupportedError`` for another result, ``UnknownNameError`` for what rows cannot be sorted by.
    """
    if isinstance(result, Comparison):
        ranking = Ranking(sort, best, pareto)
        ranking.check(fields_of(items(result)))
        return comparison_page(result, ranking, command)
    if isinstance(result, RunResult):
        return run_page(result, command)
    if isinstance(result, StudyResult):
        return study_page(result, command)
    if hasattr(result, "page"):  # such as a validation, which says itself what its page is
        page: Page = result.page(command)
        return page
    message = f"there is no page of a {type(result).__name__}"
    raise UnsupportedError(message, accepted="comparison, run, study, validation")


def pictures_of(result: object, *, savings: bool = False) -> tuple[str, list[Picture]]:
    """Return a title and the pictures of a result: of a comparison its times, or its ``savings`` by two fields.

    Raises as ``page_of`` does, and ``InputError`` where no saving goes by two fields.
    """
    if isinstance(result, Comparison):
        if savings:
            check_maps(result.savings)
            return result.title, [*saving_maps(result.savings)]
        return result.title, charts(result.rows)
    page = page_of(result)
    parts = (part for section in page.sections for part in section.parts)
    return page.title, [part for part in parts if isinstance(part, Picture)]


def comparison_page(comparison: Comparison, ranking: Ranking, command: str) -> Page:
    # What came from a store differs from one time to the next.
    report = comparison_report(evolve(comparison, stored=0), ranking)
    report = report[report.index(GAP) + 1 :]  # without title and introduction, and what the lead says
    rows = comparison.rows
    drawn = [one for one in charts(rows) if not isinstance(one, Bars)]  # which are where the time goes
    cells = [*rows, *comparison.failures]
    names = {kind: list(dict.fromkeys(getattr(one, kind) for one in cells)) for kind in ("workload", "fabric")}
    where = " on ".join(found[0] if len(found) == 1 else f"{len(found)} {kind}s" for kind, found in names.items())
    over = f" Speed-ups are over {rows[0].baseline}." if len({row.baseline for row in rows}) == 1 else ""
    failed, missing = len(comparison.failures), len(comparison.missing)
    made = comparison.provenance.get("cells", [])  # in the order of rows
    named = list(zip(map(result_name, rows), made, strict=True)) if len(made) == len(rows) else []
    known = [row for row in rows if row.reference_speedup is not None]
    published = [(row.workload, row.fabric, f"{row.reference_speedup:g}", row.reference_source or "") for row in known]
    references = _table(("workload", "fabric", "published speed-up", "source"), published, right=(2,), keys=2)
    statuses = {row.status for row in rows} | ({Status.REFERENCE} if references else set())
    lead = [
        f"{where}: {counted(len(cells), 'cell')}.{over}",
        *([f"{counted(failed, 'cell has', 'cells have')} no result; the table says why."] if failed else []),
        *([f"Interrupted: {counted(missing, 'cell was', 'cells were')} not run."] if missing else []),
        *([f"The table: {one}." for one in ranking.ranked(items(comparison))[1]]),
    ]
    return Page(
        comparison.title,
        tuple(lead),
        (
            Section("answer", "Best", _best(rows)),
            Section("results", "Results", report),
            Section("pictures", "Pictures", [*drawn, *saving_maps(comparison.savings), *trade_offs(rows)]),
            Section("time", "Where the time goes", _times(rows)),
            busiest("workload", ((row.workload, row.fabric, row.tiers) for row in rows)),
            Section("sensitivity", "Sensitivity", sensitivity_report(comparison.sensitivity)),
            Section("algorithms", "Algorithms", _algorithms(rows)),
            assumptions(statuses, {row.fidelity for row in rows}, _notes(rows)),
            Section("references", "References", references),
            provenance(named, comparison.statistics),
            again(command),
        ),
    )


def run_page(result: RunResult, command: str) -> Page:
    plain_result = evolve(result, critical_path=None, what_if=None, notes=())
    _, *report = run_report(plain_result, _TOP)  # without the title
    found = evolve(result, critical_path=result.critical_path or critical_path(result))
    name = result_name(result)
    bar = Bar(result.workload, result.breakdown, render(result.seconds, Unit.SECONDS, 4))
    picture = Bars("One iteration, mean over the NPUs in use", [bar], [result.colours])
    scale = result.provenance.get("compute_scale", 1.0)
    notes = [*result.notes, *([] if scale == 1.0 else [f"compute time is {scale:.4g} of the roofline's"])]
    what = "All jobs take" if result.jobs else "One iteration takes"
    return Page(
        name,
        (f"{what} {render(result.seconds, Unit.SECONDS, 4)} on {counted(len(result.placement), 'NPU')}.",),
        (
            Section("why", "What limits it", why_report(found, _TOP)),
            Section("time", "Where the time goes", (picture, *report)),
            assumptions({Status.SIMULATED}, {str(result.provenance.get("fidelity", ""))}, notes),
            provenance([(name, result.provenance)], result.statistics),
            again(command),
        ),
    )


def study_page(study: StudyResult, command: str) -> Page:
    # Without the title, and without what came from a store, which differs from one time to the next.
    _, counted, *report = study_report(study, _TOP)[:-1]
    best = study.best[:_TOP]
    timed = [(one, one.seconds) for one in best if one.breakdown and one.seconds is not None]
    bars = [Bar(_named(one), one.breakdown, render(time, Unit.SECONDS, 4), one.rank == 1) for one, time in timed]
    times = [Bars("Of the best points, the best first", bars, [study.colours])] if bars else []
    return Page(
        study.title,
        (),
        (
            Section("results", "Results", (counted, *report)),
            Section("pictures", "Pictures", _study_pictures(study)),
            Section("time", "Where the time goes", times),
            busiest("point", ((_named(point), point.fabric, point.tiers) for point in best)),
            assumptions({Status.SIMULATED}, {one.rung for one in study.rungs}, ()),
            provenance([(study.title, study.provenance)]),
            again(command),
        ),
    )


def assumptions(statuses: Iterable[Status], fidelities: Iterable[str], notes: Iterable[str]) -> Section:
    found, how = set(statuses), set(fidelities)
    meanings = [(str(status), meaning) for status, meaning in MEANINGS.items() if status in found]
    meanings += [(name, meaning) for name, meaning in FIDELITIES.items() if name in how]
    listed = [Line(note) for note in dict.fromkeys(notes)]
    parts = _table(("status or fidelity", "meaning"), meanings)
    parts += [Heading("Notes"), *listed] if listed else []
    return Section("assumptions", "Assumptions and statuses", parts)


def provenance(cells: Sequence[tuple[str, Mapping[str, Any]]], statistics: Mapping[str, Any] | None = None) -> Section:
    """Return versions, files and configuration of ``cells``, by name; what several have in common is written once."""
    report: list[Part] = []
    versions = sorted({pair for _, one in cells for pair in one.get("versions", {}).items()})
    if versions:
        report += [Heading("Versions"), Table(("distribution", "version"), versions)]
    files = sorted({(str(file["path"]), str(file["sha256"])) for _, one in cells for file in one.get("files", ())})
    if files:
        report += [Heading("Files"), Table(("path", "SHA-256"), files)]
    parts: dict[str, dict[str, list[str]]] = {}
    for name, one in cells:
        for key, value in one.items():
            if key not in ("versions", "files", "written"):
                parts.setdefault(key, {}).setdefault(_json(value), []).append(name)
    if parts:
        report.append(Heading("Configuration"))
    for key, found in parts.items():
        if len(found) == 1:
            report.append(Details(key, list(map(Code, found))))
        else:
            several = [part for text, names in found.items() for part in (Line(", ".join(names)), Code(text))]
            report.append(Details(f"{key} ({len(found)} different ones)", several))
    if statistics:
        report.append(Details("Counters of the engine", [Code(_json(statistics))]))
    return Section("provenance", "Provenance", report)


def again(command: str) -> Section:
    return Section("again", "Make it again", [Code(command)] if command else [])


def _json(value: object) -> str:
    return json.dumps(value, indent=1, sort_keys=True, default=str)


def _best(rows: Sequence[Row]) -> list[Part]:
    def over(row: Row) -> str:
        own = row.baseline_workload == row.workload
        return row.baseline if own else f"{row.baseline_workload} on {row.baseline}"

    best = best_cells(rows)
    found = []
    for row in rows:
        if (row.workload, row.fabric) in best:
            speedup = "" if row.speedup is None else f"{row.speedup:.3g}x over {over(row)}"
            found.append((row.workload, row.fabric, render(row.seconds, Unit.SECONDS, 4), speedup))
    return _table(("workload", "fabric", "time", "speed-up"), found[:_TOP], right=(2,), keys=2)


def _times(every: Sequence[Row]) -> list[Part]:
    found: list[Part] = []
    for group in groups(every):
        rows = group.rows
        shown = rows[:_MOST_BARS]
        columns = [(title, of) for title, of in key_columns(rows) if len({of(row) for row in rows}) > 1]
        names = [", ".join(text for _, of in columns if (text := of(row)) != "-") or row.fabric for row in shown]
        by = f" by {', '.join(title for title, _ in columns)}" if columns else ""
        more = f"; the first {len(shown)} of {len(rows)} cells" if len(shown) < len(rows) else ""
        found.append(time_bars(f"{title_of(group)}{by}{more}".strip(), shown, names, best_cells(shown)))
    return found


def busiest(what: str, cells: Iterable[tuple[str, str, Sequence[TierLoad]]]) -> Section:
    """Return the busiest tiers of ``cells``, which are (the name of ``what``, the fabric, its tiers)."""
    found = [((name, fabric), tier) for name, fabric, tiers in cells for tier in tiers]
    found.sort(key=lambda one: -one[1].highest)
    shown = found[:_MOST_TIERS]
    parts: list[Part] = [tiers_table(shown, (what, "fabric"))] if shown else []
    if len(shown) < len(found):
        parts.append(Line(f"the busiest {len(shown)} of {len(found)}; --json has the others"))
    return Section("links", "Busiest tiers and links", parts)


def _algorithms(rows: Sequence[Row]) -> list[Part]:
    served: dict[tuple[str, str], dict[str, None]] = {}
    for row in rows:
        for what, algorithm in row.algorithms.items():
            served.setdefault((what, algorithm), {})[row.fabric] = None
    lines = [(what, algorithm, ", ".join(fabrics)) for (what, algorithm), fabrics in served.items()]
    return _table(("communication (xN: among N ranks)", "served by", "on"), lines)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], **look: Any) -> list[Part]:
    return [Table(header, rows, **look)] if rows else []


def _notes(rows: Sequence[Row]) -> list[str]:
    about: dict[str, list[str]] = {}
    for row in rows:
        for note in row.notes:
            about.setdefault(note, []).append(result_name(row))
    return [
        f"{note} ({'all cells' if len(cells) == len(rows) else cells[0] if len(cells) == 1 else f'{len(cells)} cells'})"
        for note, cells in about.items()
    ]


def _study_pictures(study: StudyResult) -> list[Part]:
    """Return the objectives against each other, or the only one over each dimension whose values are numbers."""
    names = [one.metric for one in study.objectives]
    known = [point for point in study.points if point.final and all(name in point.metrics for name in names)]
    step = -(-len(known) // MOST_DOTS) or 1
    front = {id(point) for point in study.front}
    shown = [point for number, point in enumerate(known) if number % step == 0 or id(point) in front]
    if not shown:
        return []
    more = f"; one point of {step}" if step > 1 else ""
    *others, up = (metric_axis(METRICS[name], [point.metrics[name] for point in shown]) for name in names[:2])
    if others:
        (x, y), (across,) = names[:2], others
        pairs = [Dot(one.metrics[x], one.metrics[y], _named(one), strong=id(one) in front) for one in shown]
        return [Dots(f"{y} over {x}; joined: no other point beats these{more}", across, up, pairs)]
    (name,) = names
    found: list[Part] = []
    for dimension in study.numeric:
        values = [(point, point.values[dimension]) for point in shown if dimension in point.values]
        scale = Axis.of_numbers(dimension, (value for _, value in values))
        if scale is None or len(scale.places) < 2:
            continue
        dots = [Dot(scale.places[as_written(value)], one.metrics[name], _named(one)) for one, value in values]
        best = ", ".join(as_written(point.values[dimension]) for point in study.front if dimension in point.values)
        found.append(Dots(f"{name} over {dimension}; best: {best}{more}", scale, up, dots))
    return found


def _named(point: StudyPoint) -> str:
    return ", ".join(f"{key} {as_written(value)}" for key, value in point.values.items()) or point.fabric
