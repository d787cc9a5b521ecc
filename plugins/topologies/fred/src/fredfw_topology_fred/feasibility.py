"""Whether the switches of a fabric can route what 3D parallelism asks of them, by enumeration."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from attrs import field, frozen

from fredfw import DeviceMesh, Fabric, Operation, Placement
from fredfw.errors import UnsupportedError
from fredfw.typing import IntArray
from fredfw_topology_fred.circuits import Circuits, Conflict
from fredfw_topology_fred.ports import SwitchFlows
from fredfw_topology_fred.strategies import Stream, phases

NO_PLACE = "no place"
"""Stands for a phase where the placement has no place for the strategy."""


@frozen(eq=False)
class Switching:
    """The switches of one fabric, asked about streams between NPUs; remembers the way of every stream."""

    fabric: Fabric
    circuits: Circuits
    _ways: dict[tuple[bytes, bytes], SwitchFlows] = field(factory=dict, init=False)

    @classmethod
    def of(cls, fabric: Fabric) -> Switching:
        """Return the switches of ``fabric``; raises ``UnsupportedError`` where they are not FRED's."""
        if not isinstance(fabric.defaults.admission, Circuits):
            message = f"fabric {fabric.name!r} has no FRED switches"
            raise UnsupportedError(message, accepted="a fabric of topology 'fred'")
        return cls(fabric, fabric.defaults.admission)

    def conflict(self, streams: Iterable[Stream], places: IntArray) -> Conflict | None:
        """Return a conflict among ``streams`` with rank ``r`` on NPU ``places[r]``, or ``None`` if they can all run."""
        nodes = self.fabric.npus[places]
        return self.circuits.conflict_among(
            self._way(nodes[list(stream.sources)], nodes[list(stream.destinations)]) for stream in streams
        )

    def _way(self, sources: IntArray, destinations: IntArray) -> SwitchFlows:
        key = sources.tobytes(), destinations.tobytes()
        if key not in self._ways:
            router = self.fabric.defaults.router
            if len(sources) == len(destinations) == 1:
                routes = router.route(self.fabric, sources, destinations)
            else:
                operation = Operation.MULTICAST if len(sources) == 1 else Operation.ALL_REDUCE
                routes = router.tree(self.fabric, sources, destinations, operation)
            (self._ways[key],) = self.circuits.ports.flows(routes)
        return self._ways[key]


@frozen
class Finding:
    """A phase of a strategy that cannot be routed.

    Args:
        strategy: What was tried.
        phase: One of ``strategies.PHASES``, or ``NO_PLACE``.
        conflict: Where and why; with ``NO_PLACE`` what the placement says.
        proven: Whether there is no way (under this placement and port numbering), or just none was found.
    """

    strategy: DeviceMesh
    phase: str
    conflict: str
    proven: bool


@frozen
class Check:
    """How many strategies and phases were tried with one placement on a fabric of ``m`` middle switches.

    What cannot be routed is in ``findings``, strategies with fewer workers first.
    """

    m: int
    placement: str
    strategies: int
    phases: int
    findings: tuple[Finding, ...]

    @property
    def routable(self) -> int:
        """Strategies without a finding."""
        return self.strategies - len({finding.strategy for finding in self.findings})


def check(fabric: Fabric, placement: Placement, strategies: Iterable[DeviceMesh]) -> Check:
    """Route every phase of every strategy on ``fabric`` under ``placement``.

    Raises:
        UnsupportedError: The fabric is not made of FRED switches.
        InputError: A strategy has more workers than the fabric has NPUs.
    """
    switching = Switching.of(fabric)
    findings: list[Finding] = []
    tried = asked = 0
    for mesh in strategies:
        tried += 1
        try:
            places = placement.assign(fabric, mesh)
        except UnsupportedError as error:
            findings.append(Finding(mesh, NO_PLACE, str(error), proven=False))
            continue
        for name, streams in phases(mesh):
            asked += 1
            conflict = switching.conflict(streams, np.asarray(places))
            if conflict is not None:
                findings.append(Finding(mesh, name, str(conflict), conflict.cause.proven))
    return Check(switching.circuits.m, placement.name, tried, asked, tuple(findings))
