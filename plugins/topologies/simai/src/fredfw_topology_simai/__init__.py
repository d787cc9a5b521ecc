"""The topology ``simai``: topology files of SimAI, and of ASTRA-sim's ns-3 backend."""

from fredfw_topology_simai.topology import Simai

__all__ = ["Simai"]

fredfw_contract = 2
