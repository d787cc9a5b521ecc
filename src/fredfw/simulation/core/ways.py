"""The links that messages take, laid out so that the flow table reads them without a look at arrays."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fredfw.fabric import Router, Routes

# Addresses of links and coefficients, and numbers, as the loops in C know them.
_ROW = np.dtype([("links", np.int64), ("count", np.int64), ("coefficients", np.int64), ("latency", np.float64)])


class Ways:
    """The routes of several flows, each of which a message may take.

    Args:
        routes: Those.
        again: Returns the route of the flow of a number by another router, where links are closed.
    """

    def __init__(self, routes: Routes, again: Callable[[int, Router], Routes]) -> None:
        self.routes = routes
        self.again = again
        self._links = np.ascontiguousarray(routes.links, dtype=np.int64)
        self._shares = None if routes.coefficients is None else np.ascontiguousarray(routes.coefficients, dtype=float)
        begins = routes.offsets[:-1] * 8  # bytes of a number
        self._rows: NDArray[Any] = np.empty(len(routes), dtype=_ROW)
        self._rows["links"] = self._links.ctypes.data + begins
        self._rows["count"] = np.diff(routes.offsets)
        self._rows["coefficients"] = 0 if self._shares is None else self._shares.ctypes.data + begins
        self._rows["latency"] = routes.latencies
        self._address: int = self._rows.ctypes.data
        self._counts: list[int] = self._rows["count"].tolist()

    def way(self, flow: int) -> Way:
        """Return the way of ``flow``."""
        return Way(self, flow, self._counts[flow], self._address + flow * _ROW.itemsize)


class Way:
    """The links of a single flow.

    Args:
        ways: What it is part of.
        place: Which of those.
        length: How many links it has.
        address: Of what the loops in C read; valid as long as ``ways``, and in this process.
    """

    __slots__ = ("address", "length", "place", "ways")

    def __init__(self, ways: Ways, place: int, length: int, address: int) -> None:
        self.ways = ways
        self.place = place
        self.length = length
        self.address = address

    @property
    def routes(self) -> Routes:
        """The route of that flow alone, another object each time."""
        return self.ways.routes.select(np.array([self.place]))

    @property
    def again(self) -> Callable[[Router], Routes]:
        """Returns its route by another router; see ``FlowSet``."""
        return partial(self.ways.again, self.place)

    def __getstate__(self) -> None:
        raise TypeError("a way is of one process")
