"""Results for people, as rich renderables.

Text is plain ASCII and says in words what colour says as well, so that nothing is lost in a pipe.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from fredfw.experiment.naming import toml_key
from fredfw.experiment.results import CollectiveResult, CollectiveSweep, RunResult
from fredfw.experiment.why import tier_shares
from fredfw.fabric import Bill
from fredfw.report import accuracy, numbers
from fredfw.report.data import ordered
from fredfw.report.jobs import Listed, jobs_table
from fredfw.report.layout import plain_table
from fredfw.report.why import why_report
from fredfw.units import Unit, counted, render
from fredfw.workloads.labels import OWN

if TYPE_CHECKING:  # plain data, but their modules bring the runner and the plugin manager
    from fredfw.experiment.matrix.calibration import Fit


def run_report(result: RunResult, top: int = 10) -> list[RenderableType]:
    """Return breakdown, ``top`` tiers of links, bytes by cause, energy, memory, algorithms, figures and notes."""
    report: list[RenderableType] = [
        Text(f"{result.workload} on {result.fabric_name}", style="bold"),
        Text(f"{_what(result)}: {render(result.seconds, Unit.SECONDS, 4)} on {counted(len(result.placement), 'NPU')}"),
        *_training(result),
        *_jobs(result),
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
        table = plain_table("communication (xN: among N ranks)", "served by")
        for what, algorithm in result.algorithms.items():
            table.add_row(what, algorithm)
        report += [Text(), table]
    if result.figures:
        table = plain_table("figures of the network", "", right=(1,))
        for name, value in result.figures.items():
            table.add_row(name, f"{value:.6g}")
        report += [Text(), table]
    return [*report, *notes_report(result.notes)]


def _what(result: RunResult) -> str:
    """Return what took the time of ``result``."""
    return "all jobs" if result.jobs else "one iteration"


def _jobs(result: RunResult) -> list[RenderableType]:
    """Return what became of each job, where there are several."""
    return [Text(), jobs_table([Listed((), job) for job in result.jobs])] if result.jobs else []


def _bill(bill: Bill) -> list[RenderableType]:
    """Return what the network costs: all of it in a line, and each item."""
    total = "not known: a part has no price" if bill.dollars is None else f"${bill.dollars:,.0f}"
    sources = sorted({item.source for item in bill.items if item.source})
    power = bill.watts is not None
    table = plain_table("parts of the network", "count", "rate", "$", *(["W"] if power else []), right=(1, 2, 3, 4))
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
    """Return what an iteration works on and how fast, where the workload says it."""
    work, throughput = result.work, result.throughput
    if work is None:
        return []
    parts = [
        f"{form(value)} {what}"
        for value, form, what in (
            (throughput.samples_per_second, numbers.rate, "samples/s"),
            (throughput.tokens_per_second, numbers.rate, "tokens/s"),
            (throughput.mfu, numbers.percent, "% MFU"),
            (throughput.npu_time, numbers.rate, "NPU-seconds"),
        )
        if value is not None
    ]
    what = f"{numbers.count(work.samples)} sample{'' if work.samples == 1 else 's'}"
    lines: list[RenderableType] = [Text(f"it works on {what}: {', '.join(parts)}")]
    if work.model_flops and throughput.mfu is None:
        lines.append(Text(numbers.NO_MFU))
    return lines


def notes_report(notes: Iterable[str]) -> list[RenderableType]:
    """Return what a reader must know, one line each."""
    return [Text(f"note: {note}", style="yellow") for note in notes]


def _breakdown_table(result: RunResult) -> Table:
    name, unit, decimals = numbers.time_scale([result.seconds])
    table = plain_table("where the time goes", f"time ({name})", "share", right=(1, 2))
    for cause in ordered(result.breakdown, [result.colours]):
        seconds = result.breakdown[cause]
        what = cause if cause in OWN else f"exposed {cause}"
        share = seconds / result.seconds if result.seconds else 0.0
        table.add_row(what, numbers.part(seconds / unit, decimals), f"{100 * share:.1f} %")
    table.add_row(
        "all jobs" if result.jobs else "iteration", f"{result.seconds / unit:.{decimals}f}", "100.0 %", style="bold"
    )
    return table


def _tiers_table(result: RunResult, top: int) -> Table:
    """Return a row per tier of links, with whose bytes its hottest link carries."""
    table = plain_table("tier", "links", "bandwidth", "mean", "highest", "hottest link", "carries", right=(1, 2, 3, 4))
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
    table = plain_table("bytes moved, over all links", "bytes", "share", right=(1, 2))
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
    table = plain_table(*columns, "algorithm", "steps", right=(0, 1, 2, 3, 4, 5, 8))
    times = numbers.aligned([result.duration * 1e6 for result in results])
    algbw = numbers.aligned([result.algbw / 1e9 for result in results])
    busbw = numbers.aligned([result.busbw / 1e9 for result in results])
    bounds = numbers.aligned([result.bound.seconds * 1e6 for result in results])
    for index, result in enumerate(results):
        size = f"{result.size:.15g}"
        bound = bounds[index], f"{result.bound_ratio:.3f}", result.bound.binding
        table.add_row(size, times[index], algbw[index], busbw[index], *bound, result.algorithm, str(result.steps))
    average = sweep.average_busbw / 1e9
    report: list[RenderableType] = [
        Text(f"{first.pattern} on {fabric.name}, {first.ranks} of {counted(len(fabric.npus), 'NPU')}", style="bold"),
        Text(),
        table,
        Text(f"# Avg bus bandwidth    : {average:.6g} GB/s"),
        Text(f"# Fidelity             : {first.fidelity}"),
    ]
    tried = [result for result in results if result.candidates]
    report += [Text(), *map(_auto, tried)] if tried else []
    names = list(dict.fromkeys(name for result in results for name in result.figures))
    if names:
        table = plain_table("size (B)", *names, right=range(len(names) + 1))
        for result in results:
            values = (f"{result.figures[name]:.6g}" if name in result.figures else "-" for name in names)
            table.add_row(f"{result.size:.15g}", *values)
        report += [Text(), table]
    notes = [note for result in results for note in result.notes]
    return [*report, *notes_report(dict.fromkeys(notes)), *map(Text, accuracy.of_sweep(sweep))]


def _auto(result: CollectiveResult) -> Text:
    """Return what ``auto`` knows of each algorithm: the time of its fastest variant, or what all take at least."""
    best: dict[str, tuple[float, str, str]] = {}
    for times, sign in ((result.candidates, ""), (result.slower, "> ")):
        mine: dict[str, tuple[float, str, str]] = {}
        for name, seconds in times.items():
            algorithm, known = name.partition("(")[0], (seconds, name if not sign else "", sign)
            mine[algorithm] = min(mine.get(algorithm, known), known)
        best = mine | best
    listed = ", ".join(
        f"{name or algorithm} {sign}{render(seconds, Unit.SECONDS, 4)}"
        for algorithm, (seconds, name, sign) in sorted(best.items(), key=lambda one: (one[1][0], one[1][2]))
    )
    refused = sorted({name.partition("(")[0] for name in result.refused} - best.keys())
    text = f"auto, {render(result.size, Unit.BYTES)}: {listed}"
    return Text(f"{text}; not tried: {', '.join(refused)}" if refused else text)


def calibrations_report(fits: Sequence[Fit]) -> list[RenderableType]:
    """Return a table of the fits, what to make of them, and the TOML that records them."""
    table = plain_table("workload", "fabric", "target", "solutions", "factor to the roofline", "recorded", right=(2, 5))
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


def table_report(title: str, columns: Sequence[str], rows: Iterable[Sequence[str | float]]) -> list[RenderableType]:
    """Return any table: text left, numbers right, floats with six digits; raises ``ValueError`` for ragged rows."""
    rows = list(rows)
    right = [
        column
        for column, (_, *values) in enumerate(zip(columns, *rows, strict=True))
        if not any(isinstance(one, str) for one in values)
    ]
    table = plain_table(*columns, right=right)
    for row in rows:
        table.add_row(*(f"{one:.6g}" if isinstance(one, float) else str(one) for one in row))
    return [Text(title, style="bold"), Text(), table]
