"""The torus: its fields and its links."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from attrs import frozen

from fredfw import Fabric, Level, NodeKind, Topology, limits, units
from fredfw.errors import InputError
from fredfw_topology_torus.geometry import neighbours
from fredfw_topology_torus.routing import DimensionOrderRouter

_MOST = 32
"""Dimensions; NumPy has arrays of so many in all its versions."""


@frozen
class Torus(Topology):
    """Torus of NPUs: a ring along each dimension through every NPU, dimension-order routed.

    Dimensions come innermost first: NPU x0 + k0 x1 + k0 k1 x2 + ... is at position (x0, x1, x2, ...) of [k0, k1, ...].
    A dimension of 2 has one link each way between its two positions, also where rings are one-way; a dimension of 1
    has none. The defaults have the links of the FRED paper's baseline mesh (ISCA 2025): 750 GB/s, 20 ns, 0.063 pJ/bit.
    """

    name: ClassVar[str] = "torus"

    dimensions: tuple[int, ...] = units.sizes((8, 8), help="positions along each dimension, innermost first")
    link_bandwidth: tuple[float, ...] = units.bandwidths(
        "750 GB/s", help="bandwidth of each directed link between neighbours: one per dimension, or one for all"
    )
    link_latency: tuple[float, ...] = units.durations(
        "20 ns", help="latency of these links: one per dimension, or one for all"
    )
    link_energy: float = units.energy("0.063 pJ/bit", help="energy per byte and link")
    bidirectional: bool = units.flag(True, help="whether rings of 3 or more have links in both directions")

    def __attrs_post_init__(self) -> None:
        """Refuse bandwidths and latencies that do not fit the dimensions.

        Raises:
            InputError: Neither one of them nor one per dimension.
        """
        count = len(self.dimensions)
        if count > _MOST:
            raise InputError(f"{count} dimensions", key="dimensions", accepted=f"1 to {_MOST} of them")
        for key in ("link_bandwidth", "link_latency"):
            given = len(getattr(self, key))
            if given not in (1, count):
                raise InputError(
                    f"{given} values for the {count} dimensions {list(self.dimensions)}",
                    key=key,
                    accepted=f"one value for all, or {count}",
                )

    def build(self) -> Fabric:
        """Return the torus; links come dimension by dimension, those upwards before those downwards."""
        sizes, count = self.dimensions, len(self.dimensions)
        limits.check("nodes", math.prod(sizes), key="dimensions")
        limits.check("links", 2 * math.prod(sizes) * sum(size > 1 for size in sizes), key="dimensions")
        npus = np.arange(np.prod(sizes))
        bandwidths, latencies = (np.broadcast_to(one, count) for one in (self.link_bandwidth, self.link_latency))
        # With one position there is no neighbour; with two, the links upwards already lead both ways.
        ways = [
            (dimension, step)
            for dimension, size in enumerate(sizes)
            for step in (1, -1)[: min(size - 1, 2 if self.bidirectional else 1)]
        ]
        of = np.repeat(np.array([dimension for dimension, _ in ways], dtype=np.intp), len(npus))
        return Fabric(
            name=f"{'x'.join(map(str, sizes))} torus",
            kinds=np.full(len(npus), NodeKind.NPU),
            sources=np.tile(npus, len(ways)),
            destinations=np.array([neighbours(sizes, *way) for way in ways]).ravel(),
            bandwidths=bandwidths[of],
            latencies=latencies[of],
            energies=self.link_energy,
            levels=tuple(
                Level(size, "ring", float(bandwidth), float(latency), two_way=self.bidirectional)
                if size > 2
                else Level(size, "line", float(bandwidth), float(latency))
                for size, bandwidth, latency in zip(sizes, bandwidths, latencies, strict=True)
            ),
            coordinates=np.stack(np.unravel_index(npus, sizes, order="F"), axis=1),
            copies=True,
            reduces=True,
            router=DimensionOrderRouter(),
        )
