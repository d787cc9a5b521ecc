"""Out-trees from roots to all ranks that share out the links of any network, switches included.

The steps are those of ForestColl (Zhao et al., "ForestColl: Throughput-Optimal Collective Communications on
Heterogeneous Network Fabrics", 2024): the rate from the thinnest cut, switches replaced by links between their
neighbours, and trees grown link by link.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import gcd

from attrs import define, frozen

Capacities = Mapping[tuple[int, int], int]
Tree = tuple[tuple[int, int], ...]  # (parent, child) of the edges of a tree, from its root on

_TREES = 8  # a tree for each root loses some of the rate where more than so many would be needed


@frozen(eq=False)
class Grove:
    """Trees that all run at the same rate."""

    trees: tuple[Tree, ...]  # by root, as many for each
    capacities: Capacities  # trees that fit on each pair of ranks, over a link or over switches
    rate: Fraction  # of one tree, in units of the capacities of the network


class Flow:
    """A network of links with whole capacities to send over, by augmenting along shortest paths."""

    def __init__(self, nodes: int, capacities: Capacities) -> None:
        self._heads: list[int] = []
        self._free: list[int] = []
        self._leaving: list[list[int]] = [[] for _ in range(nodes)]
        for (tail, head), capacity in capacities.items():
            self.add(tail, head, capacity)

    def add(self, tail: int, head: int, capacity: int) -> None:
        self._leaving[tail].append(len(self._heads))
        self._leaving[head].append(len(self._heads) + 1)
        self._heads += [head, tail]
        self._free += [capacity, 0]

    def send(self, source: int, end: int, wanted: int) -> int:
        """Return how much gets from ``source`` to ``end``, up to ``wanted``, on top of what was sent before."""
        sent = 0
        while sent < wanted:
            if not (path := self._path(source, end)):
                break
            rate = min(wanted - sent, *(self._free[link] for link in path))
            for link in path:
                self._free[link] -= rate
                self._free[link ^ 1] += rate
            sent += rate
        return sent

    def _path(self, source: int, end: int) -> list[int]:
        before: dict[int, int] = {}
        for there, link in self.onwards(source):
            before[there] = link
            if there == end:
                links, at = [], end
                while at != source:
                    links.append(before[at])
                    at = self._heads[before[at] ^ 1]
                return links
        return []

    def onwards(self, source: int) -> Iterator[tuple[int, int]]:
        """Yield each node that something more could get to from ``source``, the nearest first, and the link to it."""
        seen, queue = {source}, deque([source])
        while queue:
            for link in self._leaving[queue.popleft()]:
                there = self._heads[link]
                if self._free[link] and there not in seen:
                    seen.add(there)
                    queue.append(there)
                    yield there, link


def grow(nodes: int, ranks: int, capacities: Capacities, roots: Sequence[int]) -> Grove:
    """Return trees from ``roots`` to all ranks, the first ``nodes``; with switches, links are alike both ways."""
    rate = _rate(nodes, ranks, capacities, roots)
    common = gcd(*capacities.values())  # the largest rate of a tree that divides the rate of a root and all capacities
    tree = Fraction(gcd(common * rate.denominator, rate.numerator), rate.denominator)
    count = int(rate / tree)
    if len(roots) > 1 and count > _TREES:
        count = _TREES
        tree = rate / count
        while True:
            scaled = {pair: int(each / tree) for pair, each in capacities.items()}
            if _reach(nodes, ranks, scaled, dict.fromkeys(roots, count)):
                break
            # The next lower rate at which one more tree fits on some link.
            tree = max(each / Fraction(scaled[pair] + 1) for pair, each in capacities.items())
    scaled = {pair: int(each / tree) for pair, each in capacities.items()}
    supply = dict.fromkeys(roots, count)
    direct = _without_switches(nodes, ranks, scaled, supply)
    trees = _trees(ranks, dict(direct), supply)
    return Grove(tuple(sorted(trees, key=lambda edges: edges[0][0])), direct, tree)


def _rate(nodes: int, ranks: int, capacities: Capacities, roots: Sequence[int]) -> Fraction:
    """Return the most that each root can send to all ranks while all others do (Dinkelbach's method)."""
    rate = Fraction(sum(capacities.values()), len(roots))
    for end in range(ranks):
        while True:
            scale = rate.denominator
            flow = Flow(nodes + 1, {pair: each * scale for pair, each in capacities.items()})
            for root in roots:
                flow.add(nodes, root, rate.numerator)
            wanted = rate.numerator * len(roots)
            if flow.send(nodes, end, wanted) == wanted:
                break
            inside = {nodes, *(there for there, _ in flow.onwards(nodes))}
            cut = sum(each for (one, other), each in capacities.items() if one in inside and other not in inside)
            rate = Fraction(cut, sum(root in inside for root in roots))
    return rate


def _reach(nodes: int, ranks: int, capacities: Capacities, supply: dict[int, int]) -> bool:
    wanted = sum(supply.values())  # a rank that it has got to is as good as a source of everything for those after it
    done: list[int] = []
    for end in range(ranks):
        flow = Flow(nodes + 1, capacities)
        for root, count in supply.items():
            flow.add(nodes, root, count)
        for one in done:
            flow.add(nodes, one, wanted)
        if flow.send(nodes, end, wanted) < wanted:
            return False
        done.append(end)
    return True


def _without_switches(
    nodes: int, ranks: int, capacities: Capacities, supply: dict[int, int]
) -> dict[tuple[int, int], int]:
    """Return capacities between ranks: every way in of a switch joined with a way out, as far as trees allow."""
    # There is always a way to join all of them (Mader, "A reduction method for edge-connectivity in graphs", 1978).
    left = {pair: each for pair, each in capacities.items() if each}
    for switch in range(nodes - 1, ranks - 1, -1):
        near = sorted({one for one, other in left if other == switch} | {other for one, other in left if one == switch})
        # Through a switch and back again leads nowhere, and is what may be left.
        pairs = sorted(
            ((one, other) for one in near for other in near),
            key=lambda pair: (pair[0] == pair[1], (pair[1] - pair[0]) % nodes),
        )
        for one, other in pairs:
            most = min(left.get((one, switch), 0), left.get((switch, other), 0))
            low, high = 0, most
            while low < high:
                middle = most if high == most and low == 0 else (low + high + 1) // 2
                if _reach(nodes, ranks, _split(left, one, switch, other, middle), supply):
                    low = middle
                else:
                    high = middle - 1
            if low:
                left = _split(left, one, switch, other, low)
        left = {pair: each for pair, each in left.items() if switch not in pair}
    return left


def _split(capacities: Capacities, one: int, switch: int, other: int, amount: int) -> dict[tuple[int, int], int]:
    """Return capacities with ``amount`` that went over a switch going from neighbour to neighbour."""
    split = dict(capacities)
    for pair in ((one, switch), (switch, other)):
        split[pair] -= amount
        if not split[pair]:
            del split[pair]
    if one != other:
        split[one, other] = split.get((one, other), 0) + amount
    return split


@define(eq=False)
class _Batch:
    """Equal trees, as far as they have grown: how many, and their ranks in the order in which they were reached."""

    count: int
    reached: list[int]
    edges: list[tuple[int, int]]


def _trees(ranks: int, free: dict[tuple[int, int], int], supply: dict[int, int]) -> list[Tree]:
    """Return as many trees from each root as it supplies, each link in no more than fit on it."""
    # Trees grow one root after the other. A link is taken as often as the others can still be grown: they can where,
    # for every set of ranks, the links into it are as many as the trees that have no rank in it (Berczi and Frank,
    # "Packing arborescences", 2010), which a flow from one of its ends to the other tells.
    waiting = [_Batch(count, [root], []) for root, count in supply.items()]
    near: list[list[int]] = [[] for _ in range(ranks)]
    for one, other in sorted(free):
        near[one].append(other)
    trees = []
    while waiting:
        batch = waiting.pop(0)
        while len(batch.reached) < ranks:
            one, other, count = _next(ranks, free, batch, waiting, near)
            if count < batch.count:
                waiting.insert(0, _Batch(batch.count - count, [*batch.reached], [*batch.edges]))
                batch.count = count
            free[one, other] -= count
            batch.reached.append(other)
            batch.edges.append((one, other))
        trees += [tuple(batch.edges)] * batch.count
    return trees


def _next(
    ranks: int,
    free: dict[tuple[int, int], int],
    batch: _Batch,
    waiting: Sequence[_Batch],
    near: Sequence[Sequence[int]],
) -> tuple[int, int, int]:
    """Return a link by which ``batch`` grows, nearest to its root, and how many of its trees may take it."""
    inside = set(batch.reached)
    for one in batch.reached:
        for other in near[one]:
            most = min(batch.count, free[one, other])
            if other in inside or not most:
                continue
            # What is in reach of another tree anyway gets what it has.
            others = [each for each in waiting if other not in each.reached]
            flow = Flow(ranks + len(others), free)
            wanted = 0
            for place, each in enumerate(others):
                wanted += each.count
                flow.add(one, ranks + place, each.count)
                for rank in each.reached:
                    flow.add(ranks + place, rank, each.count)
            if (count := flow.send(one, other, wanted + most) - wanted) > 0:
                return one, other, min(count, most)
    raise AssertionError("links for all trees are there by the rate")
