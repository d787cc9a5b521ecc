"""A comparison for people. The text is plain ASCII and says in words what colour says as well."""

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from attrs import evolve

from fredfw.experiment.metrics import METRICS, Metric
from fredfw.experiment.naming import as_written
from fredfw.experiment.results import Comparison, Failure, Row, Saving, Sensitivity, Status
from fredfw.report import accuracy, numbers
from fredfw.report.cells import (
    Group,
    Item,
    KeyColumn,
    best_cells,
    causes,
    groups,
    is_swept,
    items,
    key_columns,
    training_rate,
)
from fredfw.report.ranking import ALL, Ranking
from fredfw.report.runs import PERCENTILES, jobs_table, percentile
from fredfw.report.shown import GAP, Heading, Line, Part, Said, Span, Table
from fredfw.report.tables import effects_report
from fredfw.units import counted
from fredfw.workloads.labels import BUBBLE, OWN, WAITING

MEANINGS = {  # what a number is by its status
    Status.REFERENCE: "published by another source",
    Status.MEASURED: "timed on hardware by another source",
    Status.SIMULATED: "nothing was fitted",
    Status.CALIBRATED: "the compute time was fitted to this cell's published value",
    Status.PREDICTED: "follows from the scalar fitted to the calibrated cell",
}
_LOOK = {Status.REFERENCE: "ref", Status.SIMULATED: "", Status.CALIBRATED: "italic warn", Status.PREDICTED: "bold good"}
_MFU = "MFU %"
_METRICS = {"mfu": _MFU, "npu-seconds": "NPU-seconds"}  # columns that have another name than the metric
_SCALE = "compute scale"
_REASON = "no result"
_BEST = "bold good"
_LEFT = ("best", "over", "status", _REASON)  # columns of words
_HEADER = 20  # letters in a line of a header
_REASON_LETTERS = 72
_MOST_NOTES = 20
_Column: TypeAlias = tuple[str, Callable[[Row], Said]]  # what a column is called, and what stands in it


def comparison_report(comparison: Comparison, ranking: Ranking = ALL) -> list[Part]:
    """Return one table of a sweep or of what ``ranking`` chooses, or else one per workload; and the footnotes."""
    cells, said = ranking.ranked(items(comparison))
    shown = _Shown(comparison, cells, ranking)
    report: list[Part] = [Heading(comparison.title), Line(shown.introduction)]
    if comparison.missing:
        done = len(comparison.rows) + len(comparison.failures)
        report.append(Heading(f"interrupted: {done} of {counted(done + len(comparison.missing), 'cell')}"))
    report += map(Line, said)
    for group, keys in shown.tables:
        report += [GAP, *shown.table(group, keys)]
    jobs = [((row.workload, row.fabric), job) for row in shown.rows for job in row.jobs]
    if jobs:
        report += [GAP, Heading("jobs"), jobs_table(jobs, ("workload", "fabric"))]
    report += _savings(comparison.savings, shown.sources)
    ran = counted(len(comparison.rows) + len(comparison.failures), "cell")
    return [*report, GAP, *_footnotes(evolve(comparison, rows=shown.rows), shown, ran)]


class _Shown:
    """What the tables of one comparison show."""

    def __init__(self, comparison: Comparison, cells: Sequence[Item], ranking: Ranking) -> None:
        together = bool(ranking) or is_swept(cells)
        self.tables = _tables(cells, together=together)
        self.cells = cells
        self.rows = rows = tuple(one for one in cells if isinstance(one, Row))
        self.notes = _marks((note for one in cells for note in _notes(one)), lambda place: f"({_letters(place)})")
        self.references: list[str | None] = []  # sources of savings
        for saving in comparison.savings:
            self.references += [one.reference_source for one in saving.groups if one.reference is not None]
            self.references += [one.source for one in saving.claims]
        published = [*(row.reference_source for row in rows), *self.references]
        self.sources = _marks((source or "" for source in published), lambda place: f"[{place + 1}]")
        self.baselines = tuple(dict.fromkeys(row.baseline for row in rows))
        self.parts = causes(rows, timed=True)
        self.best = best_cells(comparison.rows) & {(row.workload, row.fabric) for row in rows}
        self.spread = PERCENTILES if any(row.spread is not None for row in rows) else ()
        asked = (one for one in ranking.metrics if one.name != "time")  # which has a column anyway
        tables = [group for group, _ in self.tables]
        self.rates = _metric_columns(asked) | _rates(rows, tables, together=together)
        self.differ = {
            name
            for name in ("npus", "compute_scale")
            if any(len({getattr(row, name) for row in group.rows}) > 1 for group in tables)
        }
        self.status = any(row.status is not Status.SIMULATED for row in rows)

    @property
    def introduction(self) -> str:
        fabrics = tuple(dict.fromkeys(one.fabric for one in self.cells))
        place = f" on {fabrics[0]}" if len(fabrics) == 1 else ""
        # The only fabric needs no name where it is its own baseline; a ranking may have left the baseline out.
        over = f" over {self.baselines[0]}" if len(self.baselines) == 1 and self.baselines != fabrics else ""
        return f"Iteration time{place}, speed-up{over}, and where the time goes (mean over the NPUs in use)."

    def table(self, group: Group, keys: Sequence[KeyColumn]) -> list[Part]:
        rows = group.rows
        shared = tuple(note for note in rows[0].notes if all(note in row.notes for row in rows)) if rows else ()
        scale = numbers.TimeScale.of(row.seconds for row in rows)
        said = [f"times in {scale.unit}"]
        scales = {row.compute_scale for row in rows}
        if scales != {1.0} and len(scales) == 1:
            said.append(f"compute time is {scales.pop():.4g} of the roofline's")
        name = " ".join([group.name, *(self.notes[note] for note in shared)])
        title = Heading((Span(name), Span(f"  ({'; '.join(said)})", "dim")))

        columns = self._columns(group, scale)
        lines: list[list[Said]] = []
        for one in group.cells:
            cells: list[Said] = [text(one) for _, text in keys]
            if isinstance(one, Failure):
                known: dict[str, Said] = {"time": "-", "status": one.status, _REASON: _cut(one, self.notes)}
                lines.append([*cells, *(known.get(column, "") for column, _ in columns)])
                continue
            marks = "".join(f" {self.notes[note]}" for note in one.notes if note not in shared)
            cells[-1] = (Span(keys[-1][1](one)), Span(marks, "dim"))
            lines.append([*cells, *(of(one) for _, of in columns)])
        workloads = group.baseline_workloads
        versus = f"vs {next(iter(workloads.values()))}" if len(workloads) == 1 else "speed-up"
        titles = {"best": "", "speed-up": textwrap.fill(versus, _HEADER)}
        header = [*(key for key, _ in keys), *(titles.get(column, column) for column, _ in columns)]
        right = (number for number, (column, _) in enumerate(columns, len(keys)) if column not in _LEFT)
        return [title, Table(header, lines, right=right, keys=len(keys), alike=True)]

    def _columns(self, group: Group, scale: numbers.TimeScale) -> list[_Column]:
        several = len(group.baseline_workloads) > 1, len(self.baselines) > 1

        def best(row: Row) -> bool:
            return (row.workload, row.fabric) in self.best

        def over(row: Row) -> str:
            names = zip(several, (row.baseline_workload, row.baseline), strict=True)
            return " on ".join(name for wanted, name in names if wanted)

        def speedup(row: Row) -> Span:
            return Span("" if row.speedup is None else f"{row.speedup:.3f}", _LOOK[row.status])

        def published(row: Row) -> Span:
            return _published(row.reference_speedup, row.reference_source, self.sources, ".2f")

        def cause(name: str, row: Row) -> str:
            return scale.part(row.breakdown.get(name, 0.0))

        def runs(name: str, row: Row) -> str:
            return percentile(row.spread, name, scale)

        columns: list[tuple[object, str, Callable[[Row], Said]]] = [
            ("npus" in self.differ, "NPUs", lambda row: str(row.npus)),
            (True, "time", lambda row: Span(scale.text(row.seconds), _BEST if best(row) else "")),
            *((True, name, partial(runs, name)) for name in self.spread),
            (True, "speed-up", speedup),
            (self.best, "best", lambda row: Span("best" if best(row) else "", _BEST)),
            (any(several), "over", over),
            *((True, name, rate) for name, rate in self.rates.items()),
            ("compute_scale" in self.differ, _SCALE, lambda row: f"{row.compute_scale:.4g}"),
            (any(row.reference_speedup is not None for row in self.rows), "published", published),
            (self.status, "status", lambda row: Span(row.status, _LOOK[row.status])),
            *((True, name, partial(cause, name)) for name in self.parts),
            (len(self.rows) < len(self.cells), _REASON, lambda _: ""),
        ]
        return [(name, of) for wanted, name, of in columns if wanted]


def _tables(cells: Sequence[Item], *, together: bool) -> list[tuple[Group, list[KeyColumn]]]:
    """Return all ``cells``, if ``together``, or those of each workload; and the columns that say which a row is."""
    if not together:
        return [(group, [("fabric", lambda item: item.fabric)]) for group in groups(cells)]
    name = counted(len(cells), "cell")
    if len({one.workload_template for one in cells}) == 1:
        name = cells[0].workload_template
        if len({one.fabric_template for one in cells}) == 1 and cells[0].fabric_settings:
            name = f"{name} on {cells[0].fabric_template}"
    return [(Group(name, tuple(cells)), key_columns(cells))] if cells else []


def _reason(failure: Failure) -> str:
    return f"{failure.status}: {' '.join(failure.reason.split())}"


def _notes(cell: Item) -> tuple[str, ...]:
    if isinstance(cell, Row):
        return cell.notes
    told = f"{cell.status}: {cell.told}"
    return (told,) if told != _reason(cell) or len(_reason(cell)) > _REASON_LETTERS else ()


def _cut(failure: Failure, notes: Mapping[str, str]) -> list[Span]:
    reason = _reason(failure)
    shown = f"{reason[: _REASON_LETTERS - 4].rstrip()} ..." if len(reason) > _REASON_LETTERS else reason
    return [Span(shown, "warn"), *(Span(f" {notes[note]}", "dim") for note in _notes(failure))]


def _rates(rows: Sequence[Row], tables: Sequence[Group], *, together: bool) -> dict[str, Callable[[Row], str]]:
    works = [row.work for row in rows if row.work is not None]
    columns: dict[str, Callable[[Row], str]] = {}
    if len({work.samples for work in works}) > 1:
        columns["samples"] = partial(_of_work, "samples", numbers.count)
    for name, swept in (("replicas", "dp"), ("microbatches", "microbatches")):
        unswept = [group.rows for group in tables if swept not in group.fields]
        if any(len({getattr(row.work, name, None) for row in members}) > 1 for members in unswept):
            columns[name] = partial(_of_work, name, str)
    lengths = {work.tokens_per_sample for work in works} - {None}
    rates = {
        "samples/s": works,
        "tokens/s": len(lengths) > 1 or (lengths and together),
        "mfu": any(row.throughput.mfu is not None for row in rows),
        "npu-seconds": works and together and len({row.npus for row in rows}) > 1,
    }
    return columns | _metric_columns(METRICS[name] for name, wanted in rates.items() if wanted)


def _metric_columns(metrics: Iterable[Metric]) -> dict[str, Callable[[Row], str]]:
    return {_METRICS.get(one.name, one.name): partial(numbers.metric, one) for one in metrics}


def _of_work(name: str, form: Callable[[float], str], row: Row) -> str:
    count = getattr(row.work, name, None)
    return "-" if count is None else form(count)


def _published(value: float | None, source: str | None, sources: Mapping[str, str], form: str) -> Span:
    if value is None:
        return Span("")
    return Span(f"{value:{form}}{f' {sources[source]}' if source else ''}", _LOOK[Status.REFERENCE])


def _savings(savings: Sequence[Saving], sources: Mapping[str, str]) -> list[Part]:
    """Return a table of the savings with one group or one per value, and a grid for each that goes by two fields."""
    report: list[Part] = []
    rows: list[list[Said]] = []
    for saving in (one for one in savings if len(one.by) != 2):
        name = saving_name(saving)
        for group in saving.groups:
            at = ", ".join(f"{key} {as_written(value)}" for key, value in group.at.items())
            mean, *ends = (f"{share:.1%}" for share in (group.saving, group.lowest, group.highest))
            published = _published(group.reference, group.reference_source, sources, ".1%")
            rows.append([name, at, mean, published, *ends, str(group.pairs)])
            name = ""
        for claim in saving.claims:
            places = " and ".join(f"{as_written(a)} to {as_written(b)}" for a, b in claim.between) or "none"
            published = _published(claim.saving, claim.source, sources, ".1%")
            rows.append(["", f"{saving.by[0]} {places}", "", published, "", "", ""])
    if rows:
        columns = ("time saved", "at", "mean", "reference", "lowest", "highest", "pairs")
        report += [GAP, Table(columns, rows, right=range(2, 7))]
    for saving in (one for one in savings if len(one.by) == 2):
        report += [GAP, *_grid(saving, sources)]
    if report:
        report += [GAP, Line("time saved: the mean of 1 - T / T', T' being that of the fabric compared with")]
    return report


def saving_name(saving: Saving) -> str:
    return saving.name if saving.part is None else f"{saving.name} (exposed {saving.part})"


def _grid(saving: Saving, sources: Mapping[str, str]) -> list[Part]:
    down, across = saving.by
    cells: dict[str, dict[str, list[Span]]] = {}
    columns: dict[str, None] = {}
    for group in saving.groups:
        row, column = map(as_written, group.at.values())
        columns[column] = None
        cells.setdefault(row, {})[column] = said = [Span(f"{group.saving:.1%}")]
        if group.reference is not None:
            said += [Span(" / "), _published(group.reference, group.reference_source, sources, ".1%")]
    rows = [[row, *(found.get(column, "-") for column in columns)] for row, found in cells.items()]
    claims = (_published(claim.saving, claim.source, sources, ".1%") for claim in saving.claims)
    return [
        Heading((Span(saving_name(saving)), Span(f"  ({down} down, {across} across)", "dim"))),
        Table((down, *columns), rows, right=range(1, len(columns) + 1)),
        *(Line((Span("reference: "), claim)) for claim in claims),
    ]


def _footnotes(comparison: Comparison, shown: _Shown, ran: str) -> list[Part]:
    rows, notes = shown.rows, shown.notes
    left_out = " or ".join(notes[one] for one in dict.fromkeys(note for row in rows for note in row.omissions))
    found = {row.status for row in rows} if shown.status else set()
    waits = ", ".join(cause for cause in shown.parts if cause not in OWN)
    others = "another stage, the fullest experts, a slower NPU"
    published = any(row.reference_speedup is not None for row in rows)
    waiting = f"{WAITING}: time before the start of a job and after its end, and what its restarts take"
    slowdown = "slowdown: time of a job over that on the same NPUs of the fabric without other jobs"
    mfu = f"{_MFU}: model FLOPs, as a share of what the NPUs in use compute in that time at peak"
    no_mfu = any(row.work is not None and row.work.model_flops and row.throughput.mfu is None for row in rows)
    given = "what the source gives, which need not be a publication"
    lines: list[tuple[object, Said]] = [
        (shown.best, (Span("best", _BEST), Span(f": {_best_meaning(rows)}", "bold"))),
        (left_out, f"rows with {left_out} leave something out, so none of them is marked best"),
        *((True, _explained(status, meaning, status)) for status, meaning in MEANINGS.items() if status in found),
        (shown.spread, "time: mean where there are several runs; P50, P99: of the runs of a row; - means one run"),
        (waits, f"{waits}: time spent waiting for that communication (exposed); - means none"),
        (BUBBLE in shown.parts, f"{BUBBLE}: time spent waiting for others to compute: {others}"),
        (WAITING in shown.parts, waiting),
        (any(row.jobs for row in rows), slowdown),
        (any(row.throughput.mfu is not None for row in rows), mfu),
        (no_mfu, numbers.NO_MFU),
        (published, _explained("published", "what others report", Status.REFERENCE)),
        (shown.references, _explained("reference", given, Status.REFERENCE)),
        *((True, f"{mark} {text}") for text, mark in shown.sources.items()),
        *((True, f"{mark} {text}") for text, mark in [*notes.items()][:_MOST_NOTES]),
        (len(notes) > _MOST_NOTES, f"... and {len(notes) - _MOST_NOTES} other notes, which --json and --csv write"),
        (True, f"fidelity: {', '.join(sorted({row.fidelity for row in rows}))}"),
        (comparison.approximated, comparison.approximated),
        (comparison.stored, f"from the store: {comparison.stored} of {ran}"),
        *((True, one) for one in accuracy.of_comparison(comparison)),
    ]
    return [Line(line) for wanted, line in lines if wanted]


def _explained(name: str, meaning: str, status: Status) -> Said:
    return Span(name, _LOOK[status]), Span(f": {meaning}")


def _best_meaning(rows: Sequence[Row]) -> str:
    found = groups(rows)
    rates = {rate and rate.name for rate in (training_rate(group.rows) for group in found)}
    where = "of a workload" if is_swept(rows) and len(found) > 1 else "in a table"
    meanings = [f"the most {rate} {where}" for rate in ("samples/s", "tokens/s") if rate in rates]
    if None in rates:
        meanings.append("the shortest time for the same workload")
    return ", or ".join(meanings)


def _marks(texts: Iterable[str], form: Callable[[int], str]) -> dict[str, str]:
    return {text: form(place) for place, text in enumerate(text for text in dict.fromkeys(texts) if text)}


def _letters(number: int) -> str:
    head, tail = divmod(number, 26)
    return (_letters(head - 1) if head else "") + chr(ord("a") + tail)


def sensitivity_report(sensitivity: Sensitivity | None) -> list[Part]:
    if sensitivity is None:
        return []
    columns = ("workload", "fabric", "speed-up", "from", "to", "least with", "most with")
    intervals = []
    for row in sensitivity.intervals:
        numbered = (f"{number:.3g}" for number in (row.speedup, row.low, row.high))
        intervals.append((row.workload, row.fabric, *numbered, row.low_by or "-", row.high_by or "-"))
    flips: list[Part] = []
    for flip in sensitivity.flips:
        first, *others = flip.causes
        more = f", or with {counted(len(others), 'other change')}" if others else ""
        flips.append(Line(f"{flip.workload}: {flip.slower} is faster than {flip.faster} with {first}{more}"))
    keyed = [((one.workload, one.fabric), one) for one in sensitivity.effects]
    return [
        *effects_report(columns[:2], keyed, sensitivity.share),
        GAP,
        Table(columns, intervals, right=(2, 3, 4), keys=2),
        GAP,
        *(flips or [Line("no single change makes a slower fabric the faster one")]),
    ]
