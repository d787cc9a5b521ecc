"""A choice by time, in which few candidates are simulated: the lowest bound first, until no bound can win."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heappop, heappush

from attrs import field, frozen

from fredfw.collectives import Schedule
from fredfw.errors import RefusedError
from fredfw.simulation.floors import Floor, Floors
from fredfw.typing import IntArray

# Times that differ by no more, relative, are equal.
_EXACT = 1e-9


@frozen(eq=False)
class Entrant:
    """Schedules that run at the same time, one for the groups of each class that look alike.

    Args:
        names: The candidates that it stands for, which write the same; sorted.
        schedules: One for each class.
        algorithms: Which algorithm wrote each: a candidate, or another one where that cannot serve the class.
    """

    names: Sequence[str]
    schedules: tuple[Schedule, ...]
    algorithms: tuple[str, ...]


@frozen(eq=False)
class Outcome:
    """What a contest came to.

    Args:
        winner: What to run; ``None`` where all were refused.
        seconds: Times of those that were simulated, by name.
        reasons: Why others were refused, by name.
    """

    winner: Entrant | None
    seconds: Mapping[str, float]
    reasons: Mapping[str, RefusedError]


@frozen(eq=False)
class Contest:
    """The candidates for one request; keeps what was found out without simulating.

    Args:
        floors: The lower bounds on the fabric.
        classes: ``(G, ranks)`` numbers of NPUs of the groups of each class.
        entrants: Of different names.
    """

    floors: Floors
    classes: Sequence[IntArray]
    entrants: Sequence[Entrant]
    _unrouted: dict[Entrant, float] = field(factory=dict, init=False)
    _routed: dict[Entrant, Floor] = field(factory=dict, init=False)

    def run(self, time: Callable[[Entrant], float], margin: float = 0.0) -> Outcome:
        """Return the fastest, ties by name.

        Args:
            time: Simulates one; may raise ``RefusedError``.
            margin: What is slower than the fastest by no more than this share is taken in its place where it puts fewer
                flows on a link, for it leaves more of that link to other traffic.
        """
        seconds: dict[Entrant, float] = {}
        reasons: dict[str, RefusedError] = {}
        least, fewest = math.inf, 0
        queue = [self._entry(one) for one in self.entrants]
        heapify(queue)
        while queue and queue[0][0] <= least * (1 + max(margin, _EXACT)):
            bound, _, entrant = heappop(queue)
            if entrant not in self._routed:
                self._routed[entrant] = self.floors.routed(entrant.schedules, self.classes)
                heappush(queue, self._entry(entrant))
                continue
            if bound > least * (1 + _EXACT) and self._routed[entrant].crowd >= fewest:
                continue
            try:
                seconds[entrant] = time(entrant)
            except RefusedError as error:
                reasons |= dict.fromkeys(entrant.names, error)
                continue
            least = min(seconds.values())
            fewest = min(self._routed[one].crowd for one in _near(seconds, margin))
        by_name = {name: seconds[entrant] for entrant in seconds for name in entrant.names}
        return Outcome(self._winner(seconds, margin), dict(sorted(by_name.items())), reasons)

    def _entry(self, entrant: Entrant) -> tuple[float, str, Entrant]:
        """Return the best bound that is known of ``entrant``, with a name that makes the order one."""
        if entrant not in self._unrouted:
            self._unrouted[entrant] = self.floors.unrouted(entrant.schedules, self.classes)
        bound = self._unrouted[entrant]
        if entrant in self._routed:
            bound = max(bound, self._routed[entrant].seconds)
        return bound, entrant.names[0], entrant

    def _winner(self, seconds: dict[Entrant, float], margin: float) -> Entrant | None:
        if not seconds:
            return None
        if margin > 0:
            near = _near(seconds, margin)
            fewest = min(self._routed[one].crowd for one in near)
            seconds = {one: near[one] for one in near if self._routed[one].crowd == fewest}
        return min(_near(seconds, 0.0), key=lambda one: one.names[0])


def _near(seconds: Mapping[Entrant, float], margin: float) -> dict[Entrant, float]:
    """Return those that are slower than the fastest by no more than ``margin``, or by rounding."""
    limit = min(seconds.values()) * (1 + max(margin, _EXACT))
    return {one: time for one, time in seconds.items() if time <= limit}
