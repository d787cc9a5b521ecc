"""Links of a network that fail, come back and change their bandwidth while flows are under way."""

from __future__ import annotations

import numpy as np

from fredfw.fabric import Fabric, LiveRouter, Router
from fredfw.simulation.detours import Rerouting
from fredfw.simulation.network import FlowNetwork
from fredfw.typing import BoolArray, FloatArray, IntArray


class LiveLinks:
    """Which links of a fabric may be used, and how wide they are.

    Args:
        fabric: The network, all of whose links are up.

    Attributes:
        up: ``(links,)`` whether each may be used.
        bandwidths: ``(links,)`` bytes per second; of those that are down what they have when they are back.
        router: Routes over the links that were up at the last ``reroute``.
    """

    def __init__(self, fabric: Fabric) -> None:
        self.up: BoolArray = np.ones(len(fabric.bandwidths), dtype=bool)
        self.bandwidths: FloatArray = fabric.bandwidths.copy()
        self.router: Router = fabric.defaults.router
        self._rule: Router = fabric.defaults.router
        self._left = 0

    @property
    def left(self) -> int:
        """How many routes did not follow the fabric's rule."""
        return self._left + (self.router.left if isinstance(self.router, LiveRouter) else 0)

    def widen(self, network: FlowNetwork, links: IntArray) -> None:
        """Have ``links`` of ``network`` as wide as they are."""
        network.set_bandwidths(links, np.where(self.up[links], self.bandwidths[links], 0.0))

    def reroute(self, network: FlowNetwork, links: IntArray) -> Rerouting:
        """Do the same for ``links`` that failed or are back, and have flows avoid what is down, now and later."""
        self._left = self.left
        self.router = self._rule if self.up.all() else LiveRouter(self._rule, self.up.copy())
        self.widen(network, links)
        return network.reroute(self.router)
