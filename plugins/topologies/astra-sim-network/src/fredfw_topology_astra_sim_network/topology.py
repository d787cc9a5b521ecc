"""The topology ``astra-sim-network``."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

from attrs import evolve, frozen

from fredfw import Fabric, File, Topology, product_fabric, scopes_of_dimensions, units
from fredfw_topology_astra_sim_network.network import Block, read


@frozen
class AstraSimNetwork(Topology):
    """The network of a file for ASTRA-sim's analytical backends: a product of rings, full meshes and switches.

    Units are those of ASTRA-sim: a GB is 2^30 bytes, and a message through a switch takes the latency twice. Bandwidths
    are those of each link and direction. The first dimension is the innermost one, that of NPUs with successive
    numbers. Messages go along it first.
    """

    name: ClassVar[str] = "astra-sim-network"

    file: File = units.file(help="YAML file with the keys topology, npus_count, bandwidth and latency")

    def __attrs_post_init__(self) -> None:
        """Read the file; raises ``InputError`` as ``network.read`` does."""
        _ = self.blocks

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The dimensions of the file, innermost first."""
        return read(self.file.read(), self.file.path)

    @property
    def scopes(self) -> tuple[str, ...]:
        """See ``Topology.scopes``."""
        return scopes_of_dimensions(len(self.blocks))

    def build(self) -> Fabric:
        """Return the product of the dimensions."""
        dimensions = [evolve(block.dimension, tier=number) for number, block in enumerate(self.blocks)]
        name = "_".join(f"{block.topology}({block.npus})" for block in self.blocks)
        return product_fabric(dimensions, name, key="file")
