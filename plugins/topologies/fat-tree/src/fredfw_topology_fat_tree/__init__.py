"""The topology ``fat-tree``: hosts under levels of plain switches, and its routers ``ecmp`` and ``spray``."""

from __future__ import annotations

from collections.abc import Sequence

from fredfw import Router, Topology, hookimpl
from fredfw_topology_fat_tree.routing import EcmpRouter, SprayRouter, pair_hash
from fredfw_topology_fat_tree.structure import XGFT
from fredfw_topology_fat_tree.topology import FatTree

__all__ = ["XGFT", "EcmpRouter", "FatTree", "SprayRouter", "pair_hash"]

fredfw_contract = 2


@hookimpl
def fredfw_topologies() -> Sequence[type[Topology]]:
    """Register ``fat-tree``."""
    return [FatTree]


@hookimpl
def fredfw_routers() -> Sequence[type[Router]]:
    """Register ``ecmp`` and ``spray``."""
    return [EcmpRouter, SprayRouter]
