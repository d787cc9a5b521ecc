"""The router ``simai``: over the NVSwitch inside a server, over all shortest paths between servers."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from attrs import frozen

from fredfw import Fabric, MultipathRouter, Operation, Router, Routes, ShortestPathRouter
from fredfw.typing import IntArray


@frozen
class SimaiRouter(Router):
    """Routes over NVLinks between GPUs of one server, and over all shortest paths between servers.

    A server is what links of tier 0 connect; a network of one tier has no servers. Of equally short paths in a server
    the one over the switch with the lowest number is taken, which is the NVSwitch. Trees are those of the router
    ``shortest-path``.
    """

    name: ClassVar[str] = "simai"

    def route(self, fabric: Fabric, sources: IntArray, destinations: IntArray) -> Routes:
        """See ``Router.route``; raises ``UnsupportedError`` where there is no path."""
        inside = fabric.servers[sources] == fabric.servers[destinations]
        if not fabric.tiers.any():
            inside = np.zeros(len(sources), dtype=bool)
        parts = []
        for router, chosen in ((ShortestPathRouter(), inside), (MultipathRouter(through_npus=False), ~inside)):
            if chosen.all():
                return router.route(fabric, sources, destinations)
            parts.append(router.route(fabric, sources[chosen], destinations[chosen]))
        place = np.empty(len(sources), dtype=np.intp)
        place[np.concatenate([np.flatnonzero(inside), np.flatnonzero(~inside)])] = np.arange(len(sources))
        return Routes.concatenate(parts).select(place)

    def tree(self, fabric: Fabric, sources: IntArray, destinations: IntArray, operation: Operation) -> Routes:
        """See ``Router.tree``."""
        return ShortestPathRouter().tree(fabric, sources, destinations, operation)
