"""The cuts of a network that take longest to cross: in two or in many parts, found exactly, by maximum flows.

Some nodes supply bytes, each its weight times what is asked for, that every one of the *ends* needs. Nothing is faster
than the most, over all sets of nodes without one of the ends, of the weight in the set for each byte per second out of
it: the optimum of an all-gather (Zhao et al., "ForestColl", 2024), which spanning out-trees reach.

Nodes that exchange what all of them have are divided into parts: nothing is faster than the most, over all partitions,
of the parts but one for each byte per second between them, which packed spanning trees reach (Nash-Williams and Tutte,
1961).
"""

from collections import deque
from collections.abc import Iterator, Sequence

import numpy as np

from fredfw.typing import BoolArray, FloatArray, IntArray

_EXACT = 1e-9  # flows that miss what they should be by less are rounded, not cut off


def thinnest(
    nodes: int,
    sources: IntArray,
    destinations: IntArray,
    bandwidths: FloatArray,
    weights: FloatArray,
    ends: Sequence[int],
    least: float,
) -> float:
    """Return the most weight for each byte per second out of a set of nodes without one of the ``ends``.

    A rate is tried: every supplier may send its weight times the rate, and every end must be reached by all of it, each
    end by itself (Edmonds, "Edge-disjoint branchings", 1973, for why that is enough). Where one is not, a cut is in the
    way, and its rate is tried next (Dinkelbach's method). An end that all of it reaches is as good as a supplier of
    everything to the ends that follow, for a cut that divides the two is wide enough: so that most flows are short.

    Links lead from ``(links,)`` sources to destinations, with bandwidths in bytes per second. Nodes supply ``(nodes,)``
    weights, all of which the ends need. ``least``, above 0, is a cut's time that is known, or a lower one: what is
    returned is no less, and infinite where a cut has no links.
    """
    flow = _Flow(nodes, sources, destinations, bandwidths)
    total = float(weights.sum())
    best = least
    for end in _order(flow, ends):
        while True:
            wanted = (total - float(weights[end])) / best
            if flow.reach(end, weights / best) >= wanted * (1 - _EXACT):
                break
            out = ~flow.before(end)
            crossing = float(bandwidths[out[sources] & ~out[destinations]].sum())
            if crossing == 0:
                return np.inf
            time = float(weights[out].sum()) / crossing
            if time <= best * (1 + _EXACT):
                break
            best = time
        flow.full[end] = True
    return best


def weakest(nodes: int, sources: IntArray, destinations: IntArray, bandwidths: FloatArray, least: float) -> float:
    """Return the most parts but one for each byte per second between them, in both directions together.

    Again a time is tried, and the partition with the most parts beyond it is the next. That partition grows node by
    node: a new one takes in those parts that it has the most links with, which are found as a cut (Barahona,
    "Separating from the dominant of the spanning tree polytope", 1992). The arguments are those of ``thinnest``.
    """
    low, high = np.minimum(sources, destinations), np.maximum(sources, destinations)
    while True:
        part = np.arange(nodes)
        for node in range(1, nodes):
            taken = _taken_in(node, part, low, high, bandwidths, 1 / least)
            part[taken[part] & (np.arange(nodes) < node)] = node
        part = np.unique(part, return_inverse=True)[1]
        between = float(bandwidths[part[sources] != part[destinations]].sum())
        if between == 0:
            return least if nodes == 1 or part.max() == 0 else np.inf
        time = int(part.max()) / between
        if time <= least * (1 + _EXACT):
            return least
        least = time


def _taken_in(
    node: int, part: IntArray, low: IntArray, high: IntArray, bandwidths: FloatArray, rate: float
) -> BoolArray:
    """Return which parts ``node`` takes in: those with the most links among them, each of which costs ``rate``."""
    nodes = len(part)
    here = high <= node
    one, other, rates = part[low[here]], part[high[here]], bandwidths[here]
    apart = one != other
    one, other, rates = one[apart], other[apart], rates[apart] / 2
    # Half of the links of each part in it, less half of those that leave it: what leaves it is a cut.
    gain = np.bincount(one, rates, nodes) + np.bincount(other, rates, nodes) - rate
    gain[np.bincount(part[: node + 1], minlength=nodes) == 0] = 0.0
    loss = np.flatnonzero(gain < 0)
    loss = loss[loss != node]
    flow = _Flow(
        nodes + 1,
        np.concatenate([one, other, loss]),
        np.concatenate([other, one, np.full(len(loss), nodes)]),
        np.concatenate([rates, rates, -gain[loss]]),
    )
    flow.full[node] = True
    flow.reach(nodes, np.append(np.maximum(gain, 0.0), 0.0))
    return ~flow.before(nodes)[:nodes]


class _Flow:
    """Flows to one node at a time over ``(links,)`` links, found from the end backwards."""

    def __init__(self, nodes: int, sources: IntArray, destinations: IntArray, bandwidths: FloatArray) -> None:
        pairs, place = np.unique(sources * nodes + destinations, return_inverse=True)
        rates = np.bincount(place, bandwidths, len(pairs))
        # Link 2 i leads one way, and link 2 i + 1 back, over which a flow is taken back.
        self._tails: list[int] = []
        self._rates: list[float] = []
        self.entering: list[list[int]] = [[] for _ in range(nodes)]
        self.leaving: list[list[int]] = [[] for _ in range(nodes)]
        for pair, rate in zip(pairs.tolist(), rates.tolist(), strict=True):
            tail, head = divmod(pair, nodes)
            self.entering[head].append(len(self._tails))
            self.entering[tail].append(len(self._tails) + 1)
            self.leaving[tail].append(head)
            self._tails += [tail, head]
            self._rates += [rate, 0.0]
        self._slack = float(rates.max(initial=0.0)) * 1e-12
        self.full = [False] * nodes
        self._free: list[float] = []
        self._supply: list[float] = []

    def reach(self, end: int, supply: FloatArray) -> float:
        """Return what gets to ``end`` at most, if each node has its ``supply`` to send and a full one any amount."""
        self._free, self._supply = list(self._rates), supply.tolist()
        self._supply[end] = 0.0
        sent = 0.0
        while (path := self._path(end)) is not None:
            start, links = path
            rate = min(self._free[link] for link in links)
            if not self.full[start]:
                rate = min(rate, self._supply[start])
                self._supply[start] -= rate
            for link in links:
                self._free[link] -= rate
                self._free[link ^ 1] += rate
            sent += rate
        return sent

    def _path(self, end: int) -> tuple[int, list[int]] | None:
        """Return a node that has something left, and the links from it to ``end``, last first."""
        onward: dict[int, int] = {}
        for node, link in self._backwards(end):
            onward[node] = link
            if self.full[node] or self._supply[node] > self._slack:
                links, at = [], node
                while at != end:
                    links.append(onward[at])
                    at = self._tails[onward[at] ^ 1]
                return node, links
        return None

    def before(self, end: int) -> BoolArray:
        """Return the ``(nodes,)`` that could still send to ``end`` after ``reach``, with ``end`` itself."""
        seen = np.zeros(len(self.full), dtype=bool)
        seen[[end, *(node for node, _ in self._backwards(end))]] = True
        return seen

    def _backwards(self, end: int) -> Iterator[tuple[int, int]]:
        """Yield each node that could still send to ``end``, the nearest first, and the link that it would send over."""
        seen, queue = {end}, deque([end])
        while queue:
            for link in self.entering[queue.popleft()]:
                tail = self._tails[link]
                if tail not in seen and self._free[link] > self._slack:
                    seen.add(tail)
                    queue.append(tail)
                    yield tail, link


def _order(flow: _Flow, ends: Sequence[int]) -> list[int]:
    """Return ``ends`` in an order in which each follows others that are near."""
    wanted, order = set(ends), dict[int, None]()  # of all nodes
    for start in ends:
        queue = deque([start])
        while queue:
            here = queue.popleft()
            if here not in order:
                order[here] = None
                queue += flow.leaving[here]
    return [node for node in order if node in wanted]
