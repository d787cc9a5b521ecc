"""The topology ``hyperx``: a full mesh along each of several dimensions."""

from typing import ClassVar

from attrs import frozen

from fredfw import Dimension, Fabric, Topology, product_fabric, units

fredfw_contract = 2


@frozen
class HyperX(Topology):
    """HyperX of NPUs, or n-dimensional full mesh: direct links to all NPUs that differ in one dimension alone.

    Dimensions come innermost first. NPU x0 + k0 x1 + k0 k1 x2 + ... is at position (x0, x1, x2, ...) of [k0, k1, ...].
    Messages go along dimension 0 first, then 1, and so on, one hop in each. One dimension is a full mesh, two are a
    flattened butterfly (Ahn et al., "HyperX: topology, routing, and packaging of efficient large-scale networks",
    SC 2009, there with switches that have several terminals). The defaults have the links of the FRED paper's baseline
    mesh (ISCA 2025): 750 GB/s, 20 ns, 0.063 pJ/bit.
    """

    name: ClassVar[str] = "hyperx"
    scopes: ClassVar[tuple[str, ...]] = ("inter-package",)

    dimensions: tuple[int, ...] = units.sizes((4, 4), minimum=2, help="positions along each dimension, innermost first")
    link_bandwidth: tuple[float, ...] = units.bandwidths(
        "750 GB/s", per="dimensions", help="bandwidth of each directed link: one per dimension, or one for all"
    )
    link_latency: tuple[float, ...] = units.durations(
        "20 ns", per="dimensions", help="latency of these links: one per dimension, or one for all"
    )
    link_energy: float = units.energy("0.063 pJ/bit", help="energy per byte and link")

    def build(self) -> Fabric:
        each = (units.per_dimension(one, self.dimensions) for one in (self.link_bandwidth, self.link_latency))
        meshes = [
            Dimension.of_links("fully-connected", size, bandwidth, latency, energy=self.link_energy)
            for size, bandwidth, latency in zip(self.dimensions, *each, strict=True)
        ]
        return product_fabric(meshes, f"{'x'.join(map(str, self.dimensions))} HyperX")
