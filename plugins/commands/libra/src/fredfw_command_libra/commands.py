"""The command ``fredfw libra``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import click
from attrs import asdict

from fredfw import units
from fredfw.cli import Outputs, open_framework, table
from fredfw.errors import InputError

_EVALUATIONS = 60


@click.command("libra", short_help="Find the best bandwidth of each dimension.")
@click.argument("file")
@click.option("--simulate", is_flag=True, help="Go on from the analytic optimum with simulations.")
@click.option(
    "--evaluations",
    type=click.IntRange(2),
    help=f"How many splits a search may simulate, with --simulate.  [default: {_EVALUATIONS}]",
)
@click.option("--json", "json_path", metavar="PATH", help="Write all numbers as JSON; - is standard output.")
@click.pass_context
def libra(ctx: click.Context, file: str, simulate: bool, evaluations: int | None, json_path: str | None) -> None:
    """Find the bandwidth of each dimension of a network, under a budget, for the workloads of FILE."""
    # Imported here: SciPy takes long to load, and the help of all commands needs none of it.
    from fredfw_command_libra.design import designs
    from fredfw_command_libra.problem import load

    if evaluations is not None and not simulate:
        raise InputError("there is nothing to simulate", key="--evaluations", accepted="with --simulate")
    outputs = Outputs({"--json": json_path}, source=[file])
    framework = open_framework(ctx)
    problem = load(file, framework)
    found = list(designs(problem, framework, simulate=simulate, evaluations=evaluations or _EVALUATIONS))
    document = {"format": "fredfw-libra", "version": 1, "title": problem.title}
    outputs.write({"--json": lambda: json.dumps(document | {"designs": [asdict(one) for one in found]}, indent=2)})
    outputs.show(lambda: _report(problem.title, found))


def _report(title: str, found: Sequence[Any]) -> list[Any]:
    case = ["network", "workload", "least", "GB/s", "split (%)"]
    rows = [
        [*_case(one), _split(one.split), _time(one.seconds), _times(one.gain), _dollars(one), _gap(one.gap)]
        for one in found
    ]
    report = table(title, [*case, "iteration", "over equal", "$ per NPU", "gap"], rows)
    rows = [
        [
            *_case(one),
            _split(one.split),
            _split(one.published.split),
            f"{100 * one.published.distance:.2f}",
            f"{100 * (one.published.ratio - 1):+.3f} %",
            one.status,
        ]
        for one in found
        if one.published
    ]
    if rows:
        title = "Beside published splits (objective: ours over that of the published split)"
        report += table(title, [*case, "published", "apart", "objective", "compute"], rows)
    rows = [
        [
            *_case(one),
            _split(one.simulated.split),
            _time(one.simulated.seconds),
            "-" if one.simulated.equal is None else _time(one.simulated.equal),
            _times(one.simulated.gain),
            f"{100 * one.simulated.loss:.1f} %",
            str(one.simulated.simulations),
        ]
        for one in found
        if one.simulated
    ]
    if rows:
        columns = [*case, "iteration", "equal", "gain", "analytic loses", "tried"]
        report += table("Simulated, with contention and latencies", columns, rows)
    computes = [
        f"{one.workload}: {_time(one.compute)} of computation, fitted to a published split"
        for one in found
        if one.status != "model"
    ]
    notes = dict.fromkeys([*computes, *(note for one in found for note in one.notes)])
    return [*report, *(f"note: {note}" for note in notes)]


def _case(one: Any) -> list[str]:
    return [one.network, one.workload, one.objective.replace("-", " x "), f"{one.budget / 1e9:g}"]


def _split(shares: Iterable[float]) -> str:
    return " ".join(f"{100 * share:.2f}" for share in shares)


def _time(seconds: float) -> str:
    return units.render(seconds, units.Unit.SECONDS, 4)


def _times(gain: float | None) -> str:
    return "-" if gain is None else f"{gain:.2f} x"


def _dollars(one: Any) -> str:
    return "-" if one.dollars is None else f"{one.dollars:,.0f}"


def _gap(gap: float) -> str:
    return "< 1e-06" if gap < 1e-6 else f"{gap:.0e}"
