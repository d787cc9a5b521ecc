"""The topology ``torus``, rings of NPUs in any number of dimensions."""

from __future__ import annotations

from collections.abc import Sequence

from fredfw import Topology, hookimpl
from fredfw_topology_torus.topology import Torus

__all__ = ["Torus"]

fredfw_contract = 2


@hookimpl
def fredfw_topologies() -> Sequence[type[Topology]]:
    """Register ``torus``."""
    return [Torus]
