"""The topology ``multi-dimensional``: any product of rings, lines, full meshes and switches."""

from fredfw_topology_multi_dimensional.topology import MultiDimensional

__all__ = ["MultiDimensional"]

fredfw_contract = 2
