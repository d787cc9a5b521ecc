"""How many bytes have crossed each link, by what they are accounted to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from fredfw.fabric import Routes
from fredfw.typing import FloatArray


class Account:
    """Bytes that have left their sources.

    Args:
        links: How many links there are.
    """

    def __init__(self, links: int) -> None:
        self._links = links
        # By identity of routes, and label; they are added up by link when somebody asks.
        self._moved: dict[tuple[int, str], tuple[Routes, FloatArray]] = {}

    def add(self, label: str, routes: Routes, volumes: FloatArray) -> None:
        """Note that ``(F,)`` ``volumes`` have gone over ``routes``."""
        key = id(routes), label
        before = self._moved.get(key)
        self._moved[key] = routes, volumes if before is None else before[1] + volumes

    def by_link(self, more: Iterable[tuple[str, Routes, FloatArray]]) -> dict[str, FloatArray]:
        """Return the ``(links,)`` bytes that have crossed each link, by label.

        Args:
            more: Label, routes and bytes of what is under way and has not been added.
        """
        moved = [(label, routes, volumes) for (_, label), (routes, volumes) in self._moved.items()]
        totals: dict[str, FloatArray] = {}
        for label, routes, volumes in [*moved, *more]:
            weights = np.repeat(volumes, np.diff(routes.offsets))
            if routes.coefficients is not None:
                weights = weights * routes.coefficients
            load = np.bincount(routes.links, weights=weights, minlength=self._links).astype(float)
            totals[label] = totals[label] + load if label in totals else load
        return totals

    def __getstate__(self) -> dict[str, Any]:
        return {"_links": self._links, "_moved": list(self._moved.items())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._links = state["_links"]
        # Keys name routes by identity, which is another one in a copy.
        self._moved = {(id(routes), label): (routes, moved) for (_, label), (routes, moved) in state["_moved"]}
