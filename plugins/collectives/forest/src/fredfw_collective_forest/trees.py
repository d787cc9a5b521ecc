"""The trees of a network, and what goes along their edges: spanning trees among NPUs, and out-trees from roots."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache, reduce
from math import gcd, lcm
from operator import add

import numpy as np
from attrs import frozen

from fredfw import GroupLinks, Phase, in_series
from fredfw.typing import BoolArray, FloatArray, IntArray
from fredfw_collective_forest.arborescences import Tree, grow
from fredfw_collective_forest.packing import TooManyError, components, most, pack

_FRACTION = 64  # the largest denominator in the ratio of a bandwidth to the lowest


@frozen(eq=False)
class Network:
    """The links of a group by its neighbours: of several between two neighbours, the fastest."""

    ranks: int  # size of the group
    nodes: int  # ranks and switches
    sources: IntArray  # ``(pairs,)`` node that each pair leads from
    destinations: IntArray  # ``(pairs,)`` node that it leads to; in the order of these ends
    bandwidths: FloatArray  # ``(pairs,)`` bytes per second
    latency: float  # seconds from a rank to the next: the most of any link, twice that over switches

    @classmethod
    @lru_cache(maxsize=64)
    def of(cls, links: GroupLinks) -> Network:
        pair = links.sources * links.nodes + links.destinations
        last = np.append(pair[1:] != pair[:-1], True)[: len(pair)]  # the fastest comes last
        sources, destinations = np.divmod(pair[last], links.nodes)
        # There and back again is what most switches take.
        latency = float(links.latencies.max(initial=0.0)) * (1 if links.direct else 2)
        return cls(links.ranks, links.nodes, sources, destinations, links.bandwidths[last], latency)

    @property
    def direct(self) -> bool:
        return self.nodes == self.ranks

    @property
    def symmetric(self) -> bool:
        order = np.lexsort((self.sources, self.destinations))
        columns = (self.sources, self.destinations), (self.destinations, self.sources), (self.bandwidths,) * 2
        return all(np.array_equal(one, other[order]) for one, other in columns)

    def two_way(self) -> tuple[IntArray, IntArray, FloatArray]:
        """Return the pairs with links in both directions: their ends, the lower first, and the slower bandwidth."""
        back = self.destinations * self.nodes + self.sources
        pair = self.sources * self.nodes + self.destinations
        at = np.minimum(np.searchsorted(pair, back), max(len(pair) - 1, 0))
        both = (pair[at] == back) & (self.sources < self.destinations) if len(pair) else np.zeros(0, dtype=bool)
        return self.sources[both], self.destinations[both], np.minimum(self.bandwidths, self.bandwidths[at])[both]


def whole(bandwidths: FloatArray) -> list[int]:
    """Return the smallest whole numbers in the ratio of ``bandwidths``, or close to it from below."""
    lowest = float(bandwidths.min())
    ratios = [_below(float(one) / lowest) for one in bandwidths]
    common = lcm(*(one.denominator for one in set(ratios)))
    if common > _FRACTION:  # too many different ones: in parts of the lowest
        ratios = [Fraction(int(float(one) / lowest * _FRACTION * (1 + 1e-12)), _FRACTION) for one in bandwidths]
        common = _FRACTION
    numbers = [int(one * common) for one in ratios]
    divisor = reduce(gcd, numbers)
    return [one // divisor for one in numbers]


def _below(ratio: float) -> Fraction:
    near = Fraction(ratio).limit_denominator(_FRACTION)
    return near if abs(float(near) - ratio) <= 1e-9 * ratio else Fraction(int(ratio * _FRACTION), _FRACTION)


def centre(nodes: int, ends: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the edges of a tree as (parent, child), from the root on; no other root gives a lower tree."""
    near: list[list[int]] = [[] for _ in range(nodes)]
    for one, other in ends:
        near[one].append(other)
        near[other].append(one)
    one = _walk(near, 0)[-1][1]  # half-way along a longest path
    order = _walk(near, one)
    parent = {child: above for above, child in order}
    path = [order[-1][1]]
    while path[-1] != one:
        path.append(parent[path[-1]])
    return _walk(near, path[len(path) // 2])[1:]


def _walk(near: Sequence[Sequence[int]], root: int) -> list[tuple[int, int]]:
    """Return (parent, node) of all nodes in the order of their depth; the root is its own parent."""
    order = [(root, root)]
    for above, here in order:
        order += [(here, there) for there in near[here] if there != above]
    return order


# What finding trees may cost, in edges of all trees times those of the network: without a thought (a tenth of a second
# to one), and where fewer trees would leave more than this share of the links idle (seconds).
_CHEAP, _DEAR = 300_000, 3_000_000
_LOSS = 0.05
_MOST = 512


@frozen(eq=False)
class Packing:
    """Trees that share out links, all at the same rate."""

    trees: tuple[Tree, ...]
    bandwidths: Mapping[tuple[int, int], float]  # what all trees on a pair of ranks have together, also on the way back


@lru_cache(maxsize=64)
def spanning(network: Network) -> Packing:
    # Over n NPUs with E links of equal bandwidth B both ways, nothing takes less than S (n - 1) / (E B). Trees that use
    # each link c times reach it if there are c E / (n - 1) of them: with c = (n - 1) / gcd(n - 1, E) a whole number.
    one, other, bandwidths = network.two_way()
    ends = list(zip(one.tolist(), other.tolist(), strict=True))
    found = _packed(network.ranks, ends, whole(bandwidths))
    trees = (tuple(centre(network.ranks, [ends[edge] for edge in edges])) for edges in found)
    rates = dict(zip(ends, bandwidths.tolist(), strict=True))
    return Packing(tuple(trees), rates | {(high, low): rate for (low, high), rate in rates.items()})


@lru_cache(maxsize=64)
def rooted(network: Network, root: int | None, *, against: bool = False) -> Packing:
    """Return trees from each rank, or from ``root``; ``against``: for links the other way, to be used backwards."""
    sources, destinations = network.sources.tolist(), network.destinations.tolist()
    pairs = list(zip(*((destinations, sources) if against else (sources, destinations)), strict=True))
    numbers = whole(network.bandwidths)
    roots = range(network.ranks) if root is None else [root]
    grove = grow(network.nodes, network.ranks, dict(zip(pairs, numbers, strict=True)), roots)
    rate = float(grove.rate) * float(network.bandwidths.min()) / min(numbers)
    rates = {pair: count * rate for pair, count in grove.capacities.items()}
    back = {(other, one): each for (one, other), each in rates.items()}
    return Packing(grove.trees, rates | back if against else back | rates)


def _packed(nodes: int, ends: list[tuple[int, int]], capacities: list[int]) -> list[list[int]]:
    # Partitions that may have the fewest trees: what faster edges join (none: each node), a node against the others.
    tried = [
        components(nodes, [one for one, each in zip(ends, capacities, strict=True) if each > capacity])
        for capacity in sorted(set(capacities))
    ]
    tried += [[int(other == node) for other in range(nodes)] for node in range(nodes)]
    while True:
        bounds = [most(ends, capacities, parts) for parts in tried]
        over, under = min((one for one in bounds if one[1]), key=lambda one: Fraction(*one))
        copies = _copies(over, under, (nodes - 1) * len(ends))
        try:
            return pack(nodes, ends, [one * copies for one in capacities], copies * over // under)
        except TooManyError as error:
            tried.append(error.parts)


def _copies(over: int, under: int, effort: int) -> int:
    # A fraction of a tree is lost. More copies lose less and take longer, about ``effort`` for each tree.
    exact = under // gcd(over, under)
    first = -(-under // over)
    costs = {copies: copies * over // under * effort for copies in range(first, max(first, min(exact, _MOST)) + 1)}
    losses = {copies: 1 - copies * over // under * under / (copies * over) for copies in costs}
    cheap = [copies for copies in costs if costs[copies] <= _CHEAP]
    good = [copies for copies in costs if costs[copies] <= _DEAR and losses[copies] <= _LOSS]
    if cheap and min(losses[copies] for copies in cheap) <= _LOSS:
        return min(cheap, key=lambda copies: (losses[copies], copies))
    return good[0] if good else max(cheap, default=first)


_FILL = 0.005  # share of the time that filling and draining may take where a step costs no time of its own
_PIECES = 4096


@frozen(eq=False)
class Edges:
    """Directed edges of trees, all in lock step: at every step, each edge of every tree carries one piece."""

    # A tree that runs at its own pace gets what links share out among the trees that are on them at that moment, and
    # its edges get different shares: it waits for its slowest edge, and leaves the others idle. In lock step every edge
    # carries as many pieces as there are trees on it, and all links that are used equally are done at the same moment.
    # Between the steps at which the first edges start and those at which they end, one phase repeats.
    source: IntArray  # ``(rows,)`` rank that sends
    destination: IntArray  # ``(rows,)`` rank that receives
    tree: IntArray  # ``(rows,)`` tree it belongs to
    start: IntArray  # ``(rows,)`` step at which it carries the first piece of its tree
    reduce: BoolArray  # ``(rows,)`` whether what arrives is added
    link: IntArray  # ``(rows,)`` index of the link, or of what else takes the time

    @classmethod
    def of(cls, packing: Packing, *, up: bool, down: bool) -> Edges:
        link = {pair: index for index, pair in enumerate(packing.bandwidths)}
        rows = []
        for tree, edges in enumerate(packing.trees):
            root = edges[0][0]
            ready = {root: 0}  # step at which a rank has the first piece of all that is below it
            if up:
                ready |= {child: 0 for _, child in edges}
                for parent, child in reversed(edges):
                    ready[parent] = max(ready[parent], ready[child] + 1)
                rows += [(child, parent, tree, ready[child], True, link[child, parent]) for parent, child in edges]
            if down:
                begin = {root: ready[root]}
                for parent, child in edges:
                    begin[child] = begin[parent] + 1
                    rows.append((parent, child, tree, begin[parent], False, link[parent, child]))
        source, destination, number, start, reduce, used = (np.array(column) for column in zip(*rows, strict=True))
        return cls(source, destination, number, start, reduce, used)

    def loads(self, pieces: int) -> list[tuple[int, IntArray]]:
        """Return, for each run of steps with the same edges, its steps and the rows that are active."""
        times = np.unique(np.append(self.start, self.start + pieces))
        return [
            (int(end - begin), np.flatnonzero((self.start <= begin) & (begin < self.start + pieces)))
            for begin, end in itertools.pairwise(times)
        ]

    def phases(self, pieces: int) -> tuple[Phase, ...]:
        """Return the phases; the pieces of tree ``t`` are chunks ``t * pieces`` and on."""
        begin, phases = 0, []
        for steps, rows in self.loads(pieces):
            phases.append(
                Phase.of(
                    self.source[rows],
                    self.destination[rows],
                    begin - self.start[rows],
                    base=self.tree[rows] * pieces,
                    stride=1,
                    modulus=pieces,
                    reduce=self.reduce[rows],
                    repeat=steps,
                )
            )
            begin += steps
        return in_series(phases)

    def pieces(self, size: float, bandwidths: FloatArray, latency: float) -> int:
        """Return the number of pieces with which trees of ``size`` bytes are done first; ``bandwidths`` by link."""
        # With p pieces, a step of the steady state takes size / p x c seconds, c being the most seconds per byte of any
        # link for all edges on it, and there are about p such steps. The steps in which only a part of the edges is
        # active take f times as long as one of them; there are F of them more than pieces. The sum,
        # (p + f) size c / p + (p + F) latency, is least at p = sqrt(f size c / latency). Without latency it falls for
        # ever: then p = f / 0.005, so that no more than that share is lost.

        def busiest(links: IntArray) -> float:
            return float((np.bincount(links, minlength=len(bandwidths)) / bandwidths).max())

        last, steady = int(self.start.max()), busiest(self.link)
        runs = self.loads(last + 1)
        # The sum of one Python is rounded otherwise than that of another, and pieces are whole numbers.
        parts = [busiest(self.link[rows]) * steps for steps, rows in runs if len(rows) < len(self.start)]
        partial = reduce(add, parts, 0.0)
        fill = partial / steady - last
        most = max(1, math.ceil(fill / _FILL))
        if latency > 0:
            most = min(most, max(1, round(math.sqrt(max(fill, 0.0) * size * steady / latency))))
        # A piece has a byte or more.
        return max(1, min(most, _PIECES, math.floor(size)))
