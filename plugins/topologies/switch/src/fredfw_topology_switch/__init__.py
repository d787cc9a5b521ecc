"""The topology ``switch``, NPUs around one crossbar, and its router ``crossbar``."""

from typing import ClassVar

import numpy as np
from attrs import frozen

from fredfw import Capabilities, Defaults, Fabric, Level, NodeKind, Operation, Router, Routes, Topology, limits, units
from fredfw.errors import UnsupportedError
from fredfw.typing import IntArray

fredfw_contract = 2


@frozen
class CrossbarRouter(Router):
    """Routes through the one switch of a fabric that links it to every node in each direction.

    A many-ended transfer goes up from every source and down to every destination, except a multicast to its own source.
    """

    name: ClassVar[str] = "crossbar"

    def route(self, fabric: Fabric, sources: IntArray, destinations: IntArray) -> Routes:
        up, down = fabric.derived(_links)
        ways = np.stack([up[sources], down[destinations]], axis=1)
        used = (ways >= 0) & (sources != destinations)[:, None]
        return fabric.paths(np.concatenate([[0], np.cumsum(used.sum(axis=1))]), ways[used])

    def path(self, fabric: Fabric, source: int, destination: int) -> Routes:
        up, down = fabric.derived(_links)
        ways = (int(up[source]), int(down[destination])) if source != destination else ()
        return fabric.path([link for link in ways if link >= 0])

    def tree(self, fabric: Fabric, sources: IntArray, destinations: IntArray, operation: Operation) -> Routes:
        up, down = fabric.derived(_links)
        if operation is Operation.MULTICAST:
            destinations = destinations[destinations != sources[0]]
        rise, fall = (ends[ends >= 0] for ends in (up[sources], down[destinations]))
        latency = sum(fabric.latencies[links].max(initial=0.0) for links in (rise, fall))
        return fabric.tree(rise, fall, latency)


@frozen
class Switch(Topology):
    """NPUs around one crossbar switch, each with one link to it and one link from it.

    The switch itself never limits anything, but with ``in_network`` it can combine and copy streams on their way. The
    defaults are the NPUs of the FRED paper (ISCA 2025): 20 with links of 3 TB/s, 20 ns and 0.063 pJ/bit.
    """

    name: ClassVar[str] = "switch"
    scopes: ClassVar[tuple[str, ...]] = ("inter-package",)

    npus: int = units.count(20, help="NPUs around the switch")
    link_bandwidth: float = units.bandwidth("3 TB/s", help="bandwidth of the link of an NPU, per direction")
    link_latency: float = units.duration("20 ns", help="latency of a link; a path between NPUs has two")
    link_energy: float = units.energy("0.063 pJ/bit", help="energy per byte and link")
    in_network: bool = units.flag(False, help="whether the switch carries out collectives")

    def build(self) -> Fabric:
        """Return the fabric; the switch is the last node, links up come before links down."""
        limits.check("nodes", self.npus + 1, key="npus")
        npus = np.arange(self.npus)
        switch = np.full(self.npus, self.npus)
        kinds = np.append(np.full(self.npus, NodeKind.NPU), NodeKind.SWITCH)
        able = (kinds == NodeKind.SWITCH) & self.in_network
        return Fabric(
            name=f"switch of {self.npus}",
            kinds=kinds,
            sources=np.concatenate([npus, switch]),
            destinations=np.concatenate([switch, npus]),
            bandwidths=self.link_bandwidth,
            latencies=self.link_latency,
            energies=self.link_energy,
            levels=(Level(self.npus, "switch", self.link_bandwidth, 2 * self.link_latency),),
            coordinates=npus[:, None],
            offers=Capabilities(reduces=self.in_network, multicasts=self.in_network),
            copies=able,
            reduces=able,
            defaults=Defaults(router=CrossbarRouter()),
        )


def _links(fabric: Fabric) -> tuple[IntArray, IntArray]:
    """Return the ``(nodes,)`` link from each node up to the switch and the one back, -1 for the switch itself."""
    nodes = np.arange(len(fabric.kinds))
    switches, others = nodes[fabric.kinds == NodeKind.SWITCH], nodes[fabric.kinds != NodeKind.SWITCH]
    attached = np.isin(fabric.sources, switches) != np.isin(fabric.destinations, switches)
    if len(switches) != 1 or len(fabric.sources) != 2 * len(others) or not attached.all():
        message = f"the crossbar router cannot route fabric {fabric.name!r}"
        raise UnsupportedError(message, accepted="one switch with one link each way to every other node")
    up, down = np.full((2, len(nodes)), -1)
    up[others] = fabric.links_between(others, np.broadcast_to(switches, others.shape))
    down[others] = fabric.links_between(np.broadcast_to(switches, others.shape), others)
    return up, down
