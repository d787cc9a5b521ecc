"""Wavelength assignment on a ring: colours for arcs, so that no two of one colour share a link."""

from __future__ import annotations

from bisect import bisect_left, insort
from heapq import heappop, heappush

import numpy as np

from fredfw.typing import IntArray

# Places to cut the ring at. Of 60 sets of 1,000 random arcs on 1,024 links, one place reaches the largest load, which
# nothing can beat, for 28 %, eight for 63 %.
_CUTS = 8


def loads(start: IntArray, hops: IntArray, links: int) -> IntArray:
    """Return how many arcs cover each of the ``(links,)`` links of a ring.

    An arc begins at link ``start`` and has ``1 .. links - 1`` ``hops``; after the last link comes link 0.
    """
    change = np.bincount(start, minlength=2 * links) - np.bincount(start + hops, minlength=2 * links)
    covered: IntArray = np.cumsum(change).reshape(2, links).sum(axis=0)
    return covered


def colour_arcs(start: IntArray, hops: IntArray, links: int) -> IntArray:
    """Return the ``(A,)`` colours, numbered from 0, of arcs on a ring; arguments as for ``loads``.

    The ring is cut at a place that few arcs cross. Those that do have a colour each; the rest, by where they begin,
    take the colour with the least room that has room for them. That needs at most the largest load plus the number of
    arcs across the cut, so at most twice the largest load; and no more than the largest load where a place is crossed
    by none (intervals). To find the fewest is NP-hard (Garey, Johnson, Miller, Papadimitriou, "The complexity of
    coloring circular arcs and chords", 1980).
    """
    covered = loads(start, hops, links)
    crossing = covered - np.bincount(start, minlength=links)
    sectors = np.array_split(np.arange(links), min(links, _CUTS))
    cuts = sorted((int(sector[crossing[sector].argmin()]) for sector in sectors), key=crossing.__getitem__)
    best, fewest = np.zeros(0, dtype=np.intp), len(start) + 1
    for cut in cuts:
        colours = _sweep((start - cut) % links, hops, links)
        count = int(colours.max(initial=-1)) + 1
        if count < fewest:
            best, fewest = colours, count
        if fewest == covered.max():
            break
    return best


def _sweep(start: IntArray, hops: IntArray, links: int) -> IntArray:
    """Return the colours for a ring that is cut before link 0."""
    end = start + hops
    wraps = end > links
    colours = np.empty(len(start), dtype=np.intp)
    first = np.flatnonzero(wraps)
    colours[first] = np.arange(len(first))
    count = len(first)
    # Colours in use: free from where, room up to where, which. Those of arcs across the cut have room in between.
    used = sorted(zip((end[first] - links).tolist(), start[first].tolist(), range(count), strict=True))
    free: list[tuple[int, int]] = []  # (room up to where, which), in order
    # Of arcs that begin together the longest first, for it has the least choice.
    order = np.lexsort((-hops, start))
    order = order[~wraps[order]]
    for arc, begin, stop in zip(order.tolist(), start[order].tolist(), end[order].tolist(), strict=True):
        while used and used[0][0] <= begin:
            insort(free, heappop(used)[1:])
        fit = bisect_left(free, (stop, 0))
        if fit < len(free):
            room, which = free.pop(fit)
        else:
            room, which = links, count
            count += 1
        colours[arc] = which
        heappush(used, (stop, room, which))
    return colours
