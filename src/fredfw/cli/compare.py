"""The commands that end with a comparison, and the list of its cells: compare, merge, cells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fredfw.cli import completion, exports
from fredfw.cli.called import called
from fredfw.cli.exports import Exports
from fredfw.cli.options import (
    CSV,
    FILE,
    INCOMPLETE,
    JSON,
    PATH,
    PROGRESS,
    SENSITIVITY,
    SET,
    Command,
    OptionalValues,
    fidelity as fidelity_options,
    running,
    share_of,
    store_of,
)
from fredfw.cli.output import log, picture_format, progress_bar
from fredfw.cli.parsing import blamed_on_options, check_units, parse_values
from fredfw.cli.session import open_framework
from fredfw.cli.study import search
from fredfw.errors import Interrupted
from fredfw.units import counted

if TYPE_CHECKING:
    from fredfw.experiment.file.spec import SavingSpec
    from fredfw.experiment.results import Comparison, Saving
    from fredfw.framework import Framework
    from fredfw.report.cells import Field


def _comparing(command: Command) -> Command:
    """Add the options of a command that ends with a comparison."""
    plot = click.option(
        "--plot",
        "plot_path",
        metavar="PATH",
        type=PATH,
        help="Draw bars, curves or maps into a .png, .svg or .pdf; - is a PNG on standard output.",
    )
    maps = click.option(
        "--map",
        "map_path",
        metavar="PATH",
        type=PATH,
        help="Draw each saving of FILE that goes by two fields as a map of colours; formats as for --plot.",
    )
    sort = click.option(
        "--sort",
        metavar="KEY",
        shell_complete=completion.sort_keys,
        help="Print the best rows by a metric first, such as tokens/s, or go by a swept field; -KEY reverses.",
    )
    best = click.option(
        "--best",
        metavar="N",
        type=click.IntRange(min=1),
        is_flag=False,
        flag_value=10,
        help="Print only the N best rows by the metric of --sort, else by time; of a space, the N best points.  "
        "[without N: 10]",
    )
    pareto = click.option(
        "--pareto",
        metavar="METRIC,METRIC",
        shell_complete=completion.metrics,
        help="Print only the rows that no other row beats in these metrics, such as time,cost.",
    )
    for option in (exports.option, maps, plot, CSV, JSON, exports.report, pareto, best, sort):
        command = option(command)
    return command


class _Report:
    """Where the comparison of one command goes; made before anything runs, so that errors are reported first."""

    def __init__(
        self,
        ctx: click.Context,
        framework: Framework,
        source: Sequence[str],
        *,
        json_path: str | None,
        csv_path: str | None,
        report_path: str | None,
        plot_path: str | None,
        map_path: str | None,
        sort: str | None,
        best: int | None,
        pareto: str | None,
        exports: tuple[tuple[str, str], ...],
    ) -> None:
        from fredfw.report.ranking import Ranking

        self._ranking = Ranking.parse(sort or "", best or 0, pareto or "")
        fields = {"report": {"command": called(ctx), "sort": sort or "", "best": best or 0, "pareto": pareto or ""}}
        self._exports = Exports(
            framework, exports, ("comparison",), fields, report=report_path, json=json_path, csv=csv_path
        )
        paths = {option: path for option, path in (("--plot", plot_path), ("--map", map_path)) if path is not None}
        self._pictures = {option: _painter(option, path) for option, path in paths.items()}
        self._outputs = self._exports.outputs(paths, source)

    def protect(self, files: Iterable[Path]) -> None:
        """Make sure that no output replaces one of ``files``; raises ``InputError``."""
        self._outputs.protect(files)

    def check(self, savings: Iterable[Saving | SavingSpec], fields: Iterable[Field]) -> None:
        """Make sure that there is a map to draw where one is wanted, and what rows are to be sorted by.

        Args:
            savings: What may be drawn.
            fields: What is swept.

        Raises:
            InputError: There is not.
        """
        self._ranking.check(fields)
        if "--map" in self._pictures:
            from fredfw.report.plots import check_maps

            check_maps(savings)

    def write(self, comparison: Comparison) -> None:
        """Write and print what is wanted of ``comparison``.

        Raises:
            KeyboardInterrupt: Cells are missing, since an interrupt left them out. Pictures and what exporters make are
                not written then: only the table and the data say what is missing.
        """
        from fredfw.report.comparison import comparison_report, sensitivity_report

        contents = self._exports.contents({"comparison": comparison})
        contents |= {option: partial(paint, comparison) for option, paint in self._pictures.items()}
        unfit = [*self._pictures, *self._exports.unfit] if comparison.missing else []
        self._outputs.write(contents, leave_out=unfit)
        self._outputs.show(
            lambda: [
                *comparison_report(comparison, self._ranking),
                *sensitivity_report(comparison.sensitivity),
            ]
        )
        if comparison.missing:
            done = len(comparison.rows) + len(comparison.failures)
            message = f"{done} of {counted(done + len(comparison.missing), 'cell')} done"
            raise KeyboardInterrupt("; not written: ".join([message, *filter(None, [", ".join(unfit)])]))


def _painter(option: str, path: str) -> Callable[[Comparison], bytes]:
    # Imported before anything runs, so that a missing matplotlib is reported before the simulation.
    from fredfw.report.pictures import importing

    with importing(option):
        from fredfw.report import plots
    figure = plots.comparison_figure if option == "--plot" else plots.maps_figure
    file_format = picture_format(option, path)
    return lambda comparison: plots.drawn(figure(comparison), file_format)


@click.command(cls=OptionalValues, short_help="Run every workload on every fabric and compare them.")
@FILE
@click.option(
    "--workload",
    "workloads",
    metavar="NAME",
    multiple=True,
    shell_complete=completion.workloads,
    help="Run only this workload; may be repeated.",
)
@click.option(
    "--fabric",
    "fabrics",
    metavar="NAME",
    multiple=True,
    shell_complete=completion.fabrics,
    help="Run only this fabric and its baseline; may be repeated.",
)
@SET
@fidelity_options(estimates=True)
@SENSITIVITY
@running
@click.option("--strict", is_flag=True, help="Make a cell that cannot be run an error, before anything runs.")
@_comparing
@PROGRESS
@click.pass_context
def compare(
    ctx: click.Context,
    /,
    file: str,
    workloads: tuple[str, ...],
    fabrics: tuple[str, ...],
    assignments: tuple[str, ...],
    fidelity: str | None,
    percent: float | None,
    store_path: str | None,
    no_store: bool,
    jobs: int,
    executor: str | None,
    strict: bool,
    progress: bool,
    **outputs: Any,
) -> None:
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
    store = store_of(file, store_path, not no_store)
    chosen: dict[str, Any] = {"fabrics": fabrics or None, "workloads": workloads or None}
    given: dict[str, Any] = {"store": store, "fidelity": fidelity, "jobs": jobs, "executor": executor}
    with blamed_on_options(values):
        searched = framework.outline(file, values=values).study is not None
    if searched:
        given["progress"] = progress
        search(ctx, framework, file, values, chosen, given, sensitivity=percent, strict=strict, **outputs)
        return
    report = _Report(ctx, framework, [file, *([] if store is None else [store])], **outputs)
    with progress_bar(progress) as step, blamed_on_options(values):
        experiment = framework.load_experiment(file, **chosen, baselines=True, values=values)
        check_units(experiment, values)
        report.protect(framework.plugins.files)
        report.check(experiment.savings, swept_fields(experiment))
        try:
            comparison = framework.compare(
                experiment,
                sensitivity=share_of(percent),
                strict=strict,
                progress=step,
                **given,
            )
        except Interrupted as interrupt:
            comparison = interrupt.finished
    log("compared", file=file, cells=len(comparison.rows), **comparison.statistics)
    report.write(comparison)
    _tell_failures(ctx, comparison)


def _tell_failures(ctx: click.Context, comparison: Comparison) -> None:
    """Say how many cells have no result, and end with the exit code that says so."""
    if comparison.failures:
        number, total = len(comparison.failures), len(comparison.failures) + len(comparison.rows)
        click.echo(f"fredfw: no result for {number} of {counted(total, 'cell')}", err=True)
        ctx.exit(INCOMPLETE)


@click.command(cls=OptionalValues, short_help="Compare cells that earlier runs have stored.")
@FILE
@click.argument("stores", metavar="STORE...", nargs=-1, required=True, type=PATH)
@SET
@_comparing
@click.pass_context
def merge(
    ctx: click.Context, /, file: str, stores: tuple[str, ...], assignments: tuple[str, ...], **outputs: Any
) -> None:
    """Compare the cells of the experiment FILE that are in one or more stores.

    Prints and writes what fredfw compare FILE does, without running anything; the plugins of FILE need not be
    installed. fredfw run and fredfw compare keep cells with --store. Cells that were run with --set are compared with
    the same --set.
    """
    from fredfw.report.cells import fields_of, items

    values = parse_values(assignments)
    framework = open_framework(ctx)
    report = _Report(ctx, framework, [file, *stores], **outputs)
    with blamed_on_options(values):
        comparison = framework.merge(file, stores, values=values)
    report.check(comparison.savings, fields_of(items(comparison)))
    report.write(comparison)
    _tell_failures(ctx, comparison)


@click.command(short_help="List the cells of an experiment, one per line.")
@FILE
@SET
@click.option("--store", "store_path", metavar="PATH", type=PATH, help="Also say what this store has of each.")
@click.pass_context
def cells(ctx: click.Context, file: str, assignments: tuple[str, ...], store_path: str | None) -> None:
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
