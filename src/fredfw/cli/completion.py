"""What a shell may complete. Nothing here may print or fail: what cannot be found out has no completions."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from fredfw.cli.session import plugins_of

if TYPE_CHECKING:
    from fredfw.experiment.file.spec import AnyOutline

T = TypeVar("T")
Items = list[CompletionItem]
Complete = Callable[[click.Context, click.Parameter, str], Items]


class PathText(click.Path):
    """Completes names of files and does not check them: the command reports a file that it cannot open."""

    def convert(self, value: Any, _param: click.Parameter | None, _ctx: click.Context | None) -> Any:
        return value


def _completing(values: Callable[[click.Context], Iterable[str]]) -> Complete:
    """Return a function for ``shell_complete`` that offers those of ``values`` that begin as what is typed."""

    def complete(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
        found = dict.fromkeys(quietly(lambda: values(ctx)))
        return [CompletionItem(one) for one in found if one.startswith(incomplete)]

    return complete


def quietly(ask: Callable[[], Iterable[T]]) -> list[T]:
    """Return what ``ask`` finds out, or nothing: a shell would print warnings and errors into the line."""
    with warnings.catch_warnings(), suppress(Exception):
        warnings.simplefilter("ignore")
        return list(ask())
    return []


def _outline(ctx: click.Context) -> AnyOutline:
    """Return the outline of the FILE on the line; no code of its plugins runs."""
    from fredfw.experiment.file import reading

    # Where the last option still lacks its value, click has not come to the arguments.
    return reading.load(ctx.params["file"] or ctx.args[0])


def _patterns(_ctx: click.Context) -> Iterable[str]:
    from fredfw.collectives import Pattern

    return map(str, Pattern)


def names(ctx: click.Context) -> list[str]:
    """Return the names of all plugins, of whichever kind."""
    manager = plugins_of(ctx)
    found = {name for registry in manager.registries for name in registry.names()}
    return sorted(found.union(manager.commands.names()))


def _fields(cls: type) -> list[str]:
    from fredfw.plugin import schema

    return [f"{key}=" for key in schema.settings(cls)]


def _paths(ctx: click.Context) -> Iterator[str]:
    from fredfw.experiment.file.overrides import dotted
    from fredfw.workloads import Npu

    outline, manager = _outline(ctx), plugins_of(ctx)
    registries = {**manager.slots, "topology": manager.topologies, "workload": manager.workloads}
    sections: dict[tuple[str, str], Any] = {("fabrics", one.template): one for one in outline.fabrics}
    sections |= {("workloads", one.template): one for one in outline.workloads}
    for parts, section in sections.items():
        for slot in section.PLUGINS:
            yield f"{dotted((*parts, slot))}="
            chosen = section.table.get(slot)
            name = chosen.get("name") if isinstance(chosen, dict) else chosen
            if slot in registries and isinstance(name, str) and name in registries[slot]:
                yield from (f"{dotted((*parts, slot))}.{key}" for key in _fields(registries[slot].get(name)))
        if parts[0] == "workloads":
            yield f"{dotted((*parts, 'compute_scale'))}="
    yield from (f"npu.{key}" for key in _fields(Npu))
    yield from ("baseline=", "fidelity=", "priorities=", "title=")


def _sort_keys(ctx: click.Context) -> Iterator[str]:
    from fredfw.experiment.metrics import METRICS
    from fredfw.report.cells import swept_fields

    for name in (*METRICS, *(field.title for field in swept_fields(_outline(ctx)))):
        yield from (name, f"-{name}")


def _names(sections: Iterable[Any]) -> list[str]:
    return [name for one in sections for name in (one.template, one.name)]


def metrics(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Complete the last of several metrics with commas between them."""
    from fredfw.experiment.metrics import METRICS

    before, comma, last = incomplete.rpartition(",")
    found = _completing(lambda _: METRICS)(ctx, parameter, last)
    return [CompletionItem(f"{before}{comma}{one.value}") for one in found]


def exporters(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Complete both values of ``--export``: the name of an exporter, and a path."""
    names = _completing(lambda ctx: plugins_of(ctx).exporters.names())(ctx, parameter, incomplete)
    return [*names, CompletionItem(incomplete, type="file")]


def slot(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    return _completing(lambda ctx: plugins_of(ctx).slots[str(parameter.name)].names())(ctx, parameter, incomplete)


patterns = _completing(_patterns)
topologies = _completing(lambda ctx: plugins_of(ctx).topologies.names())
algorithms = _completing(lambda ctx: ("auto", *plugins_of(ctx).collectives.names()))
plugin_names = _completing(names)
topology_fields = _completing(lambda ctx: _fields(plugins_of(ctx).topologies.get(ctx.params["topology"])))
algorithm_fields = _completing(lambda ctx: _fields(plugins_of(ctx).collectives.get(ctx.params["algorithm"])))
fabrics = _completing(lambda ctx: _names(_outline(ctx).fabrics))
workloads = _completing(lambda ctx: _names(_outline(ctx).workloads))
paths = _completing(_paths)
sort_keys = _completing(_sort_keys)
