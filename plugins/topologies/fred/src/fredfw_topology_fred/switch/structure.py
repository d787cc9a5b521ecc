"""FRED_m(P): what the switch is made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from attrs import field, frozen

from fredfw.errors import InputError
from fredfw.units import whole
from fredfw_topology_fred.switch import routing
from fredfw_topology_fred.switch.configuration import SwitchConfiguration, SwitchFlow, check

if TYPE_CHECKING:
    import networkx


@frozen
class Microswitches:
    """How many of each part a switch has, sub-switches included.

    Args:
        r: Microswitches that reduce their two inputs, each with a line to every middle switch.
        d: Microswitches that copy to their two outputs, each with a line from every middle switch.
        rd: 2 x 2 microswitches that do both, where the recursion ends.
        multiplexers: Of odd output ports.
        demultiplexers: Of odd input ports.
    """

    r: int
    d: int
    rd: int
    multiplexers: int
    demultiplexers: int


@frozen
class FredSwitch:
    """FRED_m(P), the Clos-like recursive switch of FRED (ISCA 2025, section on the FRED switch).

    P = 2r or 2r + 1 ports: r R microswitches at the inputs and r D microswitches at the outputs, with m middle switches
    of r (even) or r + 1 (odd) ports between them, which are built the same way; an odd last port reaches every middle
    switch through a demultiplexer and a multiplexer. FRED_m(2) is one RD microswitch.

    Raises:
        InputError: ``m`` or ``ports``, which is P, is below 2.
    """

    m: int = field(validator=whole(2))
    ports: int = field(validator=whole(2))

    @property
    def middle(self) -> FredSwitch | None:
        """One of the m middle switches; ``None`` for a single microswitch."""
        return None if self.ports == 2 else FredSwitch(self.m, -(-self.ports // 2))

    @cached_property
    def microswitches(self) -> Microswitches:
        """The parts, counted."""
        if self.middle is None:
            return Microswitches(r=0, d=0, rd=1, multiplexers=0, demultiplexers=0)
        inner, odd = self.middle.microswitches, self.ports % 2
        return Microswitches(
            r=self.ports // 2 + self.m * inner.r,
            d=self.ports // 2 + self.m * inner.d,
            rd=self.m * inner.rd,
            multiplexers=odd + self.m * inner.multiplexers,
            demultiplexers=odd + self.m * inner.demultiplexers,
        )

    @property
    def stages(self) -> int:
        """Microswitches on the way from a port to another, the longest way: two per level of recursion and an RD."""
        return 1 if self.middle is None else 2 + self.middle.stages

    def route(self, flows: Iterable[SwitchFlow]) -> SwitchConfiguration:
        """Return a configuration that carries ``flows`` together.

        Raises:
            InvalidFlowError: A port that does not exist, or that two flows use on the same side.
            RoutingConflict: There is no such configuration, or none was found within the search's bound.
        """
        listed = tuple(flows)
        check(listed, self.ports)
        return routing.route(self.m, self.ports, listed)

    def add(self, configuration: SwitchConfiguration, flow: SwitchFlow) -> SwitchConfiguration:
        """Return ``configuration`` with ``flow`` added while all others stay where they are (online routing).

        Raises:
            InputError: The configuration is one of another switch.
            InvalidFlowError: As for ``route``.
            RoutingConflict: It cannot be added without moving another one.
        """
        if (configuration.m, configuration.ports) != (self.m, self.ports):
            message = f"a configuration of FRED_{configuration.m}({configuration.ports})"
            raise InputError(message, key="configuration", accepted=f"one of {self}")
        check((*configuration.flows, flow), self.ports)
        return routing.add(configuration, flow)

    def idle(self) -> SwitchConfiguration:
        """Return the configuration that carries nothing."""
        return routing.idle(self.m, self.ports)

    def to_networkx(self) -> networkx.DiGraph[str]:
        """Return the parts and the lines between them, from ``in0`` .. to ``out0`` ..; nodes have a ``kind``.

        Kinds are ``input``, ``output``, ``R``, ``D``, ``RD``, ``demultiplexer`` and ``multiplexer``. The names of the
        parts of middle switch ``c`` start with ``c/``.
        """
        import networkx as nx

        graph: networkx.DiGraph[str] = nx.DiGraph(name=str(self))
        entries, exits = [f"in{port}" for port in range(self.ports)], [f"out{port}" for port in range(self.ports)]
        graph.add_nodes_from(entries, kind="input")
        graph.add_nodes_from(exits, kind="output")
        for name, kind, sources, targets in self._parts("", entries, exits):
            graph.add_node(name, kind=kind)
            graph.add_edges_from((source, name) for source in sources)
            graph.add_edges_from((name, target) for target in targets)
        return graph

    def _parts(
        self, prefix: str, entries: list[str], exits: list[str]
    ) -> Iterator[tuple[str, str, list[str], list[str]]]:
        """Yield name, kind, known predecessors and known successors of every part between ``entries`` and ``exits``."""
        if self.middle is None:
            yield f"{prefix}RD", "RD", entries, exits
            return
        first, last = [], []
        for at in range(self.ports // 2):
            pair = slice(2 * at, 2 * at + 2)
            first.append(f"{prefix}R{at}")
            last.append(f"{prefix}D{at}")
            yield first[-1], "R", entries[pair], []
            yield last[-1], "D", [], exits[pair]
        if self.ports % 2:
            first.append(f"{prefix}demux")
            last.append(f"{prefix}mux")
            yield first[-1], "demultiplexer", entries[-1:], []
            yield last[-1], "multiplexer", [], exits[-1:]
        for middle in range(self.m):
            yield from self.middle._parts(f"{prefix}{middle}/", first, last)

    def __str__(self) -> str:
        return f"FRED_{self.m}({self.ports})"
