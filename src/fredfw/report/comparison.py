"""A comparison for people, as rich renderables. The text is plain ASCII and says in words what colour says as well."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

from attrs import frozen
from rich.console import RenderableType
from rich.text import Text

from fredfw.experiment.naming import as_written, listed
from fredfw.experiment.results import Comparison, Row, Saving, Status
from fredfw.report import numbers
from fredfw.report.data import RowGroup, best_cells, causes_with_time, row_groups, training_rate
from fredfw.report.layout import StackedTable, plain_table
from fredfw.simulation.fidelity import PER_RANK, RENDEZVOUS, STEPWISE
from fredfw.workloads.labels import BUBBLE, COMPUTE

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
_OWN = (COMPUTE, BUBBLE)
_MFU = "MFU %"
_BEST = "bold green"
_HOW = {
    STEPWISE: "step by step",
    PER_RANK: "rank by rank",
    RENDEZVOUS: "rank by rank with rendezvous",
}
_LEFT = ("best", "over", "status")  # columns of words
_HEADER = 20  # letters in a line of a header
_MOST_NOTES = 20


def comparison_report(comparison: Comparison) -> list[RenderableType]:
    """Return one table per workload, or per sweep over a workload's fields, and the footnotes."""
    notes = _Marks(note for row in comparison.rows for note in row.notes)
    published = [row.reference_source for row in comparison.rows]
    for saving in comparison.savings:
        published += [group.reference_source for group in saving.groups]
        published += [claim.source for claim in saving.claims]
    sources = _Marks((source or "" for source in published), numbered=True)
    groups = row_groups(comparison.rows)
    shared = [
        tuple(note for note in group.rows[0].notes if all(note in row.notes for row in group.rows)) for group in groups
    ]
    shown = _Shown.of(comparison, groups)
    blocks = [_group_cells(group, shown, notes, common, sources) for group, common in zip(groups, shared, strict=True)]
    headers = [shown.header(group) for group in groups]
    # Columns of one name are equally wide in all tables.
    widths: dict[str, int] = {}
    for group, header, block in zip(groups, headers, blocks, strict=True):
        for index, name in enumerate(shown.columns(group)):
            longest = max(cells[index].cell_len for cells in block)
            widths[name] = max(widths.get(name, 0), longest, *map(len, header[index].splitlines()))
    report: list[RenderableType] = [Text(comparison.title, style="bold"), Text(shown.introduction)]
    if comparison.missing:
        done = len(comparison.rows)
        report.append(Text(f"interrupted: {done} of {done + len(comparison.missing)} cells", style="bold"))
    for group, header, common, block in zip(groups, headers, shared, blocks, strict=True):
        names = shown.columns(group)
        table = StackedTable(keys=len(shown.keys(group)))
        for index, name in enumerate(names):
            left = index < table.keys or name in _LEFT
            table.add_column(header[index], width=widths[name], no_wrap=True, justify="left" if left else "right")
        for cells in block:
            table.add_row(*cells)
        report += [Text(), _group_title(group, [notes[note] for note in common]), table]
    report += _savings_report(comparison.savings, sources)
    return [*report, Text(), *_comparison_footnotes(comparison, shown, notes, sources)]


@frozen(eq=False)
class _Shown:
    """What the tables of one comparison show.

    Args:
        fabrics: Names of all fabrics.
        baselines: Names of those that speed-ups refer to.
        parts: Causes that take any time, a column each.
        best: The best cells, by workload and fabric.
        npus: Whether fabrics differ in how many NPUs are in use.
        rates: Columns that say how much training there is for the time.
        published: Whether there is a published value.
        status: Whether a number is more than simulated.
    """

    fabrics: tuple[str, ...]
    baselines: tuple[str, ...]
    parts: tuple[str, ...]
    best: Collection[tuple[str, str]]
    npus: bool
    rates: Mapping[str, Callable[[Row], str]]
    published: bool
    status: bool

    @classmethod
    def of(cls, comparison: Comparison, groups: Sequence[RowGroup]) -> _Shown:
        rows = comparison.rows
        return cls(
            fabrics=tuple(dict.fromkeys(row.fabric for row in rows)),
            baselines=tuple(dict.fromkeys(row.baseline for row in rows)),
            parts=causes_with_time(rows),
            best=best_cells(rows),
            npus=any(len({row.npus for row in group.rows}) > 1 for group in groups),
            rates=_rates(rows, groups),
            published=any(row.reference_speedup is not None for row in rows),
            status=any(row.status is not Status.SIMULATED for row in rows),
        )

    @property
    def introduction(self) -> str:
        place = f" on {self.fabrics[0]}" if len(self.fabrics) == 1 else ""
        over = f" over {self.baselines[0]}" if len(self.baselines) == 1 and not place else ""
        return f"Iteration time{place}, speed-up{over}, and where the time goes (mean over the NPUs in use)."

    def keys(self, group: RowGroup) -> list[str]:
        """Return the columns that say which cell a row is."""
        return [*group.fields, *(["fabric"] if len(self.fabrics) > 1 or not group.fields else [])]

    def over(self, group: RowGroup) -> bool:
        """Return whether each row has to name its baseline."""
        return len(self.baselines) > 1 or len(group.baseline_workloads) > 1

    def columns(self, group: RowGroup) -> list[str]:
        """Return the names of all columns."""
        optional = {"best": bool(self.best), "over": self.over(group), **dict.fromkeys(self.rates, True)}
        optional |= {"published": self.published, "status": self.status}
        names = [*(["NPUs"] if self.npus else []), "time", "speed-up", *(name for name in optional if optional[name])]
        return [*self.keys(group), *names, *self.parts]

    def header(self, group: RowGroup) -> list[str]:
        """Return what stands over each column."""
        workloads = list(group.baseline_workloads.values())
        over = f"vs {workloads[0]}" if len(workloads) == 1 else "speed-up"
        titles = {"best": "", "speed-up": textwrap.fill(over, _HEADER)}
        keys = self.keys(group)
        return [*keys, *(titles.get(name, name) for name in self.columns(group)[len(keys) :])]


def _group_title(group: RowGroup, marks: Sequence[str]) -> Text:
    title = Text(" ".join([group.name, *marks]), style="bold")
    said = [f"times in {numbers.time_scale(row.seconds for row in group.rows)[0]}"]
    scales = {row.compute_scale for row in group.rows}
    if scales != {1.0} and len(scales) == 1:
        said.append(f"compute time is {scales.pop():.4g} of the roofline's")
    return title.append(f"  ({'; '.join(said)})", style="not bold dim")


def _group_cells(
    group: RowGroup, shown: _Shown, notes: _Marks, shared: Sequence[str], sources: _Marks
) -> list[list[Text]]:
    _, unit, decimals = numbers.time_scale(row.seconds for row in group.rows)
    columns, keys = shown.columns(group), shown.keys(group)
    table = []
    for row in group.rows:
        best = (row.workload, row.fabric) in shown.best
        style = _STYLES[row.status]
        over = [
            *([row.baseline_workload] if len(group.baseline_workloads) > 1 else []),
            *([row.baseline] if len(shown.baselines) > 1 else []),
        ]
        values = {
            "NPUs": Text(str(row.npus)),
            "time": Text(f"{row.seconds / unit:.{decimals}f}", style=_BEST if best else ""),
            "speed-up": Text("" if row.speedup is None else f"{row.speedup:.3f}", style=style),
            "best": Text("best" if best else "", style=_BEST),
            "over": Text(" on ".join(over)),
            **{name: Text(rate(row)) for name, rate in shown.rates.items()},
            "published": _published(row.reference_speedup, row.reference_source, sources, ".2f"),
            "status": Text(row.status, style=style),
            **{cause: Text(numbers.part(row.breakdown.get(cause, 0.0) / unit, decimals)) for cause in shown.parts},
        }
        names = [as_written(row.workload_settings[field]) for field in group.fields]
        first = [Text(name) for name in (*names, row.fabric)[: len(keys)]]
        first[-1].append("".join(f" {notes[note]}" for note in row.notes if note not in shared), style="dim")
        table.append([*first, *(values[name] for name in columns[len(keys) :])])
    return table


def _rates(rows: Sequence[Row], groups: Sequence[RowGroup]) -> dict[str, Callable[[Row], str]]:
    """Return the columns that say how much training there is for the time, as far as they are needed."""
    works = [row.work for row in rows if row.work is not None]
    columns: dict[str, Callable[[Row], str]] = {}
    if len({work.samples for work in works}) > 1:
        columns["samples"] = lambda row: "-" if row.work is None else numbers.count(row.work.samples)
    for name, swept in (("replicas", "dp"), ("microbatches", "microbatches")):
        if any(swept not in group.fields and _varies(group.rows, name) for group in groups):
            columns[name] = partial(_division, name=name)
    if works:
        columns["samples/s"] = lambda row: numbers.rate(row.throughput.samples_per_second)
    if len({work.tokens_per_sample for work in works} - {None}) > 1:
        columns["tokens/s"] = lambda row: numbers.rate(row.throughput.tokens_per_second)
    if any(row.throughput.mfu is not None for row in rows):
        columns[_MFU] = lambda row: numbers.percent(row.throughput.mfu)
    return columns


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
    waits = ", ".join(cause for cause in shown.parts if cause not in _OWN)
    if waits:
        lines.append(Text(f"{waits}: time spent waiting for that communication (exposed); - means none"))
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
    for fidelity, how in _HOW.items():
        cells = [f"{row.workload} on {row.fabric}" for row in comparison.rows if row.fidelity == fidelity]
        if cells:
            which = "all cells" if len(cells) == len(comparison.rows) else listed(cells)
            lines.append(Text(f"simulated {how}: {which}"))
    if comparison.fidelity_difference is not None:
        difference, fidelity = f"{100 * comparison.fidelity_difference:.3g} %", comparison.rows[0].fidelity
        lines.append(Text(f"largest difference of an iteration time, compressed to {fidelity}: {difference}"))
    return lines


def _best_meaning(rows: Sequence[Row]) -> str:
    rates = {training_rate(group.rows) for group in row_groups(rows)}
    meanings = [f"the most {rate} in a table" for rate in ("samples/s", "tokens/s") if rate in rates]
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
