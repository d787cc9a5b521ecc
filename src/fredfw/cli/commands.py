"""The commands about experiments and collectives: compare, run, cells, merge, collective, calibrate."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fredfw.cli import completion, exports
from fredfw.cli.called import called
from fredfw.cli.exports import Exports
from fredfw.cli.output import Outputs, log, picture_format, progress_bar
from fredfw.cli.parsing import (
    blamed_on_options,
    check_units,
    configured,
    nccl_sizes,
    parse_assignments,
    parse_group,
    parse_size,
    parse_sizes,
    parse_values,
)
from fredfw.cli.session import open_framework
from fredfw.errors import InputError, Interrupted
from fredfw.units import Unit, render

if TYPE_CHECKING:
    from fredfw.experiment.results import CollectiveResult, Comparison, Effect, Saving
    from fredfw.experiment.spec import SavingSpec
    from fredfw.framework import Framework
    from fredfw.plugin.manager import Registry
    from fredfw.report.cells import Field

T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., Any])
INCOMPLETE = 3  # exit code: some cells have no result
FIDELITIES = ("compressed", "stepwise", "per-rank", "per-rank-rendezvous")
_PATH = completion.PathText()
_file = click.argument("file", type=_PATH)
_json = click.option(
    "--json", "json_path", metavar="PATH", type=_PATH, help="Write all results as JSON; - is standard output."
)
_csv = click.option("--csv", "csv_path", metavar="PATH", type=_PATH, help="Write a table as CSV; - is standard output.")
_set = click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="PATH=VALUE",
    shell_complete=completion.paths,
    help="Replace a value of FILE, such as fabrics.mesh.topology.rows=5; may be repeated.",
)
_fidelity = click.option(
    "--fidelity",
    type=click.Choice(FIDELITIES),
    help="How closely collectives are simulated; overrides the experiment.",
)
_sensitivity = click.option(
    "--sensitivity",
    "percent",
    metavar="PERCENT",
    type=float,
    is_flag=False,
    flag_value=20.0,
    help="Also make each parameter of each machine so much less and more, one at a time.  [without PERCENT: 20]",
)
_progress = click.option(
    "--progress/--no-progress",
    default=True,
    help="Show what runs, how much is done, and the elapsed and remaining time, where standard error is a terminal.",
)


_store = click.option(
    "--store",
    "store_path",
    metavar="PATH",
    type=_PATH,
    help="Keep the cells at PATH, and run none that is there.  [default: FILE with the ending .cells]",
)
_jobs = click.option(
    "--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Processes that run cells."
)
_executor = click.option(
    "--executor", metavar="ADDRESS", help="Run cells on a Dask scheduler instead: dask://HOST:PORT, or dask://local."
)

# Of other commands, too.
FILE, JSON, CSV, PROGRESS, JOBS, EXECUTOR = _file, _json, _csv, _progress, _jobs, _executor


def running(command: Command) -> Command:
    """Add the options of a command that runs many cells."""
    no_store = click.option("--no-store", is_flag=True, help="Keep no cells, and run all of them.")
    for option in (_executor, _jobs, no_store, _store):
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


def _comparing(command: Command) -> Command:
    """Add the options of a command that ends with a comparison."""
    plot = click.option(
        "--plot",
        "plot_path",
        metavar="PATH",
        type=_PATH,
        help="Draw bars, curves or maps into a .png, .svg or .pdf; - is a PNG on standard output.",
    )
    maps = click.option(
        "--map",
        "map_path",
        metavar="PATH",
        type=_PATH,
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
        help="Print only the N best rows by the metric of --sort, else by time.  [without N: 10]",
    )
    pareto = click.option(
        "--pareto",
        metavar="METRIC,METRIC",
        shell_complete=completion.metrics,
        help="Print only the rows that no other row beats in these metrics, such as time,cost.",
    )
    for option in (exports.option, maps, plot, _csv, _json, exports.report, pareto, best, sort):
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
            from fredfw.report.maps import check_maps

            check_maps(savings)

    def write(self, comparison: Comparison) -> None:
        """Write and print what is wanted of ``comparison``.

        Raises:
            KeyboardInterrupt: Cells are missing, since an interrupt left them out. Pictures and what exporters make are
                not written then: only the table and the data say what is missing.
        """
        from fredfw.report import sensitivity
        from fredfw.report.comparison import comparison_report

        contents = self._exports.contents({"comparison": comparison})
        contents |= {option: partial(paint, comparison) for option, paint in self._pictures.items()}
        unfit = [*self._pictures, *self._exports.unfit] if comparison.missing else []
        self._outputs.write(contents, leave_out=unfit)
        self._outputs.show(
            lambda: [
                *comparison_report(comparison, self._ranking),
                *sensitivity.comparison_report(comparison.sensitivity),
            ]
        )
        if comparison.missing:
            done = len(comparison.rows) + len(comparison.failures)
            message = f"{done} of {done + len(comparison.missing)} cells are done"
            raise KeyboardInterrupt("; not written: ".join([message, *filter(None, [", ".join(unfit)])]))


def _painter(option: str, path: str) -> Callable[[Comparison], bytes]:
    # Imported before anything runs, so that a missing matplotlib is reported before the simulation.
    if option == "--plot":
        from fredfw.report.plots import plot_comparison as draw
    else:
        from fredfw.report.maps import plot_maps as draw
    file_format = picture_format(option, path)
    return lambda comparison: draw(comparison, file_format)


@click.command(short_help="Run every workload on every fabric and compare them.")
@_file
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
@_set
@_fidelity
@_sensitivity
@running
@click.option("--strict", is_flag=True, help="Make a cell that cannot be run an error, before anything runs.")
@_comparing
@_progress
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

    Prints iteration time, speed-up over the baseline, the published value beside it, where the time goes, and the
    savings that FILE asks for. With another --fidelity than compressed every cell is run both ways and the largest
    difference is printed. With --sensitivity it prints between which values each speed-up is, which parameter matters
    most, and where fabrics change places. An interrupt (Ctrl-C) ends it with the cells that are done.

    Cells are kept in a store, so that the same command goes on where it was interrupted. A cell that cannot be run is
    a row with its reason; the exit code is 3 then.
    """
    from fredfw.report.cells import swept_fields

    values = parse_values(assignments)
    framework = open_framework(ctx)
    store = store_of(file, store_path, not no_store)
    report = _Report(ctx, framework, [file, *([] if store is None else [store])], **outputs)
    with progress_bar(progress) as step, blamed_on_options(values):
        experiment = framework.load_experiment(
            file, fabrics=fabrics or None, workloads=workloads or None, baselines=True, values=values
        )
        check_units(experiment, values)
        report.protect(framework.plugins.files)
        report.check(experiment.savings, swept_fields(experiment))
        try:
            comparison = framework.compare(
                experiment,
                fidelity=fidelity,
                sensitivity=_share(percent),
                strict=strict,
                store=store,
                jobs=jobs,
                executor=executor,
                progress=step,
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
        click.echo(f"fredfw: {number} of {total} cells have no result", err=True)
        ctx.exit(INCOMPLETE)


def _share(percent: float | None) -> float | None:
    """Return ``--sensitivity`` as a share; raises ``InputError`` where it is not between 0 and 100."""
    from fredfw.experiment.sensitivity import check_share

    return None if percent is None else check_share(percent / 100)


@click.command(short_help="Compare cells that earlier runs have stored.")
@_file
@click.argument("stores", metavar="STORE...", nargs=-1, required=True, type=_PATH)
@_set
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
@_file
@_set
@click.option("--store", "store_path", metavar="PATH", type=_PATH, help="Also say what this store has of each.")
@click.pass_context
def cells(ctx: click.Context, file: str, assignments: tuple[str, ...], store_path: str | None) -> None:
    """List the cells of the experiment FILE for scripts: workload, tab, fabric.

    With --store each line ends with a tab and done, infeasible or missing. The plugins of FILE need not be installed.
    """
    values = parse_values(assignments)
    framework = open_framework(ctx)
    with blamed_on_options(values):
        outline = framework.outline(file, values=values)
        known = {} if store_path is None else framework.stored(outline, store_path)
    for workload, fabric in outline.cells:
        names = workload.name, fabric.name
        click.echo("\t".join([*names, *([known[names]] if known else [])]))


@click.command(short_help="Run one workload on one fabric.")
@_file
@click.option(
    "--workload",
    metavar="NAME",
    shell_complete=completion.workloads,
    help="Workload of the experiment; required if there are several.",
)
@click.option(
    "--fabric",
    metavar="NAME",
    shell_complete=completion.fabrics,
    help="Fabric of the experiment; required if there are several.",
)
@_set
@_fidelity
@click.option("--store", "store_path", metavar="PATH", type=_PATH, help="Keep the cell at PATH, for fredfw merge.")
@click.option("--trace", "trace_path", metavar="PATH", type=_PATH, help="Write a Chrome trace (opens in Perfetto).")
@click.option("--ranks", metavar="RANKS", help="The ranks that --trace shows, such as 0-7,64.  [default: all]")
@_json
@exports.report
@exports.option
@click.option(
    "--top",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="Number of tiers, and of steps of the critical path, to list.",
)
@click.option("--why", is_flag=True, help="Print what limits the iteration: its critical path, and each tier by label.")
@click.option(
    "--what-if",
    "factor",
    metavar="FACTOR",
    type=float,
    is_flag=False,
    flag_value=2.0,
    help="Also make each parameter of the machine so many times better, one at a time.  [without FACTOR: 2]",
)
@click.option("--jobs", type=click.IntRange(min=1), help="Processes that make the runs of --what-if.  [default: 1]")
@_progress
@click.pass_context
def run(
    ctx: click.Context,
    file: str,
    workload: str | None,
    fabric: str | None,
    assignments: tuple[str, ...],
    fidelity: str | None,
    store_path: str | None,
    trace_path: str | None,
    ranks: str | None,
    json_path: str | None,
    report_path: str | None,
    exports: tuple[tuple[str, str], ...],
    top: int,
    why: bool,
    factor: float | None,
    jobs: int | None,
    progress: bool,
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
    if factor is not None:
        from fredfw.experiment.sensitivity import check_factor

        check_factor(factor, key="--what-if")
    values = parse_values(assignments)
    framework = open_framework(ctx)
    if ranks is not None and trace_path is None:
        raise InputError("there is no trace whose ranks they are", key="--ranks", accepted="with --trace PATH")
    fields = {"report": {"command": called(ctx)}, **({} if ranks is None else {"trace": {"ranks": ranks}})}
    exporting = Exports(framework, exports, ("run",), fields, report=report_path, json=json_path, trace=trace_path)
    outputs = exporting.outputs({}, [file, *([] if store_path is None else [store_path])])
    chosen_fabrics = None if fabric is None else [fabric]
    chosen_workloads = None if workload is None else [workload]
    with progress_bar(progress) as step, blamed_on_options(values):
        experiment = framework.load_experiment(file, fabrics=chosen_fabrics, workloads=chosen_workloads, values=values)
        check_units(experiment, values)
        outputs.protect(framework.plugins.files)
        result = framework.run(
            experiment, workload=workload, fabric=fabric, fidelity=fidelity, store=store_path, progress=step
        )
        if why or factor is not None:
            from attrs import evolve

            from fredfw.experiment.why import critical_path

            result = evolve(result, critical_path=critical_path(result))
        if factor is not None:
            found = framework.what_if(
                experiment,
                fidelity=fidelity,
                factor=factor,
                result=result,
                store=store_path,
                jobs=jobs or 1,
                progress=step,
            )
            result = evolve(result, what_if=found)
    log("ran", file=file, workload=result.workload, fabric=result.fabric_name, **result.statistics)
    from fredfw.report import tables

    outputs.write(exporting.contents({"run": result}))
    outputs.show(lambda: tables.run_report(result, top))


def _slot(name: str, text: str) -> Callable[[Command], Command]:
    """Return the option for what is used instead of the fabric's default in a slot."""
    return click.option(
        f"--{name}",
        metavar="PLUGIN",
        shell_complete=completion.slot,
        help=f"{text} A name, or {{name = ..., KEY = ...}}.  [default: the fabric's]",
    )


@click.command(short_help="Run one collective operation at one or more sizes.")
@click.argument("pattern", shell_complete=completion.patterns)
@click.option(
    "--topology",
    required=True,
    metavar="NAME",
    shell_complete=completion.topologies,
    help="Topology to build; see: fredfw plugins list.",
)
@click.option(
    "--set",
    "fields",
    multiple=True,
    metavar="KEY=VALUE",
    shell_complete=completion.topology_fields,
    help="A field of the topology, such as arity=3,3; may be repeated.",
)
@_slot("router", "How transfers become links.")
@_slot("sharing", "How flows share links.")
@_slot("admission", "What may run beside what.")
@_slot("transport", "What launching, steps and messages cost.")
@click.option("--size", metavar="SIZE", help="Bytes of the per-rank buffer, such as 64MiB or 8G.  [default: 1GB]")
@click.option("--sizes", metavar="SWEEP", help="A sweep: 8:8G:x2 multiplies, 1MB:9MB:+2MB adds.")
@click.option("-b", "--minbytes", metavar="SIZE", help="As in nccl-tests: the first size of a sweep.  [default: 32M]")
@click.option("-e", "--maxbytes", metavar="SIZE", help="As in nccl-tests: the last size.  [default: 32M]")
@click.option("-f", "--stepfactor", metavar="FACTOR", help="As in nccl-tests: the factor between sizes.")
@click.option("-i", "--stepbytes", metavar="SIZE", help="As in nccl-tests: the step between sizes.  [default: 1M]")
@click.option("--group", metavar="NPUS", help="NPUs that take part, in rank order, such as 0-4,7.  [default: all]")
@click.option(
    "--algorithm",
    default="auto",
    show_default=True,
    metavar="NAME",
    shell_complete=completion.algorithms,
    help="Collective algorithm; auto chooses the fastest one.",
)
@click.option(
    "--option",
    "options",
    multiple=True,
    metavar="KEY=VALUE",
    shell_complete=completion.algorithm_fields,
    help="A field of the algorithm; see --set.",
)
@click.option("--root", type=int, default=0, show_default=True, help="Root rank of a rooted pattern.")
@click.option("--fidelity", type=click.Choice(FIDELITIES), default=FIDELITIES[0], show_default=True)
@_sensitivity
@_json
@_csv
@exports.option
@_progress
@click.pass_context
def collective(
    ctx: click.Context,
    pattern: str,
    topology: str,
    fields: tuple[str, ...],
    router: str | None,
    sharing: str | None,
    admission: str | None,
    transport: str | None,
    size: str | None,
    sizes: str | None,
    minbytes: str | None,
    maxbytes: str | None,
    stepfactor: str | None,
    stepbytes: str | None,
    group: str | None,
    algorithm: str,
    options: tuple[str, ...],
    root: int,
    fidelity: str,
    percent: float | None,
    json_path: str | None,
    csv_path: str | None,
    exports: tuple[tuple[str, str], ...],
    progress: bool,
) -> None:
    """Run one collective PATTERN, such as all-reduce, on an otherwise idle fabric.

    Prints a table in nccl-tests' terms. Size is the per-rank buffer, the larger of input and output. A number is bytes.
    A bare K, M or G is a power of 1024, as in nccl-tests; kB, MB and GB are powers of 1000, KiB, MiB and GiB of 1024.
    An interrupt (Ctrl-C) ends a sweep with the sizes that are done.
    """
    sweep = _sweep(size, sizes, (minbytes, maxbytes, stepfactor, stepbytes))
    option_texts = parse_assignments(options, "--option")
    framework = open_framework(ctx)
    # An exporter of a single collective has one to write where one size is asked for.
    kinds = ("sweep",) if len(sweep) > 1 else ("sweep", "collective")
    exporting = Exports(framework, exports, kinds, json=json_path, csv=csv_path)
    outputs = exporting.outputs({}, ())
    from fredfw.plugin import configure
    from fredfw.plugin.contract import built

    registries = framework.plugins
    cls = _named("--topology", registries.topologies, topology)
    chosen_topology = configured(cls, fields, "--set", plugins=registries)
    given = {"router": router, "sharing": sharing, "admission": admission, "transport": transport}
    slots = {
        slot: configure.choose(
            configure.from_toml(text),
            registries.slots[slot],
            key_prefix=f"--{slot}",
            registries=lambda: registries.registries,
        )
        for slot, text in given.items()
        if text is not None
    }
    fabric = built(chosen_topology).with_defaults(**slots)
    members = None if group is None else parse_group(group, len(fabric.npus))
    chosen: dict[str, Any] = {}
    if option_texts and algorithm == "auto":
        raise InputError("options are given, but no algorithm", key="--option", accepted="with --algorithm NAME")
    if algorithm != "auto":
        plugin = configure.from_text(
            _named("--algorithm", registries.collectives, algorithm), option_texts, key_prefix="--option"
        )
        chosen = {key: value for key, value in configure.unstructure(plugin).items() if key in option_texts}
    share = _share(percent)
    results: list[CollectiveResult] = []
    effects: list[tuple[Effect, ...]] = []
    try:
        with progress_bar(progress) as step:
            for one in sweep:
                if step:
                    step(len(results), len(sweep), f"{pattern} of {render(one, Unit.BYTES)} on {topology}")
                call: dict[str, Any] = {"size": one, "group": members, "algorithm": algorithm, "root": root, **chosen}
                result = framework.simulate_collective(fabric, pattern, fidelity=fidelity, **call)
                if share is not None:
                    found = framework.collective_sensitivity(fabric, pattern, share=share, fidelity=fidelity, **call)
                    effects.append(found)
                results.append(result)
    except KeyboardInterrupt:
        if not results:
            raise
    missing = sweep[len(results) :]
    log("simulated", pattern=pattern, topology=topology, sizes=len(results))
    from fredfw.experiment.results import CollectiveSweep
    from fredfw.experiment.runner import describe
    from fredfw.report import sensitivity, tables

    used = [chosen_topology, *slots.values(), *([] if algorithm == "auto" else [plugin])]
    provenance = {
        "topology": describe(chosen_topology),
        **{slot: describe(one) for slot, one in slots.items()},
        "group": members,
        "algorithm": {"name": algorithm, **chosen},
        "root": root,
        "fidelity": fidelity,
        "files": configure.files(used),
    }
    done = CollectiveSweep(tuple(results), fabric, provenance, tuple(missing), tuple(effects))
    outputs.write(
        exporting.contents({"sweep": done, "collective": results[0]}), leave_out=exporting.unfit if missing else ()
    )
    outputs.show(lambda: [*tables.sweep_report(done), *sensitivity.sweep_report(done, share)])
    if missing:
        raise KeyboardInterrupt(f"{len(results)} of {len(sweep)} sizes are done")


def _sweep(size: str | None, sizes: str | None, nccl: tuple[str | None, ...]) -> list[float]:
    """Return the sizes that one of three ways asks for; raises ``UsageError`` where there are several."""
    wants_nccl = any(one is not None for one in nccl)
    if (size is not None) + (sizes is not None) + wants_nccl > 1:
        raise click.UsageError("--size, --sizes and -b, -e, -f, -i exclude each other.")
    if wants_nccl:
        first, last, factor, step = nccl
        if factor is not None and step is not None:
            raise click.UsageError("-f and -i exclude each other.")
        return nccl_sizes(first, last, factor, step)
    return parse_sizes(sizes) if sizes is not None else [parse_size("1GB" if size is None else size, "--size")]


def _named(option: str, registry: Registry[T], name: str) -> type[T]:
    """Return the plugin ``name``, with ``option`` named in the error."""
    try:
        return registry.get(name)
    except InputError as error:
        error.at(key=option)
        raise


@click.command(short_help="Fit compute times to published values.")
@_file
@_set
@_json
@_progress
@click.pass_context
def calibrate(
    ctx: click.Context, file: str, assignments: tuple[str, ...], json_path: str | None, progress: bool
) -> None:
    """Fit the compute scale of every workload of FILE that has a calibration.

    Says for each whether there is none, one or more solutions, and prints what to record in the experiment.
    """
    values = parse_values(assignments)
    outputs = Outputs({"--json": json_path}, source=file)
    framework = open_framework(ctx)
    with progress_bar(progress) as step, blamed_on_options(values):
        experiment = framework.load_experiment(file, values=values)
        check_units(experiment, values)
        outputs.protect(framework.plugins.files)
        fits = framework.calibrate(experiment, progress=step)
    from fredfw.report import data, tables

    outputs.write({"--json": lambda: data.calibrations_to_json(fits)})
    outputs.show(lambda: tables.calibrations_report(fits))
