"""The topology ``cluster``: nodes of NPUs, their network cards, and the switches that connect the nodes."""

from fredfw_topology_cluster.routing import ClusterRouter
from fredfw_topology_cluster.topology import Cluster

__all__ = ["Cluster", "ClusterRouter"]

fredfw_contract = 2
