"""The topology ``nvidia-smi-topo``: a server from the matrix of ``nvidia-smi topo -m``."""

from __future__ import annotations

from collections.abc import Sequence

from fredfw import Topology, hookimpl
from fredfw_topology_nvidia_smi_topo.topology import NvidiaSmiTopo

__all__ = ["NvidiaSmiTopo"]

fredfw_contract = 2


@hookimpl
def fredfw_topologies() -> Sequence[type[Topology]]:
    """Register ``nvidia-smi-topo``."""
    return [NvidiaSmiTopo]
