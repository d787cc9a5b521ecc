"""The topology ``node-link``: any graph of nodes and links, as NetworkX writes it."""

from fredfw_topology_node_link.topology import NodeLink

__all__ = ["NodeLink"]

fredfw_contract = 2
