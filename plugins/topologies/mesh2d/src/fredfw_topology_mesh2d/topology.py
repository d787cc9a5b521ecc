"""The mesh: its fields and its links."""

from typing import ClassVar

import numpy as np
from attrs import evolve, frozen

from fredfw import Defaults, Dimension, Fabric, NodeKind, SnakePlacement, Topology, product_fabric, units
from fredfw_topology_mesh2d.routing import XYRouter, perimeter


@frozen
class Mesh2D(Topology):
    """Mesh of rows x columns NPUs, X-Y routed, with an I/O controller at each outer edge slot.

    The defaults are the baseline wafer of the FRED paper (ISCA 2025): 20 NPUs, 18 controllers of 128 GB/s. The paper's
    text speaks of a 4 x 5 mesh; its times of communication phases fit 5 rows x 4 columns, which are the defaults. Its
    wires cost 0.063 pJ/bit; the paper gives no energy for I/O, which counts as zero here.
    """

    name: ClassVar[str] = "mesh2d"
    scopes: ClassVar[tuple[str, ...]] = ("inter-chiplet",)

    rows: int = units.count(5, help="NPUs in a column")
    columns: int = units.count(4, help="NPUs in a row")
    link_bandwidth: float = units.bandwidth("750 GB/s", help="bandwidth of each directed link between neighbours")
    link_latency: float = units.duration("20 ns", help="latency of a link between neighbours")
    link_energy: float = units.energy("0.063 pJ/bit", help="energy per byte and link between neighbours")
    io_controllers: bool = units.flag(True, help="whether there is a controller at each outer edge slot")
    io_bandwidth: float = units.bandwidth("128 GB/s", help="bandwidth of each controller, in and out")
    io_latency: float = units.duration("20 ns", help="latency of the link between a controller and its NPU")

    def build(self) -> Fabric:
        """Return the mesh; node ``row * columns + column`` is that NPU, the controllers follow clockwise."""
        npus = self.rows * self.columns
        line = self.link_bandwidth, self.link_latency
        mesh = product_fabric(
            [Dimension.of_links("line", size, *line, energy=self.link_energy) for size in (self.columns, self.rows)],
            f"{self.rows}x{self.columns} mesh",
            key="rows" if self.rows > self.columns else "columns",
        )
        slots = perimeter(self.rows, self.columns)[0] if self.io_controllers else np.zeros(0, dtype=np.intp)
        gates = npus + np.arange(len(slots))
        # Links to the right and down come first, then those to the left and up, then those of the controllers.
        order = np.argsort(mesh.sources > mesh.destinations, kind="stable")
        counts = [len(order), 2 * len(slots)]
        return evolve(
            mesh,
            kinds=np.repeat([NodeKind.NPU, NodeKind.CONTROLLER], [npus, len(slots)]),
            sources=np.concatenate([mesh.sources[order], gates, slots]),
            destinations=np.concatenate([mesh.destinations[order], slots, gates]),
            bandwidths=np.repeat([self.link_bandwidth, self.io_bandwidth], counts),
            latencies=np.repeat([self.link_latency, self.io_latency], counts),
            energies=np.repeat([self.link_energy, 0.0], counts),
            copies=np.arange(npus + len(slots)) < npus,
            reduces=np.arange(npus + len(slots)) < npus,
            defaults=Defaults(router=XYRouter(), placement=SnakePlacement()),
        )
