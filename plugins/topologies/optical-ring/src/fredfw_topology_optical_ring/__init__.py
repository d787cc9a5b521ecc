"""The topology ``optical-ring``, NPUs on a WDM ring with a circuit per transfer, and its router ``shortest-arc``."""

from fredfw_topology_optical_ring.routing import ShortestArcRouter
from fredfw_topology_optical_ring.topology import OpticalRing

__all__ = ["OpticalRing", "ShortestArcRouter"]

fredfw_contract = 2
