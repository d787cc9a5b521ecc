"""Where results go: files that were checked beforehand, standard output, a progress bar, and logs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from fredfw.errors import InputError
from fredfw.report.files import ensure_writable, write_atomically

if TYPE_CHECKING:
    from rich.console import RenderableType

STDOUT = "-"


class Outputs:
    """The output options of one command, checked when made: before anything runs.

    Args:
        paths: Path by option, such as ``--json``; ``-`` is standard output, ``None`` is not wanted.
        source: The file that is read, or all that are, which no output may replace.

    Raises:
        InputError: A path that cannot be written, or two options with the same one.
    """

    def __init__(self, paths: Mapping[str, str | None], *, source: str | Iterable[str] = ()) -> None:
        self._paths = {option: path for option, path in paths.items() if path is not None}
        sources = [source] if isinstance(source, str) else source
        taken = dict.fromkeys(map(os.path.realpath, sources), "the input")
        for option, path in self._paths.items():
            target = path if path == STDOUT else os.path.realpath(path)
            if target in taken:
                raise InputError(f"{path!r} is {taken[target]} as well", key=option, accepted="a file of its own")
            taken[target] = f"that of {option}"
            if path != STDOUT:
                try:
                    ensure_writable(path)
                except InputError as error:
                    raise InputError(error.message, file=path, key=option, accepted=error.accepted) from None

    def write(self, contents: Mapping[str, Callable[[], str | bytes]]) -> None:
        """Make what is wanted of ``contents``, by option; only when all of it is made is any of it written."""
        made = {option: contents[option]() for option in self._paths}
        for option, content in made.items():
            if self._paths[option] == STDOUT:
                click.echo(content, nl=False)
            else:
                write_atomically(self._paths[option], content)

    def show(self, report: Callable[[], list[RenderableType]]) -> None:
        """Print a report for people, unless standard output already holds one of the outputs."""
        if STDOUT not in self._paths.values():
            print_report(report())


def print_report(report: list[RenderableType]) -> None:
    """Print a report for people on standard output."""
    from fredfw.report.tables import make_console, show

    show(make_console(), report)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str | float]]) -> list[RenderableType]:
    """Return a report of one table, to be printed; text is aligned left, numbers are right and have six digits.

    Raises:
        ValueError: A row has more or fewer values than there are columns.
    """
    from fredfw.report.tables import table_report

    return table_report(title, columns, rows)


@contextmanager
def progress_bar(wanted: bool) -> Iterator[Callable[[int, int, str], None] | None]:
    """Give a function (done, in all, what is next) that moves a bar on standard error, where that is a terminal."""
    if not wanted or not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from fredfw.report.tables import make_console

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=make_console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)

        def step(done: int, total: int, what: str) -> None:
            bar.update(task, completed=done, total=total, description=what)

        yield step


def configure_logging(level: str, style: str) -> None:
    """Send structured logs of ``level`` and above to standard error, for people (``console``) or as JSON lines."""
    # structlog and what it pulls in cost 0.1 s, which --help need not pay.
    import structlog

    renderer = (
        structlog.processors.JSONRenderer()
        if style == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        # Looked up at each use, so that a redirected or closed standard error is never written to.
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
        cache_logger_on_first_use=False,
    )
