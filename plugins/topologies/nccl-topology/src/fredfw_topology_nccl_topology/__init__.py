"""The topology ``nccl-topology``: a server as NCCL sees it."""

from __future__ import annotations

from collections.abc import Sequence

from fredfw import Topology, hookimpl
from fredfw_topology_nccl_topology.topology import NcclTopology

__all__ = ["NcclTopology"]

fredfw_contract = 2


@hookimpl
def fredfw_topologies() -> Sequence[type[Topology]]:
    """Register ``nccl-topology``."""
    return [NcclTopology]
