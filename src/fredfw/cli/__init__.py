"""The command line: ``fredfw``.

Exit codes: 0 done, 2 bad input, 1 failure; both with one message on standard error and no traceback. An exception that
fredfw did not raise on purpose is a defect and keeps its traceback.
"""

from __future__ import annotations

import warnings
from typing import Any

import click

from fredfw.cli.commands import calibrate, collective, compare, run
from fredfw.cli.plugins import plugins
from fredfw.errors import FredfwError, InputError, PluginWarning

__all__ = ["main"]


class _Failure(click.ClickException):
    """An error of the library, as one message."""

    exit_code = 1

    def show(self, file: Any = None) -> None:
        click.echo(f"fredfw: error: {self.message}", err=file is None, file=file)


class _BadInput(_Failure):
    exit_code = 2


class _Group(click.Group):
    """Turns the library's errors into messages and exit codes, and its warnings into lines."""

    def invoke(self, ctx: click.Context) -> Any:
        with warnings.catch_warnings():
            usual = warnings.showwarning

            def show(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
                if issubclass(category, PluginWarning):
                    click.echo(f"fredfw: warning: {message}", err=True)
                else:
                    usual(message, category, *rest, **more)

            warnings.showwarning = show
            warnings.simplefilter("always", PluginWarning)
            try:
                return super().invoke(ctx)
            except InputError as error:
                raise _BadInput(str(error)) from error
            except FredfwError as error:
                raise _Failure(str(error)) from error


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="fredfw", prog_name="fredfw")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="warning",
    show_default=True,
    help="Log this and more severe.",
)
@click.option(
    "--log-format",
    type=click.Choice(["console", "json"]),
    default="console",
    show_default=True,
    help="Logs for people, or JSON lines; both to standard error.",
)
@click.pass_context
def main(ctx: click.Context, log_level: str, log_format: str) -> None:
    """How long does a training iteration take on this fabric, with these collective algorithms, and why?"""
    ctx.obj = log_level, log_format


for command in (compare, run, collective, calibrate, plugins):
    main.add_command(command)
