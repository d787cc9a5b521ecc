"""The dragonfly: its fields, where its global links end, and its levels."""

from __future__ import annotations

import math
from functools import partial
from typing import ClassVar

import numpy as np
from attrs import frozen
from fredfw import Defaults, Fabric, Level, Topology, units
from fredfw.errors import InputError
from fredfw.typing import FloatArray, IntArray

from fredfw_topology_dragonfly.routing import DragonflyMinimalRouter
from fredfw_topology_dragonfly.structure import Structure


@frozen
class Dragonfly(Topology):
    """Dragonfly: groups of routers, all joined inside a group, and each two groups joined by a link or more.

    ``p``, ``a`` and ``h`` are those of Kim, Dally, Scott and Abts, "Technology-driven, highly-scalable dragonfly
    topology", ISCA 2008, which advises a = 2 p = 2 h; the default is the example of its figure 5. There are at most
    a h + 1 groups. With fewer, each two are joined by as many links as all pairs can have, and ports that are left over
    stay unused.

    The ports of a group for global links are numbered router by router, and lead once round all other groups, then
    round them again. ``consecutive``: to group 0, 1, and so on, without its own. ``palmtree``: from group i to i - 1,
    i - 2, and so on (Camarero, Vallejo and Beivide, "Topological characterization of Hamming and dragonfly networks and
    its implications on routing", ACM TACO 11(4), 2015).

    Bandwidths and latencies are not the paper's, which counts in flits and cycles: 200 Gbps per link, 500 ns with the
    router or NPU that it enters, 1 us for the longer global ones.
    """

    name: ClassVar[str] = "dragonfly"

    p: int = units.count(2, help="NPUs per router")
    a: int = units.count(4, help="routers per group")
    h: int = units.count(2, help="global links per router")
    groups: int | None = units.count(None, help="how many; default: a h + 1")
    arrangement: str = units.option(
        "consecutive",
        validator=units.one_of("consecutive", "palmtree"),
        help="to which groups the global links of a router lead",
    )
    terminal_bandwidth: float = units.bandwidth("200 Gbps", help="of the link between an NPU and its router, each way")
    local_bandwidth: float = units.bandwidth("200 Gbps", help="of each link inside a group, each way")
    global_bandwidth: float = units.bandwidth("200 Gbps", help="of each link between groups, each way")
    terminal_latency: float = units.duration("500 ns", help="of the link between an NPU and its router")
    local_latency: float = units.duration("500 ns", help="of each link inside a group")
    global_latency: float = units.duration("1 us", help="of each link between groups")
    link_energy: float = units.energy(0.0, help="of each link")

    def __attrs_post_init__(self) -> None:
        """Refuse more groups than can all be joined.

        Raises:
            InputError: With the numbers.
        """
        most = self.a * self.h + 1
        if self.groups is not None and self.groups > most:
            raise InputError(
                f"{self.groups} groups, of which each has {self.a} x {self.h} links to others",
                key="groups",
                accepted=f"1 to {most}",
            )

    def structure(self) -> Structure:
        """Return its numbers of everything."""
        groups = self.a * self.h + 1 if self.groups is None else self.groups
        return Structure(self.p, self.a, groups, self.a * self.h // max(groups - 1, 1))

    def build(self) -> Fabric:
        """Return the dragonfly; ``Structure`` says how nodes and links are numbered."""
        dragonfly = self.structure()
        start, end, number = dragonfly.global_links()
        ends = [self._router(dragonfly, *way, number) + dragonfly.npus for way in ((start, end), (end, start))]
        sources, destinations = (
            np.concatenate([near, far]) for near, far in zip(dragonfly.near_ends(), ends, strict=True)
        )
        sizes = [self.p, self.a, dragonfly.groups]
        counts = [2 * dragonfly.npus, dragonfly.routers * (self.a - 1), len(number)]
        return Fabric(
            name=f"{dragonfly.npus}-NPU dragonfly",
            kinds=dragonfly.kinds(),
            sources=sources,
            destinations=destinations,
            bandwidths=_each(counts, self.terminal_bandwidth, self.local_bandwidth, self.global_bandwidth),
            latencies=_each(counts, self.terminal_latency, self.local_latency, self.global_latency),
            energies=self.link_energy,
            levels=self._levels(dragonfly),
            coordinates=np.stack(np.unravel_index(np.arange(dragonfly.npus), sizes, order="F"), axis=1),
            defaults=Defaults(router=DragonflyMinimalRouter()),
            node_names=partial(_node_name, dragonfly),
        )

    def _router(self, dragonfly: Structure, group: IntArray, other: IntArray, number: IntArray) -> IntArray:
        """Return the router of ``group`` that has the link of this number to the ``other`` one."""
        others = dragonfly.groups - 1
        place = other - (other > group) if self.arrangement == "consecutive" else (group - other) % (others + 1) - 1
        port = number * others + place
        # Without ports left over this is port // h; with some, every router has its share of them.
        router: IntArray = group * self.a + port * self.a // (others * dragonfly.cables)
        return router

    def _levels(self, dragonfly: Structure) -> tuple[Level, ...]:
        """Return the NPUs of a router, the routers of a group, and the groups.

        The bandwidths are what an NPU gets at least where all of a router (a group) send to their like in the next one:
        a local link is shared by the NPUs of a router, and on the way between groups by those that it leads to as well.
        """
        local_bandwidth, local_latency = (self.local_bandwidth, self.local_latency) if self.a > 1 else (np.inf, 0.0)
        busiest = math.ceil(self.p * self.a / dragonfly.cables)
        near = min(self.terminal_bandwidth, local_bandwidth / self.p)
        far = min(self.terminal_bandwidth, local_bandwidth / (2 * self.p), self.global_bandwidth / busiest)
        terminals = 2 * self.terminal_latency
        return (
            Level(self.p, "switch", self.terminal_bandwidth, terminals),
            Level(self.a, "switch", near, terminals + local_latency),
            Level(dragonfly.groups, "switch", far, terminals + 2 * local_latency + self.global_latency),
        )


def _each(counts: list[int], *values: float) -> FloatArray:
    """Return the values, each as often as there are links of its kind."""
    return np.repeat(values, counts)


def _node_name(dragonfly: Structure, node: int) -> str:
    """Return ``npu7``, or ``g2.r1`` for the second router of the third group."""
    if node < dragonfly.npus:
        return f"npu{node}"
    group, router = divmod(node - dragonfly.npus, dragonfly.a)
    return f"g{group}.r{router}"
