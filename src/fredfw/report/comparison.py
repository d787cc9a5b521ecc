"""A comparison for people, as rich renderables. The text is plain ASCII and says in words what colour says as well."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby

from attrs import evolve, frozen
from rich.console import RenderableType
from rich.text import Text

from fredfw.experiment.naming import as_written
from fredfw.experiment.results import Comparison, Failure, Row, Saving, Status
from fredfw.report import accuracy, numbers
from fredfw.report.cells import Item, KeyColumn, is_swept, items, key_columns
from fredfw.report.data import RowGroup, best_cells, causes_with_time, row_groups, training_rate
from fredfw.report.jobs import PERCENTILES, of_rows, percentile
from fredfw.report.layout import StackedTable, plain_table
from fredfw.report.ranking import ALL, Ranking
from fredfw.units import counted
from fredfw.workloads.labels import BUBBLE, OWN, WAITING

_STYLES = {
    Status.REFERENCE: "cyan",
    Status.SIMULATED: "",
    Status.CALIBRATED: "italic yellow",
    Status.PREDICTED: "bold green",
}
_MEANINGS = {
    Status.SIMULATED: "nothing was fitted",
    Status.CALIBRATED: "the compute time was fitted to this cell's published value",
    Status.PREDICTED: "follows from the scalar fitted to the calibrated cell",
}
_MFU = "MFU %"
_NPU_TIME = "NPU-seconds"
_METRICS = {"mfu": _MFU, "npu-seconds": _NPU_TIME}  # columns that have another name than the metric
_SCALE = "compute scale"
_REASON = "no result"
_BEST = "bold green"
_FAILED = "yellow"
_LEFT = ("best", "over", "status", _REASON)  # columns of words
_HEADER = 20  # letters in a line of a header
_REASON_LETTERS = 72
_MOST_NOTES = 20


def comparison_report(comparison: Comparison, ranking: Ranking = ALL) -> list[RenderableType]:
    """Return one table of a sweep, of all its workloads and fabrics, or else one per workload; and the footnotes.

    Args:
        comparison: What is shown.
        ranking: Which of its cells, and in which order; then they are one table, too.
    """
    ranked = ranking.ranked(items(comparison))
    tables = _tables(ranked.cells, together=bool(ranking))
    rows = tuple(row for table in tables for row in table.group.rows)
    notes = _Marks(note for one in ranked.cells for note in _notes(one))
    published = [row.reference_source for row in rows]
    for saving in comparison.savings:
        published += [group.reference_source for group in saving.groups]
        published += [claim.source for claim in saving.claims]
    sources = _Marks((source or "" for source in published), numbered=True)
    shown = _Shown.of(comparison, tables, ranking)
    blocks = [_cells(table, shown, notes, sources) for table in tables]
    headers = [shown.header(table) for table in tables]
    # Columns of one name are equally wide in all tables.
    widths: dict[str, int] = {}
    for table, header, block in zip(tables, headers, blocks, strict=True):
        for index, name in enumerate(shown.columns(table)):
            longest = max((cells[index].cell_len for cells in block), default=0)
            widths[name] = max(widths.get(name, 0), longest, *map(len, header[index].splitlines()))
    report: list[RenderableType] = [Text(comparison.title, style="bold"), Text(shown.introduction)]
    if comparison.missing:
        done = len(comparison.rows) + len(comparison.failures)
        report.append(Text(f"interrupted: {done} of {counted(done + len(comparison.missing), 'cell')}", style="bold"))
    report += [Text(one) for one in ranked.said]
    for table, header, block in zip(tables, headers, blocks, strict=True):
        drawn = StackedTable(keys=len(table.keys))
        for index, name in enumerate(shown.columns(table)):
            left = index < drawn.keys or name in _LEFT
            drawn.add_column(header[index], width=widths[name], no_wrap=True, justify="left" if left else "right")
        for cells in block:
            drawn.add_row(*cells)
        report += [Text(), _title(table, [notes[note] for note in table.shared]), drawn]
    jobs = of_rows(rows)
    if jobs is not None:
        report += [Text(), Text("jobs", style="bold"), jobs]
    report += _savings_report(comparison.savings, sources)
    return [*report, Text(), *_comparison_footnotes(evolve(comparison, rows=rows), shown, notes, sources)]


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
class _Shown:
    """What the tables of one comparison show.

    Args:
        fabrics: Names of all fabrics.
        baselines: Names of those that speed-ups refer to.
        parts: Causes that take any time, a column each.
        best: The best cells, by workload and fabric.
        npus: Whether fabrics differ in how many NPUs are in use.
        scales: Whether computation is scaled by different factors in one table.
        spread: Columns of the times of several runs.
        rates: Columns that say how much training there is for the time, and what a ranking asks for.
        published: Whether there is a published value.
        status: Whether a number is more than simulated.
        reasons: Whether cells have no result.
    """

    fabrics: tuple[str, ...]
    baselines: tuple[str, ...]
    parts: tuple[str, ...]
    best: Collection[tuple[str, str]]
    npus: bool
    scales: bool
    spread: Sequence[str]
    rates: Mapping[str, Callable[[Row], str]]
    published: bool
    status: bool
    reasons: bool

    @classmethod
    def of(cls, comparison: Comparison, tables: Sequence[_Table], ranking: Ranking) -> _Shown:
        groups = [table.group for table in tables]
        rows = [row for group in groups for row in group.rows]
        cells = [one for table in tables for one in table.cells]
        together = bool(ranking) or is_swept(cells)
        return cls(
            fabrics=tuple(dict.fromkeys(one.fabric for one in cells)),
            baselines=tuple(dict.fromkeys(row.baseline for row in rows)),
            parts=causes_with_time(rows),
            best=best_cells(comparison.rows) & {(row.workload, row.fabric) for row in rows},
            npus=any(len({row.npus for row in group.rows}) > 1 for group in groups),
            scales=any(len({row.compute_scale for row in group.rows}) > 1 for group in groups),
            spread=PERCENTILES if any(row.spread is not None for row in rows) else (),
            rates=_metrics(ranking) | _rates(rows, groups, together=together),
            published=any(row.reference_speedup is not None for row in rows),
            status=any(row.status is not Status.SIMULATED for row in rows),
            reasons=len(rows) < len(cells),
        )

    @property
    def introduction(self) -> str:
        place = f" on {self.fabrics[0]}" if len(self.fabrics) == 1 else ""
        # The only fabric needs no name where it is its own baseline; a ranking may have left the baseline out.
        named = len(self.baselines) == 1 and self.baselines != self.fabrics
        over = f" over {self.baselines[0]}" if named else ""
        return f"Iteration time{place}, speed-up{over}, and where the time goes (mean over the NPUs in use)."

    def over(self, table: _Table) -> bool:
        """Return whether each row has to name its baseline."""
        return len(self.baselines) > 1 or len(table.group.baseline_workloads) > 1

    def columns(self, table: _Table) -> list[str]:
        """Return the names of all columns; those of the key columns are numbers."""
        optional = {"best": bool(self.best), "over": self.over(table), **dict.fromkeys(self.rates, True)}
        optional |= {_SCALE: self.scales, "published": self.published, "status": self.status}
        names = [
            *(["NPUs"] if self.npus else []),
            "time",
            *self.spread,
            "speed-up",
            *(name for name in optional if optional[name]),
        ]
        keys = [str(number) for number in range(len(table.keys))]
        return [*keys, *names, *self.parts, *([_REASON] if self.reasons else [])]

    def header(self, table: _Table) -> list[str]:
        """Return what stands over each column."""
        workloads = list(table.group.baseline_workloads.values())
        over = f"vs {workloads[0]}" if len(workloads) == 1 else "speed-up"
        titles = {"best": "", "speed-up": textwrap.fill(over, _HEADER)}
        keys = [key.title for key in table.keys]
        return [*keys, *(titles.get(name, name) for name in self.columns(table)[len(keys) :])]


def _title(table: _Table, marks: Sequence[str]) -> Text:
    rows = table.group.rows
    title = Text(" ".join([table.group.name, *marks]), style="bold")
    said = [f"times in {numbers.time_scale(row.seconds for row in rows)[0]}"]
    scales = {row.compute_scale for row in rows}
    if scales != {1.0} and len(scales) == 1:
        said.append(f"compute time is {scales.pop():.4g} of the roofline's")
    return title.append(f"  ({'; '.join(said)})", style="not bold dim")


def _cells(table: _Table, shown: _Shown, notes: _Marks, sources: _Marks) -> list[list[Text]]:
    group = table.group
    _, unit, decimals = numbers.time_scale(row.seconds for row in group.rows)
    columns = shown.columns(table)[len(table.keys) :]
    lines = []
    for one in table.cells:
        first = [Text(key.text(one)) for key in table.keys]
        if isinstance(one, Failure):
            values = {"time": Text("-"), "status": Text(one.status), _REASON: _cut(one, notes)}
            lines.append([*first, *(values.get(name, Text()) for name in columns)])
            continue
        row = one
        best = (row.workload, row.fabric) in shown.best
        style = _STYLES[row.status]
        over = [
            *([row.baseline_workload] if len(group.baseline_workloads) > 1 else []),
            *([row.baseline] if len(shown.baselines) > 1 else []),
        ]
        values = {
            "NPUs": Text(str(row.npus)),
            "time": Text(f"{row.seconds / unit:.{decimals}f}", style=_BEST if best else ""),
            **{name: Text(percentile(row.spread, name, unit, decimals)) for name in shown.spread},
            "speed-up": Text("" if row.speedup is None else f"{row.speedup:.3f}", style=style),
            "best": Text("best" if best else "", style=_BEST),
            "over": Text(" on ".join(over)),
            _SCALE: Text(f"{row.compute_scale:.4g}"),
            **{name: Text(rate(row)) for name, rate in shown.rates.items()},
            "published": _published(row.reference_speedup, row.reference_source, sources, ".2f"),
            "status": Text(row.status, style=style),
            **{cause: Text(numbers.part(row.breakdown.get(cause, 0.0) / unit, decimals)) for cause in shown.parts},
            _REASON: Text(),
        }
        first[-1].append("".join(f" {notes[note]}" for note in row.notes if note not in table.shared), style="dim")
        lines.append([*first, *(values[name] for name in columns)])
    return lines


def _reason(failure: Failure) -> str:
    """Return why there is no result, on one line."""
    return f"{failure.status}: {' '.join(failure.reason.split())}"


def _notes(cell: Item) -> tuple[str, ...]:
    """Return what is said of ``cell`` below the tables."""
    if isinstance(cell, Row):
        return cell.notes
    return (_told(cell),) if _told(cell) != _reason(cell) or len(_reason(cell)) > _REASON_LETTERS else ()


def _told(failure: Failure) -> str:
    """Return all that is known of why there is no result, on one line."""
    return f"{failure.status}: {failure.told}"


def _cut(failure: Failure, notes: _Marks) -> Text:
    """Return the beginning of the reason, and the mark of what is said below."""
    reason = _reason(failure)
    shown = f"{reason[: _REASON_LETTERS - 4].rstrip()} ..." if len(reason) > _REASON_LETTERS else reason
    text = Text(shown, style=_FAILED)
    for note in _notes(failure):
        text.append(f" {notes[note]}", style="not yellow dim")
    return text


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
        columns["samples"] = lambda row: "-" if row.work is None else numbers.count(row.work.samples)
    for name, swept in (("replicas", "dp"), ("microbatches", "microbatches")):
        if any(swept not in group.fields and _varies(group.rows, name) for group in groups):
            columns[name] = partial(_division, name=name)
    if works:
        columns["samples/s"] = lambda row: numbers.rate(row.throughput.samples_per_second)
    lengths = {work.tokens_per_sample for work in works} - {None}
    if len(lengths) > 1 or (lengths and together):
        columns["tokens/s"] = lambda row: numbers.rate(row.throughput.tokens_per_second)
    if any(row.throughput.mfu is not None for row in rows):
        columns[_MFU] = lambda row: numbers.percent(row.throughput.mfu)
    if works and together and len({row.npus for row in rows}) > 1:
        columns[_NPU_TIME] = lambda row: numbers.rate(row.throughput.npu_time)
    return columns


def _metrics(ranking: Ranking) -> dict[str, Callable[[Row], str]]:
    """Return the columns of the metrics that ``ranking`` asks for; time has one anyway."""
    return {
        _METRICS.get(one.name, one.name): lambda row, one=one: numbers.metric(one, row)  # type: ignore[misc]
        for one in ranking.metrics
        if one.name != "time"
    }


def _varies(rows: Sequence[Row], name: str) -> bool:
    return len({getattr(row.work, name, None) for row in rows}) > 1


def _division(row: Row, name: str) -> str:
    count = getattr(row.work, name, None)
    return "-" if count is None else str(count)


def _published(value: float | None, source: str | None, sources: _Marks, form: str) -> Text:
    if value is None:
        return Text()
    return Text(f"{value:{form}}{f' {sources[source]}' if source else ''}", style=_STYLES[Status.REFERENCE])


def _savings_report(savings: Sequence[Saving], sources: _Marks) -> list[RenderableType]:
    """Return a table of the savings with one group or one per value, and a grid for each that goes by two fields."""
    report: list[RenderableType] = []
    short = [saving for saving in savings if len(saving.by) < 2]
    if short:
        table = plain_table("time saved", "at", "mean", "reference", "lowest", "highest", "pairs", right=range(2, 7))
        for saving in short:
            for group in saving.groups:
                name = _saving_name(saving) if group is saving.groups[0] else ""
                at = ", ".join(f"{key} {as_written(value)}" for key, value in group.at.items())
                shares = [f"{share:.1%}" for share in (group.saving, group.lowest, group.highest)]
                published = _published(group.reference, group.reference_source, sources, ".1%")
                table.add_row(name, at, shares[0], published, *shares[1:], str(group.pairs))
            for claim in saving.claims:
                places = " and ".join(f"{as_written(a)} to {as_written(b)}" for a, b in claim.between) or "none"
                table.add_row(
                    "", f"{saving.by[0]} {places}", "", _published(claim.saving, claim.source, sources, ".1%")
                )
        report += [Text(), table]
    for saving in savings:
        if len(saving.by) == 2:
            report += [Text(), *_grid(saving, sources)]
    if report:
        report += [Text(), Text("time saved: the mean of 1 - T / T', T' being that of the fabric compared with")]
    return report


def _saving_name(saving: Saving) -> str:
    return saving.name if saving.part is None else f"{saving.name} (exposed {saving.part})"


def _grid(saving: Saving, sources: _Marks) -> list[RenderableType]:
    down, across = saving.by
    cells = {tuple(map(as_written, group.at.values())): group for group in saving.groups}
    columns = list(dict.fromkeys(column for _, column in cells))
    title = Text(_saving_name(saving), style="bold")
    title.append(f"  ({down} down, {across} across)", style="not bold dim")
    table = plain_table(down, *columns, right=range(1, len(columns) + 1))
    for row in dict.fromkeys(row for row, _ in cells):
        line: list[Text | str] = [row]
        for column in columns:
            group = cells.get((row, column))
            cell = Text("-" if group is None else f"{group.saving:.1%}")
            if group is not None and group.reference is not None:
                cell.append(" / ").append(_published(group.reference, group.reference_source, sources, ".1%"))
            line.append(cell)
        table.add_row(*line)
    claims = [_published(claim.saving, claim.source, sources, ".1%") for claim in saving.claims]
    return [title, table, *(Text("reference: ").append(claim) for claim in claims)]


def _comparison_footnotes(
    comparison: Comparison, shown: _Shown, notes: _Marks, sources: _Marks
) -> list[RenderableType]:
    lines: list[RenderableType] = []
    if shown.best:
        lines.append(Text("best", style=_BEST).append(f": {_best_meaning(comparison.rows)}", style="default"))
    left_out = dict.fromkeys(one for row in comparison.rows for one in row.omissions)
    if left_out:
        marks = " or ".join(notes[one] for one in left_out)
        lines.append(Text(f"rows with {marks} leave something out, so none of them is marked best"))
    found = {row.status for row in comparison.rows} if shown.status else set()
    for status, meaning in _MEANINGS.items():
        if status in found:
            lines.append(
                Text(status, style=_STYLES[status]).append(f": {meaning}", style="not bold not italic default")
            )
    if shown.spread:
        lines.append(Text("time: mean where there are several runs; P50, P99: of the runs of a row; - means one run"))
    waits = ", ".join(cause for cause in shown.parts if cause not in OWN)
    if waits:
        lines.append(Text(f"{waits}: time spent waiting for that communication (exposed); - means none"))
    if BUBBLE in shown.parts:
        others = "another stage, the fullest experts, a slower NPU"
        lines.append(Text(f"{BUBBLE}: time spent waiting for others to compute: {others}"))
    if WAITING in shown.parts:
        lines.append(Text(f"{WAITING}: time before the start of a job and after its end"))
    if any(row.jobs for row in comparison.rows):
        lines.append(Text("slowdown: time of a job over that on the same NPUs of the fabric without other jobs"))
    if any(row.throughput.mfu is not None for row in comparison.rows):
        lines.append(Text(f"{_MFU}: model FLOPs, as a share of what the NPUs in use compute in that time at peak"))
    if any(row.work is not None and row.work.model_flops and row.throughput.mfu is None for row in comparison.rows):
        lines.append(Text(numbers.NO_MFU))
    compared = any(
        saving.claims or any(group.reference is not None for group in saving.groups) for saving in comparison.savings
    )
    for head, meaning, used in (
        ("published", "what others report", any(row.reference_speedup is not None for row in comparison.rows)),
        ("reference", "what the source gives, which need not be a publication", compared),
    ):
        if used:
            text = Text(head, style=_STYLES[Status.REFERENCE])
            lines.append(text.append(f": {meaning}", style="default"))
    lines += [*sources.lines(), *notes.lines(_MOST_NOTES)]
    lines.append(Text(f"fidelity: {', '.join(sorted({row.fidelity for row in comparison.rows}))}"))
    if comparison.approximated:
        lines.append(Text(comparison.approximated))
    if comparison.stored:
        cells = len(comparison.rows) + len(comparison.failures)
        lines.append(Text(f"from the store: {comparison.stored} of {counted(cells, 'cell')}"))
    lines += map(Text, accuracy.of_comparison(comparison))
    return lines


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
        self._marks: dict[str, str] = {}
        for text in texts:
            if text and text not in self._marks:
                count = len(self._marks)
                self._marks[text] = f"[{count + 1}]" if numbered else f"({_letters(count)})"

    def __getitem__(self, text: str) -> str:
        return self._marks[text]

    def lines(self, most: int | None = None) -> list[Text]:
        """Return what the marks mean; where there are more than ``most``, the last line says so."""
        lines = [Text(f"{mark} {text}") for text, mark in self._marks.items()]
        if most is None or len(lines) <= most:
            return lines
        return [*lines[:most], Text(f"... and {len(lines) - most} other notes, which --json and --csv write")]


def _letters(number: int) -> str:
    head, tail = divmod(number, 26)
    return (_letters(head - 1) if head else "") + chr(ord("a") + tail)
