"""Which ports of which switches streams use, whether these can carry them together, and what is done if not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar

import numpy as np
from attrs import define, field, frozen

from fredfw import (
    Admission,
    AdmissionPolicy,
    Decompose,
    Fabric,
    FlowSet,
    NodeKind,
    Refuse,
    Routes,
    Split,
    Start,
    Wait,
)
from fredfw.errors import UnsupportedError
from fredfw.typing import BoolArray, IntArray
from fredfw.units import counted
from fredfw_topology_fred.switch import FredSwitch, RoutingConflict, SwitchFlow

POLICIES: Mapping[str, str] = {
    "error": "the simulation ends",
    "block": "later flows wait, and flows of one collective take turns",
    "decompose": "the collective that comes later is done by unicasts among its end points",
}  # what may be done about a routing conflict (FRED, ISCA 2025, section on the FRED switch)
SwitchFlows = Mapping[int, tuple[SwitchFlow, ...]]  # what one route asks of each switch node that it passes


class PortMap:
    """The ports of every logical switch of a tree of switches."""

    # A switch has one port for every NPU below it towards its children (those of child 0 first), as many towards its
    # parent (none at the root), then one per I/O controller: 4 + 4 + 4 on the paper's L1 switches with four
    # controllers, 5 x 4 on L2 (FRED, ISCA 2025). A stream that goes up takes the port with the number of the first NPU
    # below that contributes to it, one that comes down that of the first NPU that receives it, so streams that share no
    # NPU share no port.

    def __init__(self, kinds: IntArray, parents: IntArray, sources: IntArray, destinations: IntArray) -> None:
        self.sources, self.destinations = sources, destinations
        kind = kinds.tolist()
        self.parent: list[int] = parents.tolist()  # switch above each node, -1 for the root
        self.below = [0 if one == NodeKind.SWITCH else 1 for one in kind]  # NPUs below each node, or itself
        self.ports = [0] * len(kind)  # of each switch, 0 for other nodes
        self.first = [0] * len(kind)  # first port of each node at its parent
        *tree, _ = (node for node, one in enumerate(kind) if one != NodeKind.CONTROLLER)
        for node in tree:
            above = self.parent[node]
            self.ports[node] += self.below[node] if self.ports[node] else 0  # towards the parent
            self.first[node] = self.ports[above]
            self.ports[above] += self.below[node]
            self.below[above] += self.below[node]
        for node, one in enumerate(kind):
            if one == NodeKind.CONTROLLER:
                self.first[node] = self.ports[self.parent[node]]
                self.ports[self.parent[node]] += 1

    def flows(self, routes: Routes) -> tuple[SwitchFlows, ...]:
        # Where a stream both goes on to the parent and comes back from it, the switch carries two flows: one that
        # reduces towards the parent and one that distributes what comes down.
        pairs = zip(routes.offsets[:-1], routes.offsets[1:], strict=True)
        return tuple(self._flows(routes.links[start:stop]) for start, stop in pairs)

    def _flows(self, links: IntArray) -> SwitchFlows:
        source, destination = self.sources[links].tolist(), self.destinations[links].tolist()
        rises = {one for one, other in zip(source, destination, strict=True) if self.parent[one] == other}
        falls = {other for one, other in zip(source, destination, strict=True) if self.parent[other] == one}
        inputs: dict[int, list[int]] = {}
        outputs: dict[int, list[int]] = {}
        # Controllers have the highest numbers but hang on leaves, so they come first; then children before parents.
        for child in sorted(rises | falls, key=lambda node: (self.ports[node] > 0, node)):
            above = self.parent[child]
            ups, downs = list(inputs.get(child, ())), list(outputs.get(child, ()))
            for ways, contributors, near, far in ((rises, ups, inputs, outputs), (falls, downs, outputs, inputs)):
                if child in ways:
                    lane = min(contributors, default=0) % self.below[child]
                    near.setdefault(above, []).append(self.first[child] + lane)
                    if self.ports[child]:
                        far.setdefault(child, []).append(self.below[child] + lane)
        return {switch: self._at(switch, inputs[switch], outputs[switch]) for switch in sorted(inputs)}

    def _at(self, switch: int, inputs: list[int], outputs: list[int]) -> tuple[SwitchFlow, ...]:
        above = range(self.below[switch], 2 * self.below[switch]) if self.parent[switch] >= 0 else range(0)
        down, up = [port for port in inputs if port in above], [port for port in outputs if port in above]
        if not (down and up):
            return (SwitchFlow(inputs, outputs),)
        return (
            SwitchFlow([port for port in inputs if port not in above], up),
            SwitchFlow(down, [port for port in outputs if port not in above]),
        )


@frozen
class Conflict:
    """Streams that a switch, by its name, cannot carry together."""

    switch: str
    cause: RoutingConflict

    def __str__(self) -> str:
        return f"{self.switch}: {self.cause}"


@define(eq=False)
class Circuits(AdmissionPolicy):
    """The switches of one fabric; remembers every set of flows that it has routed."""

    name: ClassVar[str] = "circuits"

    m: int  # middle switches of each FRED switch
    ports: PortMap  # their ports
    node_name: Callable[[int], str]  # name of a node
    policy: str  # one of ``POLICIES``
    _known: dict[Routes, tuple[tuple[SwitchFlows, ...], BoolArray, bool]] = field(factory=dict, init=False)
    _together: dict[tuple[Routes, ...], Conflict | None] = field(factory=dict, init=False)
    _routed: dict[tuple[int, frozenset[SwitchFlow]], RoutingConflict | None] = field(factory=dict, init=False)

    @classmethod
    def of(cls, fabric: Fabric) -> Circuits:
        if not isinstance(fabric.defaults.admission, Circuits):
            message = f"fabric {fabric.name!r} has no FRED switches"
            raise UnsupportedError(message, accepted="a fabric of topology 'fred'")
        return fabric.defaults.admission

    def streams(self, routes: Routes) -> tuple[SwitchFlows, ...]:
        return self._of(routes)[0]

    def unicasts(self, routes: Routes) -> BoolArray:
        """Return the ``(F,)`` mask of ``routes`` that no switch copies or reduces."""
        return self._of(routes)[1]

    def in_network(self, routes: Routes) -> bool:
        return self._of(routes)[2]

    def conflict(self, together: Sequence[Routes]) -> Conflict | None:
        if (key := tuple(together)) not in self._together:
            self._together[key] = self.conflict_among(stream for routes in together for stream in self.streams(routes))
        return self._together[key]

    def conflict_among(self, streams: Iterable[SwitchFlows]) -> Conflict | None:
        """Return the first conflict among ``streams``, by turn and switch, or ``None`` if all can run together."""
        # Streams that share a port take turns on it whatever the switch can do, and the links' sharing accounts for
        # that: each goes to the first turn in which all its ports are free, and every turn must route.
        for turn in _turns(streams):
            for switch in sorted(turn):
                if (cause := self._route(self.ports.ports[switch], turn[switch])) is not None:
                    return Conflict(self.node_name(switch), cause)
        return None

    def compatible(self, together: Sequence[Routes]) -> bool:
        # Streams that share no port all go to the first turn, in whatever order they come. A switch that can route all
        # of them can route some of them.
        streams = [stream for routes in together for stream in self.streams(routes)]
        return len(_turns(streams)) <= 1 and self.conflict_among(streams) is None

    def parts(self, routes: Routes) -> tuple[IntArray, ...]:
        """Return ``routes`` in parts that each can run, every one in the first part that takes it."""
        streams = self.streams(routes)
        parts: list[list[int]] = []
        for number, stream in enumerate(streams):
            for part in parts:
                if self.conflict_among([*(streams[other] for other in part), stream]) is None:
                    part.append(number)
                    break
            else:
                parts.append([number])
        return tuple(np.array(part) for part in parts)

    def _of(self, routes: Routes) -> tuple[tuple[SwitchFlows, ...], BoolArray, bool]:
        if (known := self._known.get(routes)) is None:
            streams = self.ports.flows(routes)
            at_switches = [[flow for carried in stream.values() for flow in carried] for stream in streams]
            unicasts = [all(len(one.inputs) == len(one.outputs) == 1 for one in flows) for flows in at_switches]
            known = self._known[routes] = streams, np.array(unicasts, dtype=bool), not all(unicasts)
        return known

    def _route(self, ports: int, flows: list[SwitchFlow]) -> RoutingConflict | None:
        key = ports, frozenset(flows)
        if key not in self._routed:
            try:
                # In a fixed order, so that the answer does not depend on which flows asked first.
                FredSwitch(self.m, ports).route(sorted(flows, key=lambda flow: min(flow.inputs)))
                self._routed[key] = None
            except RoutingConflict as conflict:
                self._routed[key] = conflict
        return self._routed[key]

    def begin(self, fabric: Fabric) -> CircuitAdmission:
        return CircuitAdmission(self)


def _turns(streams: Iterable[SwitchFlows]) -> list[dict[int, list[SwitchFlow]]]:
    """Return, for each turn, the flows of each switch that run at the same time."""
    turns: list[dict[int, list[SwitchFlow]]] = []
    for stream in streams:
        for turn in turns:
            here = ((one, other) for switch, own in stream.items() for one in own for other in turn.get(switch, ()))
            if not any(one.meets(other) for one, other in here):
                break
        else:
            turns.append(turn := {})
        for switch, flows in stream.items():
            turn.setdefault(switch, []).extend(flows)
    return turns


@define(eq=False)
class CircuitAdmission(Admission):
    """Starts in-network streams only where the switches can route them beside those of their class that run."""

    # Each class has a virtual circuit of its own (FRED, section on overlapping communication), so classes do not
    # conflict. Unicasts are not asked about: alone they always route, and they share the links in time.
    flow_by_flow: ClassVar[bool] = True

    circuits: Circuits
    _first: Conflict | None = field(default=None, init=False)
    _met: set[Routes] = field(factory=set, init=False)

    def admit(self, flows: FlowSet, active: Sequence[FlowSet]) -> Start | Wait | Split | Decompose | Refuse:
        circuits, routes = self.circuits, flows.routes
        if not circuits.in_network(routes):
            return Start()
        rivals = [one.routes for one in active if one.priority == flows.priority and circuits.in_network(one.routes)]
        if (conflict := circuits.conflict([routes, *rivals])) is None:
            return Start()
        self._met.add(routes)
        self._first = self._first or conflict
        reason = f"routing conflict on {conflict}"
        match circuits.policy:
            case "error":
                return Refuse(reason)
            case "decompose":
                return Decompose(reason)
        return Wait(reason) if circuits.conflict([routes]) is None else Split(circuits.parts(routes), reason)

    def always_starts(self, routes: Routes) -> BoolArray:
        return self.circuits.unicasts(routes)

    def compatible(self, together: Sequence[FlowSet]) -> bool:
        routes = dict.fromkeys(one.routes for one in together)  # of equal streams there is one
        return self.circuits.compatible([one for one in routes if self.circuits.in_network(one)])

    def figures(self) -> Mapping[str, float]:
        """See ``Admission.figures``: ``routing conflicts``, the different sets of streams that met one."""
        return {"routing conflicts": float(len(self._met))} if self._met else {}

    def notes(self) -> tuple[str, ...]:
        if self._first is None:
            return ()
        policy = self.circuits.policy
        sets = f"{counted(len(self._met), 'set')} of streams met a routing conflict"
        return (f"{sets}, the first on {self._first}; policy {policy!r}: {POLICIES[policy]}",)
