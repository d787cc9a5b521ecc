"""The topology ``infragraph``: infrastructure that InfraGraph describes."""

from __future__ import annotations

from collections.abc import Sequence

from fredfw import Topology, hookimpl
from fredfw_topology_infragraph.topology import InfraGraph

__all__ = ["InfraGraph"]

fredfw_contract = 2


@hookimpl
def fredfw_topologies() -> Sequence[type[Topology]]:
    """Register ``infragraph``."""
    return [InfraGraph]
