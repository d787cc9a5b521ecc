"""Where results go: files that were checked beforehand, standard output, a progress bar, and logs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fredfw.errors import InputError, placed
from fredfw.files import resolved
from fredfw.report.files import compressed, ensure_new_directory, ensure_writable, written_together
from fredfw.terminal import printable

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fredfw.plugin.exporter import Content

STDOUT = "-"
_OWN = "a different file"
_LONG = 1e9  # seconds. What remains follows from all that is done so far: cells differ, and the last few say little.


class Outputs:
    """The output options of one command, checked when made: before anything runs.

    ``paths`` are by option, such as ``--json``; ``-`` is standard output, ``None`` is not wanted. Those of the options
    ``directories`` are new or empty directories. No output may replace a ``source`` that is read, or a plugin file.
    Raises ``InputError`` for a path that cannot be written or is given twice, and a standard output that is closed.
    """

    def __init__(
        self, paths: Mapping[str, str | None], *, source: str | Iterable[str] = (), directories: Collection[str] = ()
    ) -> None:
        self._paths = {option: path for option, path in paths.items() if path is not None}
        taken: dict[str, str] = {}
        for option, path in self._paths.items():
            if path == STDOUT and sys.stdout is None:
                accepted = "a path, or a standard output that is open"
                raise InputError("standard output is closed", key=option, accepted=accepted)
            with placed(file=path, key=option, anew=True):
                target = path if path == STDOUT else str(resolved(path, _OWN, "cannot be written"))
            if target in taken:
                raise InputError(f"{path!r} is also the path of {taken[target]}", key=option, accepted=_OWN)
            taken[target] = option
        context = click.get_current_context(silent=True)
        plugin_files = context.find_root().params.get("plugin_files", ()) if context else ()
        self.protect([*([source] if isinstance(source, str) else source), *plugin_files])
        for option, path in self._paths.items():
            if path != STDOUT:
                with placed(file=path, key=option, anew=True):
                    (ensure_new_directory if option in directories else ensure_writable)(path)

    def protect(self, files: Iterable[str | Path]) -> None:
        """Make sure that no output replaces one of ``files``, which were read since; raises ``InputError``."""
        inputs = {str(resolved(file, "the path of a file")) for file in files}
        for option, path in self._paths.items():
            if path != STDOUT and os.path.realpath(path) in inputs:
                raise InputError(f"{path!r} is also the input", key=option, accepted=_OWN)

    def write(
        self, contents: Mapping[str, Callable[[], Content | Mapping[str, Content]]], *, leave_out: Collection[str] = ()
    ) -> None:
        """Make what is wanted of ``contents``, by option; no file is replaced before all of it is written.

        Names each file that it wrote on standard error. Several contents, by name, are the files of a directory; a path
        that ends in ``.gz`` gets them compressed. What is wanted is not written where it is one of ``leave_out``.
        """
        wanted = {option: path for option, path in self._paths.items() if option not in leave_out}
        files: dict[str | Path, Content] = {}
        folders: list[str] = []
        for option, path in wanted.items():
            made = contents[option]()
            if isinstance(made, Mapping):
                folders.append(path)
                files |= {Path(path, name): compressed(name, content) for name, content in made.items()}
            else:
                files[path] = compressed(path, made)
        with written_together({path: content for path, content in files.items() if path != STDOUT}, folders):
            if STDOUT in files:
                content = files[STDOUT]
                if isinstance(content, str) and (sys.stdout.encoding or "utf-8").lower() not in ("utf-8", "utf8"):
                    content = content.encode()  # UTF-8, for the other encoding may lack some of its letters
                click.echo(content, nl=False)
        for path in wanted.values():
            if path != STDOUT:
                click.echo(printable(f"wrote {path}"), err=True)

    def show(self, report: Callable[[], list[RenderableType]]) -> None:
        """Print a report for people, unless standard output already holds one of the outputs."""
        if STDOUT not in self._paths.values():
            print_report(report())


def print_report(report: list[RenderableType]) -> None:
    """Print a report for people on standard output."""
    from fredfw.report.layout import make_console, show

    show(make_console(), report)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str | float]]) -> list[RenderableType]:
    """Return a report of one table, to be printed; text is aligned left, numbers are right and have six digits.

    Raises ``ValueError`` where a row has more or fewer values than there are columns.
    """
    from fredfw.report.tables import table_report

    return [*table_report(title, columns, rows)]


@contextmanager
def progress_bar(wanted: bool) -> Iterator[Callable[[float, int, str], None] | None]:
    """Give a function (done, in all, what runs) that moves a bar on standard error, where that is a terminal."""
    if not wanted or sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    from rich import progress

    from fredfw.report.layout import make_console

    columns = (
        progress.BarColumn(bar_width=20),
        progress.TaskProgressColumn(),
        progress.TimeElapsedColumn(),
        progress.TextColumn("left"),
        progress.TimeRemainingColumn(),
        progress.TextColumn("{task.description}", markup=False),
    )
    console = make_console(stderr=True)
    with progress.Progress(*columns, console=console, transient=True, speed_estimate_period=_LONG) as bar:
        task = bar.add_task("reading and checking", total=None)

        def step(done: float, total: int, what: str) -> None:
            place = f" ({min(int(done) + 1, total)} of {total})" if total > 1 and what else ""
            bar.update(task, completed=done, total=total, description=f"{what}{place}")

        yield step


def _printable_values(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    return {key: printable(value) if isinstance(value, str) else value for key, value in event.items()}


def configure_logging(level: str, style: str) -> None:
    """Send structured logs of ``level`` and above to standard error, for people (``console``) or as JSON lines."""
    # fredfw logs nothing more severe than that; structlog and what it pulls in cost 0.1 s.
    if level in ("warning", "error") and "structlog" not in sys.modules:
        return
    import structlog

    renderers = (
        [structlog.processors.JSONRenderer()]
        if style == "json"
        else [_printable_values, structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            *renderers,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        # Looked up at each use, so that a redirected or closed standard error is never written to.
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
        cache_logger_on_first_use=False,
    )


def log(event: str, severity: str = "info", /, **values: Any) -> None:
    structlog = sys.modules.get("structlog")  # which configure_logging has imported
    if structlog is not None and structlog.is_configured():
        getattr(structlog.get_logger("fredfw"), severity)(event, **values)
