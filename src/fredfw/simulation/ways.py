"""Which links flows take: the ways of messages, laid out for the engine, and detours while links are closed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from attrs import define, evolve, frozen

from fredfw import arrays
from fredfw.errors import UnsupportedError
from fredfw.fabric import FlowSet, Router, Routes
from fredfw.simulation.engine import View
from fredfw.typing import BoolArray
from fredfw.units import counted

ONE = np.zeros(1, dtype=np.intp)
ONE.flags.writeable = False
"""The only activity of a message, and of its only flow."""


class Ways:
    """The routes of several flows, each of which a message may take; ``again`` routes one by another router."""

    def __init__(self, routes: Routes, again: Callable[[int, Router], Routes]) -> None:
        self.routes = routes
        self.again = again
        self.view = View(routes)


@define(eq=False)
class Way:
    """The links of a single flow, the one at ``place`` of ``ways``."""

    ways: Ways
    place: int

    @property
    def routes(self) -> Routes:
        """The route of that flow alone, another object each time."""
        return self.ways.routes.select(np.array([self.place]))

    @property
    def again(self) -> Callable[[Router], Routes]:
        return partial(self.ways.again, self.place)

    def __reduce__(self) -> tuple[Callable[[Routes, Callable[[Router], Routes]], Way], tuple[object, ...]]:
        return _alone, (self.routes, self.again)


def _alone(routes: Routes, again: Callable[[Router], Routes]) -> Way:
    return Way(Ways(routes, partial(_again, again)), 0)


def _again(again: Callable[[Router], Routes], _flow: int, router: Router) -> Routes:
    return again(router)


def flows_of(way: Way, volume: float, priority: int, label: str) -> FlowSet:
    return FlowSet(way.routes, np.array([volume]), ONE, 1, priority=priority, label=label, again=way.again)


@frozen
class Rerouting:
    """What became of the flows whose links were closed."""

    moved: int  # how many have other routes now
    stranded: tuple[str, ...]  # labels of flow sets that have no other; they wait until links are back

    def told(self, how: str = "") -> str:
        moved = f"; {counted(self.moved, 'flow')} under way took another path{how}" if self.moved else ""
        return moved + (f"; no path is left for {', '.join(self.stranded)}" if self.stranded else "")


class Detours:
    """The links that are closed, and the routes that a router, once one is given, knows around them."""

    def __init__(self) -> None:
        self.router: Router | None = None
        self.closed: BoolArray | None = None  # (links,) which are, where any is
        self._forget()

    def use(self, router: Router) -> None:
        self.router = router
        self._forget()

    def close(self, closed: BoolArray) -> None:
        self.closed = closed if closed.any() else None
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
        if self.closed is None:
            return flows
        if flows not in self._detoured:
            routes, self._detoured[flows] = flows.routes, flows
            crossing = arrays.reduced(np.logical_or, self.closed[routes.links], routes.offsets, False)
            if crossing.any():
                self._detoured[flows] = evolve(flows, routes=Routes.choose(crossing, self.routes(flows), routes))
        return self._detoured[flows]

    def _forget(self) -> None:
        self._routes: dict[FlowSet, Routes] = {}
        self._detoured: dict[FlowSet, FlowSet] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {"router": self.router, "closed": self.closed}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()  # a copy's flows are others
