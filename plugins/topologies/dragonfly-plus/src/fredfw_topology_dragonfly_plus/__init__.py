"""The topology ``dragonfly-plus``, a dragonfly+ or dragonfly, and its router ``dragonfly-plus-minimal``."""

from fredfw_topology_dragonfly_plus.routing import DragonflyPlusRouter
from fredfw_topology_dragonfly_plus.topology import DragonflyPlus

__all__ = ["DragonflyPlus", "DragonflyPlusRouter"]

fredfw_contract = 2
