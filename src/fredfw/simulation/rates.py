"""Rates of sets of active flows, never solved twice for the same set."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import define, field

from fredfw.fabric import Fabric, Routes
from fredfw.simulation.sharing import Incidence, SharingPolicy
from fredfw.typing import BoolArray, FloatArray

# How many rates the cache may hold (8 bytes each).
_CAPACITY = 4_000_000


@define(eq=False)
class Active:
    """Flows that may run.

    Args:
        routes: Their links.
        caps: ``(F,)`` upper limits, or ``None``.
        priority: Their class.
        draining: ``(F,)`` which of them still have bytes to send.
    """

    routes: Routes
    caps: FloatArray | None
    priority: int
    draining: BoolArray
    identity: tuple[int, int, int] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.identity = id(self.routes), id(self.caps), self.priority


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
        self.solves = 0
        self.cached = 0
        self._known: dict[tuple[object, ...], tuple[FloatArray, object]] = {}
        self._held = 0

    def rates(self, active: Sequence[Active]) -> FloatArray:
        """Return the rates of all draining flows of ``active``, in order."""
        key = tuple([(one.identity, one.draining.tobytes()) for one in active])
        known = self._known.get(key)
        if known is not None:
            self.cached += 1
            return known[0]
        self.solves += 1
        rates = self.sharing.rates(_incidence(active), self.fabric.bandwidths, self.fabric)
        if self._held + len(rates) > _CAPACITY:
            self._known.clear()
            self._held = 0
        # What the key names by id is kept alive beside the answer.
        self._known[key] = rates, [(one.routes, one.caps) for one in active]
        self._held += len(rates)
        return rates


def _incidence(active: Sequence[Active]) -> Incidence:
    parts = [
        Incidence(
            one.routes.offsets,
            one.routes.links,
            one.routes.coefficients,
            one.caps,
            np.full(len(one.routes), one.priority, dtype=np.intp),
        ).select(one.draining)
        for one in active
    ]
    if len(parts) == 1:
        return parts[0]
    lengths = np.concatenate([np.diff(part.offsets) for part in parts])
    coefficients = caps = None
    if any(part.coefficients is not None for part in parts):
        ones = (np.ones(len(part.links)) if part.coefficients is None else part.coefficients for part in parts)
        coefficients = np.concatenate(list(ones))
    if any(part.caps is not None for part in parts):
        limits = (np.full(len(part), np.inf) if part.caps is None else part.caps for part in parts)
        caps = np.concatenate(list(limits))
    return Incidence(
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.intp),
        np.concatenate([part.links for part in parts]),
        coefficients,
        caps,
        np.concatenate([part.priorities for part in parts]),
    )
