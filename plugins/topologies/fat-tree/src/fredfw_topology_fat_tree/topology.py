"""The fat tree: its fields, its size and its levels."""

import math
from bisect import bisect_right
from fractions import Fraction
from functools import partial
from typing import ClassVar

import numpy as np
from attrs import frozen

from fredfw import Defaults, Fabric, Level, NodeKind, Router, Topology, limits, units
from fredfw.errors import InputError
from fredfw_topology_fat_tree.routing import EcmpRouter, SprayRouter
from fredfw_topology_fat_tree.structure import XGFT

ROUTERS: dict[str, type[Router]] = {one.name: one for one in (EcmpRouter, SprayRouter)}
DEFAULT_NPUS = 64
"""NPUs of a tree that has room for more, unless told otherwise: a whole fat tree of usual switches has thousands."""
_MOST = 32  # levels; NumPy has arrays of so many dimensions in all its versions


@frozen
class FatTree(Topology):
    """Fat tree of plain switches of one radix, with the NPUs at the lowest level.

    A switch has half of its ports down and half up. The switches of the top level have all ports down. Without
    oversubscription, switches of k ports hold k^2 / 2 NPUs with two levels and k^3 / 4 with three (Al-Fares et al., "A
    scalable, commodity data center network architecture", SIGCOMM 2008). NPUs fill the places in order. A switch that
    fewer than two NPUs can use is not built.

    Oversubscription gives the lowest switches more ports down than up. The ratio is exact. Ports that do not fit it
    stay free: with a ratio of 2, a switch of 32 ports has 20 down, 10 up and 2 free.

    The defaults are those of the electrical baseline of WRHT (arXiv 2207.10982): three levels of 32 ports, 40 Gbps
    links, 500 ns per hop. That paper gives no energy, so it is 0 here. The default routing ``spray`` puts the same
    load on all links of a level, which adaptive routing approximates. ``ecmp`` shows what collisions of hashed paths
    cost. Its traffic is irregular, so its simulation takes far longer.
    """

    name: ClassVar[str] = "fat-tree"
    scopes: ClassVar[tuple[str, ...]] = ("inter-pod",)

    npus: int | None = units.count(
        None, help=f"number of NPUs; default: as many as fit, but not more than {DEFAULT_NPUS}"
    )
    radix: int = units.count(32, minimum=2, help="number of ports of a switch")
    levels: int = units.count(3, minimum=2, help="number of levels of switches")
    oversubscription: float = units.number(
        1.0, minimum=1, help="of the lowest switches: bandwidth to their NPUs, divided by bandwidth to the level above"
    )
    link_bandwidth: float = units.bandwidth("40 Gbps", help="bandwidth of each link, per direction")
    link_latency: float = units.duration("500 ns", help="latency of each link, including the switch or NPU at its end")
    link_energy: float = units.energy(0.0, help="energy per byte and link")
    routing: str = units.choice(
        ROUTERS,
        "spray",
        help="ecmp: a hash chooses one shortest path for each pair of NPUs; spray: packets use all of them evenly",
    )

    def __attrs_post_init__(self) -> None:
        if self.levels > _MOST:
            raise InputError(f"{self.levels} levels of switches", key="levels", accepted=f"2 to {_MOST}")
        if self.levels > 2 and self.radix % 2:
            message = f"{self.radix} ports cannot be half up, half down in the middle of {self.levels} levels"
            raise InputError(message, key="radix", accepted="an even number")
        if self.up_ports == 0:
            ratio = f"{self.oversubscription:g} to 1"
            message = f"{self.radix} ports cannot be divided into ports down and ports up at {ratio}"
            accepted = f"1 to {self.radix - 1}, a ratio of two whole numbers whose sum is at most {self.radix}"
            raise InputError(message, key="oversubscription", accepted=accepted)
        if self.npus is not None and self.npus > self.capacity:
            ratio = "" if self.down_ports == self.up_ports else f", {self.down_ports} of them down at the lowest"
            message = f"{self.npus} NPUs do not fit {self.levels} levels of switches with {self.radix} ports{ratio}"
            raise InputError(message, key="npus", accepted=f"1 to {self.capacity}")

    @property
    def up_ports(self) -> int:
        """Ports of a lowest switch that lead up, as many as the ratio allows; 0 if it allows none."""
        ratio = self._ratio
        if not math.isclose(self.oversubscription, ratio, rel_tol=_DIGITS):
            return 0
        return ratio.denominator * (self.radix // (ratio.numerator + ratio.denominator))

    @property
    def down_ports(self) -> int:
        """Ports of a lowest switch for NPUs."""
        return int(self.up_ports * self._ratio)

    @property
    def _ratio(self) -> Fraction:
        """Return the oversubscription in lowest terms, as far as there are ports for."""
        return Fraction(self.oversubscription).limit_denominator(self.radix // 2)

    @property
    def capacity(self) -> int:
        """Places for NPUs."""
        return math.prod(self._children())

    def _children(self) -> tuple[int, ...]:
        return self.down_ports, *[self.radix // 2] * (self.levels - 2), self.radix

    def structure(self) -> XGFT:
        """Return the nodes and links that are built: a tree as high as its NPUs need."""
        npus = min(self.capacity, DEFAULT_NPUS) if self.npus is None else self.npus
        children = self._children()
        parents = (1, self.up_ports, *[self.radix // 2] * (self.levels - 2))
        height = next(one for one in range(1, self.levels + 1) if math.prod(children[:one]) >= npus)
        return XGFT(npus, children[:height], parents[:height])

    def build(self) -> Fabric:
        """Return the tree: nodes are the NPUs, then the switches level by level, from the lowest."""
        tree = self.structure()
        limits.check("nodes", tree.first_nodes[-1], key="npus")
        limits.check("links", 2 * tree.first_links[-1], key="npus")
        sources, destinations = tree.ends()
        levels, ratio = self._levels(tree), self.oversubscription
        idle = f"oversubscription = {ratio:g} changes nothing: one switch has all NPUs, and none is above it"
        sizes = [level.size for level in levels]
        return Fabric(
            name=f"{tree.hosts}-NPU fat tree",
            kinds=np.repeat([NodeKind.NPU, NodeKind.SWITCH], [tree.hosts, tree.first_nodes[-1] - tree.hosts]),
            sources=sources,
            destinations=destinations,
            bandwidths=self.link_bandwidth,
            latencies=self.link_latency,
            energies=self.link_energy,
            levels=levels,
            coordinates=np.stack(np.unravel_index(np.arange(tree.hosts), sizes, order="F"), axis=1) if levels else None,
            defaults=Defaults(router=ROUTERS[self.routing]()),
            notes=(idle,) if ratio > 1 and len(tree.children) == 1 else (),
            node_names=partial(_node_name, tree.first_nodes),
        )

    def _levels(self, tree: XGFT) -> tuple[Level, ...]:
        # None where some are not full. An NPU's share of all links up is what it gets where traffic is spread evenly.
        if tree.hosts % tree.below[-2]:
            return ()
        share = self.link_bandwidth * self.up_ports / self.down_ports
        return tuple(
            Level(size, "switch", self.link_bandwidth if height == 1 else share, 2 * height * self.link_latency)
            for height, size in enumerate((*tree.children[:-1], tree.subtrees[-2]), start=1)
        )


_DIGITS = 1e-5  # relative accuracy of a given oversubscription, so that 1.66667 is 5 / 3


def _node_name(first: tuple[int, ...], node: int) -> str:
    level = bisect_right(first, node) - 1
    number = node - first[level]
    return f"L{level}.{number}" if level else f"npu{number}"
