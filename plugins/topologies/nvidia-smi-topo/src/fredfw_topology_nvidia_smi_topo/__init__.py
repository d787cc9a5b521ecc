"""The topology ``nvidia-smi-topo``: a server from the matrix of ``nvidia-smi topo -m``."""

from fredfw_topology_nvidia_smi_topo.topology import NvidiaSmiTopo

__all__ = ["NvidiaSmiTopo"]

fredfw_contract = 2
