"""The topology ``dragonfly-plus``, a dragonfly+ or dragonfly, and its router ``dragonfly-plus-minimal``."""

from __future__ import annotations

from collections.abc import Sequence

from fredfw import Router, Topology, hookimpl
from fredfw_topology_dragonfly_plus.routing import DragonflyPlusRouter
from fredfw_topology_dragonfly_plus.topology import DragonflyPlus

__all__ = ["DragonflyPlus", "DragonflyPlusRouter"]

fredfw_contract = 2


@hookimpl
def fredfw_topologies() -> Sequence[type[Topology]]:
    """Register ``dragonfly-plus``."""
    return [DragonflyPlus]


@hookimpl
def fredfw_routers() -> Sequence[type[Router]]:
    """Register ``dragonfly-plus-minimal``."""
    return [DragonflyPlusRouter]
