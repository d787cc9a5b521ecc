"""Measured times for the commands of plugins: read as ``validate`` reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from attrs import frozen

from fredfw.cli.session import open_framework

if TYPE_CHECKING:
    import click

    from fredfw.fabric import Fabric


@frozen(eq=False)
class Measured:
    """A collective that was timed."""

    system: str  #: Name of the machine, as ``fredfw validate`` has it.
    source: str  #: Who measured it.
    pattern: str  #: What ran, or ``sendrecv``.
    nodes: int  #: That took part.
    ranks: int  #: In all of them.
    size: float  #: Bytes of the per-rank buffer, the larger of input and output.
    seconds: float  #: How long it took.
    fabric: Fabric  #: Stands for at most two of its nodes, with the transport that predicts it.


def measured(
    ctx: click.Context, paths: Sequence[str], *, system: str | None = None, pattern: str | None = None
) -> list[Measured]:
    """Return the times in tables of collectives, which are CSV or what nccl-tests prints, in their order.

    ``system`` is that of all lines, instead of what they say; ``pattern`` that of output without its program. Raises
    ``InputError`` where one cannot be read or used.
    """
    from fredfw.validation import tables
    from fredfw.validation.collectives import presets
    from fredfw.validation.transports import Transports, fabric

    plugins = open_framework(ctx).plugins
    reading = tables.Reading(system, pattern, presets=presets(plugins))
    transports, fabrics = Transports(plugins), dict[tuple[str, int], "Fabric"]()
    found = []
    for path in paths:
        for one in tables.read(path, lambda text, source: tables.parse(text, source, reading)):
            key = one.system.name, min(one.nodes, 2)
            if key not in fabrics:
                fabrics[key] = fabric(one.system, key[1], plugins).with_defaults(transport=transports.of(one))
            point = one.system.name, one.source, one.pattern, one.nodes, one.ranks, one.size, one.seconds
            found.append(Measured(*point, fabrics[key]))
    return found
