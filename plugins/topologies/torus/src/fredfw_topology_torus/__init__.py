"""The topology ``torus``, rings of NPUs in any number of dimensions."""

from typing import ClassVar

from attrs import frozen

from fredfw import Dimension, Fabric, Topology, product_fabric, units

__all__ = ["Torus"]

fredfw_contract = 2


@frozen
class Torus(Topology):
    """Torus of NPUs: a ring along each dimension through every NPU, dimension-order routed.

    Dimensions come innermost first: NPU x0 + k0 x1 + k0 k1 x2 + ... is at position (x0, x1, x2, ...) of [k0, k1, ...].
    A dimension of 2 has one link each way between its two positions, also where rings are one-way; a dimension of 1
    has none. The defaults have the links of the FRED paper's baseline mesh (ISCA 2025): 750 GB/s, 20 ns, 0.063 pJ/bit.
    """

    name: ClassVar[str] = "torus"
    scopes: ClassVar[tuple[str, ...]] = ("inter-package",)

    dimensions: tuple[int, ...] = units.sizes((8, 8), help="positions along each dimension, innermost first")
    link_bandwidth: tuple[float, ...] = units.bandwidths(
        "750 GB/s",
        per="dimensions",
        help="bandwidth of each directed link between neighbours: one per dimension, or one for all",
    )
    link_latency: tuple[float, ...] = units.durations(
        "20 ns", per="dimensions", help="latency of these links: one per dimension, or one for all"
    )
    link_energy: float = units.energy("0.063 pJ/bit", help="energy per byte and link")
    bidirectional: bool = units.flag(True, help="whether rings of 3 or more have links in both directions")

    def build(self) -> Fabric:
        """Return the torus; links come dimension by dimension, those upwards before those downwards."""
        each = (units.per_dimension(one, self.dimensions) for one in (self.link_bandwidth, self.link_latency))
        rings = [
            Dimension.of_links("ring", size, bandwidth, latency, two_way=self.bidirectional, energy=self.link_energy)
            for size, bandwidth, latency in zip(self.dimensions, *each, strict=True)
        ]
        return product_fabric(rings, f"{'x'.join(map(str, self.dimensions))} torus")
