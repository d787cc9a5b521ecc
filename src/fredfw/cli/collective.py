"""The command that runs one collective at one or more sizes: collective."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from fredfw.cli import options
from fredfw.cli.completion import algorithm_fields, algorithms, patterns, slot, topologies, topology_fields
from fredfw.cli.exports import Exports
from fredfw.cli.options import OptionalValues, Texts, option, share_of
from fredfw.cli.output import log, progress_bar
from fredfw.cli.parsing import chosen, configured, nccl_sizes, parse_assignments, parse_size, parse_sizes
from fredfw.cli.session import open_framework
from fredfw.errors import InputError, placed
from fredfw.numbers import parse_numbers
from fredfw.units import Unit, counted, render

if TYPE_CHECKING:
    from fredfw.experiment.results import CollectiveResult, Effect

_SLOTS = ("router", "sharing", "admission", "transport")


def _slot(name: str, text: str) -> options.Option[Any]:
    text = f"{text} A name, or {{name = ..., KEY = ...}}.  [default: the fabric's]"
    return option(f"--{name}", text, "PLUGIN", slot)


@click.command(cls=OptionalValues, short_help="Run one collective operation at one or more sizes.")
@click.argument("pattern", shell_complete=patterns)
@option("--topology", "Topology to build; see: fredfw plugins list.", "NAME", topologies, required=True)
@option(
    "--set fields",
    "A field of the topology, such as arity=3,3; may be repeated.",
    "KEY=VALUE",
    topology_fields,
    multiple=True,
)
@_slot("router", "How transfers become links.")
@_slot("sharing", "How flows share links.")
@_slot("admission", "What may run beside what.")
@_slot("transport", "What launching, steps and messages cost.")
@option("--size", "Bytes of the per-rank buffer, such as 64MiB or 8G.  [default: 1GB]", "SIZE")
@option("--sizes", "A sweep: 8:8G:x2 multiplies, 1MB:9MB:+2MB adds.", "SWEEP")
@option("-b --minbytes", "As in nccl-tests: the first size of a sweep.  [default: 32M]", "SIZE")
@option("-e --maxbytes", "As in nccl-tests: the last size.  [default: 32M]", "SIZE")
@option("-f --stepfactor", "As in nccl-tests: the factor between sizes.", "FACTOR")
@option("-i --stepbytes", "As in nccl-tests: the step between sizes.  [default: 1M]", "SIZE")
@option("--group", "NPUs that take part, in rank order, such as 0-4,7.  [default: all]", "NPUS")
@option("--algorithm", "Collective algorithm; auto chooses the fastest one.", "NAME", algorithms, default="auto")
@option("--option texts", "A field of the algorithm; see --set.", "KEY=VALUE", algorithm_fields, multiple=True)
@option(
    "--effort",
    "How long auto looks; low ends where no algorithm can be 5 % faster.",
    type=click.Choice(["normal", "low"]),
    default="normal",
)
@option("--root", "Root rank of a rooted pattern.", type=int, default=0)
@options.fidelity()
@options.SENSITIVITY
@options.JSON
@options.CSV
@options.EXPORT
@options.PROGRESS
@click.pass_context
def collective(
    ctx: click.Context, /, pattern: str, topology: str, fields: Texts, algorithm: str, texts: Texts, **given: Any
) -> None:
    """Run one collective PATTERN, such as all-reduce, on an otherwise idle fabric.

    Prints a table in nccl-tests' terms. Size is the per-rank buffer, the larger of input and output. A number is bytes.
    A bare K, M or G is a power of 1024, as in nccl-tests; kB, MB and GB are powers of 1000, KiB, MiB and GiB of 1024.
    An interrupt (Ctrl-C) ends a sweep with the sizes that are done.
    """
    sweep = _sizes(given)
    option_texts = parse_assignments(texts, "--option")
    framework = open_framework(ctx)
    # An exporter of a single collective has one to write where one size is asked for.
    kinds = ("sweep",) if len(sweep) > 1 else ("sweep", "collective")
    outputs = Exports(ctx, framework, kinds, ("json", "csv"))
    from fredfw.plugin import configure
    from fredfw.plugin.answers import built

    plugins = framework.plugins
    with placed(key="--topology"):
        cls = plugins.topologies.get(topology)
    machine = configured(cls, fields, "--set", plugins=plugins)
    filled: dict[str, Any] = {
        name: chosen(given[name], plugins.slots[name], plugins, f"--{name}")
        for name in _SLOTS
        if given[name] is not None
    }
    fabric = built(machine).with_defaults(**filled)
    group = given["group"]
    members = None if group is None else parse_numbers(group, len(fabric.npus), what="NPU", key="--group")
    if option_texts and algorithm == "auto":
        raise InputError("options are given, but no algorithm", key="--option", accepted="with --algorithm NAME")
    used = [machine, *filled.values()]
    asked: dict[str, Any] = {}
    if algorithm != "auto":
        with placed(key="--algorithm"):
            kind = plugins.collectives.get(algorithm)
        used.append(configure.from_text(kind, option_texts, key_prefix="--option"))
        asked = {key: value for key, value in configure.unstructure(used[-1]).items() if key in option_texts}
    call: dict[str, Any] = {"group": members, "algorithm": algorithm, "root": given["root"], **asked}
    call |= {"auto_effort": given["effort"], "fidelity": given["fidelity"]}
    share = share_of(given["percent"])
    results: list[CollectiveResult] = []
    effects: list[tuple[Effect, ...]] = []
    try:
        with progress_bar(given["progress"]) as step:
            for one in sweep:
                if step:
                    step(len(results), len(sweep), f"{pattern} of {render(one, Unit.BYTES)} on {topology}")
                result = framework.simulate_collective(fabric, pattern, size=one, **call)
                if share is not None:
                    effects.append(framework.collective_sensitivity(fabric, pattern, size=one, share=share, **call))
                results.append(result)
    except KeyboardInterrupt:
        if not results:
            raise
    missing = sweep[len(results) :]
    log("simulated", pattern=pattern, topology=topology, sizes=len(results))
    from fredfw.experiment.cell.runner import describe
    from fredfw.experiment.results import CollectiveSweep
    from fredfw.report.tables import effects_report, sweep_report

    provenance = {
        "topology": describe(machine),
        **{name: describe(one) for name, one in filled.items()},
        "group": members,
        "algorithm": {"name": algorithm, **asked},
        "root": given["root"],
        "fidelity": results[0].fidelity,
        "files": configure.files(configure.parts(used)),
    }
    done = CollectiveSweep(tuple(results), fabric, provenance, tuple(missing), tuple(effects))
    outputs.export({"sweep": done, "collective": results[0]}, complete=not missing)
    keyed = [((f"{one.size:.15g}",), effect) for one, mine in zip(results, effects, strict=False) for effect in mine]
    changes = [] if share is None else effects_report(["size (B)"], keyed, share)
    outputs.show(lambda: [*sweep_report(done), *changes])
    if missing:
        raise KeyboardInterrupt(f"{len(results)} of {counted(len(sweep), 'size')} done")


def _sizes(given: Mapping[str, Any]) -> list[float]:
    size, sizes = given["size"], given["sizes"]
    nccl = [given[name] for name in ("minbytes", "maxbytes", "stepfactor", "stepbytes")]
    wants_nccl = any(one is not None for one in nccl)
    if (size is not None) + (sizes is not None) + wants_nccl > 1:
        raise click.UsageError("--size, --sizes and -b, -e, -f, -i exclude each other.")
    if wants_nccl:
        if None not in nccl[2:]:
            raise click.UsageError("-f and -i exclude each other.")
        return nccl_sizes(*nccl)
    return parse_sizes(sizes) if sizes is not None else [parse_size("1GB" if size is None else size, "--size")]
