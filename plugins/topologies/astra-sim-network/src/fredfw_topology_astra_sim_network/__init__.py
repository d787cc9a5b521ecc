"""The topology ``astra-sim-network``, and the command that makes an experiment of ASTRA-sim's inputs."""

from fredfw_topology_astra_sim_network.topology import AstraSimNetwork

__all__ = ["AstraSimNetwork"]

fredfw_contract = 2
