"""What ``fredfw compare`` does with an experiment that has a space."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fredfw.cli.called import called
from fredfw.cli.exports import Exports
from fredfw.cli.options import INCOMPLETE
from fredfw.cli.output import log, progress_bar
from fredfw.cli.parsing import blamed_on_options, check_units
from fredfw.errors import InputError, Interrupted
from fredfw.units import counted

if TYPE_CHECKING:
    from fredfw.framework import Framework

_TOP = 10  # points that are listed


def search(
    ctx: click.Context,
    framework: Framework,
    file: str,
    values: Mapping[str, Any],
    chosen: Mapping[str, Any],
    given: Mapping[str, Any],
    *,
    best: int | None,
    json_path: str | None,
    csv_path: str | None,
    report_path: str | None,
    exports: tuple[tuple[str, str], ...],
    **others: object,
) -> None:
    """Search the space of ``file``, print and write what came of it, and end with the exit code that says so.

    Args:
        ctx: The command.
        framework: Knows the plugins.
        file: The experiment.
        values: In place of its own.
        chosen: The fabrics and workloads that are asked for.
        given: To ``Framework.study``; of ``progress``, whether to show it.
        best: How many points to list.
        json_path: As the option; so are those that follow.
        csv_path: Likewise.
        report_path: Likewise.
        exports: Likewise.
        **others: Options that only a matrix has.
    """
    for name, value in others.items():
        if value:
            option = f"--{name.removesuffix('_path')}"
            raise InputError(
                "is for a matrix of cells", file=file, key=option, accepted="an experiment without [space]"
            )
    exporting = Exports(
        framework,
        exports,
        ("study",),
        {"report": {"command": called(ctx)}},
        report=report_path,
        json=json_path,
        csv=csv_path,
    )
    outputs = exporting.outputs({}, [file, *filter(None, [given["store"]])])
    with progress_bar(given["progress"]) as step, blamed_on_options(values):
        experiment = framework.load_experiment(file, values=values, **chosen)
        check_units(experiment, values)
        outputs.protect([*framework.plugins.files, Path(experiment.file or file)])
        try:
            result = framework.study(experiment, **{**given, "progress": step})
        except Interrupted as interrupt:
            result = interrupt.finished
    log("searched", file=file, points=len(result.points), best=len(result.best), complete=result.complete)
    from fredfw.report.studies import study_report

    unfit = [] if result.complete else exporting.unfit
    outputs.write(exporting.contents({"study": result}), leave_out=unfit)
    outputs.show(lambda: [*study_report(result, best or _TOP)])
    if not result.complete:
        message = f"{counted(len(result.points), 'point')} done"
        raise KeyboardInterrupt("; not written: ".join([message, *filter(None, [", ".join(unfit)])]))
    if result.failed or not result.best:
        ctx.exit(INCOMPLETE)
