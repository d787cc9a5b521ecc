"""The topology ``mesh2d``, a mesh of NPUs with I/O controllers around it, and its router ``xy``."""

from fredfw_topology_mesh2d.routing import XYRouter
from fredfw_topology_mesh2d.topology import Mesh2D

__all__ = ["Mesh2D", "XYRouter"]

fredfw_contract = 2
