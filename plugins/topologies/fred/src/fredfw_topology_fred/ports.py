"""Which ports of which switches a route uses: from links of the tree to flows of its switches."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from attrs import frozen
from numpy.typing import ArrayLike

from fredfw import NodeKind, Routes
from fredfw.typing import IntArray
from fredfw_topology_fred.switch import SwitchFlow

SwitchFlows = Mapping[int, tuple[SwitchFlow, ...]]
"""What one route asks of each switch node that it passes."""


@frozen(eq=False)
class PortMap:
    """The ports of every logical switch of a tree of switches.

    A switch has one port for every NPU below it towards its children (those of child 0 first), as many towards its
    parent (none at the root), then one per I/O controller: 4 + 4 + 4 on the paper's L1 switches with four controllers,
    5 x 4 on L2 (FRED, ISCA 2025). A stream that goes up takes the port with the number of the first NPU below that
    contributes to it, one that comes down that of the first NPU that receives it, so streams that share no NPU share no
    port.

    Args:
        parent: ``(nodes,)`` switch above each node, -1 for the root.
        first: ``(nodes,)`` first port of each node at its parent.
        below: ``(nodes,)`` NPUs below each node, itself included; 1 for a controller.
        ports: ``(nodes,)`` ports of each switch, 0 for other nodes.
        sources: ``(links,)`` node each link leaves.
        destinations: ``(links,)`` node each link enters.
    """

    parent: tuple[int, ...]
    first: tuple[int, ...]
    below: tuple[int, ...]
    ports: tuple[int, ...]
    sources: IntArray
    destinations: IntArray

    @classmethod
    def of(cls, kinds: ArrayLike, parents: ArrayLike, sources: IntArray, destinations: IntArray) -> PortMap:
        """Derive it from the ``(nodes,)`` kinds and parents of a tree in which every switch follows its children."""
        kind, parent = np.asarray(kinds), np.asarray(parents)
        below = np.where(kind == NodeKind.SWITCH, 0, 1)
        order = np.flatnonzero(kind != NodeKind.CONTROLLER)
        for node in order[:-1]:
            below[parent[node]] += below[node]
        first, ports = np.zeros((2, len(kind)), dtype=np.intp)
        for node in order[:-1]:
            first[node] = ports[parent[node]]
            ports[parent[node]] += below[node]
        ports[order[:-1]] += np.where(kind[order[:-1]] == NodeKind.SWITCH, below[order[:-1]], 0)
        for node in np.flatnonzero(kind == NodeKind.CONTROLLER):
            first[node] = ports[parent[node]]
            ports[parent[node]] += 1
        return cls(
            tuple(parent.tolist()),
            tuple(first.tolist()),
            tuple(below.tolist()),
            tuple(ports.tolist()),
            sources,
            destinations,
        )

    def flows(self, routes: Routes) -> tuple[SwitchFlows, ...]:
        """Return, for each route, its flows at every switch it passes.

        Where a stream both goes on to the parent and comes back from it, the switch carries two flows: one that reduces
        towards the parent and one that distributes what comes down.
        """
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
