"""The commands about experiments and collectives: compare, run, cells, merge, collective, calibrate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fredfw.cli.output import STDOUT, Outputs, progress_bar
from fredfw.cli.parsing import configured, parse_assignments, parse_group, parse_size, parse_sizes
from fredfw.cli.session import open_framework
from fredfw.errors import InputError

if TYPE_CHECKING:
    from fredfw.experiment.results import Comparison, Saving
    from fredfw.experiment.spec import SavingSpec
    from fredfw.framework import Framework
    from fredfw.plugin.exporter import Exporter
    from fredfw.plugin.manager import Registry

T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., Any])
Contents = dict[str, Callable[[], str | bytes]]
FIDELITIES = ("compressed", "stepwise")

_file = click.argument("file")
_json = click.option("--json", "json_path", metavar="PATH", help="Write all results as JSON; - is standard output.")
_csv = click.option("--csv", "csv_path", metavar="PATH", help="Write a table as CSV; - is standard output.")
_fidelity = click.option(
    "--fidelity",
    type=click.Choice(FIDELITIES),
    help="How repeated phases are simulated, instead of what the experiment says.",
)
_export = click.option(
    "--export",
    "exports",
    nargs=2,
    multiple=True,
    metavar="NAME PATH",
    help="Write the result through the exporter plugin NAME; may be repeated.",
)
_progress = click.option("--progress/--no-progress", default=True, help="A progress bar, where there is a terminal.")


def _exporters(framework: Framework, exports: tuple[tuple[str, str], ...]) -> dict[str, tuple[Exporter, str]]:
    """Return the exporter and the path of each ``--export``, by a name for messages."""
    exporters = framework.plugins.exporters
    return {f"--export {name} {path}": (exporters.get(name)(), path) for name, path in exports}


def _log(event: str, **values: Any) -> None:
    import structlog

    structlog.get_logger("fredfw").info(event, **values)


def _comparing(command: Command) -> Command:
    """Add the options of a command that ends with a comparison."""
    plot = click.option(
        "--plot", "plot_path", metavar="PATH", help="Draw stacked bars into a .png, .svg or .pdf; - is a PNG."
    )
    maps = click.option("--map", "map_path", metavar="PATH", help="Draw the savings by two fields, likewise.")
    for option in (_export, maps, plot, _csv, _json):
        command = option(command)
    return command


class _Report:
    """Where the comparison of one command goes; made before anything runs, so that what is wrong is told at once."""

    def __init__(
        self,
        framework: Framework,
        source: Sequence[str],
        *,
        json_path: str | None,
        csv_path: str | None,
        plot_path: str | None,
        map_path: str | None,
        exports: tuple[tuple[str, str], ...],
    ) -> None:
        self._exporters = _exporters(framework, exports)
        self._pictures = {
            option: _painter(option, path)
            for option, path in (("--plot", plot_path), ("--map", map_path))
            if path is not None
        }
        paths = {"--json": json_path, "--csv": csv_path, "--plot": plot_path, "--map": map_path}
        paths |= {option: path for option, (_, path) in self._exporters.items()}
        self._outputs = Outputs(paths, source=source)

    def protect(self, files: Iterable[PurePath]) -> None:
        """Make sure that no output replaces one of ``files``; raises ``InputError``."""
        self._outputs.protect(files)

    def check(self, savings: Iterable[Saving | SavingSpec]) -> None:
        """Make sure that there is a map to draw where one is wanted; raises ``InputError``."""
        if "--map" in self._pictures:
            from fredfw.report.maps import check_maps

            check_maps(savings)

    def write(self, comparison: Comparison) -> None:
        """Write and print what is wanted of ``comparison``."""
        from fredfw.report import data, tables

        contents: Contents = {"--json": comparison.to_json, "--csv": lambda: data.comparison_to_csv(comparison)}
        contents |= {option: partial(paint, comparison) for option, paint in self._pictures.items()}
        contents |= {option: partial(exporter.export, comparison) for option, (exporter, _) in self._exporters.items()}
        self._outputs.write(contents)
        self._outputs.show(lambda: tables.comparison_report(comparison))


def _painter(option: str, path: str) -> Callable[[Comparison], bytes]:
    # Imported before anything runs: a missing matplotlib is told at once, not after the simulation.
    from fredfw.report.pictures import FORMATS

    if option == "--plot":
        from fredfw.report.plots import plot_comparison as draw
    else:
        from fredfw.report.maps import plot_maps as draw
    suffix = "png" if path == STDOUT else PurePath(path).suffix[1:].lower()
    if suffix not in FORMATS:
        endings = ", ".join(f".{one}" for one in FORMATS)
        raise InputError("unknown kind of picture", file=path, key=option, accepted=f"a name that ends in {endings}")
    return lambda comparison: draw(comparison, suffix)


@click.command(short_help="Every workload on every fabric.")
@_file
@click.option("--workload", "workloads", metavar="NAME", multiple=True, help="Only this one; may be repeated.")
@click.option("--fabric", "fabrics", metavar="NAME", multiple=True, help="Only this one and its baseline, likewise.")
@_fidelity
@_comparing
@_progress
@click.pass_context
def compare(
    ctx: click.Context,
    /,
    file: str,
    workloads: tuple[str, ...],
    fabrics: tuple[str, ...],
    fidelity: str | None,
    progress: bool,
    **outputs: Any,
) -> None:
    """Run every workload of the experiment FILE on every fabric and compare them.

    Prints iteration time, speed-up over the baseline, the published value beside it, where the time goes, and the
    savings that FILE asks for. With --fidelity stepwise every cell is run both ways and the largest difference is
    printed.
    """
    framework = open_framework(ctx)
    report = _Report(framework, [file], **outputs)
    experiment = framework.load_experiment(file, fabrics=fabrics or None, workloads=workloads or None, baselines=True)
    report.protect(framework.plugins.files)
    report.check(experiment.savings)
    with progress_bar(progress) as step:
        comparison = framework.compare(experiment, fidelity=fidelity, progress=step)
    _log("compared", file=file, cells=len(comparison.rows), **comparison.statistics)
    report.write(comparison)


@click.command(short_help="A comparison from stored cells.")
@_file
@click.argument("cells", metavar="CELL...", nargs=-1, required=True)
@_comparing
@click.pass_context
def merge(ctx: click.Context, /, file: str, cells: tuple[str, ...], **outputs: Any) -> None:
    """Compare the cells of the experiment FILE, each stored by fredfw run FILE ... --json CELL.

    Prints and writes what fredfw compare FILE does, without running anything; the plugins of FILE need not be
    installed.
    """
    framework = open_framework(ctx)
    report = _Report(framework, [file, *cells], **outputs)
    comparison = framework.merge(file, cells)
    report.check(comparison.savings)
    report.write(comparison)


@click.command(short_help="The cells of an experiment, one a line.")
@_file
@click.pass_context
def cells(ctx: click.Context, file: str) -> None:
    """List the cells of the experiment FILE for scripts: workload, tab, fabric.

    The plugins of FILE need not be installed.
    """
    for workload, fabric in open_framework(ctx).outline(file).cells:
        click.echo(f"{workload.name}\t{fabric.name}")


@click.command(short_help="One workload on one fabric.")
@_file
@click.option("--workload", metavar="NAME", help="Which workload of the experiment; needed where there are several.")
@click.option("--fabric", metavar="NAME", help="Which fabric of the experiment; needed where there are several.")
@_fidelity
@click.option("--trace", "trace_path", metavar="PATH", help="Write a Chrome trace (opens in Perfetto).")
@_json
@_export
@click.option("--top", type=click.IntRange(min=1), default=10, show_default=True, help="How many links to list.")
@click.pass_context
def run(
    ctx: click.Context,
    file: str,
    workload: str | None,
    fabric: str | None,
    fidelity: str | None,
    trace_path: str | None,
    json_path: str | None,
    exports: tuple[tuple[str, str], ...],
    top: int,
) -> None:
    """Run one workload on one fabric of the experiment FILE.

    Prints where the time goes, the hottest links, the bytes moved by cause, energy, memory and algorithms.
    """
    framework = open_framework(ctx)
    exporters = _exporters(framework, exports)
    paths = {"--json": json_path, "--trace": trace_path}
    outputs = Outputs(paths | {option: path for option, (_, path) in exporters.items()}, source=file)
    experiment = framework.load_experiment(
        file, fabrics=None if fabric is None else [fabric], workloads=None if workload is None else [workload]
    )
    outputs.protect(framework.plugins.files)
    result = framework.run(experiment, workload=workload, fabric=fabric, fidelity=fidelity)
    _log("ran", file=file, workload=result.workload, fabric=result.fabric_name, **result.statistics)
    from fredfw.report import data, tables, trace

    contents: Contents = {"--json": lambda: data.run_to_json(result), "--trace": lambda: trace.trace_to_json(result)}
    contents |= {option: partial(exporter.export, result) for option, (exporter, _) in exporters.items()}
    outputs.write(contents)
    outputs.show(lambda: tables.run_report(result, top))


@click.command(short_help="One collective, by size.")
@click.argument("pattern")
@click.option("--topology", required=True, metavar="NAME", help="What to build; see: fredfw plugins list.")
@click.option("--set", "fields", multiple=True, metavar="KEY=VALUE", help="A field of the topology; may be repeated.")
@click.option("--size", metavar="SIZE", help="Bytes of the per-rank buffer, such as 64MiB.  [default: 1GB]")
@click.option("--sizes", metavar="SWEEP", help="A sweep: 1MB:1GB:x4 multiplies, 1MB:9MB:+2MB adds.")
@click.option("--group", metavar="NPUS", help="Who takes part, in rank order, such as 0-4,7.  [default: all]")
@click.option("--algorithm", default="auto", show_default=True, metavar="NAME", help="auto is the fastest that can.")
@click.option("--option", "options", multiple=True, metavar="KEY=VALUE", help="A field of the algorithm; see --set.")
@click.option("--root", type=int, default=0, show_default=True, help="The special rank of a rooted pattern.")
@click.option("--fidelity", type=click.Choice(FIDELITIES), default=FIDELITIES[0], show_default=True)
@_json
@_csv
@click.pass_context
def collective(
    ctx: click.Context,
    pattern: str,
    topology: str,
    fields: tuple[str, ...],
    size: str | None,
    sizes: str | None,
    group: str | None,
    algorithm: str,
    options: tuple[str, ...],
    root: int,
    fidelity: str,
    json_path: str | None,
    csv_path: str | None,
) -> None:
    """Run one collective PATTERN, such as all-reduce, on an otherwise idle fabric.

    Prints a table in nccl-tests' terms. Size is the per-rank buffer, the larger of input and output.
    """
    if size is not None and sizes is not None:
        raise click.UsageError("--size and --sizes exclude each other.")
    outputs = Outputs({"--json": json_path, "--csv": csv_path})
    sweep = parse_sizes(sizes) if sizes is not None else [parse_size("1GB" if size is None else size, "--size")]
    option_texts = parse_assignments(options, "--option")
    framework = open_framework(ctx)
    from fredfw.plugin import configure
    from fredfw.plugin.contract import built

    registries = framework.plugins
    cls = _named("--topology", registries.topologies, topology)
    chosen_topology = configured(cls, fields, "--set")
    fabric = built(chosen_topology)
    members = None if group is None else parse_group(group, len(fabric.npus))
    chosen: dict[str, Any] = {}
    if option_texts and algorithm == "auto":
        raise InputError("options are given, but no algorithm", key="--option", accepted="with --algorithm NAME")
    if algorithm != "auto":
        plugin = configure.from_text(
            _named("--algorithm", registries.collectives, algorithm), option_texts, key_prefix="--option"
        )
        chosen = {key: value for key, value in configure.unstructure(plugin).items() if key in option_texts}
    results = [
        framework.simulate_collective(
            fabric, pattern, size=one, group=members, algorithm=algorithm, root=root, fidelity=fidelity, **chosen
        )
        for one in sweep
    ]
    _log("simulated", pattern=pattern, topology=topology, sizes=len(results))
    from fredfw.experiment.runner import describe
    from fredfw.report import data, tables

    provenance = {
        "topology": describe(chosen_topology),
        "group": members,
        "algorithm": {"name": algorithm, **chosen},
        "root": root,
        "fidelity": fidelity,
    }
    outputs.write(
        {
            "--json": lambda: data.collectives_to_json(results, fabric, provenance),
            "--csv": lambda: data.collectives_to_csv(results),
        }
    )
    outputs.show(lambda: tables.collectives_report(results, fabric))


def _named(option: str, registry: Registry[T], name: str) -> type[T]:
    """Return the plugin ``name``, with ``option`` named in the error."""
    try:
        return registry.get(name)
    except InputError as error:
        error.at(key=option)
        raise


@click.command(short_help="Fit compute times to published values.")
@_file
@_json
@_progress
@click.pass_context
def calibrate(ctx: click.Context, file: str, json_path: str | None, progress: bool) -> None:
    """Fit the compute scale of every workload of FILE that has a calibration.

    Says for each whether there is none, one or more solutions, and prints what to record in the experiment.
    """
    outputs = Outputs({"--json": json_path}, source=file)
    framework = open_framework(ctx)
    experiment = framework.load_experiment(file)
    outputs.protect(framework.plugins.files)
    with progress_bar(progress) as step:
        fits = framework.calibrate(experiment, progress=step)
    from fredfw.report import data, tables

    outputs.write({"--json": lambda: data.calibrations_to_json(fits)})
    outputs.show(lambda: tables.calibrations_report(fits))
