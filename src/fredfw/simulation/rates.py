"""Rates of sets of active flows, never solved twice for the same set."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from fredfw.fabric import Fabric, Routes
from fredfw.simulation import answers
from fredfw.simulation.sharing import Incidence, SharingPolicy
from fredfw.typing import BoolArray, FloatArray

# How many bytes may be remembered: so many, and on a large fabric so many for each link.
_CAPACITY, _PER_LINK = 32 * 2**20, 32
# What it takes to know whether two sets of routes meet: two entries of a dictionary.
_PER_PAIR = 400


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
        self._hold(rates.nbytes)
        self._known[key] = rates

    def solve(self, incidence: Incidence, capacities: FloatArray) -> FloatArray:
        """Return the rates of ``incidence`` on links of ``(links,)`` ``capacities`` bytes per second.

        Raises:
            PluginError: The policy fails, or gives what it must not.
        """
        return answers.rates(self.sharing, incidence, capacities, self.fabric)

    def meet(self, one: Routes, other: Routes) -> bool:
        """Return whether two sets of routes have a link in common."""
        known = self._meet.get((one, other))
        if known is None:
            known = bool(self._mask(one)[other.links].any())
            self._hold(_PER_PAIR)
            self._meet[one, other] = self._meet[other, one] = known
        return known

    def _mask(self, routes: Routes) -> BoolArray:
        """Return the ``(links,)`` mask of those that ``routes`` use."""
        if routes not in self._masks:
            mask = np.zeros(len(self.fabric.bandwidths), dtype=bool)
            mask[routes.links] = True
            self._hold(mask.nbytes)
            self._masks[routes] = mask
        return self._masks[routes]

    def _hold(self, size: int) -> None:
        """Make room for so many bytes."""
        if self._held + size > max(_CAPACITY, _PER_LINK * len(self.fabric.bandwidths)):
            self._forget()
        self._held += size

    def _forget(self) -> None:
        self._known: dict[Hashable, FloatArray] = {}
        self._masks: dict[Routes, BoolArray] = {}
        self._meet: dict[tuple[Routes, Routes], bool] = {}
        self._held = 0

    def __getstate__(self) -> dict[str, Any]:
        # What is known would be most of a copy's size.
        return {"fabric": self.fabric, "sharing": self.sharing}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]  # a copy is a solver that has solved nothing yet
