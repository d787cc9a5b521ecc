"""Whether the levels of a fabric are what they say: all NPUs send to the next position of a level at once.

On a ring or line that is ``two_way`` to the previous one as well; on a switch, and where all are connected, to others
after that. Admission is not asked, so a member of a level with ``lanes`` uses all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import Any

import numpy as np

from fredfw.fabric import Fabric
from fredfw.simulation import Incidence, answers
from fredfw.simulation.sharing import sharing_of
from fredfw.testing.conformance import EXACT, ConformanceError
from fredfw.testing.routes import RoutedCase
from fredfw.typing import IntArray

# A figure, and where it was found.
_Found = tuple[float, str]


def levels_are_as_fast_as_they_say(case: RoutedCase[Any]) -> None:
    """With all NPUs sending along a level at once, the slowest flow and the longest route are what the level says."""
    fabric = case.fabric
    for number, shifts in _shifts(fabric):
        level = fabric.levels[number]
        rates, latencies = zip(*(_extremes(case, step, *ends) for step, ends in shifts.items()), strict=True)
        rate, where = min(rates, key=itemgetter(0))
        if not np.isclose(rate, level.bandwidth, rtol=EXACT, atol=0):
            raise ConformanceError(
                f"level {number} promises each member {level.bandwidth:g} B/s; {where} the rate is {rate:g} B/s, and "
                "nowhere less"
            )
        latency, where = max(latencies, key=itemgetter(0))
        if not np.isclose(latency, level.latency, rtol=EXACT, atol=0):
            raise ConformanceError(
                f"level {number} says that its latency is {level.latency:g} s; {where} a route takes {latency:g} s, "
                "and nowhere more"
            )


def _extremes(case: RoutedCase[Any], step: str, sources: IntArray, destinations: IntArray) -> tuple[_Found, _Found]:
    """Return the lowest rate and the highest latency of flows that run at once."""
    fabric, routes = case.fabric, case.ask(sources, destinations)
    classes = np.zeros(len(routes), dtype=np.intp)
    flows = Incidence(routes.offsets, routes.links, routes.coefficients, None, classes)
    rates = answers.rates(sharing_of(fabric), flows, fabric.bandwidths, fabric)
    slowest, longest = rates.argmin(), routes.latencies.argmax()
    slow, long = (
        " to ".join(fabric.node_name(int(ends[flow])) for ends in (sources, destinations))
        for flow in (slowest, longest)
    )
    return (
        (float(rates[slowest]), f"with all NPUs sending {step} at once, from {slow}"),
        (float(routes.latencies[longest]), f"from {long}"),
    )


def _shifts(fabric: Fabric) -> Iterator[tuple[int, dict[str, tuple[IntArray, IntArray]]]]:
    """Yield the number of each level that has a next position, and the ``(F,)`` ends of the flows of each shift."""
    sizes = tuple(level.size for level in fabric.levels)
    place = fabric.coordinates
    if place is None or np.prod(sizes) != len(fabric.npus):
        return  # another check says so
    at = np.empty(len(fabric.npus), dtype=np.intp)
    at[np.ravel_multi_index(tuple(place.T), sizes)] = fabric.npus

    def ends(number: int, step: int) -> tuple[IntArray, IntArray]:
        level = fabric.levels[number]
        there = place.copy()
        there[:, number] += step
        kept = np.full(len(place), True) if level.kind != "line" else there[:, number] < level.size
        there[:, number] %= level.size
        return fabric.npus[kept], at[np.ravel_multi_index(tuple(there[kept].T), sizes)]

    for number, level in enumerate(fabric.levels):
        if level.size < 2:
            continue
        if level.any_to_any:
            steps = range(1, min(level.size, 9))  # as far as that is tried
            yield number, {f"{step} on" if step > 1 else "to the next": ends(number, step) for step in steps}
            continue
        near, far = ends(number, 1)
        if not level.two_way or (level.kind == "ring" and level.size == 2):  # of two, the next is the previous one
            yield number, {"to the next": (near, far)}
        else:
            both = np.concatenate([near, far]), np.concatenate([far, near])
            yield number, {"to the next and the previous one": both}
