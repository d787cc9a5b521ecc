"""What a group's links are to trees: one capacity for each pair of neighbours, as whole numbers."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from fractions import Fraction
from functools import reduce
from math import gcd, lcm

import numpy as np
from attrs import field, frozen

from fredfw import GroupLinks
from fredfw.typing import FloatArray, IntArray

_FRACTION = 64
"""The largest denominator in the ratio of a bandwidth to the lowest."""


@frozen
class Network:
    """The links of a group by its neighbours; equal where the links are.

    Between two neighbours a transfer has one link, the fastest where there are several.
    """

    key: Hashable  # equal for equal links
    ranks: int = field(eq=False)  # size of the group
    nodes: int = field(eq=False)  # ranks and switches
    sources: IntArray = field(eq=False)  # ``(pairs,)`` node that each pair leads from
    destinations: IntArray = field(eq=False)  # ``(pairs,)`` node that it leads to; in the order of these ends
    bandwidths: FloatArray = field(eq=False)  # ``(pairs,)`` bytes per second
    latency: float = field(eq=False)  # seconds from a rank to the next: the most of any link, twice that over switches

    @classmethod
    def of(cls, links: GroupLinks) -> Network:
        """Return the network of ``links``."""
        pair = links.sources * links.nodes + links.destinations
        last = np.append(pair[1:] != pair[:-1], True)[: len(pair)]  # the fastest comes last
        sources, destinations = np.divmod(pair[last], links.nodes)
        # There and back again is what most switches take.
        latency = float(links.latencies.max(initial=0.0)) * (1 if links.direct else 2)
        return cls(links.key, links.ranks, links.nodes, sources, destinations, links.bandwidths[last], latency)

    @property
    def direct(self) -> bool:
        """Whether all nodes are ranks."""
        return self.nodes == self.ranks

    @property
    def symmetric(self) -> bool:
        """Whether all pairs are as fast the other way."""
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
    # Half-way along a longest path.
    one = _walk(near, 0)[-1][1]
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
