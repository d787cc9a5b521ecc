"""The ways of messages: those of a program that sends to many are asked for together."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from attrs import frozen

from fredfw.errors import FredfwError
from fredfw.fabric import Fabric, LiveRouter, Router, Routes, answers
from fredfw.simulation.core.ways import Way, Ways
from fredfw.typing import IntArray

# Of how many pairs the routes are kept: some 50 MB where they are asked for one by one.
_REMEMBERED = 2**16
# After so many pairs, the routes of so many times as many as have been asked for are asked for together, which takes as
# long as the others took; but never more than so many at once.
_ONE_BY_ONE, _TIMES, _TOGETHER = 8, 256, 2**14
# On a fabric of more NPUs a program is not expected to send from one to all.
_NPUS = 4096


class Paths:
    """Says which links messages take.

    Args:
        fabric: The network.
        router: Makes transfers into links.
    """

    def __init__(self, fabric: Fabric, router: Router) -> None:
        self._fabric = fabric
        self.use(router)

    def use(self, router: Router) -> None:
        """Ask ``router`` from now on."""
        self._router = router
        # A router around failed links counts what it is asked for.
        self._together = len(self._fabric.npus) <= _NPUS and not isinstance(router, LiveRouter)
        self._asked = 0
        self._forget()

    def way(self, source: int, destination: int) -> Way:
        """Return the way from one node to another.

        Raises:
            UnsupportedError: There is none.
            PluginError: The router fails, or what it returns is not a route.
        """
        ends = source, destination
        way = self._ways.get(ends)
        if way is None:
            if len(self._ways) >= _REMEMBERED:
                self._forget()
            way = self._ways[ends] = self._find(source, destination)
        return way

    def _find(self, source: int, destination: int) -> Way:
        row = self._rows.get(source) or self._row(source)
        place = -1 if row is None else self._numbers.item(destination)
        if row is not None and place >= 0:
            return row[0].way(row[1] + place)
        routes = answers.path(self._router, self._fabric, source, destination)
        return Ways(routes, _Again(self._fabric, np.array([source]), np.array([destination]))).way(0)

    def _row(self, source: int) -> tuple[Ways, int] | None:
        """Return the ways from ``source`` to all NPUs, which begin with the flow of a number.

        It is ``None`` where it is too early for that.
        """
        self._asked += 1
        first = self._numbers.item(source)
        if self._asked <= _ONE_BY_ONE or not self._together or first < 0:
            return None
        npus = self._fabric.npus
        # With those of the next, which a program that sends from all will need.
        last = first + max(1, min(_TIMES * self._asked, _TOGETHER) // len(npus))
        senders = [node for node in npus[first:last].tolist() if node not in self._rows]
        sources, destinations = np.repeat(senders, len(npus)), np.tile(npus, len(senders))
        try:
            routes = answers.route(self._router, self._fabric, sources, destinations)
        except FredfwError:  # of a pair that nobody has asked for, maybe
            self._together = False
            return None
        ways = Ways(routes, _Again(self._fabric, sources, destinations))
        self._rows |= {node: (ways, place * len(npus)) for place, node in enumerate(senders)}
        return self._rows[source]

    @cached_property
    def _numbers(self) -> IntArray:
        """``(nodes,)`` number of each NPU, -1 for other nodes."""
        numbers = np.full(len(self._fabric.kinds), -1)
        numbers[self._fabric.npus] = np.arange(len(self._fabric.npus))
        return numbers

    def _forget(self) -> None:
        self._ways: dict[tuple[int, int], Way] = {}
        self._rows: dict[int, tuple[Ways, int]] = {}

    def __getstate__(self) -> tuple[Fabric, Router]:
        return self._fabric, self._router

    def __setstate__(self, state: tuple[Fabric, Router]) -> None:
        self._fabric = state[0]
        self.use(state[1])


@frozen(eq=False)
class _Again:
    """Routes flows again.

    Args:
        fabric: The network.
        sources: ``(F,)`` nodes.
        destinations: ``(F,)`` nodes.
    """

    fabric: Fabric
    sources: IntArray
    destinations: IntArray

    def __call__(self, flow: int, router: Router) -> Routes:
        """Return the route of ``flow`` by ``router``."""
        return answers.path(router, self.fabric, int(self.sources[flow]), int(self.destinations[flow]))
