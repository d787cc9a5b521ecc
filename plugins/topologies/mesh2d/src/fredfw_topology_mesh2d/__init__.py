"""The topology ``mesh2d``, a mesh of NPUs with I/O controllers around it, and its router ``xy``."""

from __future__ import annotations

from collections.abc import Sequence

from fredfw import Router, Topology, hookimpl
from fredfw_topology_mesh2d.routing import XYRouter
from fredfw_topology_mesh2d.topology import Mesh2D

__all__ = ["Mesh2D", "XYRouter"]

fredfw_contract = 2


@hookimpl
def fredfw_topologies() -> Sequence[type[Topology]]:
    """Register ``mesh2d``."""
    return [Mesh2D]


@hookimpl
def fredfw_routers() -> Sequence[type[Router]]:
    """Register ``xy``."""
    return [XYRouter]
