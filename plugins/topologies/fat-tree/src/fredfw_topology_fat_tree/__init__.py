"""The topology ``fat-tree``: hosts under levels of plain switches, and its routers ``ecmp`` and ``spray``."""

from fredfw_topology_fat_tree.routing import EcmpRouter, SprayRouter
from fredfw_topology_fat_tree.structure import XGFT, pair_hash
from fredfw_topology_fat_tree.topology import FatTree

__all__ = ["XGFT", "EcmpRouter", "FatTree", "SprayRouter", "pair_hash"]

fredfw_contract = 2
