"""A run, and jobs that ran at once: where their time goes, and why it takes so long."""

from collections.abc import Iterable, Mapping, Sequence

from fredfw.experiment.metrics import METRICS
from fredfw.experiment.results import CriticalPath, JobResult, Row, RunResult, Spread, TierLoad, WhatIf
from fredfw.experiment.why import BEGINNING, TierShare, tier_shares
from fredfw.fabric import Bill
from fredfw.report import numbers
from fredfw.report.cells import exposed, ordered
from fredfw.report.numbers import TimeScale, share
from fredfw.report.shown import GAP, Heading, Line, Part, Span, Table, notes_of
from fredfw.units import Unit, counted, render
from fredfw.workloads.labels import BUBBLE, COMPUTE, OWN, WAITING

PERCENTILES = "P50", "P99"  # columns of the times of several runs
_LEAST = 0.01  # a smaller share limits nothing
_MOST = 5  # parts in a line


def run_report(result: RunResult, top: int = 10) -> list[Part]:
    name, taken = result_name(result), render(result.seconds, Unit.SECONDS, 4)
    what = "all jobs" if result.jobs else "one iteration"
    report: list[Part] = [
        Heading(name),
        Line(f"{what}: {taken} on {counted(len(result.placement), 'NPU')}"),
        *_training(result),
        *([GAP, jobs_table([((), job) for job in result.jobs])] if result.jobs else []),
        *why_report(result, top),
        GAP,
        _breakdown(result),
    ]
    if result.link_bytes.any():
        title = Heading("utilisation of the links, and whose bytes the hottest of each tier carries")
        tiers = [((), tier) for tier in tier_shares(result)[:top]]
        report += [GAP, title, tiers_table(tiers), GAP, _bytes(result)]
    if result.energy:
        report += [GAP, Line(f"communication energy: {render(result.energy, Unit.JOULES)} per iteration")]
    if result.bill is not None:
        report += [GAP, *_bill(result.bill)]
    memory = {what: used for what, used in result.memory.items() if used}
    if memory:
        listed = ", ".join(f"{what} {render(used, Unit.BYTES)}" for what, used in memory.items())
        report += [GAP, Line(f"memory per NPU: {render(sum(memory.values()), Unit.BYTES)} ({listed})")]
    if result.algorithms:
        report += [GAP, Table(("communication (xN: among N ranks)", "served by"), result.algorithms.items())]
    if result.figures:
        figures = ((name, f"{value:.6g}") for name, value in result.figures.items())
        report += [GAP, Table(("figures of the network", ""), figures, right=(1,))]
    return [*report, *notes_of(result.notes)]


def result_name(one: RunResult | Row) -> str:
    return f"{one.workload} on {one.fabric_name if isinstance(one, RunResult) else one.fabric}"


def _bill(bill: Bill) -> list[Part]:
    total = "not known: a part has no price" if bill.dollars is None else f"${bill.dollars:,.0f}"
    sources = sorted({item.source for item in bill.items if item.source})
    by = f" (prices: {', '.join(sources)})" if sources else ""
    power = bill.watts is not None
    rows = []
    for item in bill.items:
        rate = render(item.bandwidth, Unit.BYTES_PER_SECOND) if item.bandwidth else "-"
        dollars = "-" if item.dollars is None else f"{item.dollars:,.0f}"
        watts = ["-" if item.watts is None else f"{item.watts:,.4g}"] if power else []
        rows.append([item.name, str(item.count), rate, dollars, *watts])
    columns = ("parts of the network", "count", "rate", "$", *(["W"] if power else []))
    notes = (Line(f"bill: {note}") for note in bill.notes)
    return [Line(f"cost of the network: {total}{by}"), Table(columns, rows, right=(1, 2, 3, 4)), *notes]


def _training(result: RunResult) -> list[Part]:
    work = result.work
    if work is None:
        return []
    names = {"samples/s": "samples/s", "tokens/s": "tokens/s", "mfu": "% MFU", "npu-seconds": "NPU-seconds"}
    known = [(METRICS[name], what) for name, what in names.items() if METRICS[name].of(result) is not None]
    parts = [f"{numbers.metric(one, result)} {what}" for one, what in known]
    what = f"{numbers.count(work.samples)} sample{'' if work.samples == 1 else 's'}"
    no_mfu = [Line(numbers.NO_MFU)] if work.model_flops and result.throughput.mfu is None else []
    return [Line(f"it works on {what}: {', '.join(parts)}"), *no_mfu]


def _breakdown(result: RunResult) -> Table:
    scale = TimeScale.of([result.seconds])
    rows: list[Sequence[str | Span]] = []
    for cause in ordered(result.breakdown, [result.colours]):
        seconds = result.breakdown[cause]
        rows.append((exposed(cause), scale.part(seconds), share(seconds, result.seconds)))
    whole = "all jobs" if result.jobs else "iteration", scale.text(result.seconds), "100.0 %"
    rows.append([Span(text, "bold") for text in whole])
    return Table(("where the time goes", f"time ({scale.unit})", "share"), rows, right=(1, 2))


def tiers_table(listed: Iterable[tuple[Sequence[str], TierShare | TierLoad]], places: Sequence[str] = ()) -> Table:
    """Return a table of tiers of links, each with a text for each of the first columns, ``places``."""
    rows = []
    for place, tier in listed:
        if isinstance(tier, TierLoad):
            highest, hottest, carried, other = tier.highest, tier.hottest, tier.bytes_by_label, ""
        else:
            load = tier.hottest
            highest, hottest, carried, other = load.utilization, load.name, load.bytes_by_label, _moved(load.bytes)
        shares = sorted(carried.items(), key=lambda one: (-one[1], one[0]))
        carries = ", ".join(f"{label} {_moved(moved)}" for label, moved in shares) or other
        rate = render(tier.bandwidth, Unit.BYTES_PER_SECOND)
        rows.append([*place, tier.name, str(tier.links), rate, share(tier.mean), share(highest), hottest, carries])
    columns = [*places, "tier", "links", "bandwidth", "mean", "highest", "hottest link", "carries"]
    first = len(places) + 1
    return Table(columns, rows, right=range(first, first + 4), keys=len(places) or 1)


def _moved(moved: float) -> str:
    return render(moved, Unit.BYTES)


def _bytes(result: RunResult) -> Table:
    moved = result.bytes_by_cause
    total = sum(moved.values())
    rows = [(cause, _moved(moved[cause]), share(moved[cause] / total)) for cause in ordered(moved, [result.colours])]
    return Table(("bytes moved, over all links", "bytes", "share"), rows, right=(1, 2))


def jobs_table(listed: Sequence[tuple[Sequence[str], JobResult]], places: Sequence[str] = ()) -> Table:
    jobs = [job for _, job in listed]
    scale = TimeScale.of(job.seconds for job in jobs)
    several = PERCENTILES if any(job.spread is not None for job in jobs) else ()
    times = [f"start ({scale.unit})", f"time ({scale.unit})", *several, f"alone ({scale.unit})"]
    columns = [*places, "job", "NPUs", *times, "slowdown", "iterations", COMPUTE, BUBBLE, "exposed", "bytes"]
    rows = []
    for place, job in listed:
        waited = sum(spent for cause, spent in job.breakdown.items() if cause not in OWN)
        parts = job.breakdown.get(COMPUTE, 0.0), job.breakdown.get(BUBBLE, 0.0), waited
        runs = (percentile(job.spread, name, scale) for name in several)
        row = [*place, job.name, str(len(job.npus)), scale.part(job.start)]
        row += [scale.text(job.seconds), *runs, scale.text(job.alone), f"{job.slowdown:.3f}"]
        row += [str(len(job.iterations)), *map(scale.part, parts), _moved(job.bytes)]
        rows.append(row)
    words = len(places) + 1
    return Table(columns, rows, right=range(words, len(columns)), keys=words)


def percentile(spread: Spread | None, name: str, scale: TimeScale) -> str:
    return "-" if spread is None else scale.text(getattr(spread, name.lower()))


def why_report(result: RunResult, top: int = 10) -> list[Part]:
    """Return what limits the iteration, as far as it was asked for: at most ``top`` steps of the path and tiers."""
    report: list[Part] = []
    if result.critical_path is not None:
        report += [GAP, *_path(result.critical_path, top)]
        tiers = tier_shares(result)
        if tiers:
            title = Heading("utilisation of each tier by label, mean over its links")
            report += [GAP, title, _tiers(tiers[:top], result.colours)]
    if result.what_if is not None:
        report += [GAP, *_what_if(result.what_if)]
    return report


def headline(path: CriticalPath) -> str:
    parts = [(name, seconds / path.seconds) for name, seconds in path.by_limit.items()] if path.seconds else []
    if not parts:
        return "nothing limits this iteration: it takes no time"
    (first, most), *others = parts
    said = [f"{name} {share(part)}" for name, part in others if part >= _LEAST][: _MOST - 1]
    then = f"; then {', '.join(said)}" if said else ""
    return f"limited by {first}: {share(most)} of the critical path{then}"


def _path(path: CriticalPath, top: int) -> list[Part]:
    report: list[Part] = [Heading(headline(path))]
    kinds, ranks = (
        [f"{name} {share(time, path.seconds)}" for name, time in one.items()] for one in (path.by_kind, path.by_rank)
    )
    if kinds:
        report.append(Line(f"the path goes through {counted(path.length, 'task')}: {', '.join(kinds[:_MOST])}"))
    if len(ranks) > 1:
        others = f", and {counted(len(ranks) - _MOST, 'other')}" if len(ranks) > _MOST else ""
        report.append(Line(f"it goes through the ranks {', '.join(ranks[:_MOST])}{others}"))
    if path.crowded >= _LEAST * path.seconds:
        crowded = f"communication that shares links or waits to be admitted makes {share(path.crowded, path.seconds)}"
        report.append(Line(f"{crowded} of it: so much longer it takes than its own bytes alone"))
    rows = []
    for step in path.steps[:top]:
        begins = [name for name, _ in sorted(step.begins.items(), key=lambda one: -one[1]) if name != BEGINNING]
        served = f"{step.algorithm}{f' x{step.ranks}' if step.ranks else ''}"
        known = () if step.kind in (COMPUTE, WAITING) else [*step.limits.items()][:2]
        limits = ", ".join(f"{name} {100 * part / step.seconds:.0f} %" for name, part in known)
        times = str(step.count), render(step.seconds, Unit.SECONDS, 4), share(step.seconds, path.seconds)
        rows.append((step.name, step.kind, *times, ", ".join(begins) or "-", served or "-", limits or "-"))
    columns = ("critical path", "kind", "times", "seconds", "share", "began after", "served by", "limited by")
    report += [GAP, Table(columns, rows, right=(2, 3, 4))]
    if len(path.steps) > top:
        rest = sum(step.seconds for step in path.steps[top:])
        report.append(Line(f"... and {counted(len(path.steps) - top, 'other')}, {share(rest, path.seconds)}"))
    return report


def _tiers(tiers: Sequence[TierShare], declared: Mapping[str, str]) -> Table:
    labels = ordered({label for tier in tiers for label in tier.mean_by_label}, [declared])
    rows = []
    for tier in tiers:
        means = (tier.mean_by_label.get(label, 0.0) for label in labels)
        parts = (share(mean) if mean else "-" for mean in means)
        rows.append([tier.name, str(tier.links), share(tier.hottest.utilization), *parts, share(tier.mean)])
    return Table(("tier", "links", "busiest link", *labels, "all"), rows, right=range(1, len(labels) + 4))


def _what_if(found: WhatIf) -> list[Part]:
    factor = f"{found.factor:g}x"
    rows = []
    for one in found.improvements:
        times = one.on_path, one.estimated_seconds, one.seconds
        path, expected, run = (render(time, Unit.SECONDS, 4) for time in times)
        exponents = _signed(one.estimated_exponent, 3), _signed(one.exponent, 3)
        change = _signed(100 * (one.seconds / found.seconds - 1) if found.seconds else 0.0, 1)
        rows.append((one.parameter, path, *exponents, expected, run, change))
    columns = ("better parameter", "on the path", "1 %, path", "1 %, run", f"{factor}, path", f"{factor}, run")
    meaning = "path: what the critical path lets expect, if it stays what it is; run: what another simulation says"
    title = Heading(f"what if one parameter were 1 % or {factor} better")
    return [title, Table((*columns, "change"), rows, right=range(1, 7)), Line(meaning)]


def _signed(percent: float, decimals: int) -> str:
    # Adding 0 makes a zero without a sign of one that was rounded from below.
    return f"{round(percent, decimals) + 0.0:+.{decimals}f} %"
