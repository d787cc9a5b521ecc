"""The topology ``fully-connected``: a link each way between every two NPUs."""

from typing import ClassVar

import numpy as np
from attrs import frozen

from fredfw import Fabric, Level, NodeKind, Topology, limits, units

fredfw_contract = 2


@frozen
class FullyConnected(Topology):
    """NPUs with a direct link in each direction between every pair.

    An NPU has as many links as there are others, so ``direct`` is the algorithm that uses them all. The defaults are 5
    NPUs with the links of the FRED paper's baseline mesh (ISCA 2025): 750 GB/s, 20 ns, 0.063 pJ/bit; so an NPU sends
    3 TB/s.
    """

    name: ClassVar[str] = "fully-connected"
    scopes: ClassVar[tuple[str, ...]] = ("inter-package",)

    npus: int = units.count(5, help="number of NPUs")
    link_bandwidth: float = units.bandwidth("750 GB/s", help="bandwidth of the link from one NPU to another")
    link_latency: float = units.duration("20 ns", help="latency of a link")
    link_energy: float = units.energy("0.063 pJ/bit", help="energy per byte and link")

    def build(self) -> Fabric:
        """Return the fabric; links come by their source, then by their destination."""
        limits.check("links", self.npus * (self.npus - 1), key="npus")
        sources, destinations = np.nonzero(~np.eye(self.npus, dtype=bool))
        return Fabric(
            name=f"{self.npus} NPUs, fully connected",
            kinds=np.full(self.npus, NodeKind.NPU),
            sources=sources,
            destinations=destinations,
            bandwidths=self.link_bandwidth,
            latencies=self.link_latency,
            energies=self.link_energy,
            levels=(Level(self.npus, "fully-connected", self.link_bandwidth, self.link_latency),),
            coordinates=np.arange(self.npus)[:, None],
            copies=True,
            reduces=True,
        )
