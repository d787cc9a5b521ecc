"""The commands that end with a comparison or with a searched space, and the list of cells: compare, merge, cells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fredfw.cli import options
from fredfw.cli.completion import PathText, fabrics, workloads
from fredfw.cli.exports import Exports
from fredfw.cli.options import OptionalValues, Texts, option, path_option, share_of, store_of
from fredfw.cli.output import log, progress_bar
from fredfw.cli.parsing import blamed_on_options, loaded, parse_values
from fredfw.cli.session import open_framework
from fredfw.errors import InputError, Interrupted
from fredfw.units import counted

if TYPE_CHECKING:
    from fredfw.experiment.file.spec import Experiment, SavingSpec
    from fredfw.experiment.results import Comparison, Saving
    from fredfw.experiment.study.results import StudyResult
    from fredfw.framework import Framework
    from fredfw.report.cells import Field

T = TypeVar("T")
_TOP = 10  # points that are listed
_WRITTEN = ("report", "json", "csv")  # of a matrix and of a space
_PICTURES = ("plot", "map")  # of a matrix


class _Report(Exports):
    """Where the comparison of one command goes."""

    def __init__(
        self, ctx: click.Context, framework: Framework, source: Sequence[str | None], given: Mapping[str, Any]
    ) -> None:
        from fredfw.report.ranking import Ranking

        asked: dict[str, Any] = {"sort": "", "best": 0, "pareto": ""}
        asked |= {name: given[name] for name in asked if given[name]}
        self._ranking = Ranking(**asked)
        short = *_WRITTEN, *_PICTURES
        super().__init__(ctx, framework, ("comparison",), short, source, report=asked, map={"maps": True})

    def check(self, savings: Iterable[Saving | SavingSpec], fields: Iterable[Field]) -> None:
        """Raise ``InputError`` unless one of ``savings`` can be drawn and ``fields`` be sorted by, as far as wanted."""
        self._ranking.check(fields)
        if "--map" in self._paths:
            from fredfw.report.charts import check_maps

            check_maps(savings)

    def end(self, ctx: click.Context, comparison: Comparison) -> None:
        """Write and print what is wanted of ``comparison``, and end with the exit code that says what it lacks."""
        from fredfw.report.comparison import comparison_report, sensitivity_report

        # Where an interrupt left cells out, only the table and the data say so: nothing else is written.
        self.export({"comparison": comparison}, complete=not comparison.missing)
        self.show(lambda: [*comparison_report(comparison, self._ranking), *sensitivity_report(comparison.sensitivity)])
        failed = len(comparison.failures)
        done = len(comparison.rows) + failed
        if comparison.missing:
            raise self.interrupted(f"{done} of {counted(done + len(comparison.missing), 'cell')} done")
        if failed:
            click.echo(f"fredfw: no result for {failed} of {counted(done, 'cell')}", err=True)
            ctx.exit(options.INCOMPLETE)


@click.command(cls=OptionalValues, short_help="Run every workload on every fabric and compare them.")
@options.FILE
@option("--workload workloads", "Run only this workload; may be repeated.", "NAME", workloads, multiple=True)
@option("--fabric fabrics", "Run only this fabric and its baseline; may be repeated.", "NAME", fabrics, multiple=True)
@options.SET
@options.fidelity(estimates=True)
@options.SENSITIVITY
@options.RUNNING
@option("--strict", "Make a cell that cannot be run an error, before anything runs.", is_flag=True)
@options.COMPARING
@options.PROGRESS
@click.pass_context
def compare(ctx: click.Context, /, file: str, assignments: Texts, strict: bool, progress: bool, **given: Any) -> None:
    """Run every workload of the experiment FILE on every fabric and compare them.

    If FILE has a space, its points are run instead, as its sampler asks for them, and the N of --best are listed.

    Prints iteration time, speed-up over the baseline, the published value beside it, where the time goes, and the
    savings that FILE asks for. All cells have one fidelity. With --sensitivity it prints what each parameter does to
    each time, between which values each speed-up is, and where fabrics change places. An interrupt (Ctrl-C) ends it
    with the cells that are done.

    Cells are kept in a store, so that the same command goes on where it was interrupted. A cell that cannot be run is
    a row with its reason; the exit code is 3 then.
    """
    from fredfw.report.cells import swept_fields

    values = parse_values(assignments)
    framework = open_framework(ctx)
    store = store_of(file, given["store_path"], not given["no_store"])
    chosen: dict[str, Any] = {name: given[name] or None for name in ("fabrics", "workloads")}
    how: dict[str, Any] = {"store": store, **{name: given[name] for name in ("fidelity", "jobs", "executor")}}
    with blamed_on_options(values):
        searched = framework.outline(file, values=values).study is not None
    if searched:
        only = {"sensitivity": given["percent"], "strict": strict}
        only |= {name: given[name] for name in ("sort", "pareto")} | {name: given[f"{name}_path"] for name in _PICTURES}
        for name, value in only.items():
            if value:
                accepted = "an experiment without [space]"
                raise InputError("is for a matrix of cells", file=file, key=f"--{name}", accepted=accepted)
        outputs = Exports(ctx, framework, ("study",), _WRITTEN, [file, store])
        with progress_bar(progress) as step, blamed_on_options(values):
            experiment = loaded(framework, file, values, outputs, **chosen)
            found = _finished(framework.study, experiment, **how, progress=step)
        log("searched", file=file, points=len(found.points), best=len(found.best), complete=found.complete)
        _end_search(ctx, outputs, found, given["best"] or _TOP)
        return
    report = _Report(ctx, framework, [file, store], given)
    with progress_bar(progress) as step, blamed_on_options(values):
        experiment = loaded(framework, file, values, report, **chosen, baselines=True)
        report.check(experiment.savings, swept_fields(experiment))
        how |= {"sensitivity": share_of(given["percent"]), "strict": strict}
        comparison = _finished(framework.compare, experiment, **how, progress=step)
    log("compared", file=file, cells=len(comparison.rows), **comparison.statistics)
    report.end(ctx, comparison)


def _finished(run: Callable[..., T], experiment: Experiment, **how: Any) -> T:
    try:
        return run(experiment, **how)
    except Interrupted as interrupt:
        finished: T = interrupt.finished
        return finished


def _end_search(ctx: click.Context, outputs: Exports, result: StudyResult, best: int) -> None:
    from fredfw.report.studies import study_report

    outputs.export({"study": result}, complete=result.complete)
    outputs.show(lambda: [*study_report(result, best)])
    if not result.complete:
        raise outputs.interrupted(f"{counted(len(result.points), 'point')} done")
    if result.failed or not result.best:
        ctx.exit(options.INCOMPLETE)


@click.command(cls=OptionalValues, short_help="Compare cells that earlier runs have stored.")
@options.FILE
@click.argument("stores", metavar="STORE...", nargs=-1, required=True, type=PathText())
@options.SET
@options.COMPARING
@click.pass_context
def merge(ctx: click.Context, /, file: str, stores: Texts, assignments: Texts, **outputs: Any) -> None:
    """Compare the cells of the experiment FILE that are in one or more stores.

    Prints and writes what fredfw compare FILE does, without running anything; the plugins of FILE need not be
    installed. fredfw run and fredfw compare keep cells with --store. Cells that were run with --set are compared with
    the same --set.
    """
    from fredfw.report.cells import fields_of, items

    values = parse_values(assignments)
    framework = open_framework(ctx)
    report = _Report(ctx, framework, [file, *stores], outputs)
    with blamed_on_options(values):
        comparison = framework.merge(file, stores, values=values)
    report.check(comparison.savings, fields_of(items(comparison)))
    report.end(ctx, comparison)


@click.command(short_help="List the cells of an experiment, one per line.")
@options.FILE
@options.SET
@path_option("store", "Also say what this store has of each.")
@click.pass_context
def cells(ctx: click.Context, file: str, assignments: Texts, store_path: str | None) -> None:
    """List the cells of the experiment FILE for scripts: workload, tab, fabric.

    With --store each line ends with a tab and done, infeasible or missing. The plugins of FILE need not be installed.
    """
    values = parse_values(assignments)
    framework = open_framework(ctx)
    with blamed_on_options(values):
        outline = framework.outline(file, values=values)
        outline.check_matrix()
        known = {} if store_path is None else framework.stored(outline, store_path)
    for workload, fabric in outline.cells:
        names = workload.name, fabric.name
        click.echo("\t".join([*names, *([known[names]] if known else [])]))
