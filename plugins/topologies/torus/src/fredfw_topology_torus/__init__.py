"""The topology ``torus``, rings of NPUs in any number of dimensions."""

from fredfw_topology_torus.topology import Torus

__all__ = ["Torus"]

fredfw_contract = 2
