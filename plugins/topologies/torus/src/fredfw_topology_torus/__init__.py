"""The topology ``torus``, rings of NPUs in any number of dimensions, and its router ``dimension-order``."""

from __future__ import annotations

from collections.abc import Sequence

from fredfw import Router, Topology, hookimpl
from fredfw_topology_torus.routing import DimensionOrderRouter
from fredfw_topology_torus.topology import Torus

__all__ = ["DimensionOrderRouter", "Torus"]

fredfw_contract = 1


@hookimpl
def fredfw_topologies() -> Sequence[type[Topology]]:
    """Register ``torus``."""
    return [Torus]


@hookimpl
def fredfw_routers() -> Sequence[type[Router]]:
    """Register ``dimension-order``."""
    return [DimensionOrderRouter]
