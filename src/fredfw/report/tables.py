"""Collectives over sizes, calibrations, and any table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from fredfw.experiment.naming import toml_key
from fredfw.experiment.results import CollectiveResult, CollectiveSweep, Effect
from fredfw.report import accuracy, numbers
from fredfw.report.shown import GAP, Heading, Line, Part, Span, Table, notes_of
from fredfw.units import Unit, counted, render

if TYPE_CHECKING:  # plain data, but their modules bring the runner and the plugin manager
    from fredfw.experiment.matrix.calibration import Fit

_EXACT = 1e-9  # as a share: smaller changes are rounding


def sweep_report(sweep: CollectiveSweep) -> list[Part]:
    results, fabric = sweep.results, sweep.fabric
    first = results[0]
    sizes = [f"{result.size:.15g}" for result in results]
    protocols = [result.protocol for result in results]
    columns: dict[str, Sequence[str]] = {
        "size (B)": sizes,
        "time (us)": numbers.aligned([result.duration * 1e6 for result in results]),
        "algbw (GB/s)": numbers.aligned([result.algbw / 1e9 for result in results]),
        "busbw (GB/s)": numbers.aligned([result.busbw / 1e9 for result in results]),
        "bound (us)": numbers.aligned([result.bound.seconds * 1e6 for result in results]),
        "time/bound": [f"{result.bound_ratio:.3f}" for result in results],
        "bound by": [result.bound.binding for result in results],
        "algorithm": [result.algorithm for result in results],
        **({"protocol": protocols} if any(protocols) else {}),
        "steps": [str(result.steps) for result in results],
    }
    rows = zip(*columns.values(), strict=True)
    report: list[Part] = [
        Heading(f"{first.pattern} on {fabric.name}, {first.ranks} of {counted(len(fabric.npus), 'NPU')}"),
        GAP,
        Table([*columns], rows, right=(*range(6), len(columns) - 1)),
        Line(f"# Avg bus bandwidth    : {sweep.average_busbw / 1e9:.6g} GB/s"),
        Line(f"# Fidelity             : {first.fidelity}"),
    ]
    tried = [Line(_auto(result)) for result in results if result.candidates]
    report += [GAP, *tried] if tried else []
    names = list(dict.fromkeys(name for result in results for name in result.figures))
    if names:
        figures = (
            [size, *(f"{result.figures[name]:.6g}" if name in result.figures else "-" for name in names)]
            for size, result in zip(sizes, results, strict=True)
        )
        report += [GAP, Table(("size (B)", *names), figures, right=range(len(names) + 1))]
    notes = dict.fromkeys(note for result in results for note in result.notes)
    return [*report, *notes_of(notes), *map(Line, accuracy.of_sweep(sweep))]


def effects_report(keys: Sequence[str], effects: Iterable[tuple[Sequence[str], Effect]], share: float) -> list[Part]:
    """Return what a ``share`` of each parameter does to each time, named in columns ``keys``, the largest first."""
    rows: list[tuple[str, ...]] = []
    for cell, mine in groupby(effects, key=lambda one: tuple(one[0])):
        for rank, (_, one) in enumerate(mine, 1):
            less, more = (_changed(time, one.seconds) for time in (one.less, one.more))
            rows.append((*cell, str(rank) if less or more else "-", one.parameter, less or "none", more or "none"))
    percent, first = f"{share * 100:.3g} %", len(keys)
    title = f"sensitivity: the time with {percent} less and {percent} more of one parameter, simulated again"
    header = (*keys, "rank", "parameter", f"-{percent}", f"+{percent}")
    return [GAP, Heading(title), Table(header, rows, right=(first, first + 2, first + 3), keys=first + 2)]


def _changed(after: float, before: float) -> str:
    """Return the change in per cent with its sign; nothing where it is rounding alone."""
    change = after - before
    return f"{100 * change / before:+.3g} %" if abs(change) > _EXACT * before else ""


def _auto(result: CollectiveResult) -> str:
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
    return f"{text}; not tried: {', '.join(refused)}" if refused else text


def calibrations_report(fits: Sequence[Fit]) -> list[Part]:
    rows = []
    for fit in fits:
        number = {0: "none", 1: "one"}.get(len(fit.solutions), str(len(fit.solutions)))
        solutions = ", ".join(f"{one:.6g}" for one in fit.solutions)
        rows.append((fit.workload, fit.fabric, f"{fit.target:.3g}", number, solutions, f"{fit.recorded:.6g}"))
    columns = ("workload", "fabric", "target", "solutions", "factor to the roofline", "recorded")
    lines = [Line(Span(f"{fit.workload}: {_why(fit)}", "warn")) for fit in fits if len(fit.solutions) != 1]
    solved = [fit for fit in fits if len(fit.solutions) == 1]
    tables = [f"[workloads.{toml_key(fit.workload)}]\ncompute_scale = {fit.solutions[0]!r}" for fit in solved]
    title = Line(Span("# to record, in the experiment file:", "dim"))
    snippet = [GAP, title, Line("\n\n".join(tables))] if tables else []
    return [Table(columns, rows, right=(2, 5)), *lines, *snippet]


def _why(fit: Fit) -> str:
    low, high = fit.range
    if fit.solutions:
        return f"{len(fit.solutions)} factors give {fit.target:g}; choose one and say why"
    reached = f"{fit.reached[0]:.4g} to {fit.reached[1]:.4g}"
    return f"no factor from {low:g} to {high:g} gives {fit.target:g}; speed-ups there are {reached}"


def table_report(title: str, columns: Sequence[str], rows: Iterable[Sequence[str | float]]) -> list[Part]:
    """Return any table: text left, numbers right, floats with six digits; raises ``ValueError`` for ragged rows."""
    rows = list(rows)
    right = [
        column
        for column, (_, *values) in enumerate(zip(columns, *rows, strict=True))
        if not any(isinstance(one, str) for one in values)
    ]
    texts = ([f"{one:.6g}" if isinstance(one, float) else str(one) for one in row] for row in rows)
    return [Heading(title), GAP, Table(columns, texts, right=right)]
