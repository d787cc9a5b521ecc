"""A comparison for people. The text is plain ASCII and says in words what colour says as well."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import groupby

from attrs import evolve, frozen

from fredfw.experiment.metrics import METRICS, Metric
from fredfw.experiment.naming import as_written
from fredfw.experiment.results import Comparison, Failure, Row, Saving, Sensitivity, Status
from fredfw.report import accuracy, numbers
from fredfw.report.cells import Item, KeyColumn, is_swept, items, key_columns
from fredfw.report.data import RowGroup, best_cells, causes_with_time, row_groups, training_rate
from fredfw.report.ranking import ALL, Ranking
from fredfw.report.runs import PERCENTILES, jobs_table, percentile
from fredfw.report.shown import GAP, Heading, Line, Part, Said, Span, Table
from fredfw.report.tables import effects_report
from fredfw.units import counted
from fredfw.workloads.labels import BUBBLE, OWN, WAITING

MEANINGS = {
    Status.REFERENCE: "published by another source",
    Status.MEASURED: "timed on hardware by another source",
    Status.SIMULATED: "nothing was fitted",
    Status.CALIBRATED: "the compute time was fitted to this cell's published value",
    Status.PREDICTED: "follows from the scalar fitted to the calibrated cell",
}
"""What a number is by its status."""
_STYLES = {
    Status.REFERENCE: "ref",
    Status.SIMULATED: "",
    Status.CALIBRATED: "italic warn",
    Status.PREDICTED: "bold good",
}
_MFU = "MFU %"
_METRICS = {"mfu": _MFU, "npu-seconds": "NPU-seconds"}  # columns that have another name than the metric
_SCALE = "compute scale"
_REASON = "no result"
_BEST = "bold good"
_LEFT = ("best", "over", "status", _REASON)  # columns of words
_HEADER = 20  # letters in a line of a header
_REASON_LETTERS = 72
_MOST_NOTES = 20


def comparison_report(comparison: Comparison, ranking: Ranking = ALL) -> list[Part]:
    """Return one table of a sweep, of all its workloads and fabrics, or else one per workload; and the footnotes.

    Args:
        comparison: What is shown.
        ranking: Which of its cells, and in which order; then they are one table, too.
    """
    ranked = ranking.ranked(items(comparison))
    shown = _Shown(comparison, _tables(ranked.cells, together=bool(ranking)), ranking)
    report: list[Part] = [Heading(comparison.title), Line(shown.introduction)]
    if comparison.missing:
        done = len(comparison.rows) + len(comparison.failures)
        report.append(Heading(f"interrupted: {done} of {counted(done + len(comparison.missing), 'cell')}"))
    report += map(Line, ranked.said)
    for table in shown.tables:
        report += [GAP, shown.title(table), shown.drawn(table)]
    jobs = [((row.workload, row.fabric), job) for row in shown.rows for job in row.jobs]
    if jobs:
        report += [GAP, Heading("jobs"), jobs_table(jobs, ("workload", "fabric"))]
    report += _savings(comparison.savings, shown.sources)
    return [*report, GAP, *_footnotes(evolve(comparison, rows=shown.rows), shown)]


@frozen(eq=False)
class _Table:
    """Cells that belong into one table.

    Args:
        group: The rows of those that have a result, in their order.
        cells: All of them, in the same order.
        keys: The columns that say which cell a row is.
    """

    group: RowGroup
    cells: tuple[Item, ...]
    keys: tuple[KeyColumn, ...]

    @property
    def shared(self) -> tuple[str, ...]:
        """The notes that all rows have."""
        rows = self.group.rows
        return tuple(note for note in rows[0].notes if all(note in row.notes for row in rows)) if rows else ()


def _tables(cells: Sequence[Item], *, together: bool) -> list[_Table]:
    """Return one table, if ``together`` or of a sweep; else one for each workload."""
    if together or is_swept(cells):
        name = counted(len(cells), "cell")
        if len({one.workload_template for one in cells}) == 1:
            name = cells[0].workload_template
            if len({one.fabric_template for one in cells}) == 1 and cells[0].fabric_settings:
                name = f"{name} on {cells[0].fabric_template}"
        return [_table(name, cells, key_columns(cells))] if cells else []
    parts = [tuple(members) for _, members in groupby(cells, key=lambda one: one.workload_template)]
    return [_table(part[0].workload_template, part, [KeyColumn("fabric", lambda item: item.fabric)]) for part in parts]


def _table(name: str, cells: Sequence[Item], keys: Sequence[KeyColumn]) -> _Table:
    fields = dict.fromkeys(field for one in cells for field in one.workload_settings)
    group = RowGroup(name, tuple(fields), tuple(one for one in cells if isinstance(one, Row)))
    return _Table(group, tuple(cells), tuple(keys))


@frozen(eq=False)
class _Column:
    """A column of a table.

    Args:
        name: The same in all tables.
        of: What stands in it; of a cell without a result only keys say something.
        title: What stands over it, where that is not the name.
    """

    name: str
    of: Callable[[Row], Said]
    title: str | None = None


class _Shown:
    """What the tables of one comparison show."""

    def __init__(self, comparison: Comparison, tables: Sequence[_Table], ranking: Ranking) -> None:
        self.tables = tables
        self.groups = [table.group for table in tables]
        self.rows = rows = tuple(row for group in self.groups for row in group.rows)
        self.cells = [one for table in tables for one in table.cells]
        self.notes = _Marks(note for one in self.cells for note in _notes(one))
        published = [row.reference_source for row in rows]
        for saving in comparison.savings:
            published += [group.reference_source for group in saving.groups]
            published += [claim.source for claim in saving.claims]
        self.sources = _Marks((source or "" for source in published), numbered=True)
        self.baselines = tuple(dict.fromkeys(row.baseline for row in rows))
        self.parts = causes_with_time(rows)
        self.best = best_cells(comparison.rows) & {(row.workload, row.fabric) for row in rows}
        self.spread = PERCENTILES if any(row.spread is not None for row in rows) else ()
        together = bool(ranking) or is_swept(self.cells)
        asked = (one for one in ranking.metrics if one.name != "time")  # which has a column anyway
        self.rates = _metric_columns(asked) | _rates(rows, self.groups, together=together)
        self.status = any(row.status is not Status.SIMULATED for row in rows)

    @property
    def introduction(self) -> str:
        fabrics = tuple(dict.fromkeys(one.fabric for one in self.cells))
        place = f" on {fabrics[0]}" if len(fabrics) == 1 else ""
        # The only fabric needs no name where it is its own baseline; a ranking may have left the baseline out.
        over = f" over {self.baselines[0]}" if len(self.baselines) == 1 and self.baselines != fabrics else ""
        return f"Iteration time{place}, speed-up{over}, and where the time goes (mean over the NPUs in use)."

    def title(self, table: _Table) -> Heading:
        rows = table.group.rows
        said = [f"times in {numbers.time_scale(row.seconds for row in rows)[0]}"]
        scales = {row.compute_scale for row in rows}
        if scales != {1.0} and len(scales) == 1:
            said.append(f"compute time is {scales.pop():.4g} of the roofline's")
        name = " ".join([table.group.name, *(self.notes[note] for note in table.shared)])
        return Heading((Span(name), Span(f"  ({'; '.join(said)})", "dim")))

    def columns(self, table: _Table) -> list[_Column]:
        """Return the columns of ``table`` behind its keys: those that say something of some row of all tables."""
        workloads = table.group.baseline_workloads
        _, unit, decimals = numbers.time_scale(row.seconds for row in table.group.rows)
        several = len(workloads) > 1, len(self.baselines) > 1
        versus = f"vs {next(iter(workloads.values()))}" if len(workloads) == 1 else "speed-up"

        def best(row: Row) -> bool:
            return (row.workload, row.fabric) in self.best

        def speedup(row: Row) -> Span:
            return Span("" if row.speedup is None else f"{row.speedup:.3f}", _STYLES[row.status])

        def over(row: Row) -> str:
            names = zip(several, (row.baseline_workload, row.baseline), strict=True)
            return " on ".join(name for wanted, name in names if wanted)

        def part(row: Row, cause: str) -> str:
            return numbers.part(row.breakdown.get(cause, 0.0) / unit, decimals)

        def published(row: Row) -> Span:
            return _published(row.reference_speedup, row.reference_source, self.sources, ".2f")

        columns: list[tuple[object, _Column]] = [
            (self._differ("npus"), _Column("NPUs", lambda row: str(row.npus))),
            (True, _Column("time", lambda row: Span(f"{row.seconds / unit:.{decimals}f}", _BEST if best(row) else ""))),
            *(
                (True, _Column(name, partial(_percentile, name=name, unit=unit, decimals=decimals)))
                for name in self.spread
            ),
            (True, _Column("speed-up", speedup, textwrap.fill(versus, _HEADER))),
            (self.best, _Column("best", lambda row: Span("best" if best(row) else "", _BEST), "")),
            (any(several), _Column("over", over)),
            *((True, _Column(name, rate)) for name, rate in self.rates.items()),
            (self._differ("compute_scale"), _Column(_SCALE, lambda row: f"{row.compute_scale:.4g}")),
            (any(row.reference_speedup is not None for row in self.rows), _Column("published", published)),
            (self.status, _Column("status", lambda row: Span(row.status, _STYLES[row.status]))),
            *((True, _Column(cause, partial(part, cause=cause))) for cause in self.parts),
            (len(self.rows) < len(self.cells), _Column(_REASON, lambda _: "")),
        ]
        return [column for wanted, column in columns if wanted]

    def _differ(self, name: str) -> bool:
        return any(len({getattr(row, name) for row in group.rows}) > 1 for group in self.groups)

    def drawn(self, table: _Table) -> Table:
        """Return ``table`` as it is shown."""
        columns = self.columns(table)
        rows: list[list[Said]] = []
        for one in table.cells:
            keys: list[Said] = [key.text(one) for key in table.keys]
            if isinstance(one, Failure):
                said: dict[str, Said] = {"time": "-", "status": one.status, _REASON: _cut(one, self.notes)}
                rows.append([*keys, *(said.get(column.name, "") for column in columns)])
                continue
            marks = "".join(f" {self.notes[note]}" for note in one.notes if note not in table.shared)
            keys[-1] = (Span(table.keys[-1].text(one)), Span(marks, "dim"))
            rows.append([*keys, *(column.of(one) for column in columns)])
        keyed = len(table.keys)
        words = (number for number, column in enumerate(columns, keyed) if column.name in _LEFT)
        header = [key.title for key in table.keys]
        header += [column.name if column.title is None else column.title for column in columns]
        right = set(range(keyed, len(header))).difference(words)
        return Table(header, rows, right=right, keys=keyed, alike=True)


def _percentile(row: Row, name: str, unit: float, decimals: int) -> str:
    return percentile(row.spread, name, unit, decimals)


def _reason(failure: Failure) -> str:
    """Return why there is no result, on one line."""
    return f"{failure.status}: {' '.join(failure.reason.split())}"


def _notes(cell: Item) -> tuple[str, ...]:
    """Return what is said of ``cell`` below the tables."""
    if isinstance(cell, Row):
        return cell.notes
    told = f"{cell.status}: {cell.told}"
    return (told,) if told != _reason(cell) or len(_reason(cell)) > _REASON_LETTERS else ()


def _cut(failure: Failure, notes: _Marks) -> list[Span]:
    """Return the beginning of the reason, and the mark of what is said below."""
    reason = _reason(failure)
    shown = f"{reason[: _REASON_LETTERS - 4].rstrip()} ..." if len(reason) > _REASON_LETTERS else reason
    return [Span(shown, "warn"), *(Span(f" {notes[note]}", "dim") for note in _notes(failure))]


def _rates(rows: Sequence[Row], groups: Sequence[RowGroup], *, together: bool) -> dict[str, Callable[[Row], str]]:
    """Return the columns that say how much training there is for the time, as far as they are needed.

    Args:
        rows: Of all tables.
        groups: The tables.
        together: Whether rows of one table may differ in everything.
    """
    works = [row.work for row in rows if row.work is not None]
    columns: dict[str, Callable[[Row], str]] = {}
    if len({work.samples for work in works}) > 1:
        columns["samples"] = partial(_of_work, "samples", numbers.count)
    for name, swept in (("replicas", "dp"), ("microbatches", "microbatches")):
        unswept = [group.rows for group in groups if swept not in group.fields]
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


def _published(value: float | None, source: str | None, sources: _Marks, form: str) -> Span:
    if value is None:
        return Span("")
    return Span(f"{value:{form}}{f' {sources[source]}' if source else ''}", _STYLES[Status.REFERENCE])


def _savings(savings: Sequence[Saving], sources: _Marks) -> list[Part]:
    """Return a table of the savings with one group or one per value, and a grid for each that goes by two fields."""
    report: list[Part] = []
    rows: list[list[Said]] = []
    for saving in savings:
        if len(saving.by) == 2:
            continue
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
    for saving in savings:
        if len(saving.by) == 2:
            report += [GAP, *_grid(saving, sources)]
    if report:
        report += [GAP, Line("time saved: the mean of 1 - T / T', T' being that of the fabric compared with")]
    return report


def saving_name(saving: Saving) -> str:
    """Return the name of ``saving``, with the part of the time that it is of."""
    return saving.name if saving.part is None else f"{saving.name} (exposed {saving.part})"


def _grid(saving: Saving, sources: _Marks) -> list[Part]:
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


def _footnotes(comparison: Comparison, shown: _Shown) -> list[Part]:
    rows, notes = shown.rows, shown.notes
    lines: list[Said] = []
    if shown.best:
        lines.append((Span("best", _BEST), Span(f": {_best_meaning(rows)}", "bold")))
    left_out = dict.fromkeys(one for row in rows for one in row.omissions)
    if left_out:
        marks = " or ".join(notes[one] for one in left_out)
        lines.append(f"rows with {marks} leave something out, so none of them is marked best")
    found = {row.status for row in rows} if shown.status else set()
    lines += (
        (Span(status, _STYLES[status]), Span(f": {meaning}")) for status, meaning in MEANINGS.items() if status in found
    )
    if shown.spread:
        lines.append("time: mean where there are several runs; P50, P99: of the runs of a row; - means one run")
    waits = ", ".join(cause for cause in shown.parts if cause not in OWN)
    if waits:
        lines.append(f"{waits}: time spent waiting for that communication (exposed); - means none")
    if BUBBLE in shown.parts:
        others = "another stage, the fullest experts, a slower NPU"
        lines.append(f"{BUBBLE}: time spent waiting for others to compute: {others}")
    if WAITING in shown.parts:
        lines.append(f"{WAITING}: time before the start of a job and after its end, and what its restarts take")
    if any(row.jobs for row in rows):
        lines.append("slowdown: time of a job over that on the same NPUs of the fabric without other jobs")
    if any(row.throughput.mfu is not None for row in rows):
        lines.append(f"{_MFU}: model FLOPs, as a share of what the NPUs in use compute in that time at peak")
    if any(row.work is not None and row.work.model_flops and row.throughput.mfu is None for row in rows):
        lines.append(numbers.NO_MFU)
    compared = any(
        saving.claims or any(group.reference is not None for group in saving.groups) for saving in comparison.savings
    )
    for head, meaning, used in (
        ("published", "what others report", any(row.reference_speedup is not None for row in rows)),
        ("reference", "what the source gives, which need not be a publication", compared),
    ):
        if used:
            lines.append((Span(head, _STYLES[Status.REFERENCE]), Span(f": {meaning}")))
    lines += [*shown.sources.lines(), *notes.lines(_MOST_NOTES)]
    lines.append(f"fidelity: {', '.join(sorted({row.fidelity for row in rows}))}")
    if comparison.approximated:
        lines.append(comparison.approximated)
    if comparison.stored:
        cells = len(rows) + len(comparison.failures)
        lines.append(f"from the store: {comparison.stored} of {counted(cells, 'cell')}")
    return [Line(one) for one in [*lines, *accuracy.of_comparison(comparison)]]


def _best_meaning(rows: Sequence[Row]) -> str:
    groups = row_groups(rows)
    rates = {training_rate(group.rows) for group in groups}
    where = "of a workload" if is_swept(rows) and len(groups) > 1 else "in a table"
    meanings = [f"the most {rate} {where}" for rate in ("samples/s", "tokens/s") if rate in rates]
    if None in rates:
        meanings.append("the shortest time for the same workload")
    return ", or ".join(meanings)


class _Marks:
    """Gives every distinct text a mark, in order of appearance: ``[1]``, ``[2]`` or ``(a)``, ``(b)``."""

    def __init__(self, texts: Iterable[str], *, numbered: bool = False) -> None:
        distinct = enumerate(text for text in dict.fromkeys(texts) if text)
        self._marks = {text: f"[{place + 1}]" if numbered else f"({_letters(place)})" for place, text in distinct}

    def __getitem__(self, text: str) -> str:
        return self._marks[text]

    def lines(self, most: int | None = None) -> list[str]:
        """Return what the marks mean; where there are more than ``most``, the last line says so."""
        lines = [f"{mark} {text}" for text, mark in self._marks.items()]
        if most is None or len(lines) <= most:
            return lines
        return [*lines[:most], f"... and {len(lines) - most} other notes, which --json and --csv write"]


def _letters(number: int) -> str:
    head, tail = divmod(number, 26)
    return (_letters(head - 1) if head else "") + chr(ord("a") + tail)


def sensitivity_report(sensitivity: Sensitivity | None) -> list[Part]:
    """Return the interval of each speed-up, what parameters do to each time, and which fabrics change places."""
    if sensitivity is None:
        return []
    columns = ("workload", "fabric", "speed-up", "from", "to", "least with", "most with")
    intervals = (
        (
            row.workload,
            row.fabric,
            *(f"{number:.3g}" for number in (row.speedup, row.low, row.high)),
            row.low_by or "-",
            row.high_by or "-",
        )
        for row in sensitivity.intervals
    )
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
