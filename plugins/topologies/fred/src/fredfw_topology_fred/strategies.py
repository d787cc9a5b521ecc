"""What 3D parallelism asks of a network at once: the streams of all MP, DP and PP groups."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import NamedTuple

from fredfw import DeviceMesh

MP, DP, PP, MP_AND_DP = "mp", "dp", "pp", "mp+dp"
PHASES = (MP, DP, PP, MP_AND_DP)
"""Names of the phases, in the order in which they are tried."""


class Stream(NamedTuple):
    """Ranks whose data is reduced, and ranks that get the result."""

    sources: tuple[int, ...]
    destinations: tuple[int, ...]


def strategies(npus: int, *, whole: bool = False) -> Iterator[DeviceMesh]:
    """Yield every (MP, DP, PP) with a product of at most ``npus`` (``whole``: exactly), the smallest product first."""
    products = range(npus, npus + 1) if whole else range(1, npus + 1)
    for workers in products:
        for mp in _divisors(workers):
            for dp in _divisors(workers // mp):
                yield DeviceMesh({"mp": mp, "pp": workers // mp // dp, "dp": dp})


def name(strategy: DeviceMesh) -> str:
    """Return a strategy in FRED's notation."""
    return "-".join(f"{axis.upper()}({strategy.size(axis)})" for axis in (MP, DP, PP))


def phases(mesh: DeviceMesh) -> Iterator[tuple[str, tuple[Stream, ...]]]:
    """Yield the streams that run at the same time, with the name of the phase.

    ``mp``: the all-reduces of all MP groups. ``dp``: those of all DP groups, and so on for every axis but ``pp``.
    ``pp``: every stage sends to the next, and in another phase to the one before: one member of each MP group to all of
    the other one (all members hold the same activations; FRED, ISCA 2025). ``mp+dp``: the first stages are still at
    their MP all-reduces when the others, done with their backward pass, are at their DP all-reduces; one phase for each
    number of stages.
    """
    stages = range(mesh.size(PP))
    for axis, size in mesh.axes.items():
        if axis != PP and size > 1:
            yield axis, _all_reduces(mesh.groups(axis).tolist())
    # Those that hold the same activations are along the axes inside the pipeline.
    inside = list(takewhile(lambda axis: axis != PP, mesh.axes))
    for step in (1, -1):
        pairs = [(stage, stage + step) for stage in stages if stage + step in stages]
        if pairs:
            held = [mesh.groups(*inside, pp=stage).tolist() for stage in stages]
            rows = range(len(held[0]))
            yield PP, tuple(Stream((held[a][row][0],), tuple(held[b][row])) for row in rows for a, b in pairs)
    if mesh.size(MP) > 1 and mesh.size(DP) > 1:
        for busy in stages[1:]:
            groups = [group for stage in range(busy) for group in mesh.groups(MP, pp=stage).tolist()]
            groups += [group for stage in stages[busy:] for group in mesh.groups(DP, pp=stage).tolist()]
            yield MP_AND_DP, _all_reduces(groups)


def _all_reduces(groups: list[list[int]]) -> tuple[Stream, ...]:
    return tuple(Stream(tuple(group), tuple(group)) for group in groups)


def _divisors(number: int) -> list[int]:
    return [one for one in range(1, number + 1) if number % one == 0]
