"""The command line: ``fredfw``; and what the commands of plugins need of it.

Exit codes: 0 done, 1 failure, 2 bad input, 3 done but for cells without a result, 130 interrupted. A failure comes with
one message on standard error and no traceback. An exception that fredfw did not raise on purpose is a defect and keeps
its traceback.
"""

import errno
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import EntryPoint, distribution
from typing import Any

import click

from fredfw import limits
from fredfw.cli.completion import quietly
from fredfw.cli.measured import Measured, measured
from fredfw.cli.options import option
from fredfw.cli.output import Outputs, log, print_report, table
from fredfw.cli.parsing import ask, chosen, configured, limits_of
from fredfw.cli.session import open_framework, plugins_of
from fredfw.errors import FredfwError, InputError, PluginWarning, UnknownNameError
from fredfw.terminal import printable
from fredfw_command import INTERRUPTED

__all__ = [
    "Measured",
    "Outputs",
    "ask",
    "chosen",
    "configured",
    "main",
    "measured",
    "open_framework",
    "print_report",
    "table",
]
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)  # what a disk or a quota says when it is full
_NOW = {"study": "compare, which runs the points of a space, too"}  # what former commands are now


class _Failure(click.ClickException):
    """Why a command ends, as one message."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]  # click declares it for classes, and reads it so

    def show(self, file: Any = None) -> None:
        click.echo(printable(f"fredfw: {self.message}"), err=file is None, file=file)


@contextmanager
def _reported() -> Iterator[None]:
    """Turn the library's errors into messages and exit codes, and its warnings into lines."""
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
            if issubclass(category, PluginWarning):
                click.echo(printable(f"fredfw: warning: {message}"), err=True)
            else:
                usual(message, category, *rest, **more)

        warnings.showwarning = show
        warnings.simplefilter("always", PluginWarning)
        try:
            yield
        except InputError as error:
            raise _Failure(f"error: {error}", 2) from error
        except FredfwError as error:
            if error.__cause__ is not None:
                log("failed", "debug", exc_info=error)
            raise _Failure(f"error: {error}") from error
        except KeyboardInterrupt as error:
            raise _Failure(f"interrupted: {error}" if str(error) else "interrupted", INTERRUPTED) from error
        except MemoryError as error:
            raise _Failure(f"error: there is not enough memory{f': {error}' if str(error) else ''}") from error
        except OSError as error:
            if error.errno not in _FULL or error.filename is not None:
                raise
            # What is left in the buffer must not fail once more when Python ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise _Failure(f"error: standard output cannot be written: {error.strerror}") from error


@cache
def _own_commands() -> dict[str, EntryPoint]:
    return {point.name: point for point in distribution("fredfw").entry_points if point.group == "fredfw.commands"}


class _Group(click.Group):
    """The core's commands, and those of plugins where a name is not among them; each is imported when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        others = quietly(lambda: [*plugins_of(ctx).commands.names()]) if ctx.resilient_parsing else ()
        return sorted({*_own_commands(), *others})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _own_commands():
            command: click.Command = _own_commands()[cmd_name].load()
            return command
        if ctx.resilient_parsing:
            return next(iter(quietly(lambda: [plugins_of(ctx).commands.get(cmd_name)])), None)
        try:
            return plugins_of(ctx).commands.get(cmd_name)
        except UnknownNameError as error:
            error.accepted = _NOW.get(cmd_name, error.accepted)
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_commands(ctx, formatter)
        try:
            commands = plugins_of(ctx).commands
            rows = [
                (info.name, f"{info.description}  [{info.distribution or '--plugin'}]")
                for info in commands.infos()
                if info.name not in _own_commands() and not commands.hidden(info.name)
            ]
        except FredfwError as error:  # help is what people ask for when something does not work
            click.echo(printable(f"fredfw: warning: {error}"), err=True)
            return
        if rows:
            with formatter.section("Commands of plugins"):
                formatter.write_dl(rows)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with _reported():  # --help looks for plugins
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        with _reported(), limits_of(ctx.params["limit_texts"]):
            result = super().invoke(ctx)
            if sys.stdout is not None:  # it is where a shell closed it
                # Flush what a plugin's command printed: click handles a closed pipe quietly, Python's exit does not.
                sys.stdout.flush()
        return result


# Some are eager, so that --help after them knows the commands of plugins.
@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="fredfw", prog_name="fredfw")
@option(
    "--plugin plugin_files",
    "Load the plugins in a Python file as well; may be repeated.",
    "FILE",
    multiple=True,
    is_eager=True,
)
@option(
    "--strict-plugins", "Treat a plugin that does not work as an error, not as a warning.", is_flag=True, is_eager=True
)
@option(
    "--trust-plugins",
    "Execute the plugin files that an experiment names. Without this flag, such an experiment is refused.",
    is_flag=True,
)
@option(
    "--limit limit_texts",
    "Change a limit: input that asks for more than COUNT of NAME is refused. "
    f"NAME is one of {', '.join(limits.DEFAULTS)}. May be repeated.",
    "NAME=COUNT",
    multiple=True,
)
@option(
    "--log-level",
    "Log messages of this severity and above.",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="warning",
)
@option(
    "--log-format",
    "Form of the log on standard error: text or JSON lines.",
    type=click.Choice(["console", "json"]),
    default="console",
)
def main(**_options: Any) -> None:
    """How long does a training iteration take on this fabric, with these collective algorithms, and why?"""
