"""The topology ``fred``, NPUs and I/O controllers under a tree of switches, and its router ``up-down``."""

from __future__ import annotations

from collections.abc import Sequence

from fredfw import Router, Topology, hookimpl
from fredfw_topology_fred.routing import UpDownRouter
from fredfw_topology_fred.topology import Fred

__all__ = ["Fred", "UpDownRouter"]


@hookimpl
def fredfw_topologies() -> Sequence[type[Topology]]:
    """Register ``fred``."""
    return [Fred]


@hookimpl
def fredfw_routers() -> Sequence[type[Router]]:
    """Register ``up-down``."""
    return [UpDownRouter]
