"""The links that messages take, laid out so that the engine reads them without a look at arrays."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from fredfw.fabric import FlowSet, Router, Routes
from fredfw.simulation.engine import View

ONE = np.zeros(1, dtype=np.intp)
ONE.flags.writeable = False
"""The only activity of a message, and of its only flow."""


class Ways:
    """The routes of several flows, each of which a message may take; ``again`` routes one by another router."""

    def __init__(self, routes: Routes, again: Callable[[int, Router], Routes]) -> None:
        self.routes = routes
        self.again = again
        self.view = View(routes)


class Way:
    """The links of a single flow, the one at ``place`` of ``ways``."""

    __slots__ = ("place", "ways")

    def __init__(self, ways: Ways, place: int) -> None:
        self.ways = ways
        self.place = place

    @property
    def routes(self) -> Routes:
        """The route of that flow alone, another object each time."""
        return self.ways.routes.select(np.array([self.place]))

    @property
    def again(self) -> Callable[[Router], Routes]:
        """Returns its route by another router; see ``FlowSet``."""
        return partial(self.ways.again, self.place)

    def __reduce__(self) -> tuple[Callable[[Routes, Callable[[Router], Routes]], Way], tuple[object, ...]]:
        return _alone, (self.routes, self.again)


def _alone(routes: Routes, again: Callable[[Router], Routes]) -> Way:
    return Way(Ways(routes, partial(_again, again)), 0)


def _again(again: Callable[[Router], Routes], _flow: int, router: Router) -> Routes:
    return again(router)


def flows_of(way: Way, volume: float, priority: int, label: str) -> FlowSet:
    """Return the flow set of a message."""
    return FlowSet(
        routes=way.routes,
        volumes=np.array([volume]),
        activity=ONE,
        activities=1,
        priority=priority,
        label=label,
        again=way.again,
    )
