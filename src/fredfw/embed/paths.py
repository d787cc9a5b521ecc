"""The ways of messages: each pair's is asked for once, and those of a program that sends to many are asked for together."""

from __future__ import annotations

from functools import cached_property, partial

import numpy as np

from fredfw.errors import FredfwError
from fredfw.fabric import Fabric, LiveRouter, Router, Routes, answers
from fredfw.simulation.core.ways import Way, Ways, way_of
from fredfw.typing import IntArray

# Of how many pairs the routes are kept: some 50 MB where they are asked for one by one.
_REMEMBERED = 2**16
# After so many pairs, the routes of so many times as many as have been asked for are asked for together. That takes about
# as long as the others took; but no more than so many.
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
        # A router around failed links counts what it is asked.
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
        again = partial(_path, self._fabric, source, destination)
        one, other = int(self._numbers[source]), int(self._numbers[destination])
        if self._together and one >= 0 and other >= 0:
            known = self._rows.get(one) or self._row(one)
            if known is not None:
                ways, first = known
                return ways.way(first + other, again)
        return way_of(answers.path(self._router, self._fabric, source, destination), again)

    def _row(self, npu: int) -> tuple[Ways, int] | None:
        """Return the ways from ``npu`` to all, which begin with the flow of a number; ``None`` where that is too early."""
        self._asked += 1
        if self._asked <= _ONE_BY_ONE:
            return None
        npus = self._fabric.npus
        # With those of the next, which a program that sends from all will need.
        count = max(1, min(_TIMES * self._asked, _TOGETHER) // len(npus))
        senders = [one for one in range(npu, min(npu + count, len(npus))) if one not in self._rows]
        sources, destinations = np.repeat(npus[senders], len(npus)), np.tile(npus, len(senders))
        try:
            ways = Ways(answers.route(self._router, self._fabric, sources, destinations))
        except FredfwError:  # of a pair that nobody has asked for, maybe
            self._together = False
            return None
        self._rows |= {one: (ways, place * len(npus)) for place, one in enumerate(senders)}
        return self._rows[npu]

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


def _path(fabric: Fabric, source: int, destination: int, router: Router) -> Routes:
    return answers.path(router, fabric, source, destination)
