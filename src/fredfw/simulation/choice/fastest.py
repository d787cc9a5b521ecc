"""A choice by time, in which few candidates are simulated: the lowest bound first, until no bound can win."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heappop, heappush

from attrs import frozen

from fredfw.errors import UnsupportedError
from fredfw.simulation.bounds.schedules import NOTHING, Floor

CLOSE = {"normal": 1e-3, "low": 0.05}
"""By effort: a candidate that can be faster than the best so far by no more than this share is not simulated."""
# To route so many flows takes so long that it is worth to know first how fast others are.
_HEAVY = 1 << 20
# Rounding; times that differ by no more are equal.
_EXACT = 1e-9


@frozen(eq=False)
class Entrant:
    """What runs at the same time, one algorithm for the groups of each class that look alike."""

    names: Sequence[str]  # the candidates that it stands for, which write the same; sorted
    # Which algorithm serves each class: a candidate, or another one where that cannot serve it.
    algorithms: tuple[str, ...]
    floor: Floor  # its bounds


@frozen(eq=False)
class Outcome:
    """What a contest came to."""

    winner: Entrant | None  # what to run; None where all were refused
    seconds: Mapping[str, float]  # times of those that were simulated to their end, by name
    slower: Mapping[str, float]  # seconds that others take at least, by name
    reasons: Mapping[str, UnsupportedError]  # why others were refused, by name


def contest(
    entrants: Sequence[Entrant],
    time: Callable[[Entrant, float], float],
    margin: float = 0.0,
    *,
    barriers: bool = True,
    close: float = CLOSE["normal"],
) -> Outcome:
    """Return the fastest of ``entrants``, or one that is slower by no more than the share ``close``.

    Args:
        entrants: Of different names.
        time: Simulates one, up to a time beyond which it has lost and takes for ever. May raise ``UnsupportedError``.
        margin: What is slower than the fastest by no more than this share is taken in its place where it puts fewer
            flows on a link, for it leaves more of that link to other traffic.
        barriers: Whether the ranks of a group wait for each other. Where they do not, bounds are lower, and what it
            would take with barriers is still the best guess of who is fast.
        close: How much faster than the best so far a candidate must be able to be, to be simulated.
    """
    seconds: dict[Entrant, float] = {}
    slower: dict[Entrant, float] = {}
    reasons: dict[str, UnsupportedError] = {}
    least, fewest = math.inf, 0
    # What goes first, the best bound that is known, how many rungs have been climbed to it, and whose it is.
    queue = [(_turn(0.0, one, close), NOTHING, 0, one) for one in entrants]
    heapify(queue)
    while queue:
        _, known, climbed, entrant = heappop(queue)
        bound = known.barriers if barriers else known.any_order
        if bound > least * (1 + margin):
            slower[entrant] = bound
            continue
        # It may be close to the fastest, and is of interest only if it leaves more of the links to others.
        if bound >= least * (1 - close) and (margin == 0 or (climbed > 1 and entrant.floor.crowd >= fewest)):
            slower[entrant] = bound
            continue
        if climbed < len(entrant.floor.rungs):
            known = known.above(entrant.floor.rungs[climbed]())
            heappush(queue, (_turn(known.barriers, entrant, close), known, climbed + 1, entrant))
            continue
        try:
            found = time(entrant, least * (1 + max(margin, _EXACT)))
        except UnsupportedError as error:
            reasons |= dict.fromkeys(entrant.names, error)
            continue
        if found == math.inf:
            slower[entrant] = max(bound, least)
            continue
        seconds[entrant] = found
        least = min(seconds.values())
        if margin > 0:
            fewest = min(one.floor.crowd for one in _near(seconds, margin))
    return Outcome(_winner(seconds, margin), _by_name(seconds), _by_name(slower), reasons)


def _by_name(values: Mapping[Entrant, float]) -> dict[str, float]:
    return dict(sorted((name, value) for entrant, value in values.items() for name in entrant.names))


def _turn(bound: float, entrant: Entrant, close: float) -> tuple[int, bool, int, str]:
    """Return what the order follows from: the bound, and of close ones who has few flows and is known with fewer rungs.

    Close to one with many flows is the next share ``close``, too, for one of those that go first may end the contest.
    """
    heavy = entrant.floor.flows > _HEAVY
    near = math.floor(math.log(bound) / close) + heavy if bound > 0 else -sys.maxsize
    return near, heavy, len(entrant.floor.rungs), entrant.names[0]


def _winner(seconds: dict[Entrant, float], margin: float) -> Entrant | None:
    if not seconds:
        return None
    if margin > 0:
        near = _near(seconds, margin)
        fewest = min(one.floor.crowd for one in near)
        seconds = {one: near[one] for one in near if one.floor.crowd == fewest}
    return min(_near(seconds, _EXACT), key=lambda one: one.names[0])


def _near(seconds: Mapping[Entrant, float], margin: float) -> dict[Entrant, float]:
    """Return those that are slower than the fastest by no more than ``margin``."""
    limit = min(seconds.values()) * (1 + margin)
    return {one: time for one, time in seconds.items() if time <= limit}
