"""Options that several commands have, and what two of them mean together."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from fredfw import limits
from fredfw.cli import completion
from fredfw.cli.session import session
from fredfw.fidelities import FIDELITIES, RENAMED, SIMULATED

Command = TypeVar("Command", bound=Callable[..., Any])
PATH = completion.PathText()
INCOMPLETE = 3  # exit code: some cells have no result


class Fidelity(click.Choice[str]):
    """The name of a fidelity; one of an earlier release is an error that says what it is called.

    Args:
        estimates: Whether an estimate is one, too.
    """

    def __init__(self, *, estimates: bool = False) -> None:
        super().__init__(FIDELITIES if estimates else SIMULATED)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """See ``click.Choice``."""
        if value in RENAMED:
            self.fail(f"{value!r} is now {RENAMED[value]}", param, ctx)
        return super().convert(value, param, ctx)


FILE = click.argument("file", type=PATH)
JSON = click.option(
    "--json", "json_path", metavar="PATH", type=PATH, help="Write all results as JSON; - is standard output."
)
CSV = click.option("--csv", "csv_path", metavar="PATH", type=PATH, help="Write a table as CSV; - is standard output.")
SET = click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="PATH=VALUE",
    shell_complete=completion.paths,
    help="Replace a value of FILE, such as fabrics.mesh.topology.rows=5; may be repeated.",
)
WORKLOAD = click.option(
    "--workload",
    metavar="NAME",
    shell_complete=completion.workloads,
    help="Workload of the experiment; required if there are several.",
)
FABRIC = click.option(
    "--fabric",
    metavar="NAME",
    shell_complete=completion.fabrics,
    help="Fabric of the experiment; required if there are several.",
)


def fidelity(*, estimates: bool = False) -> Callable[[Command], Command]:
    """Return the options that say how closely collectives are simulated, with or without estimates."""

    def add(command: Command) -> Command:
        longest = "; estimate is the longest path, without a simulation" if estimates else ""
        limit = limits.DEFAULTS["exact"]
        chosen = click.option(
            "--fidelity",
            type=Fidelity(estimates=estimates),
            help=f"How closely collectives are simulated: exact, rank by rank; compressed, a phase as one{longest}.  "
            "[default: the experiment's, else exact up to --exact-limit]",
        )
        limited = click.option(
            "--exact-limit",
            metavar="COUNT",
            type=click.IntRange(min=1),
            expose_value=False,
            callback=_limit_exact,
            help=f"Transfers up to which exact is the default.  [default: {limit:,}, which take about a minute]",
        )
        return chosen(limited(command))

    return add


def _limit_exact(ctx: click.Context, _param: click.Parameter, value: int | None) -> None:
    if value is not None:
        session(ctx).exact_limit = value
        ctx.with_resource(limits.allowed({"exact": value}))


SENSITIVITY = click.option(
    "--sensitivity",
    "percent",
    metavar="PERCENT",
    type=float,
    is_flag=False,
    flag_value=20.0,
    help="Also make each parameter of each machine so much less and more, one at a time.  [without PERCENT: 20]",
)
PROGRESS = click.option(
    "--progress/--no-progress",
    default=True,
    help="Show what runs, how much is done, and the elapsed and remaining time, where standard error is a terminal.",
)
STORE = click.option(
    "--store",
    "store_path",
    metavar="PATH",
    type=PATH,
    help="Keep the cells at PATH, and run none that is there.  [default: FILE with the ending .cells]",
)
JOBS = click.option(
    "--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Processes that run cells."
)
EXECUTOR = click.option(
    "--executor", metavar="ADDRESS", help="Run cells on a Dask scheduler instead: dask://HOST:PORT, or dask://local."
)


class OptionalValues(click.Command):
    """A command that takes ``--option=-5`` for a number, though the option may be without one."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """See ``click.Command.parse_args``."""
        options = [one for one in self.params if isinstance(one, click.Option) and not one.is_flag]
        given = tuple(f"{one.opts[0]}=-" for one in options if isinstance(one.flag_value, int | float))
        # click takes what begins with "-" for the next option, even where it is in one word with this one.
        args = [word.replace("=", "= ", 1) if word.startswith(given) else word for word in args]
        return super().parse_args(ctx, args)


def running(command: Command) -> Command:
    """Add the options of a command that runs many cells."""
    no_store = click.option("--no-store", is_flag=True, help="Keep no cells, and run all of them.")
    for option in (EXECUTOR, JOBS, no_store, STORE):
        command = option(command)
    return command


def store_of(file: str, path: str | None, wanted: bool) -> str | None:
    """Return where the cells of ``file`` are kept: at ``path``, or beside it if that can be written, or nowhere."""
    if not wanted:
        if path is not None:
            raise click.UsageError("--store and --no-store exclude each other.")
        return None
    if path is not None:
        return path
    beside = Path(file).with_suffix(".cells")
    return str(beside) if os.path.isfile(file) and os.access(beside.parent, os.W_OK) else None


def share_of(percent: float | None) -> float | None:
    """Return ``--sensitivity`` as a share; raises ``InputError`` where it is not between 0 and 100."""
    from fredfw.experiment.matrix.sensitivity import check_share

    return None if percent is None else check_share(percent / 100)
