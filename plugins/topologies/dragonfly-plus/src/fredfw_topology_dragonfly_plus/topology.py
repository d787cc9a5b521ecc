"""The dragonfly(+): its fields and its levels."""

from functools import partial
from typing import ClassVar

import numpy as np
from attrs import frozen

from fredfw import Defaults, Fabric, Level, NodeKind, Topology, limits, units
from fredfw.errors import InputError
from fredfw_topology_dragonfly_plus.routing import DragonflyPlusRouter
from fredfw_topology_dragonfly_plus.structure import Structure


@frozen
class DragonflyPlus(Topology):
    """Dragonfly+: groups of leaf and spine switches, each two groups joined by cables between their spines.

    Each leaf of a group has a link to each of its spines (Shpiner et al., "Dragonfly+: low cost topology for scaling
    datacenters", HiPINEB 2017). With ``spines = 0`` it is a dragonfly: each two leaves of a group are joined, and the
    leaves have the cables (Kim, Dally, Scott and Abts, "Technology-driven, highly-scalable dragonfly topology", ISCA
    2008). With fewer groups than can be joined, each two have as many cables as all pairs can have, and ports that are
    left over stay unused. The ports of a group lead once round all other groups in order, then round them again.

    A flow takes minimal paths: one cable at most, evenly spread over all cables between two groups, and over all spines
    between leaves of a group. Bandwidths and latencies are not the papers': 200 Gbps per link, 500 ns with the switch
    or NPU that it enters, 1 us for the longer cables between groups. There is no energy.
    """

    name: ClassVar[str] = "dragonfly-plus"
    scopes: ClassVar[tuple[str, ...]] = ("inter-pod",)

    npus_per_leaf: int = units.count(4, help="NPUs of a leaf")
    leaves: int = units.count(4, help="leaves of a group")
    spines: int = units.count(4, minimum=0, help="spines of a group; 0: leaves are joined to each other")
    cables: int = units.count(2, help="to other groups, per spine (per leaf where there are no spines)")
    groups: int | None = units.count(None, help="how many; default: as many as can all be joined")
    terminal_bandwidth: float = units.bandwidth("200 Gbps", help="of the link between an NPU and its leaf, each way")
    local_bandwidth: float = units.bandwidth("200 Gbps", help="of each link inside a group, each way")
    global_bandwidth: float = units.bandwidth("200 Gbps", help="of each cable between groups, each way")
    terminal_latency: float = units.duration("500 ns", help="of the link between an NPU and its leaf")
    local_latency: float = units.duration("500 ns", help="of each link inside a group")
    global_latency: float = units.duration("1 us", help="of each cable between groups")
    link_energy: float = units.energy(0.0, help="energy per byte and link")

    def __attrs_post_init__(self) -> None:
        gateways = self.spines or self.leaves
        if self.groups is not None and self.groups > gateways * self.cables + 1:
            message = f"{self.groups} groups, of which each has {gateways} x {self.cables} cables to others"
            raise InputError(message, key="groups", accepted=f"1 to {gateways * self.cables + 1}")

    def structure(self) -> Structure:
        """Return its numbers of everything."""
        ports = (self.spines or self.leaves) * self.cables
        groups = ports + 1 if self.groups is None else self.groups
        return Structure(self.npus_per_leaf, self.leaves, self.spines, groups, ports // max(groups - 1, 1))

    def build(self) -> Fabric:
        """Return the dragonfly(+); ``Structure`` says how nodes and links are numbered."""
        dragonfly = self.structure()
        key = max(("npus_per_leaf", "leaves", "spines", "cables"), key=lambda name: getattr(self, name))
        limits.check("nodes", dragonfly.nodes, key=key)
        limits.check("links", dragonfly.links, key=key)
        sources, destinations = dragonfly.ends()
        terminals = 2 * dragonfly.all_npus
        counts = [terminals, dragonfly.local_links, len(sources) - terminals - dragonfly.local_links]
        sizes = self.npus_per_leaf, self.leaves, dragonfly.groups
        return Fabric(
            name=f"{dragonfly.all_npus}-NPU dragonfly{'+' if self.spines else ''}",
            kinds=np.repeat([NodeKind.NPU, NodeKind.SWITCH], [dragonfly.all_npus, dragonfly.switches]),
            sources=sources,
            destinations=destinations,
            bandwidths=np.repeat([self.terminal_bandwidth, self.local_bandwidth, self.global_bandwidth], counts),
            latencies=np.repeat([self.terminal_latency, self.local_latency, self.global_latency], counts),
            energies=self.link_energy,
            levels=self._levels(dragonfly),
            coordinates=np.stack(np.unravel_index(np.arange(dragonfly.all_npus), sizes, order="F"), axis=1),
            defaults=Defaults(router=DragonflyPlusRouter()),
            node_names=partial(_node_name, dragonfly),
        )

    def _levels(self, dragonfly: Structure) -> tuple[Level, ...]:
        # The bandwidths are what an NPU gets at least where all send to their like in another leaf or group.
        npus, terminals = self.npus_per_leaf, 2 * self.terminal_latency
        near = far = self.terminal_bandwidth
        hops = 2 if self.spines else 1
        if self.leaves > 1:
            near = min(near, self.local_bandwidth * max(self.spines, 1) / npus)
        if dragonfly.groups > 1:
            far = min(far, self.global_bandwidth * dragonfly.cables / (npus * self.leaves))
            busiest = npus * _busiest(dragonfly)
            far = min(far, self.local_bandwidth / busiest) if busiest else far
        steps = 2 if self.spines or self.leaves > 1 else 0
        return (
            Level(npus, "switch", self.terminal_bandwidth, terminals),
            Level(self.leaves, "switch", near, terminals + hops * self.local_latency),
            Level(dragonfly.groups, "switch", far, terminals + steps * self.local_latency + self.global_latency),
        )


def _busiest(dragonfly: Structure) -> float:
    """Return the flows of an NPU per leaf that a link inside a group carries at most where all go so many groups on."""
    shares = dragonfly.shares()
    if dragonfly.spines:
        return float(shares.max())
    if dragonfly.leaves == 1:
        return 0.0
    most = 0.0
    group = np.arange(dragonfly.groups)
    for step in range(1, dragonfly.groups):
        # A link from one leaf to another carries what leaves by the second, and what has come by the first.
        leaving = shares[group, (group + step) % dragonfly.groups]
        coming = shares[group, (group - step) % dragonfly.groups]
        order = np.sort(coming, axis=1)
        others = np.where(coming < order[:, -1:], order[:, -1:], order[:, -2:-1])
        most = max(most, float((leaving + others).max()))
    return most


def _node_name(dragonfly: Structure, node: int) -> str:
    """Return ``npu7``, ``g2.leaf1`` for the second leaf of the third group, or ``g2.spine0``."""
    if node < dragonfly.all_npus:
        return f"npu{node}"
    number, kind, size = node - dragonfly.all_npus, "leaf", dragonfly.leaves
    if number >= dragonfly.all_leaves:
        number, kind, size = number - dragonfly.all_leaves, "spine", dragonfly.spines
    group, place = divmod(number, size)
    return f"g{group}.{kind}{place}"
