"""An all-reduce over spanning trees that share out all links among NPUs."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import gcd

import numpy as np

from fredfw_collective_forest.graph import Network, centre, whole
from fredfw_collective_forest.lockstep import Edges
from fredfw_collective_forest.packing import TooManyError, components, most, pack

MOST_RANKS = 256
# What finding trees may cost, in edges of all trees times those of the network: without a thought (a tenth of a second
# to one), and where fewer trees would leave more than this share of the links idle (seconds).
_CHEAP, _DEAR = 300_000, 3_000_000
_LOSS = 0.05
_MOST = 512


@lru_cache(maxsize=64)
def all_reduce(network: Network) -> tuple[Edges, int]:
    """Return the edges of an all-reduce, each tree carrying an equal share up and down again, and how many trees.

    Over n NPUs with E links of equal bandwidth B both ways, nothing takes less than S (n - 1) / (E B). Trees that use
    each link c times reach it if there are c E / (n - 1) of them: with c = (n - 1) / gcd(n - 1, E) a whole number.
    """
    one, other, bandwidths = network.two_way()
    ends = list(zip(one.tolist(), other.tolist(), strict=True))
    found = _packed(network.ranks, ends, whole(bandwidths))
    link = {
        pair: index
        for index, pair in enumerate(zip(network.sources.tolist(), network.destinations.tolist(), strict=True))
    }
    rows = []
    for tree, edges in enumerate(found):
        order = centre(network.ranks, [ends[edge] for edge in edges])
        start = [0] * network.ranks  # step at which a rank has the first piece of all below it
        for parent, child in reversed(order):
            start[parent] = max(start[parent], start[child] + 1)
        rows += [(child, parent, tree, start[child], True, link[child, parent]) for parent, child in order]
        # A leaf gets the sum as far behind the root as it is away.
        begin = {order[0][0]: start[order[0][0]]}
        for parent, child in order:
            begin[child] = begin[parent] + 1
            rows.append((parent, child, tree, begin[parent], False, link[parent, child]))
    source, destination, tree_of, begins, reduce, used = (np.array(column) for column in zip(*rows, strict=True))
    return Edges(source, destination, tree_of, begins, reduce, used), len(found)


def _packed(nodes: int, ends: list[tuple[int, int]], capacities: list[int]) -> list[list[int]]:
    """Return spanning trees that use each edge in proportion to its capacity, or less."""
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
    """Return of how many copies of each edge to make trees: ``over / under`` for each copy are the most there are.

    A fraction of a tree is lost. More copies lose less and take longer, about ``effort`` for each tree.
    """
    exact = under // gcd(over, under)
    first = -(-under // over)
    costs = {copies: copies * over // under * effort for copies in range(first, max(first, min(exact, _MOST)) + 1)}
    losses = {copies: 1 - copies * over // under * under / (copies * over) for copies in costs}
    cheap = [copies for copies in costs if costs[copies] <= _CHEAP]
    good = [copies for copies in costs if costs[copies] <= _DEAR and losses[copies] <= _LOSS]
    if cheap and min(losses[copies] for copies in cheap) <= _LOSS:
        return min(cheap, key=lambda copies: (losses[copies], copies))
    return good[0] if good else max(cheap, default=first)
