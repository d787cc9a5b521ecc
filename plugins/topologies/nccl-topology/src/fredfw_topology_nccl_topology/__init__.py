"""The topology ``nccl-topology``: a server as NCCL sees it."""

from fredfw_topology_nccl_topology.topology import NcclTopology

__all__ = ["NcclTopology"]

fredfw_contract = 2
