"""What cells of several experiments share."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from fredfw.experiment.cell.bench import Bench
from fredfw.workloads import TaskGraph

_T = TypeVar("_T")
# Of what cells share, fabrics, and tasks of all graphs together: a sweep comes back to them, and both can be large.
_FABRICS_KEPT = 4
_TASKS_KEPT = 1_000_000


class Kept:
    """Fabrics and graphs that cells of several experiments share: those that were used last."""

    def __init__(self) -> None:
        self._benches = _Latest[Bench](_FABRICS_KEPT, lambda _: 1)
        self._graphs = _Latest[TaskGraph](_TASKS_KEPT, len)

    def bench(self, environment: str, what: object, build: Callable[[], Bench]) -> Bench:
        """Return the fabric of what is written in ``what``, JSON-ready, in ``environment``."""
        return self._benches.get(json.dumps([environment, what]), build)

    def graph(self, environment: str, what: object, build: Callable[[], TaskGraph]) -> TaskGraph:
        """Return the graph, likewise."""
        return self._graphs.get(json.dumps([environment, what]), build)


class _Latest(Generic[_T]):
    """The values that were asked for last, whose sizes add up to at most ``room``; the last one always."""

    def __init__(self, room: int, size: Callable[[_T], int]) -> None:
        self._room = room
        self._size = size
        self._values: OrderedDict[str, _T] = OrderedDict()

    def get(self, key: str, make: Callable[[], _T]) -> _T:
        if key not in self._values:
            self._values[key] = made = make()
            self._room -= self._size(made)
            while self._room < 0 and len(self._values) > 1:
                _, oldest = self._values.popitem(last=False)
                self._room += self._size(oldest)
        self._values.move_to_end(key)
        return self._values[key]
