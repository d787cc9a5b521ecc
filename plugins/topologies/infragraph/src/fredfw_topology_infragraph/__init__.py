"""The topology ``infragraph``: infrastructure that InfraGraph describes."""

from fredfw_topology_infragraph.topology import InfraGraph

__all__ = ["InfraGraph"]

fredfw_contract = 2
