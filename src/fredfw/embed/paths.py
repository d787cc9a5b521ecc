"""The ways of messages: those of a program that sends to many are asked for together."""

from __future__ import annotations

from functools import cached_property, partial
from itertools import islice

import numpy as np

from fredfw.errors import FredfwError
from fredfw.fabric import Fabric, LiveRouter, Router, Routes, answers
from fredfw.simulation.ways import Way, Ways
from fredfw.typing import IntArray

# Of how many pairs the routes are kept that were asked for alone, and of how many others: some 50 MB each.
_ALONE, _TOGETHER = 2**16, 2**19
# A program that has asked for so many pairs, one by one, may ask for more. For each of them, routes of so many others
# are found together: from some sources to all NPUs, and each time from half as many more.
_FEW, _EACH, _MORE = 8, 1024, 0.5


class Paths:
    """Says which links messages take."""

    def __init__(self, fabric: Fabric, router: Router) -> None:
        self._fabric = fabric
        self.use(router)

    def use(self, router: Router) -> None:
        self._router = router
        # A router around failed links counts what it is asked for.
        self._together = not isinstance(router, LiveRouter)
        self._alone = 0  # how many pairs were asked for alone
        self._ways: dict[tuple[int, int], Way] = {}
        self._rows: dict[int, tuple[Ways, int]] = {}

    def way(self, source: int, destination: int) -> Way:
        ends = source, destination
        way = self._ways.get(ends)
        if way is None:
            if len(self._ways) == _ALONE:
                del self._ways[next(iter(self._ways))]
            way = self._ways[ends] = self._find(source, destination)
        return way

    def _find(self, source: int, destination: int) -> Way:
        row = self._rows.get(source) or self._row(source)
        place = -1 if row is None else self._numbers.item(destination)
        if row is not None and place >= 0:
            return Way(row[0], row[1] + place)
        self._alone += 1
        routes = answers.path(self._router, self._fabric, source, destination)
        again = partial(_route, self._fabric, np.array([source]), np.array([destination]))
        return Way(Ways(routes, again), 0)

    def _row(self, source: int) -> tuple[Ways, int] | None:
        """Return the ways from ``source`` to all NPUs and the first one's number; ``None``: not yet looked for."""
        npus, rows = self._fabric.npus, len(self._rows)
        count = min(_EACH * self._alone, _TOGETHER) // len(npus) - rows
        first = self._numbers.item(source)
        if not self._together or self._alone < _FEW or count < max(1, _MORE * rows) or first < 0:
            return None
        # From the next ones, too, which a program that sends from all will need.
        following = np.concatenate([npus[first:], npus[:first]]).tolist()
        senders = list(islice((node for node in following if node not in self._rows), count))
        sources, destinations = np.repeat(senders, len(npus)), np.tile(npus, len(senders))
        try:
            routes = answers.route(self._router, self._fabric, sources, destinations)
        except FredfwError:  # of a pair that nobody has asked for, maybe
            self._together = False
            return None
        ways = Ways(routes, partial(_route, self._fabric, sources, destinations))
        self._rows |= {node: (ways, place * len(npus)) for place, node in enumerate(senders)}
        return self._rows[source]

    @cached_property
    def _numbers(self) -> IntArray:
        """``(nodes,)`` number of each NPU, -1 for other nodes."""
        numbers = np.full(len(self._fabric.kinds), -1)
        numbers[self._fabric.npus] = np.arange(len(self._fabric.npus))
        return numbers

    def __reduce__(self) -> tuple[type[Paths], tuple[Fabric, Router]]:
        return Paths, (self._fabric, self._router)


def _route(fabric: Fabric, sources: IntArray, destinations: IntArray, flow: int, router: Router) -> Routes:
    return answers.path(router, fabric, int(sources[flow]), int(destinations[flow]))
