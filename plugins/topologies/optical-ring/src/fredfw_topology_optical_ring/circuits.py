"""The circuits that routes need, an arc of the ring each in one direction, and their wavelengths as colours."""

from __future__ import annotations

from bisect import bisect_left, insort
from functools import cached_property
from heapq import heappop, heappush

import numpy as np

from fredfw import Routes
from fredfw.typing import FloatArray, IntArray

# Places to cut the ring at. Of 60 sets of 1,000 random arcs on 1,024 links, one place reaches the largest load, which
# nothing can beat, for 28 %, eight for 63 %.
_CUTS = 8


def loads(start: IntArray, hops: IntArray, links: int) -> IntArray:
    """Return how many arcs of ``1 .. links - 1`` ``hops`` from link ``start`` on (and round) cover each link."""
    change = np.bincount(start, minlength=2 * links) - np.bincount(start + hops, minlength=2 * links)
    covered: IntArray = np.cumsum(change).reshape(2, links).sum(axis=0)
    return covered


def colour_arcs(start: IntArray, hops: IntArray, links: int) -> IntArray:
    """Return the ``(A,)`` colours, numbered from 0, of arcs on a ring; arguments as for ``loads``."""
    # The ring is cut at a place that few arcs cross. Those that do have a colour each; the rest, by where they begin,
    # take the colour with the least room that has room for them. That needs at most the largest load plus the number of
    # arcs across the cut, so at most twice the largest load; and no more than the largest load where a place is crossed
    # by none (intervals). To find the fewest is NP-hard (Garey, Johnson, Miller, Papadimitriou, "The complexity of
    # coloring circular arcs and chords", 1980).
    covered = loads(start, hops, links)
    crossing = covered - np.bincount(start, minlength=links)
    sectors = np.array_split(np.arange(links), min(links, _CUTS))
    cuts = sorted((int(sector[crossing[sector].argmin()]) for sector in sectors), key=crossing.__getitem__)
    best, fewest = np.zeros(0, dtype=np.intp), len(start) + 1
    for cut in cuts:
        colours = _sweep((start - cut) % links, hops, links)
        if (count := int(colours.max(initial=-1)) + 1) < fewest:
            best, fewest = colours, count
        if fewest == covered.max():
            break
    return best


def _sweep(start: IntArray, hops: IntArray, links: int) -> IntArray:
    end = start + hops
    wraps = end > links
    colours = np.empty(len(start), dtype=np.intp)
    first = np.flatnonzero(wraps)
    colours[first] = np.arange(len(first))
    count = len(first)
    # Colours in use: free from where, room up to where, which. Those of arcs across the cut have room in between.
    used = sorted(zip((end[first] - links).tolist(), start[first].tolist(), range(count), strict=True))
    free: list[tuple[int, int]] = []  # (room up to where, which), in order
    order = np.lexsort((-hops, start))  # of arcs that begin together the longest first, for it has the least choice
    order = order[~wraps[order]]
    for arc, begin, stop in zip(order.tolist(), start[order].tolist(), end[order].tolist(), strict=True):
        while used and used[0][0] <= begin:
            insort(free, heappop(used)[1:])
        if (fit := bisect_left(free, (stop, 0))) < len(free):
            room, which = free.pop(fit)
        else:
            room, which = links, count
            count += 1
        colours[arc] = which
        heappush(used, (stop, room, which))
    return colours


class Circuits:
    """``C`` circuits, one for each flow of ``routes`` with links, which is kept alive; their colours may be given."""

    def __init__(self, routes: Routes, nodes: int, inherited: IntArray | None = None) -> None:
        self.routes, self.nodes, self._inherited = routes, nodes, inherited
        lengths = np.diff(routes.offsets)
        self.flows = np.flatnonzero(lengths)  # ``(C,)`` flow of each circuit
        self.hops = lengths[self.flows]  # ``(C,)`` links of each circuit
        self.circuit = np.repeat(np.arange(len(self)), self.hops)  # of each entry of the routes' links
        self._first = routes.links[routes.offsets[self.flows]]
        self.direction = self._first // nodes  # ``(C,)`` 0 clockwise, 1 counter-clockwise
        # ``(C,)`` lowest link of each arc, counted within its direction and around the ring
        self.start = (self._first - np.where(self.direction == 1, self.hops - 1, 0)) % nodes
        self._caps: dict[float, FloatArray] = {}

    def __len__(self) -> int:
        return len(self.flows)

    @cached_property
    def are_arcs(self) -> bool:
        """Whether every flow keeps to one direction, goes from each node to the next, and never comes round."""
        links, place = self.routes.links, np.arange(len(self.circuit))
        step = place - np.repeat(self.routes.offsets[self.flows], self.hops)
        back = self.direction[self.circuit]
        expected = (self._first[self.circuit] + np.where(back == 1, -step, step)) % self.nodes + back * self.nodes
        whole = self.routes.coefficients is None and bool((self.hops < self.nodes).all())
        return whole and np.array_equal(links, expected)

    @cached_property
    def colour(self) -> IntArray:
        """``(C,)`` numbers from 0 in each direction; circuits with the same one share no link."""
        if self._inherited is not None:
            return self._inherited
        found = np.zeros(len(self), dtype=np.intp)
        for direction in (0, 1):
            chosen = self.direction == direction
            found[chosen] = colour_arcs(self.start[chosen], self.hops[chosen], self.nodes)
        return found

    @cached_property
    def load(self) -> IntArray:
        """``(2 * nodes,)`` circuits on each link."""
        return np.bincount(self.routes.links, minlength=2 * self.nodes)

    @cached_property
    def colours(self) -> IntArray:
        """``(2,)`` colours in each direction."""
        return np.array([self.colour[self.direction == one].max(initial=-1) + 1 for one in (0, 1)])

    @cached_property
    def most_colours(self) -> int:
        """Colours in the direction that has more of them: the wavelengths that are needed."""
        return int(self.colours.max())

    @cached_property
    def key(self) -> bytes:
        """Equal for the same arcs, whatever their order."""
        arcs = np.stack([self.direction, self.start, self.hops])
        return arcs[:, np.lexsort(arcs)].tobytes()

    def name(self, circuit: int) -> str:
        source, hops, back = int(self._first[circuit]) % self.nodes, int(self.hops[circuit]), self.direction[circuit]
        end = (source + (-hops if back else hops)) % self.nodes
        return f"NPU {source} to NPU {end}, {hops} hops {'counter-clockwise' if back else 'clockwise'}"

    def caps(self, rate: float) -> FloatArray:
        """Return each flow's limit where circuits run at ``rate``; always the same array, which names cached rates."""
        if rate not in self._caps:
            self._caps[rate] = np.full(len(self.routes), np.inf)
            self._caps[rate][self.flows] = rate
        return self._caps[rate]

    def parts(self, count: int) -> list[tuple[IntArray, Circuits]]:
        """Return parts with as many colours, give or take one: flows (first those without links), circuits."""
        colours = self.colours[self.direction]
        turn = self.colour * count // np.maximum(colours, 1)
        turn_of_flow = np.zeros(len(self.routes), dtype=np.intp)
        turn_of_flow[self.flows] = turn
        parts = []
        for one in range(count):
            flows, chosen = np.flatnonzero(turn_of_flow == one), turn == one
            first = -(-one * colours[chosen] // count)  # the first colour whose turn it is, in each direction
            parts.append((flows, Circuits(self.routes.select(flows), self.nodes, self.colour[chosen] - first)))
        return parts
