"""Rates of sets of active flows, never solved twice for the same set."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from fredfw.fabric import Fabric
from fredfw.simulation.sharing import Incidence, SharingPolicy
from fredfw.typing import FloatArray

# How many rates the cache may hold (8 bytes each).
_CAPACITY = 4_000_000


class RateSolver:
    """Applies a sharing policy to sets of active flows, and remembers the answers.

    Rates depend on which flows are active, never on their volumes, so one solver may serve any number of simulations
    on the same fabric.

    Args:
        fabric: The network.
        sharing: How its links are shared.
    """

    def __init__(self, fabric: Fabric, sharing: SharingPolicy) -> None:
        self.fabric = fabric
        self.sharing = sharing
        self._forget()

    def find(self, key: Hashable) -> FloatArray | None:
        """Return the rates of the set of flows ``key``, if they are known."""
        return self._known.get(key)

    def remember(self, key: Hashable, rates: FloatArray) -> None:
        """Remember the ``rates`` of the set of flows ``key``, which names it by what it is made of."""
        if self._held + len(rates) > _CAPACITY:
            self._forget()
        self._known[key] = rates
        self._held += len(rates)

    def solve(self, incidence: Incidence, capacities: FloatArray) -> FloatArray:
        """Return the rates of ``incidence`` on links of ``(links,)`` ``capacities`` bytes per second."""
        return self.sharing.rates(incidence, capacities, self.fabric)

    def _forget(self) -> None:
        self._known: dict[Hashable, FloatArray] = {}
        self._held = 0

    def __getstate__(self) -> dict[str, Any]:
        # What is known would be most of a copy's size.
        return {"fabric": self.fabric, "sharing": self.sharing}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]  # a copy is a solver that has solved nothing yet
