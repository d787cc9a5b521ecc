"""The command ``fredfw libra``."""

import json
from collections.abc import Callable, Iterable, Sequence
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
    from fredfw_command_libra.problem import Problem

    if evaluations is not None and not simulate:
        raise InputError("there is nothing to simulate", key="--evaluations", accepted="with --simulate")
    outputs = Outputs({"--json": json_path}, source=[file])
    framework = open_framework(ctx)
    problem = Problem(file, framework)
    found = list(designs(problem, framework, simulate=simulate, evaluations=evaluations or _EVALUATIONS))
    document = {"format": "fredfw-libra", "version": 1, "title": problem.title}
    outputs.write({"--json": lambda: json.dumps(document | {"designs": [asdict(one) for one in found]}, indent=2)})
    outputs.show(lambda: _report(problem.title, found))


def _split(shares: Iterable[float]) -> str:
    return " ".join(f"{100 * share:.2f}" for share in shares)


def _time(seconds: float | None) -> str:
    return "-" if seconds is None else units.render(seconds, units.Unit.SECONDS, 4)


def _times(gain: float | None) -> str:
    return "-" if gain is None else f"{gain:.2f} x"


_Columns = Sequence[tuple[str, Callable[[Any], str]]]  # headings, and what stands below each for a design
_CASE: _Columns = (
    ("network", lambda one: one.network),
    ("workload", lambda one: one.workload),
    ("least", lambda one: one.objective.replace("-", " x ")),
    ("GB/s", lambda one: f"{one.budget / 1e9:g}"),
)
_ANALYTIC: _Columns = (
    *_CASE,
    ("split (%)", lambda one: _split(one.split)),
    ("iteration", lambda one: _time(one.seconds)),
    ("over equal", lambda one: _times(one.gain)),
    ("$ per NPU", lambda one: "-" if one.dollars is None else f"{one.dollars:,.0f}"),
    ("gap", lambda one: "< 1e-06" if one.gap < 1e-6 else f"{one.gap:.0e}"),
)
_PUBLISHED: _Columns = (
    *_CASE,
    ("split (%)", lambda one: _split(one.split)),
    ("published", lambda one: _split(one.published.split)),
    ("apart", lambda one: f"{100 * one.published.distance:.2f}"),
    ("objective", lambda one: f"{100 * (one.published.ratio - 1):+.3f} %"),
    ("compute", lambda one: one.status),
)
_SIMULATED: _Columns = (
    *_CASE,
    ("split (%)", lambda one: _split(one.simulated.split)),
    ("iteration", lambda one: _time(one.simulated.seconds)),
    ("equal", lambda one: _time(one.simulated.equal)),
    ("gain", lambda one: _times(one.simulated.gain)),
    ("analytic loses", lambda one: f"{100 * one.simulated.loss:.1f} %"),
    ("tried", lambda one: str(one.simulated.simulations)),
)


def _report(title: str, found: Sequence[Any]) -> list[Any]:
    published = "Beside published splits (objective: ours over that of the published split)"
    report: list[Any] = []
    for heading, columns, designs in (
        (title, _ANALYTIC, found),
        (published, _PUBLISHED, [one for one in found if one.published]),
        ("Simulated, with contention and latencies", _SIMULATED, [one for one in found if one.simulated]),
    ):
        if designs:
            rows = [[show(one) for _, show in columns] for one in designs]
            report += table(heading, [name for name, _ in columns], rows)
    fitted = [one for one in found if one.status != "model"]
    computes = [f"{one.workload}: {_time(one.compute)} of computation, fitted to a published split" for one in fitted]
    notes = dict.fromkeys([*computes, *(note for one in found for note in one.notes)])
    return [*report, *(f"note: {note}" for note in notes)]
