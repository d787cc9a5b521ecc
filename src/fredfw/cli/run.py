"""The command that runs one cell and says where its time goes: run."""

from typing import Any

import click

from fredfw.cli import options
from fredfw.cli.exports import Exports
from fredfw.cli.options import OptionalValues, Texts, option, path_option
from fredfw.cli.output import log, progress_bar
from fredfw.cli.parsing import blamed_on_options, loaded, parse_values, selected
from fredfw.cli.session import open_framework
from fredfw.errors import InputError


@click.command(cls=OptionalValues, short_help="Run one workload on one fabric.")
@options.FILE
@options.WORKLOAD
@options.FABRIC
@options.SET
@options.fidelity()
@path_option("store", "Keep the cell at PATH, for fredfw merge.")
@path_option("trace", "Write a Chrome trace (opens in Perfetto).")
@option("--ranks", "The ranks that --trace shows, such as 0-7,64.  [default: all]", "RANKS")
@options.JSON
@options.REPORT
@options.EXPORT
@option("--top", "Number of tiers, and of steps of the critical path, to list.", type=click.IntRange(min=1), default=10)
@option("--why", "Print what limits the iteration: its critical path, and each tier by label.", is_flag=True)
@option(
    "--what-if factor",
    "Also make each parameter of the machine so many times better, one at a time.  [without FACTOR: 2]",
    "FACTOR",
    type=float,
    is_flag=False,
    flag_value=2.0,
)
@option("--jobs", "Processes that make the runs of --what-if.  [default: 1]", type=click.IntRange(min=1))
@options.PROGRESS
@click.pass_context
def run(
    ctx: click.Context,
    /,
    file: str,
    workload: str | None,
    fabric: str | None,
    assignments: Texts,
    factor: float | None,
    jobs: int | None,
    progress: bool,
    **given: Any,
) -> None:
    """Run one workload on one fabric of the experiment FILE.

    Prints where the time goes, the hottest link of each tier and whose bytes it carries, the bytes moved by cause,
    energy, memory and algorithms. With --why it begins with what limits the iteration: what its critical path goes
    through, and how much of each tier each label uses. With --what-if it runs the iteration twice more for each
    parameter of the machine, a little better and much better, and prints the times beside what the path lets expect.
    With --store these runs are kept, too, and none that is there is made again.
    """
    if jobs is not None and factor is None:
        raise InputError("there is one run to make", key="--jobs", accepted="with --what-if")
    from attrs import evolve

    from fredfw.experiment.matrix.sensitivity import check_factor
    from fredfw.experiment.why import critical_path
    from fredfw.report.runs import run_report

    if factor is not None:
        check_factor(factor, key="--what-if")
    values = parse_values(assignments)
    framework = open_framework(ctx)
    fields = {}
    if given["ranks"] is not None:
        if given["trace_path"] is None:
            raise InputError("there is no trace whose ranks they are", key="--ranks", accepted="with --trace PATH")
        fields["trace"] = {"ranks": given["ranks"]}
    how: dict[str, Any] = {"fidelity": given["fidelity"], "store": given["store_path"]}
    outputs = Exports(ctx, framework, ("run",), ("report", "json", "trace"), [file, how["store"]], **fields)
    with progress_bar(progress) as step, blamed_on_options(values):
        experiment = loaded(framework, file, values, outputs, **selected(workload, fabric))
        result = framework.run(experiment, workload=workload, fabric=fabric, **how, progress=step)
        if given["why"] or factor is not None:
            result = evolve(result, critical_path=critical_path(result))
        if factor is not None:
            found = framework.what_if(experiment, factor=factor, result=result, **how, jobs=jobs or 1, progress=step)
            result = evolve(result, what_if=found)
    log("ran", file=file, workload=result.workload, fabric=result.fabric_name, **result.statistics)
    outputs.export({"run": result})
    outputs.show(lambda: [*run_report(result, given["top"])])
