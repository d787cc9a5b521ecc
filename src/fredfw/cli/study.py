"""The command that searches for the best configuration: study."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fredfw.cli import completion, exports
from fredfw.cli.called import called
from fredfw.cli.compare import INCOMPLETE
from fredfw.cli.exports import Exports
from fredfw.cli.options import CSV, FILE, JSON, PROGRESS, running, store_of
from fredfw.cli.output import log, progress_bar
from fredfw.cli.parsing import blamed_on_options, parse_values
from fredfw.cli.session import open_framework
from fredfw.errors import Interrupted
from fredfw.units import counted

if TYPE_CHECKING:
    from fredfw.studies.results import StudyResult


@click.command(short_help="Search a space of configurations for the best ones.")
@FILE
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="PATH=VALUE",
    shell_complete=completion.paths,
    help="Replace a value of FILE or of its experiment, such as sampler.seed=3; may be repeated.",
)
@click.option("--top", type=click.IntRange(min=1), default=10, show_default=True, help="Number of points to list.")
@running
@JSON
@CSV
@exports.report
@exports.option
@PROGRESS
@click.pass_context
def study(
    ctx: click.Context,
    file: str,
    assignments: tuple[str, ...],
    top: int,
    store_path: str | None,
    no_store: bool,
    jobs: int,
    executor: str | None,
    json_path: str | None,
    csv_path: str | None,
    report_path: str | None,
    exports: tuple[tuple[str, str], ...],
    progress: bool,
) -> None:
    """Run the points of the space of FILE that its sampler asks for, and rank them.

    Prints how many points there are, the best ones, why others have no result, and what was run. A point that does not
    fit, or that fails, costs no other one. An interrupt (Ctrl-C) ends it with what is done. Results are kept in a
    store, so that the same command goes on where it was interrupted. The exit code is 3 where a point failed, or none
    has a result within the limits.
    """
    values = parse_values(assignments)
    framework = open_framework(ctx)
    store = store_of(file, store_path, not no_store)
    fields = {"report": {"command": called(ctx)}}
    exporting = Exports(framework, exports, ("study",), fields, report=report_path, json=json_path, csv=csv_path)
    outputs = exporting.outputs({}, [file, *([] if store is None else [store])])
    with progress_bar(progress) as step, blamed_on_options(values):
        loaded = framework.load_study(file, values=values)
        outputs.protect([*framework.plugins.files, *([loaded.experiment] if loaded.experiment else [])])
        try:
            result = framework.study(loaded, store=store, jobs=jobs, executor=executor, progress=step)
        except Interrupted as interrupt:
            result = interrupt.finished
    log("studied", file=file, points=len(result.points), best=len(result.best), complete=result.complete)
    from fredfw.report.studies import study_report

    unfit = [] if result.complete else exporting.unfit
    outputs.write(exporting.contents({"study": result}), leave_out=unfit)
    outputs.show(lambda: study_report(result, top))
    _end(ctx, result, unfit)


def _end(ctx: click.Context, result: StudyResult, unfit: list[str]) -> None:
    if not result.complete:
        message = f"{counted(len(result.points), 'point')} done"
        raise KeyboardInterrupt("; not written: ".join([message, *filter(None, [", ".join(unfit)])]))
    if result.failed or not result.best:
        ctx.exit(INCOMPLETE)
