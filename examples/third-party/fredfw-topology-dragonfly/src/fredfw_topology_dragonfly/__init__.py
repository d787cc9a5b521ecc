"""The topology ``dragonfly``, groups of routers that are all joined to each other, and its router."""

from __future__ import annotations

from collections.abc import Sequence

from fredfw import Router, Topology, hookimpl

from fredfw_topology_dragonfly.routing import DragonflyMinimalRouter
from fredfw_topology_dragonfly.topology import Dragonfly

__all__ = ["Dragonfly", "DragonflyMinimalRouter"]

fredfw_contract = 2


@hookimpl
def fredfw_topologies() -> Sequence[type[Topology]]:
    """Register ``dragonfly``."""
    return [Dragonfly]


@hookimpl
def fredfw_routers() -> Sequence[type[Router]]:
    """Register ``dragonfly-minimal``."""
    return [DragonflyMinimalRouter]
