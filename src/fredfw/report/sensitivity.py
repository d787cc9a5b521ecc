"""How far results may be off if machines are, for people."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from fredfw.experiment.results import CollectiveSweep, Sensitivity
from fredfw.report.layout import plain_table
from fredfw.units import Unit, counted, render

# Parameters below matter less than a number that is printed shows.
_LEAST = 0.005
_MOST = 3  # parameters of a cell in a table, the most important first


def comparison_report(sensitivity: Sensitivity | None) -> list[RenderableType]:
    """Return the interval of each speed-up, the parameters that matter most, and which fabrics change places."""
    if sensitivity is None:
        return []
    percent = f"{sensitivity.share * 100:.3g} %"
    title = f"sensitivity: every parameter {percent} less and {percent} more, one at a time"
    intervals = plain_table(
        "workload", "fabric", "speed-up", "from", "to", "least with", "most with", right=(2, 3, 4), keys=2
    )
    for row in sensitivity.intervals:
        numbers = (f"{number:.3g}" for number in (row.speedup, row.low, row.high))
        intervals.add_row(row.workload, row.fabric, *numbers, row.low_by or "-", row.high_by or "-")
    report: list[RenderableType] = [Text(), Text(title, style="bold"), intervals]
    effects = plain_table("workload", "fabric", "parameter", "time ~ parameter ^", right=(3,), keys=2)
    for cell in dict.fromkeys((one.workload, one.fabric) for one in sensitivity.effects):
        mine = [one for one in sensitivity.effects if (one.workload, one.fabric) == cell]
        for one in [one for one in mine if abs(one.exponent) >= _LEAST][:_MOST]:
            effects.add_row(*cell, one.parameter, f"{one.exponent:+.2f}")
    report += [Text(), effects, Text()]
    for flip in sensitivity.flips:
        first, *others = flip.causes
        more = f", or with {counted(len(others), 'other change')}" if others else ""
        report.append(Text(f"{flip.workload}: {flip.slower} is faster than {flip.faster} with {first}{more}"))
    if not sensitivity.flips:
        report.append(Text("no single change makes a slower fabric the faster one"))
    return report


def sweep_report(sweep: CollectiveSweep, share: float | None) -> list[RenderableType]:
    """Return what each parameter does to the time of each result of ``sweep``; nothing without a ``share``."""
    if share is None:
        return []
    percent = f"{share * 100:.3g} %"
    table = plain_table(
        "size (B)", "parameter", f"-{percent}", f"+{percent}", "time ~ parameter ^", right=(0, 2, 3, 4), keys=2
    )
    for result, mine in zip(sweep.results, sweep.effects, strict=True):
        for one in mine:
            times = (render(seconds, Unit.SECONDS, 4) for seconds in (one.less, one.more))
            table.add_row(f"{result.size:.15g}", one.parameter, *times, f"{one.exponent:+.2f}")
    return [Text(), Text("sensitivity, one parameter at a time", style="bold"), table]
