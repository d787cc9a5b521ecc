"""What 3D parallelism asks of a network at once: the streams of all MP, DP and PP groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from fredfw import Parallelism

MP, DP, PP, MP_AND_DP = "mp", "dp", "pp", "mp+dp"
PHASES = (MP, DP, PP, MP_AND_DP)
"""Names of the phases, in the order in which they are tried."""


class Stream(NamedTuple):
    """Ranks whose data is reduced, and ranks that get the result."""

    sources: tuple[int, ...]
    destinations: tuple[int, ...]


def strategies(npus: int, *, whole: bool = False) -> Iterator[Parallelism]:
    """Yield every (MP, DP, PP) with a product of at most ``npus`` (``whole``: exactly), the smallest product first."""
    products = range(npus, npus + 1) if whole else range(1, npus + 1)
    for workers in products:
        for mp in _divisors(workers):
            for dp in _divisors(workers // mp):
                yield Parallelism(mp, dp, workers // mp // dp)


def phases(parallelism: Parallelism) -> Iterator[tuple[str, tuple[Stream, ...]]]:
    """Yield the streams that run at the same time, with the name of the phase.

    ``mp``: the all-reduces of all MP groups. ``dp``: those of all DP groups. ``pp``: every stage sends to the next, and
    in another phase to the one before: one member of each MP group to all of the other one (all members hold the same
    activations; FRED, ISCA 2025). ``mp+dp``: the first stages are still at their MP all-reduces when the others, done
    with their backward pass, are at their DP all-reduces; one phase for each number of stages.
    """
    grid, pp = parallelism.grid, parallelism.pp
    if parallelism.mp > 1:
        yield MP, _all_reduces(parallelism.mp_groups().tolist())
    if parallelism.dp > 1:
        yield DP, _all_reduces(parallelism.dp_groups().tolist())
    for step in (1, -1):
        pairs = [(stage, stage + step) for stage in range(pp) if 0 <= stage + step < pp]
        if pairs:
            yield PP, tuple(Stream((int(one[a][0]),), tuple(one[b].tolist())) for one in grid for a, b in pairs)
    if parallelism.mp > 1 and parallelism.dp > 1:
        for busy in range(1, pp):
            groups = [group for stage in range(busy) for group in parallelism.mp_groups(stage).tolist()]
            groups += [group for stage in range(busy, pp) for group in parallelism.dp_groups(stage).tolist()]
            yield MP_AND_DP, _all_reduces(groups)


def _all_reduces(groups: list[list[int]]) -> tuple[Stream, ...]:
    return tuple(Stream(tuple(group), tuple(group)) for group in groups)


def _divisors(number: int) -> list[int]:
    return [one for one in range(1, number + 1) if number % one == 0]
