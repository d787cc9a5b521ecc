"""What 3D parallelism asks of a network at once, and whether the switches of a fabric can route it, by enumeration."""

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import takewhile
from typing import NamedTuple

import numpy as np
from attrs import frozen

from fredfw import DeviceMesh, Fabric, Operation, Placement
from fredfw.errors import UnsupportedError
from fredfw.typing import IntArray
from fredfw_topology_fred.circuits import Circuits, Conflict, SwitchFlows

MP, DP, PP, MP_AND_DP = "mp", "dp", "pp", "mp+dp"
PHASES = (MP, DP, PP, MP_AND_DP)  # names of the phases, in the order in which they are tried


class Stream(NamedTuple):
    """Ranks whose data is reduced, and ranks that get the result."""

    sources: tuple[int, ...]
    destinations: tuple[int, ...]


def strategies(npus: int, *, whole: bool = False) -> Iterator[DeviceMesh]:
    """Yield every (MP, DP, PP) with a product of at most ``npus`` (``whole``: exactly), the smallest product first."""
    for workers in range(npus if whole else 1, npus + 1):
        for mp in _divisors(workers):
            for dp in _divisors(workers // mp):
                yield DeviceMesh({"mp": mp, "pp": workers // mp // dp, "dp": dp})


def name(strategy: DeviceMesh) -> str:
    return "-".join(f"{axis.upper()}({strategy.size(axis)})" for axis in (MP, DP, PP))


def phases(mesh: DeviceMesh) -> Iterator[tuple[str, tuple[Stream, ...]]]:
    """Yield the streams that run at the same time, with the name of the phase."""
    # ``mp``: the all-reduces of all MP groups. ``dp``: those of all DP groups, and so on for every axis but ``pp``.
    # ``pp``: every stage sends to the next, and in another phase to the one before: one member of each MP group to all
    # of the other one (all members hold the same activations; FRED, ISCA 2025). ``mp+dp``: the first stages are still
    # at their MP all-reduces when the others, done with their backward pass, are at their DP all-reduces; one phase for
    # each number of stages.
    stages = range(mesh.size(PP))
    for axis, size in mesh.axes.items():
        if axis != PP and size > 1:
            yield axis, _all_reduces(mesh.groups(axis).tolist())
    # Those that hold the same activations are along the axes inside the pipeline.
    inside = list(takewhile(lambda axis: axis != PP, mesh.axes))
    for step in (1, -1):
        if pairs := [(stage, stage + step) for stage in stages if stage + step in stages]:
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


NO_PLACE = "no place"  # stands for a phase where the placement has no place for the strategy


def conflict_finder(fabric: Fabric) -> Callable[[Iterable[Stream], IntArray], Conflict | None]:
    """Return what finds a conflict among streams with rank ``r`` on NPU ``places[r]``; it remembers the way of each."""
    circuits, router = Circuits.of(fabric), fabric.defaults.router

    @cache
    def way(sources: tuple[int, ...], destinations: tuple[int, ...]) -> SwitchFlows:
        ends = np.array(sources), np.array(destinations)
        if len(sources) == len(destinations) == 1:
            routes = router.route(fabric, *ends)
        else:
            operation = Operation.MULTICAST if len(sources) == 1 else Operation.ALL_REDUCE
            routes = router.tree(fabric, *ends, operation)
        return circuits.ports.flows(routes)[0]

    def conflict(streams: Iterable[Stream], places: IntArray) -> Conflict | None:
        nodes = fabric.npus[places].tolist()
        return circuits.conflict_among(
            way(tuple(nodes[one] for one in stream.sources), tuple(nodes[one] for one in stream.destinations))
            for stream in streams
        )

    return conflict


@frozen
class Finding:
    """A phase of a strategy that cannot be routed."""

    phase: str  # one of ``PHASES``, or ``NO_PLACE``
    conflict: str  # where and why; with ``NO_PLACE`` what the placement says
    proven: bool  # whether there is no way (under this placement and port numbering), or just none was found
    parallelism: DeviceMesh  # the strategy


@frozen
class Check:
    """How many strategies and phases were tried with one placement on a fabric of ``m`` middle switches."""

    m: int
    placement: str
    strategies: int
    phases: int
    findings: tuple[Finding, ...]

    @property
    def routable(self) -> int:
        return self.strategies - len({finding.parallelism for finding in self.findings})


def check(fabric: Fabric, placement: Placement, meshes: Iterable[DeviceMesh]) -> Check:
    conflict_of = conflict_finder(fabric)
    findings: list[Finding] = []
    tried = asked = 0
    for mesh in meshes:
        tried += 1
        try:
            places = placement.assign(fabric, mesh)
        except UnsupportedError as error:
            findings.append(Finding(NO_PLACE, str(error), proven=False, parallelism=mesh))
            continue
        for phase, streams in phases(mesh):
            asked += 1
            if (conflict := conflict_of(streams, np.asarray(places))) is not None:
                findings.append(Finding(phase, str(conflict), conflict.cause.proven, mesh))
    return Check(Circuits.of(fabric).m, placement.name, tried, asked, tuple(findings))
