"""Results for people, as rich renderables.

Text is plain ASCII and says in words what colour says as well, so that nothing is lost in a pipe.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from attrs import frozen
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from fredfw.experiment.naming import as_written, listed, toml_key
from fredfw.experiment.results import CollectiveSweep, Comparison, Row, RunResult, Saving, Status
from fredfw.experiment.why import tier_shares
from fredfw.fabric import Bill
from fredfw.report.data import RowGroup, best_cells, causes_with_time, ordered, row_groups, training_rate
from fredfw.report.layout import StackedTable
from fredfw.report.why import why_report
from fredfw.simulation.fidelity import PER_RANK, RENDEZVOUS, STEPWISE
from fredfw.units import Unit, render
from fredfw.workloads.labels import BUBBLE, COMPUTE

if TYPE_CHECKING:  # plain data, but their modules bring the runner and the plugin manager
    from fredfw.experiment.calibration import Fit
    from fredfw.plugin.registry import PluginInfo
    from fredfw.plugin.schema import FieldInfo

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
_TIME_UNITS = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))
_OWN = (COMPUTE, BUBBLE)
_MFU = "MFU %"
_NO_MFU = "MFU is omitted where compute_scale is below 1: computation may then exceed the NPU's peak"
_BEST = "bold green"
_HOW = {
    STEPWISE: "step by step",
    PER_RANK: "rank by rank",
    RENDEZVOUS: "rank by rank with rendezvous",
}
_LEFT = ("best", "over", "status")  # columns of words
_HEADER = 20  # letters in a line of a header
_MOST_DECIMALS = 3
_MOST_NOTES = 20
_FEW_LETTERS = 12


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
    said = [f"times in {_time_scale(row.seconds for row in group.rows)[0]}"]
    scales = {row.compute_scale for row in group.rows}
    if scales != {1.0} and len(scales) == 1:
        said.append(f"compute time is {scales.pop():.4g} of the roofline's")
    return title.append(f"  ({'; '.join(said)})", style="not bold dim")


def _group_cells(
    group: RowGroup, shown: _Shown, notes: _Marks, shared: Sequence[str], sources: _Marks
) -> list[list[Text]]:
    _, unit, decimals = _time_scale(row.seconds for row in group.rows)
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
            **{cause: Text(_part(row.breakdown.get(cause, 0.0) / unit, decimals)) for cause in shown.parts},
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
        columns["samples"] = lambda row: "-" if row.work is None else _count(row.work.samples)
    for name, swept in (("replicas", "dp"), ("microbatches", "microbatches")):
        if any(swept not in group.fields and _varies(group.rows, name) for group in groups):
            columns[name] = partial(_division, name=name)
    if works:
        columns["samples/s"] = lambda row: _rate(row.throughput.samples_per_second)
    if len({work.tokens_per_sample for work in works} - {None}) > 1:
        columns["tokens/s"] = lambda row: _rate(row.throughput.tokens_per_second)
    if any(row.throughput.mfu is not None for row in rows):
        columns[_MFU] = lambda row: _percent(row.throughput.mfu)
    return columns


def _varies(rows: Sequence[Row], name: str) -> bool:
    return len({getattr(row.work, name, None) for row in rows}) > 1


def _division(row: Row, name: str) -> str:
    count = getattr(row.work, name, None)
    return "-" if count is None else str(count)


def _count(value: float) -> str:
    return f"{value:,.15g}"


def _rate(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 1000 else f"{value:#.4g}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:#.3g}"


def _published(value: float | None, source: str | None, sources: _Marks, form: str) -> Text:
    if value is None:
        return Text()
    return Text(f"{value:{form}}{f' {sources[source]}' if source else ''}", style=_STYLES[Status.REFERENCE])


def _savings_report(savings: Sequence[Saving], sources: _Marks) -> list[RenderableType]:
    """Return a table of the savings with one group or one per value, and a grid for each that goes by two fields."""
    report: list[RenderableType] = []
    short = [saving for saving in savings if len(saving.by) < 2]
    if short:
        table = _table("time saved", "at", "mean", "reference", "lowest", "highest", "pairs", right=range(2, 7))
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
    table = _table(down, *columns, right=range(1, len(columns) + 1))
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
        lines.append(Text(_NO_MFU))
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


def run_report(result: RunResult, top: int = 10) -> list[RenderableType]:
    """Return breakdown, ``top`` tiers of links, bytes by cause, energy, memory, algorithms, figures and notes."""
    report: list[RenderableType] = [
        Text(f"{result.workload} on {result.fabric_name}", style="bold"),
        Text(f"one iteration: {render(result.seconds, Unit.SECONDS, 4)} on {len(result.placement)} NPUs"),
        *_training(result),
        *why_report(result, top),
        Text(),
        _breakdown_table(result),
    ]
    if result.link_bytes.any():
        title = Text("utilisation of the links, and whose bytes the hottest of each tier carries", style="bold")
        report += [Text(), title, _tiers_table(result, top), Text(), _bytes_table(result)]
    if result.energy:
        report += [Text(), Text(f"communication energy: {render(result.energy, Unit.JOULES)} per iteration")]
    if result.bill is not None:
        report += [Text(), *_bill(result.bill)]
    memory = {what: used for what, used in result.memory.items() if used}
    if memory:
        total = sum(memory.values())
        listed = ", ".join(f"{what} {render(used, Unit.BYTES)}" for what, used in memory.items())
        report += [Text(), Text(f"memory per NPU: {render(total, Unit.BYTES)} ({listed})")]
    if result.algorithms:
        table = _table("communication (xN: among N ranks)", "served by")
        for what, algorithm in result.algorithms.items():
            table.add_row(what, algorithm)
        report += [Text(), table]
    if result.figures:
        table = _table("figures of the network", "", right=(1,))
        for name, value in result.figures.items():
            table.add_row(name, f"{value:.6g}")
        report += [Text(), table]
    return [*report, *notes_report(result.notes)]


def _bill(bill: Bill) -> list[RenderableType]:
    """Return what the network costs: all of it in a line, and each item."""
    total = "not known: a part has no price" if bill.dollars is None else f"${bill.dollars:,.0f}"
    sources = sorted({item.source for item in bill.items if item.source})
    power = bill.watts is not None
    table = _table("parts of the network", "count", "rate", "$", *(["W"] if power else []), right=(1, 2, 3, 4))
    for item in bill.items:
        values = [
            str(item.count),
            render(item.bandwidth, Unit.BYTES_PER_SECOND) if item.bandwidth else "-",
            "-" if item.dollars is None else f"{item.dollars:,.0f}",
            *(["-" if item.watts is None else f"{item.watts:,.4g}"] if power else []),
        ]
        table.add_row(item.name, *values)
    by = f" (prices: {', '.join(sources)})" if sources else ""
    return [Text(f"cost of the network: {total}{by}"), table, *(Text(f"bill: {note}") for note in bill.notes)]


def _training(result: RunResult) -> list[RenderableType]:
    """Return what an iteration trains and how fast, where the workload says it."""
    work, throughput = result.work, result.throughput
    if work is None:
        return []
    parts = [
        f"{form(value)} {what}"
        for value, form, what in (
            (throughput.samples_per_second, _rate, "samples/s"),
            (throughput.tokens_per_second, _rate, "tokens/s"),
            (throughput.mfu, _percent, "% MFU"),
            (throughput.npu_time, _rate, "NPU-seconds"),
        )
        if value is not None
    ]
    lines: list[RenderableType] = [Text(f"it trains {_count(work.samples)} samples: {', '.join(parts)}")]
    if work.model_flops and throughput.mfu is None:
        lines.append(Text(_NO_MFU))
    return lines


def notes_report(notes: Iterable[str]) -> list[RenderableType]:
    """Return what a reader must know, one line each."""
    return [Text(f"note: {note}", style="yellow") for note in notes]


def _breakdown_table(result: RunResult) -> Table:
    name, unit, decimals = _time_scale([result.seconds])
    table = _table("where the time goes", f"time ({name})", "share", right=(1, 2))
    for cause in ordered(result.breakdown, [result.colours]):
        seconds = result.breakdown[cause]
        what = cause if cause in _OWN else f"exposed {cause}"
        share = seconds / result.seconds if result.seconds else 0.0
        table.add_row(what, _part(seconds / unit, decimals), f"{100 * share:.1f} %")
    table.add_row("iteration", f"{result.seconds / unit:.{decimals}f}", "100.0 %", style="bold")
    return table


def _tiers_table(result: RunResult, top: int) -> Table:
    """Return a row per tier of links, with whose bytes its hottest link carries."""
    table = _table("tier", "links", "bandwidth", "mean", "highest", "hottest link", "carries", right=(1, 2, 3, 4))
    for tier in tier_shares(result)[:top]:
        load = tier.hottest
        shares = sorted(load.bytes_by_label.items(), key=lambda one: (-one[1], one[0]))
        carried = ", ".join(f"{label} {render(moved, Unit.BYTES)}" for label, moved in shares)
        table.add_row(
            tier.name,
            str(tier.links),
            render(tier.bandwidth, Unit.BYTES_PER_SECOND),
            f"{100 * tier.mean:.1f} %",
            f"{100 * load.utilization:.1f} %",
            load.name,
            carried or render(load.bytes, Unit.BYTES),
        )
    return table


def _bytes_table(result: RunResult) -> Table:
    table = _table("bytes moved, over all links", "bytes", "share", right=(1, 2))
    total = sum(result.bytes_by_cause.values())
    for cause in ordered(result.bytes_by_cause, [result.colours]):
        moved = result.bytes_by_cause[cause]
        table.add_row(cause, render(moved, Unit.BYTES), f"{100 * moved / total:.1f} %")
    return table


def sweep_report(sweep: CollectiveSweep) -> list[RenderableType]:
    """Return a table in nccl-tests' terms, one row per size, with bounds; what ``auto`` tried; figures and notes."""
    results, fabric = sweep.results, sweep.fabric
    first = results[0]
    columns = ("size (B)", "time (us)", "algbw (GB/s)", "busbw (GB/s)", "bound (us)", "time/bound", "bound by")
    table = _table(*columns, "algorithm", "steps", right=(0, 1, 2, 3, 4, 5, 8))
    times = _aligned([result.duration * 1e6 for result in results])
    algbw = _aligned([result.algbw / 1e9 for result in results])
    busbw = _aligned([result.busbw / 1e9 for result in results])
    bounds = _aligned([result.bound.seconds * 1e6 for result in results])
    for index, result in enumerate(results):
        size = f"{result.size:.15g}"
        bound = bounds[index], f"{result.bound_ratio:.3f}", result.bound.binding
        table.add_row(size, times[index], algbw[index], busbw[index], *bound, result.algorithm, str(result.steps))
    average = sweep.average_busbw / 1e9
    report: list[RenderableType] = [
        Text(f"{first.pattern} on {fabric.name}, {first.ranks} of {len(fabric.npus)} NPUs", style="bold"),
        Text(),
        table,
        Text(f"# Avg bus bandwidth    : {average:.6g} GB/s"),
    ]
    tried = [result for result in results if len(result.candidates) > 1]
    if tried:
        report.append(Text())
    for result in tried:
        best: dict[str, tuple[float, str]] = {}  # of each algorithm its fastest variant
        for name, seconds in result.candidates.items():
            algorithm = name.partition("(")[0]
            best[algorithm] = min(best.get(algorithm, (seconds, name)), (seconds, name))
        best_first = [(name, seconds) for seconds, name in sorted(best.values())]
        listed = ", ".join(f"{name} {render(seconds, Unit.SECONDS, 4)}" for name, seconds in best_first)
        report.append(Text(f"auto, {render(result.size, Unit.BYTES)}: {listed}"))
    names = list(dict.fromkeys(name for result in results for name in result.figures))
    if names:
        table = _table("size (B)", *names, right=range(len(names) + 1))
        for result in results:
            values = (f"{result.figures[name]:.6g}" if name in result.figures else "-" for name in names)
            table.add_row(f"{result.size:.15g}", *values)
        report += [Text(), table]
    return [*report, *notes_report(dict.fromkeys(note for result in results for note in result.notes))]


def calibrations_report(fits: Sequence[Fit]) -> list[RenderableType]:
    """Return a table of the fits, what to make of them, and the TOML that records them."""
    table = _table("workload", "fabric", "target", "solutions", "factor to the roofline", "recorded", right=(2, 5))
    lines: list[RenderableType] = []
    for fit in fits:
        found = ("none", "one")[len(fit.solutions)] if len(fit.solutions) < 2 else f"{len(fit.solutions)}"
        factors = ", ".join(f"{one:.6g}" for one in fit.solutions)
        table.add_row(fit.workload, fit.fabric, f"{fit.target:.3g}", found, factors, f"{fit.recorded:.6g}")
        if len(fit.solutions) != 1:
            lines.append(Text(f"{fit.workload}: {_why(fit)}", style="yellow"))
    toml = "\n\n".join(
        f"[workloads.{toml_key(fit.workload)}]\ncompute_scale = {fit.solutions[0]!r}"
        for fit in fits
        if len(fit.solutions) == 1
    )
    snippet: list[RenderableType] = []
    if toml:
        snippet = [Text(), Text("# to record, in the experiment file:", style="dim"), Text(toml)]
    return [table, *lines, *snippet]


def _why(fit: Fit) -> str:
    low, high = fit.range
    if fit.solutions:
        return f"{len(fit.solutions)} factors give {fit.target:g}; choose one and say why"
    reached = f"{fit.reached[0]:.4g} to {fit.reached[1]:.4g}"
    return f"no factor from {low:g} to {high:g} gives {fit.target:g}; speed-ups there are {reached}"


def plugins_report(infos: Iterable[PluginInfo], *, width: int | None = None) -> list[RenderableType]:
    """Return a table of plugins, one per row: kind, name and a description, which is cut to fit ``width`` columns."""
    rows = [(info.kind, info.name, info.description) for info in infos]
    table = _table("kind", "name", "description")
    # Two blanks follow each column; a description keeps a few letters however narrow the terminal is.
    taken = sum(max((len(row[column]) for row in rows), default=0) + 2 for column in (0, 1))
    room = None if width is None else max(width - taken, _FEW_LETTERS)
    for kind, name, description in rows:
        cut = room is not None and len(description) > room
        table.add_row(kind, name, f"{description[: room - 3].rstrip()}..." if room and cut else description)
    return [table]


def plugin_origins_report(infos: Iterable[PluginInfo]) -> list[RenderableType]:
    """Return a table of plugins with the distribution that each comes from, its version and the file."""
    table = _table("kind", "name", "distribution", "version", "location")
    for info in infos:
        table.add_row(info.kind, info.name, info.distribution or "-", info.version or "-", info.location or "-")
    return [table]


def plugin_report(info: PluginInfo, docstring: str, fields: Sequence[FieldInfo]) -> list[RenderableType]:
    """Return where one plugin comes from, what its docstring says, and a table of its configuration fields."""
    origin = f"{info.distribution} {info.version}" if info.distribution else "registered in process"
    report: list[RenderableType] = [
        Text(f"{info.kind} {info.name}", style="bold").append(f"  ({origin})", style="not bold dim"),
        Text(),
        Text(_reflowed(docstring)),
        Text(),
    ]
    if not fields:
        return [*report, Text("It has no configuration fields.")]
    table = _table("field", "type", "unit", "default")
    table.add_column("meaning", overflow="fold")
    for one in fields:
        default = Text("required", style="bold") if one.default is None else Text(one.default)
        # A unit already says what is accepted.
        accepted = "" if one.unit else f"({one.accepted})"
        table.add_row(one.name, one.type, one.unit or "-", default, f"{one.help} {accepted}".strip())
    return [*report, table]


def _reflowed(docstring: str) -> str:
    """Return ``docstring`` with each paragraph on one line, to be wrapped anew; what is indented stays as it is."""
    paragraphs = docstring.split("\n\n")
    return "\n\n".join(one if "\n " in one or one.startswith(" ") else one.replace("\n", " ") for one in paragraphs)


def table_report(title: str, columns: Sequence[str], rows: Iterable[Sequence[str | float]]) -> list[RenderableType]:
    """Return any table: text left, numbers right, floats with six digits; raises ``ValueError`` for ragged rows."""
    rows = list(rows)
    right = [
        column
        for column, (_, *values) in enumerate(zip(columns, *rows, strict=True))
        if not any(isinstance(one, str) for one in values)
    ]
    table = _table(*columns, right=right)
    for row in rows:
        table.add_row(*(f"{one:.6g}" if isinstance(one, float) else str(one) for one in row))
    return [Text(title, style="bold"), Text(), table]


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


def _table(*header: str, right: Sequence[int] = ()) -> StackedTable:
    table = StackedTable()
    for column, name in enumerate(header):
        table.add_column(name, no_wrap=True, justify="right" if column in right else "left")
    return table


def _time_scale(seconds: Iterable[float]) -> tuple[str, float, int]:
    """Return the unit for ``seconds``, that unit in seconds, and the decimals that all of them have.

    The longest time has four digits and the shortest at least three, all with equal decimals: parts are added by eye.
    Where that would be more than three decimals, the unit is a smaller one.
    """
    times = list(seconds)
    longest, shortest = max(times, default=0.0), min(times, default=0.0)
    first = next((index for index, (_, unit) in enumerate(_TIME_UNITS) if longest >= unit), len(_TIME_UNITS) - 1)
    scales = [
        (name, unit, max(_decimals(longest / unit), _decimals(shortest / unit, 3)))
        for name, unit in _TIME_UNITS[first:]
    ]
    return next((scale for scale in scales if scale[2] <= _MOST_DECIMALS), scales[-1])


def _decimals(value: float, digits: int = 4) -> int:
    """Return the decimals that show ``value`` with ``digits`` significant digits, at least 0 and at most 6."""
    magnitude = math.floor(math.log10(value)) if value > 0 else 0
    return min(max(digits - 1 - magnitude, 0), 6)


def _aligned(column: Sequence[float]) -> list[str]:
    """Return numbers with equal decimals: two, or as many as the smallest needs for four significant digits."""
    decimals = max(2, _decimals(min((value for value in column if value), default=1.0)))
    return [f"{value:.{decimals}f}" for value in column]


def _part(value: float, decimals: int) -> str:
    """Return a number of a breakdown; exactly nothing is a dash, so that what is there stands out."""
    return f"{value:.{decimals}f}" if value else "-"
