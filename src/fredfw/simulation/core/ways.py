"""The links that messages take, laid out so that the flow table reads them without a look at arrays."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from fredfw.fabric import Router, Routes

# Addresses of links and coefficients, and numbers, as the loops in C know them.
_ROW = np.dtype([("links", np.intp), ("count", np.int64), ("coefficients", np.intp), ("latency", np.float64)])


class Ways:
    """The routes of several flows, each of which a message may take.

    Args:
        routes: Those.
    """

    def __init__(self, routes: Routes) -> None:
        self.routes = routes
        self._links = np.ascontiguousarray(routes.links, dtype=np.int64)
        self._shares = None if routes.coefficients is None else np.ascontiguousarray(routes.coefficients, dtype=float)
        begins = routes.offsets[:-1] * 8  # bytes of a number
        self._rows: NDArray[Any] = np.empty(len(routes), dtype=_ROW)
        self._rows["links"] = self._links.ctypes.data + begins
        self._rows["count"] = np.diff(routes.offsets)
        self._rows["coefficients"] = 0 if self._shares is None else self._shares.ctypes.data + begins
        self._rows["latency"] = routes.latencies
        self._address = self._rows.ctypes.data
        self._counts = self._rows["count"].tolist()

    def way(self, flow: int, again: Callable[[Router], Routes] | None = None) -> Way:
        """Return the way of ``flow``; ``again`` as in ``FlowSet``."""
        return Way(self, flow, self._counts[flow], self._address + flow * _ROW.itemsize, again)


@frozen(eq=False)
class Way:
    """The links of a single flow.

    Args:
        ways: What it is part of.
        place: Which of those.
        length: How many links it has.
        address: Of what the loops in C read; valid as long as ``ways``, and in this process.
        again: Returns the route by another router, where links are closed.
    """

    ways: Ways
    place: int
    length: int
    address: int
    again: Callable[[Router], Routes] | None

    @cached_property
    def routes(self) -> Routes:
        """The route of that flow alone."""
        routes = self.ways.routes
        return routes if len(routes) == 1 else routes.select(np.array([self.place]))

    def __reduce__(self) -> tuple[Callable[[Routes, Callable[[Router], Routes] | None], Way], tuple[Any, ...]]:
        return way_of, (self.routes, self.again)


def way_of(routes: Routes, again: Callable[[Router], Routes] | None = None) -> Way:
    """Return the way of the only flow of ``routes``; ``again`` as in ``FlowSet``."""
    return Ways(routes).way(0, again)
