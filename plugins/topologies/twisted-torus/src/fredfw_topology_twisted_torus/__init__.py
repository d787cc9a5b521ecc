"""The topology ``twisted-torus``: a torus whose short rings close at a shifted place, and so at shorter distances."""

import math
from typing import ClassVar

import numpy as np
from attrs import frozen

from fredfw import Defaults, Fabric, Level, MultipathRouter, NodeKind, Topology, limits, units
from fredfw.errors import InputError
from fredfw.typing import IntArray

fredfw_contract = 2

_MOST = 32  # dimensions; NumPy has arrays of so many in all its versions


@frozen
class TwistedTorus(Topology):
    """Twisted torus of NPUs: some dimensions have k positions, the others 2 k, and what closes a short one is shifted.

    A link that closes a dimension of k leads to a place that is shifted by k along every dimension of 2 k. So closing x
    or y in 4 x 4 x 8 shifts z by 4, and closing x in 4 x 8 x 8 shifts y and z by 4 (Cámara et al., "Twisted torus
    topologies for enhanced interconnection networks", IEEE TPDS 21(12), 2010; Jouppi et al., "TPU v4", ISCA 2023). All
    links carry the same in an all-to-all, while those of the long dimensions limit a torus.

    Dimensions come innermost first. NPU x0 + k0 x1 + k0 k1 x2 + ... is at position (x0, x1, x2, ...). Algorithms see a
    short dimension as a line, because it closes elsewhere, and a long one as a ring. Flows are spread evenly over all
    shortest paths (router ``multipath``).

    The default shape is the smallest of TPU v4. Bandwidth, latency and energy are those of the FRED paper's baseline
    mesh (ISCA 2025), as in the topology ``torus``: 750 GB/s, 20 ns, 0.063 pJ/bit.
    """

    name: ClassVar[str] = "twisted-torus"
    scopes: ClassVar[tuple[str, ...]] = ("inter-package",)

    dimensions: tuple[int, ...] = units.sizes(
        (4, 4, 8), minimum=2, help="positions along each dimension, innermost first: k or 2 k, both at least once"
    )
    link_bandwidth: float = units.bandwidth("750 GB/s", help="bandwidth of each directed link between neighbours")
    link_latency: float = units.duration("20 ns", help="latency of these links")
    link_energy: float = units.energy("0.063 pJ/bit", help="energy per byte and link")

    def __attrs_post_init__(self) -> None:
        short = min(self.dimensions)
        if set(self.dimensions) != {short, 2 * short} or len(self.dimensions) > _MOST:
            sizes = f"sizes of k and 2 k, both at least once, such as [4, 4, 8] or [{short}, {2 * short}]"
            message, accepted = f"{list(self.dimensions)} cannot be twisted", f"{sizes}; at most {_MOST} of them"
            raise InputError(message, key="dimensions", accepted=accepted)

    def build(self) -> Fabric:
        """Return the torus; links come dimension by dimension, those upwards before those downwards."""
        sizes, short = self.dimensions, min(self.dimensions)
        npus = math.prod(sizes)
        limits.check("nodes", npus, key="dimensions")
        limits.check("links", 2 * len(sizes) * npus, key="dimensions")
        place = np.arange(npus)
        coordinates = np.stack(np.unravel_index(place, sizes, order="F"), axis=1)
        following = [self._next(coordinates, dimension) for dimension in range(len(sizes))]
        return Fabric(
            name=f"{'x'.join(map(str, sizes))} twisted torus",
            kinds=np.full(npus, NodeKind.NPU),
            sources=np.concatenate([one for far in following for one in (place, far)]),
            destinations=np.concatenate([one for far in following for one in (far, place)]),
            bandwidths=self.link_bandwidth,
            latencies=self.link_latency,
            energies=self.link_energy,
            levels=tuple(
                Level(size, "line" if size == short else "ring", self.link_bandwidth, self.link_latency)
                for size in sizes
            ),
            coordinates=coordinates,
            copies=True,
            reduces=True,
            defaults=Defaults(router=MultipathRouter()),
        )

    def _next(self, coordinates: IntArray, dimension: int) -> IntArray:
        """Return for each place the one that its link up along ``dimension`` leads to."""
        short = min(self.dimensions)
        there = coordinates.copy()
        there[:, dimension] += 1
        if self.dimensions[dimension] == short:
            long = np.array(self.dimensions) > short
            there += (there[:, dimension] == short)[:, None] * long * short
        there %= self.dimensions
        far: IntArray = np.ravel_multi_index(tuple(there.T), self.dimensions, order="F")
        return far
