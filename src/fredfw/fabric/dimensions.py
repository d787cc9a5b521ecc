"""Levels of fabrics: products of rings, lines, full meshes and switches, and servers in a network of any links."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from functools import partial

import numpy as np
from attrs import evolve, field, frozen

from fredfw import limits, units
from fredfw.errors import InputError, nearest
from fredfw.fabric.dimension_order import DimensionOrderRouter
from fredfw.fabric.fabric import Defaults, Fabric, NodeKind
from fredfw.fabric.lattice import Lattice
from fredfw.fabric.view import KINDS, Kind, Level, neighbours
from fredfw.typing import IntArray

_MOST = 32
"""Dimensions; NumPy has arrays of so many in all its versions."""


@frozen
class Dimension:
    """One dimension of a fabric: what joins the NPUs that differ in nothing else.

    Args:
        kind: ``ring`` or ``line`` (links to the next and the previous NPU), ``fully-connected`` (a link to each other
            NPU), or ``switch`` (a link to a switch of its own, and one back). A ring of 2 has one link each way.
        size: Positions, 1 or more. A dimension of 1 has no links.
        bandwidth: Bytes per second and direction of an NPU, summed over its links: a ring or line of 3 or more has two
            (but for the ends of a line), and a fully connected dimension ``size - 1``.
        latency: Seconds from an NPU to the next one. Each of the two links through a switch has half.
        name: What people call it: chiplet, package, node, pod, ...; empty for none.
        two_way: Whether a ring has links both ways. A ring of 3 or more without has one link, of all the bandwidth.
        energy: Joules per byte and link.
        tier: Of its links, see ``Fabric``.

    Raises:
        InputError: A value is impossible, or a dimension that is not a ring goes one way.
    """

    kind: Kind
    size: int = field(validator=units.whole(1))
    bandwidth: float
    latency: float = 0.0
    name: str = ""
    two_way: bool = True
    energy: float = 0.0
    tier: int = 0

    def __attrs_post_init__(self) -> None:
        if self.kind not in KINDS:
            message = f"{self.kind!r} is not a kind of dimension{nearest(str(self.kind), KINDS)}"
            raise InputError(message, key="kind", accepted=", ".join(KINDS))
        if not 0 < self.bandwidth < math.inf:
            raise InputError(f"{self.bandwidth!r} is not a bandwidth", key="bandwidth", accepted="more than 0 B/s")
        for key in ("latency", "energy"):
            value = getattr(self, key)
            if not 0 <= value < math.inf:
                raise InputError(f"{value!r} is not finite, or below 0", key=key, accepted="0 or more")
        if not self.two_way and self.kind != "ring":
            raise InputError(f"a {self.kind} goes both ways", key="two_way", accepted="true, or a ring")

    @classmethod
    def of_links(
        cls,
        kind: Kind,
        size: int,
        link_bandwidth: float,
        latency: float = 0.0,
        name: str = "",
        *,
        two_way: bool = True,
        energy: float = 0.0,
    ) -> Dimension:
        """Return the dimension whose links have ``link_bandwidth`` bytes per second each; raises as the class does."""
        one = cls(kind, size, link_bandwidth, latency, name, two_way, energy)
        return cls(kind, size, link_bandwidth * one.links_per_npu, latency, name, two_way, energy)

    @property
    def links_per_npu(self) -> int:
        """Links that leave an NPU in this dimension (in a line: one that is not at an end), 1 where there are none."""
        return max(neighbours(self.kind, self.size, two_way=self.two_way), 1)

    @property
    def link_bandwidth(self) -> float:
        """Bytes per second of a link."""
        return self.bandwidth / self.links_per_npu

    @property
    def level(self) -> Level:
        """What algorithms see of it; a ring of 2 is a line."""
        kind: Kind = "line" if self.kind == "ring" and self.size <= 2 else self.kind
        two_way = self.two_way or kind == "line"
        return Level(self.size, kind, self.link_bandwidth, self.latency, two_way=two_way, name=self.name)


def product_fabric(
    dimensions: Sequence[Dimension],
    name: str = "",
    *,
    switches_copy: bool = False,
    switches_reduce: bool = False,
    key: str | None = "dimensions",
) -> Fabric:
    """Return the product of ``dimensions``: NPUs at all combinations of their positions, one level per dimension.

    Nodes are the NPUs, innermost dimension fastest, then the switches of each dimension, one for each line of NPUs that
    differ in it alone. Links come dimension by dimension. NPUs copy and combine. Messages go innermost first.

    Args:
        dimensions: Innermost first; ``InputError`` for none, or too much of something.
        name: For messages and reports; by default what the dimensions are.
        switches_copy: Whether switches copy streams.
        switches_reduce: Whether switches combine streams.
        key: The field that decides the size, for messages.
    """
    if not 1 <= len(dimensions) <= _MOST:
        raise InputError(f"{len(dimensions)} dimensions", key=key, accepted=f"1 to {_MOST} of them")
    lattice = Lattice([(one.kind, one.size, one.two_way) for one in dimensions])
    npus, switches = lattice.npus, lattice.switches
    limits.check("nodes", npus + switches, key=key)
    limits.check("links", lattice.links, key=key)
    ends = [axis.ends() for axis in lattice.axes]
    counts = [axis.links for axis in lattice.axes]
    return Fabric(
        name=name or " x ".join(f"{one.kind} {one.size}" for one in dimensions),
        kinds=np.repeat([NodeKind.NPU, NodeKind.SWITCH], [npus, switches]),
        sources=np.concatenate([near for near, _ in ends]),
        destinations=np.concatenate([far for _, far in ends]),
        bandwidths=np.repeat([one.link_bandwidth for one in dimensions], counts),
        latencies=np.repeat([one.latency / (2 if one.kind == "switch" else 1) for one in dimensions], counts),
        energies=np.repeat([one.energy for one in dimensions], counts),
        tiers=np.repeat([one.tier for one in dimensions], counts),
        levels=tuple(one.level for one in dimensions),
        coordinates=lattice.coordinates(),
        copies=np.repeat([True, switches_copy], [npus, switches]),
        reduces=np.repeat([True, switches_reduce], [npus, switches]),
        defaults=Defaults(router=DimensionOrderRouter()),
        node_names=partial(_node_name, lattice, tuple(one.name for one in dimensions)) if switches else None,
    )


def _node_name(lattice: Lattice, names: tuple[str, ...], node: int) -> str:
    """Return ``npu7``, or ``pod(3,1,*)``: the switch of the NPUs at 3 and 1 and all positions of the dimension pod."""
    if node < lattice.npus:
        return f"npu{node}"
    number = bisect_right([axis.switch for axis in lattice.axes], node) - 1
    while not lattice.axes[number].switches:  # dimensions without switches begin where the next one does
        number -= 1
    rest, places = node - lattice.axes[number].switch, list[str]()
    for dimension, size in enumerate(lattice.sizes):
        rest, place = divmod(rest, 1 if dimension == number else size)
        places.append("*" if dimension == number else str(place))
    return f"{names[number] or f'dimension{number}'}({','.join(places)})"


def with_servers(fabric: Fabric, npus: int, names: tuple[str, str] = ("server", "network")) -> Fabric:
    """Return a fabric without levels with two of kind ``switch``: so many successive NPUs of a server, and the servers.

    The bandwidth of a level is what each NPU gets, by the fabric's router, while all send to the next position, or half
    way round if that is less. A level of one position is left out; ``InputError`` if ``npus`` does not divide the NPUs.
    """
    count = len(fabric.npus)
    if npus < 1 or count % npus:
        message = f"{npus} does not divide the {count} NPUs of {fabric.name!r}"
        raise InputError(message, key="npus", accepted="a divisor")
    numbers = np.arange(count)
    levels, columns = list[Level](), list[IntArray]()
    for size, stride, name in ((npus, 1, names[0]), (count // npus, npus, names[1])):
        if size > 1:
            place = numbers // stride % size
            shifts = dict.fromkeys((1, size // 2))
            partners = [numbers + ((place + shift) % size - place) * stride for shift in shifts]
            rates, latencies = zip(*(_measured(fabric, one) for one in partners), strict=True)
            levels.append(Level(size, "switch", min(rates), max(latencies), name=name))
            columns.append(place)
    if not levels:
        return fabric
    return evolve(fabric, levels=tuple(levels), coordinates=np.stack(columns, axis=1))


def _measured(fabric: Fabric, partners: IntArray) -> tuple[float, float]:
    """Return the bandwidth of each NPU while all send to their partners, and the latency of the longest way."""
    routes = fabric.defaults.router.route(fabric, fabric.npus, fabric.npus[partners])
    shares = np.ones(len(routes.links)) if routes.coefficients is None else routes.coefficients
    loads = np.bincount(routes.links, shares, len(fabric.bandwidths))
    used = loads > 0
    return float((fabric.bandwidths[used] / loads[used]).min()), float(routes.latencies.max())
