"""The command ``fredfw comet``."""

import json
from typing import Any

import click
from attrs import asdict

from fredfw import units
from fredfw.cli import Outputs, open_framework, table
from fredfw_command_comet.problem import BASE, Problem
from fredfw_command_comet.workflow import Best, Case, Findings, Time, explore


@click.command("comet", short_help="Find the best split of a model on clusters, with and without expanded memory.")
@click.argument("file")
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="How many processes run cells.")
@click.option("--store", metavar="PATH", help="Keep cells in the store at PATH, and run none that it has.")
@click.option("--json", "json_path", metavar="PATH", help="Write all numbers as JSON; - is standard output.")
@click.pass_context
def comet(ctx: click.Context, file: str, jobs: int, store: str | None, json_path: str | None) -> None:
    """Find which split of the model in FILE trains fastest on each cluster, with and without expanded memory.

    Prints the memory per NPU of each split, its iteration time and where that goes, how times change with the
    bandwidth of expanded memory, and the best split of each cluster.
    """
    outputs = Outputs({"--json": json_path}, source=[file, *([] if store is None else [store])])
    framework = open_framework(ctx)
    problem = Problem(file)
    findings = explore(problem, framework, jobs=jobs, store=store)
    outputs.write({"--json": lambda: _document(problem, findings)})
    outputs.show(lambda: _report(problem, findings))


def _document(problem: Problem, findings: Findings) -> str:
    ratios = {"splits": findings.splits, "clusters": findings.clusters, "expansion": findings.gain and findings.gain[0]}
    content = {
        "format": "fredfw-comet",
        "version": 1,
        "title": problem.title,
        "cases": [{"name": one.name, "total": one.total, **_case(one)} for one in findings.cases],
        "best": [_best(one) for one in findings.best],
        "ratios": ratios,
        "published": asdict(problem.published),
        "assumed": list(problem.assumed),
    }
    return json.dumps(content, indent=2)


def _case(case: Case) -> dict[str, Any]:
    times = [{"bandwidth": bandwidth, **asdict(time)} for bandwidth, time in case.expanded.items()]
    return {**asdict(case), "expanded": times}


def _best(best: Best) -> dict[str, Any]:
    expanded = [{"bandwidth": one, "split": case.name, "gain": best.gain(one)} for one, case in best.expanded.items()]
    return {"cluster": best.cluster, "local": best.local and best.local.name, "expanded": expanded}


def _report(problem: Problem, findings: Findings) -> list[Any]:
    own = [one for one in findings.cases if one.cluster == BASE]
    fastest = problem.bandwidths[-1]
    parts = list(dict.fromkeys(part for one in own for part, size in one.memory.items() if size))
    title = f"{problem.title}: memory per NPU (expanded: with {_bytes(problem.memory)} more)"
    rows: list[list[str]] = []
    for one in own:
        held = [_bytes(one.memory.get(part)) for part in parts]
        rows.append([one.name, *held, _bytes(one.total or None), one.fits if one.memory else "-"])
    report = table(title, ["split", *parts, "total", "fits"], rows)
    timed = [(one, one.expanded[fastest]) for one in own if one.expanded]
    causes = list(dict.fromkeys(cause for _, time in timed for cause, seconds in time.breakdown.items() if seconds))
    rows = []
    for one, time in timed:
        spent = [_seconds(time.breakdown.get(cause, 0.0)) for cause in causes]
        rows.append([one.name, one.fits, _rate(time.memory_bandwidth), *spent, _time(time)])
    title = f"Where the time goes, expanded memory at {_rate(fastest)}"
    report += ["", *table(title, ["split", "memory", "moves at", *causes, "iteration"], rows)]
    rows = [[one.name, *map(_time, (one.local, *map(one.expanded.get, problem.bandwidths)))] for one, _ in timed]
    columns = ["split", "without", *map(_rate, problem.bandwidths)]
    report += ["", *table("Iteration by the bandwidth of expanded memory", columns, rows)]
    columns = ["cluster", "without", "", *(cell for one in problem.bandwidths for cell in (_rate(one), "", "gain"))]
    rows = [_best_row(one, problem) for one in findings.best]
    report += ["", *table("Best split of each cluster, and how much expanded memory gains", columns, rows)]
    assumed = [f"assumed: {one}" for one in problem.assumed]
    notes = [f"note: {one.name}: {one.reason}" for one in own if one.reason]
    return [*report, "", *_summary(problem, findings), *assumed, *notes]


def _best_row(best: Best, problem: Problem) -> list[str]:
    row = [best.cluster, *(("-", "-") if best.local is None else (best.local.name, _time(best.local.local)))]
    for one in problem.bandwidths:
        case = best.expanded.get(one)
        row += ("-", "-", "-") if case is None else (case.name, _time(case.expanded[one]), _times(best.gain(one)))
    return row


def _summary(problem: Problem, findings: Findings) -> list[Any]:
    published, gain = problem.published, findings.gain
    where = "" if gain is None else f" ({gain[1]}, {_rate(gain[2])})"
    configuration = "slowest / fastest configuration, each with its best split"
    rows = [
        ["slowest / fastest split that fits the cluster", _times(findings.splits), "-"],
        [configuration, _times(findings.clusters), _times(published.clusters)],
        [f"most that expanded memory gains{where}", _times(gain and gain[0]), _times(published.expansion)],
    ]
    return table(f"Beside {published.source}" if published.source else "Ratios", ["ratio", "ours", "published"], rows)


def _bytes(value: float | None) -> str:
    return "-" if value is None else units.render(value, units.Unit.BYTES)


def _rate(value: float) -> str:
    return units.render(value, units.Unit.BYTES_PER_SECOND)


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if value >= 1000 else units.render(value, units.Unit.SECONDS)


def _time(time: Time | None) -> str:
    return "-" if time is None else _seconds(time.seconds)


def _times(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f} x"
