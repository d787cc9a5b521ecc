"""Which way flows go while links are closed."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
from attrs import evolve, frozen

from fredfw.errors import UnsupportedError
from fredfw.fabric import FlowSet, Router, Routes
from fredfw.typing import BoolArray


@frozen
class Rerouting:
    """What became of the flows whose links were closed."""

    moved: int  # how many have other routes now
    stranded: tuple[str, ...]  # labels of flow sets that have no other; they wait until links are back


class Detours:
    """The links that are closed, and the routes that a router, once one is given, knows around them."""

    def __init__(self) -> None:
        self.router: Router | None = None
        self.closed = False
        self._closed: BoolArray | None = None  # of links, where any is
        self._forget()

    def use(self, router: Router) -> None:
        """Ask ``router`` from now on."""
        self.router = router
        self._forget()

    def close(self, closed: BoolArray) -> None:
        """Note the ``(links,)`` mask of those that are closed now."""
        self.closed = bool(closed.any())
        self._closed = closed if self.closed else None
        self._forget()

    def routes(self, flows: FlowSet) -> Routes:
        """Return the routes of all ``flows`` by the router, asked once; those that they have where it knows none."""
        if flows not in self._routes:
            self._routes[flows] = flows.routes
            if self.router is not None:
                with suppress(UnsupportedError):
                    self._routes[flows] = flows.routed(self.router)
        return self._routes[flows]

    def around(self, flows: FlowSet) -> FlowSet:
        """Return ``flows``, routed again where links are closed; always the same object for the same flows."""
        if self._closed is None:
            return flows
        if flows not in self._detoured:
            routes, self._detoured[flows] = flows.routes, flows
            each = np.repeat(np.arange(len(routes)), np.diff(routes.offsets))
            crossing = np.bincount(each, weights=self._closed[routes.links], minlength=len(routes)) > 0
            if crossing.any():
                self._detoured[flows] = evolve(flows, routes=Routes.choose(crossing, self.routes(flows), routes))
        return self._detoured[flows]

    def _forget(self) -> None:
        self._routes: dict[FlowSet, Routes] = {}
        self._detoured: dict[FlowSet, FlowSet] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {"router": self.router, "closed": self.closed, "_closed": self._closed}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()  # a copy's flows are others
