"""Options that several commands have, and what two of them mean together."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from fredfw import limits
from fredfw.cli import completion
from fredfw.fidelities import FIDELITIES, RENAMED, SIMULATED

Command = TypeVar("Command", bound=Callable[..., Any])
Option = Callable[[Command], Command]
Texts = tuple[str, ...]  # what an option was given that may be repeated
PATH = completion.PathText()
INCOMPLETE = 3  # exit code: some cells have no result


class Fidelity(click.Choice[str]):
    """The name of a fidelity, with or without estimates; one of an earlier release is an error with its new name."""

    def __init__(self, *, estimates: bool = False) -> None:
        super().__init__(FIDELITIES if estimates else SIMULATED)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value in RENAMED:
            self.fail(f"{value!r} is now {RENAMED[value]}", param, ctx)
        return super().convert(value, param, ctx)


def option(
    names: str, text: str, metavar: str | None = None, complete: completion.Complete | None = None, **more: Any
) -> Option[Any]:
    """Return an option: its names, with blanks between them, its help, and what else ``click.option`` takes."""
    more |= {"help": text, "metavar": metavar, "show_default": not isinstance(more.get("default", False), bool)}
    return click.option(*names.split(), shell_complete=complete, **more)


def path_option(name: str, text: str) -> Option[Any]:
    return option(f"--{name} {name}_path", text, "PATH", type=PATH)


def fidelity(*, estimates: bool = False) -> Option[Any]:
    longest = "; estimate is the longest path, without a simulation" if estimates else ""
    return _together(
        option(
            "--fidelity",
            f"How closely collectives are simulated: exact, rank by rank; compressed, a phase as one{longest}.  "
            "[default: that of an experiment, else exact up to --exact-limit]",
            type=Fidelity(estimates=estimates),
        ),
        option(
            "--exact-limit",
            "Transfers up to which exact is the default.  "
            f"[default: {limits.DEFAULTS['exact']:,}, which take about a minute]",
            "COUNT",
            type=click.IntRange(min=1),
            callback=_limit_exact,
        ),
    )


def _together(*options: Option[Any]) -> Option[Any]:
    def add(command: Command) -> Command:
        for one in reversed(options):
            command = one(command)
        return command

    return add


def _limit_exact(ctx: click.Context, _param: click.Parameter, value: int | None) -> int | None:
    if value is not None:
        ctx.with_resource(limits.allowed({"exact": value}))
    return value


FILE = click.argument("file", type=PATH)
JSON = path_option("json", "Write all results as JSON; - is standard output.")
CSV = path_option("csv", "Write a table as CSV; - is standard output.")
REPORT = path_option("report", "Write one HTML file with tables, pictures and all that is needed to make it again.")
EXPORT = option(
    "--export exports",
    "Write the result through the exporter plugin NAME, or {name = ..., KEY = ...}; may be repeated.",
    "NAME PATH",
    completion.exporters,
    nargs=2,
    multiple=True,
)
SET = option(
    "--set assignments",
    "Replace a value of FILE, such as fabrics.mesh.topology.rows=5; may be repeated.",
    "PATH=VALUE",
    completion.paths,
    multiple=True,
)
WORKLOAD, FABRIC = (
    option(f"--{kind}", f"{kind.capitalize()} of the experiment; required if there are several.", "NAME", complete)
    for kind, complete in (("workload", completion.workloads), ("fabric", completion.fabrics))
)
SENSITIVITY = option(
    "--sensitivity percent",
    "Also make each parameter of each machine so much less and more, one at a time.  [without PERCENT: 20]",
    "PERCENT",
    type=float,
    is_flag=False,
    flag_value=20.0,
)
PROGRESS = option(
    "--progress/--no-progress",
    "Show what runs, how much is done, and the elapsed and remaining time, where standard error is a terminal.",
    default=True,
)
JOBS = option("--jobs", "Processes that run cells.", type=click.IntRange(min=1), default=1)
EXECUTOR = option("--executor", "Run cells on a Dask scheduler instead: dask://HOST:PORT, or dask://local.", "ADDRESS")
RUNNING = _together(
    path_option("store", "Keep the cells at PATH, and run none that is there.  [default: FILE with the ending .cells]"),
    option("--no-store", "Keep no cells, and run all of them.", is_flag=True),
    JOBS,
    EXECUTOR,
)
COMPARING = _together(
    option(
        "--sort",
        "Print the best rows by a metric first, such as tokens/s, or go by a swept field; -KEY reverses.",
        "KEY",
        completion.sort_keys,
    ),
    option(
        "--best",
        "Print only the N best rows by the metric of --sort, else by time; of a space, the N best points.  "
        "[without N: 10]",
        "N",
        type=click.IntRange(min=1),
        is_flag=False,
        flag_value=10,
    ),
    option(
        "--pareto",
        "Print only the rows that no other row beats in these metrics, such as time,cost.",
        "METRIC,METRIC",
        completion.metrics,
    ),
    REPORT,
    JSON,
    CSV,
    path_option("plot", "Draw bars, curves or maps into a .png, .svg or .pdf; - is a PNG on standard output."),
    path_option("map", "Draw each saving of FILE that goes by two fields as a map of colours; formats as for --plot."),
    EXPORT,
)


class OptionalValues(click.Command):
    """A command that takes ``--option=-5`` for a number, though the option may be without one."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        options = [one for one in self.params if isinstance(one, click.Option) and not one.is_flag]
        given = tuple(f"{one.opts[0]}=-" for one in options if isinstance(one.flag_value, int | float))
        # click takes what begins with "-" for the next option, even where it is in one word with this one.
        args = [word.replace("=", "= ", 1) if word.startswith(given) else word for word in args]
        return super().parse_args(ctx, args)


def store_of(file: str, path: str | None, wanted: bool) -> str | None:
    """Return where the cells of ``file`` are kept: at ``path``, or beside it if that can be written, or nowhere."""
    if not wanted and path is not None:
        raise click.UsageError("--store and --no-store exclude each other.")
    if path is not None or not wanted:
        return path
    if not os.path.isfile(file) or not os.access(os.path.dirname(file) or ".", os.W_OK):
        return None
    return str(Path(file).with_suffix(".cells"))


def share_of(percent: float | None) -> float | None:
    from fredfw.experiment.matrix.sensitivity import check_share

    return None if percent is None else check_share(percent / 100)
