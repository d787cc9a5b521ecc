"""Lower bounds on the time of a collective: what no algorithm can beat on a given fabric.

They hold for every algorithm that moves, copies and adds bytes (it codes none), over whatever paths, and that leaves
to the network what the network offers (``Fabric.offers``): then a node that ``reduces`` may combine streams and one
that ``copies`` may copy them; otherwise only the ranks themselves do. S is the size of a request, n its ranks, T the
time. What follows holds for each byte of S alone, so that pieces and pipelines make no difference.

**Cuts.** Let nodes be divided into two sides with a and b of the ranks, C the bandwidth of the links from the first
side to the second. At least V bytes cross them, so T >= V / C: S for an all-reduce (the sum that a rank of the second
side ends with has the first side's part in it), b S / n for a reduce-scatter, a S / n for an all-gather, a b S / n for
an all-to-all (all-to-all-v: the sum over pairs), S for a broadcast from the first side and for a reduce to the second,
b S / n and a S / n for a scatter and a gather likewise (Chan, Heimlich, Purkayastha and van de Geijn, "Collective
communication: theory, practice, and experience", 2007, section 2, for cuts around one rank; Dally and Towles,
"Principles and Practices of Interconnection Networks", 2004, section 3.3.1, for the bisection).

**Thinnest cuts.** Of all cuts, the one that takes longest is found exactly, by maximum flows, for all patterns but
those in which each pair or each rank has bytes of its own (all-to-all, scatter, gather): for an all-gather
T >= S / n x max of a / C over all sets of nodes without one of the ranks, which spanning out-trees reach (Zhao et al.,
"ForestColl", 2024), and for a reduce-scatter the same against all links. On large fabrics it is left out.

**Sums over parts.** Let the ranks be divided into G parts, sets of nodes within which everything is free. An all-reduce
is gossip: there must be a path in time from every part to every other. Before a first part knows all, the paths to it
are a tree over all parts, whose every edge is a message received where it is combined: G - 1 of them; the other G - 1
parts, which do not know all yet, each receive once more. So 2 (G - 1) S bytes are received by parts (Harary and
Schwenk, "The communication problem on graphs and digraphs", 1974) and, time reversed, sent by them. A network that
combines is one more part, which makes it no fewer messages. So T >= 2 (G - 1) S / (bandwidth into all parts), which for
G = n equal ranks and a network that does not combine is the 2 (n - 1) / n x S / B of Patarasuk and Yuan, "Bandwidth
optimal all-reduce algorithms for clusters of workstations", 2009. A reduce-scatter or a reduce receives (G - 1) S, an
all-gather or a broadcast sends (G - 1) S, by the trees alone. For an all-reduce among all nodes of a small fabric
without switches the partition that takes longest is found exactly: packed spanning trees reach it (Nash-Williams and
Tutte, 1961), and where it is the finest, that is S (n - 1) / (E B) with E links of bandwidth B both ways.

**Latency.** Where a byte must get from rank x to rank y, T >= d(x, y), the least latency of all paths. A link that
such a byte crosses is of use to it for T - d(x, y) at most, for it has to get there and away again. Hence
T >= V / C + the least d between any two ranks, for all of the above; and T >= V / C + d(x, y) for the V bytes that must
get from x to y and any cut between the two.

What a fabric's admission adds, such as the time to set up circuits, is left out.
"""

from __future__ import annotations

from functools import cached_property, partial

import numpy as np
from attrs import frozen

from fredfw.arrays import rows_of, totals
from fredfw.collectives import CollectiveRequest, Pattern
from fredfw.fabric import Fabric
from fredfw.keeping import kept
from fredfw.simulation.bounds.cuts import Cuts, Halves, Parts, across
from fredfw.simulation.bounds.exact_cuts import thinnest, weakest
from fredfw.typing import BoolArray, FloatArray, IntArray

PARTS = ("injection", "ejection", "cut", "latency")  # that a bound is made of, by the names of its fields

_EXACT = 1e-9  # relative; times that differ by less are equal

# Sums over parts: how often (G - 1) S is received by parts, and sent by them.
_RECEIVED = {Pattern.ALL_REDUCE: 2, Pattern.REDUCE_SCATTER: 1, Pattern.REDUCE: 1}
_SENT = {Pattern.ALL_REDUCE: 2, Pattern.ALL_GATHER: 1, Pattern.BROADCAST: 1}
# Thinnest cuts: who supplies what everyone needs, all ranks or one, with the links and against them.
_SPREAD = {Pattern.ALL_GATHER: "all", Pattern.BROADCAST: "root", Pattern.ALL_REDUCE: "root"}
_COLLECTED = {Pattern.REDUCE_SCATTER: "all", Pattern.REDUCE: "root", Pattern.ALL_REDUCE: "root"}
# Links times ranks of the fabrics whose thinnest cuts and weakest partitions are looked for: some tenths of a second.
_CUT, _DIVIDED = 500_000, 20_000


@frozen
class Bound:
    """The least time that a collective takes, in seconds; the docstring of the module says why.

    Args:
        injection: For what ranks must send, over the links that leave them.
        ejection: For what they must receive, over the links that enter them.
        cut: For what must cross any other cut that was looked at.
        latency: From a rank to the farthest one that it has bytes for.
        seconds: All together: no less than any of them, no more than the largest of the first three and the last added.
    """

    injection: float = 0.0
    ejection: float = 0.0
    cut: float = 0.0
    latency: float = 0.0
    seconds: float = 0.0

    @property
    def binding(self) -> str:
        """Name of the largest part, the first of equal ones."""
        return max(PARTS, key=lambda part: float(getattr(self, part)))


def lower_bound(fabric: Fabric, request: CollectiveRequest, members: IntArray) -> Bound:
    """Return the least time that any algorithm needs for ``request`` among the NPUs numbered ``(ranks,)`` ``members``.

    The fabric is otherwise idle. Cuts are tried around every rank, between positions of every level and runs of NPU
    numbers; up to some hundred NPUs the thinnest is found. The bound is 0 where there is nothing to send, infinite
    where no links lead to where bytes must get.
    """
    return LowerBounds(fabric).of(request, members)


class LowerBounds:
    """The lower bounds on one fabric; keeps what does not depend on what is sent."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric.network
        self._groups: dict[bytes, _Group] = {}
        self._latencies: dict[tuple[int, bool], FloatArray] = {}
        self._thinnest: dict[tuple[bytes, Pattern, int, bool], float] = {}
        self._weakest: float | None = None

    def of(self, request: CollectiveRequest, members: IntArray) -> Bound:
        """Return what ``lower_bound`` does."""
        start = _first_source(request)
        if start is None:
            return Bound()
        group = self._group(members)
        injection, ejection, cut = self._cut_times(request, members)
        source, destination, latency = self._far_pair(request, group.nodes, start)
        stream = float(seconds_of(_bytes_between(request, source, destination), group.rate(source, destination)))
        seconds = max(max(injection, ejection, cut) + group.latency, stream + latency)
        return Bound(injection, ejection, cut, latency, seconds)

    def ceiling(self, request: CollectiveRequest, members: IntArray) -> float:
        """Return seconds that ``of`` does not exceed, found in less time: no least path has more links than nodes."""
        if _first_source(request) is None:
            return 0.0
        latency = len(self._fabric.kinds) * float(self._fabric.latencies.max(initial=0.0))
        return max(self._cut_times(request, members)) + latency

    def rates(self, members: IntArray) -> tuple[FloatArray, FloatArray, float]:
        """Return ``(ranks,)`` bytes per second that each can send and receive, and no more than any two's latency."""
        group = self._group(members)
        return group.ends.leave[group.ends.part], group.ends.enter[group.ends.part], group.latency

    def _cut_times(self, request: CollectiveRequest, members: IntArray) -> tuple[float, float, float]:
        """Return the most seconds for what must leave ranks, what must enter them, and what must cross other cuts."""
        group = self._group(members)
        injection, ejection = _part_times(request, group.ends)
        parts = [max(_part_times(request, one)) for one in group.parts]
        cut = max([*parts, *(_half_time(request, one) for one in group.halves)])
        least = max(injection, ejection, cut)
        found = least
        for suppliers, against in ((_SPREAD, False), (_COLLECTED, True)):
            if request.pattern in suppliers and 0 < least < np.inf:
                found = max(found, self._thinnest_time(request, members, suppliers[request.pattern], against, least))
        if request.pattern is Pattern.ALL_REDUCE and 0 < least < np.inf:
            found = max(found, self._weakest_time(request, members, least))
        # What is a cut around a rank anyway stays that.
        return injection, ejection, found if found > least * (1 + _EXACT) else cut

    def _thinnest_time(
        self, request: CollectiveRequest, members: IntArray, who: str, against: bool, least: float
    ) -> float:
        """Return the seconds for the thinnest cut, or ``least`` if there is none or it is not looked for.

        ``all`` ranks or one, the ``root``, have what all need; ``against`` the links, all have what these need.
        """
        fabric = self._fabric
        if len(members) * len(fabric.sources) > _CUT:
            return least
        key = members.tobytes(), request.pattern, request.root, against
        unit = request.size / request.ranks if who == "all" else request.size

        def find() -> float:
            nodes, weights = fabric.npus[members], np.zeros(len(fabric.kinds))
            weights[nodes if who == "all" else nodes[request.root]] = 1.0
            ways = (fabric.destinations, fabric.sources) if against else (fabric.sources, fabric.destinations)
            return thinnest(len(weights), *ways, fabric.bandwidths, weights, nodes.tolist(), least / unit)

        return max(least, kept(self._thinnest, key, find) * unit)

    def _weakest_time(self, request: CollectiveRequest, members: IntArray, least: float) -> float:
        fabric, unit = self._fabric, 2 * request.size
        nodes = len(fabric.kinds)
        if len(members) < nodes or nodes * len(fabric.sources) > _DIVIDED:
            return least
        if self._weakest is None:
            self._weakest = weakest(nodes, fabric.sources, fabric.destinations, fabric.bandwidths, least / unit)
        return max(least, self._weakest * unit)

    @cached_property
    def _cuts(self) -> Cuts:
        return Cuts(self._fabric)

    def _group(self, members: IntArray) -> _Group:
        fabric = self._fabric
        return kept(self._groups, members.tobytes(), lambda: _Group(fabric, self._cuts, fabric.npus[members]))

    def _far_pair(self, request: CollectiveRequest, nodes: IntArray, start: int) -> tuple[int, int, float]:
        """Return two ranks far from each other, one with bytes for the other, and the least latency of all paths.

        The rank farthest from ``start`` and the one farthest from that: in trees and grids no two are farther apart.
        """
        ranks = np.arange(len(nodes))
        source = destination = start
        seconds = 0.0
        if request.pattern.after != "root":
            there = np.where(_bytes_between(request, source, ranks) > 0, self._latency(nodes[source])[nodes], -1.0)
            destination = int(there.argmax())
            seconds = float(there[destination])
        if request.pattern.before != "root":
            back = self._latency(nodes[destination], reverse=True)[nodes]
            back = np.where(_bytes_between(request, ranks, destination) > 0, back, -1.0)
            source = int(back.argmax())
            seconds = float(back[source])
        return source, destination, seconds

    def _latency(self, node: int, *, reverse: bool = False) -> FloatArray:
        return kept(self._latencies, (int(node), reverse), partial(_latencies, self._fabric, node, reverse=reverse))


class _Group:
    """What is known of the ranks on ``(ranks,)`` ``nodes``."""

    def __init__(self, fabric: Fabric, cuts: Cuts, nodes: IntArray) -> None:
        self.nodes, self.ends = nodes, cuts.ends(nodes)  # each as a part
        self.parts, self.halves = tuple(cuts.parts(nodes)), tuple(cuts.halves(nodes))
        among = np.zeros(len(fabric.kinds), dtype=bool)
        among[nodes] = True
        leaves, enters = among[fabric.sources], among[fabric.destinations]
        first, last, direct = (
            float(fabric.latencies.min(initial=np.inf, where=links)) for links in (leaves, enters, leaves & enters)
        )
        # No more than that of any path between two: it has one link that joins two ranks, or a first and a last one.
        self.latency = min(direct, first + last)

    def rate(self, source: int, destination: int) -> float:
        cuts: list[Parts | Halves] = [self.ends, *self.parts, *self.halves]
        return min(cut.between(source, destination) for cut in cuts)


def _first_source(request: CollectiveRequest) -> int | None:
    """Return a rank that has bytes for another one, the root if that is special; ``None`` if there are none."""
    if request.sizes is not None:
        sends = _exchanged(request.sizes).any(axis=1)
        return int(sends.argmax()) if sends.any() else None
    return request.root if request.ranks > 1 and request.size > 0 else None


def _exchanged(sizes: FloatArray) -> FloatArray:
    return np.where(np.eye(len(sizes), dtype=bool), 0.0, sizes)


def _bytes_between(request: CollectiveRequest, source: IntArray | int, destination: IntArray | int) -> FloatArray:
    """Return the bytes that must get from one rank to another, in whatever form and combined with whatever else."""
    wanted = np.not_equal(source, destination)
    if request.pattern.before == "root":
        wanted &= np.equal(source, request.root)
    elif request.pattern.after == "root":
        wanted &= np.equal(destination, request.root)
    block = request.size / request.ranks if request.pattern.owned else request.size
    return np.where(wanted, block if request.sizes is None else request.sizes[source, destination], 0.0)


def _bytes_across(request: CollectiveRequest, inside: IntArray, with_root: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Return the bytes that must leave and that must enter sets of ``inside`` ranks, of which some hold the root."""
    a, b = inside.astype(float), (request.ranks - inside).astype(float)
    block = request.size / request.ranks
    match request.pattern:
        case Pattern.REDUCE_SCATTER | Pattern.SCATTER:
            leave, enter = b * block, a * block
        case Pattern.ALL_GATHER | Pattern.GATHER:
            leave, enter = a * block, b * block
        case Pattern.ALL_TO_ALL:
            leave = enter = a * b * block
        case _:
            leave = enter = np.full(inside.shape, request.size)
    divides = (a > 0) & (b > 0)
    out, into = divides, divides
    if request.pattern.before == "root":
        out, into = divides & with_root, divides & ~with_root
    elif request.pattern.after == "root":
        out, into = divides & ~with_root, divides & with_root
    return np.where(out, leave, 0.0), np.where(into, enter, 0.0)


def _part_times(request: CollectiveRequest, parts: Parts) -> tuple[float, float]:
    """Return the seconds for what parts must send, and for what they must receive: each, and all together."""
    count = len(parts.enter)
    if request.sizes is None:
        inside = np.bincount(parts.part, minlength=count)
        leave, enter = _bytes_across(request, inside, np.arange(count) == parts.part[request.root])
    else:
        pair = parts.part[:, None] * count + parts.part
        table = totals(pair.ravel(), request.sizes.ravel(), count**2).reshape(count, count)
        leave, enter = (_exchanged(table).sum(axis=axis) for axis in (1, 0))
    sent, received = ((count - 1) * request.size * times.get(request.pattern, 0) for times in (_SENT, _RECEIVED))
    return (
        max(float(seconds_of(leave, parts.leave).max()), float(seconds_of(sent, parts.send))),
        max(float(seconds_of(enter, parts.enter).max()), float(seconds_of(received, parts.receive))),
    )


def _half_time(request: CollectiveRequest, halves: Halves) -> float:
    count, position = len(halves.up), halves.position
    if request.sizes is None:
        inside = np.cumsum(np.bincount(position, minlength=count + 1))[:count]
        up, down = _bytes_across(request, inside, position[request.root] <= np.arange(count))
    else:
        source, destination = np.nonzero(request.sizes)
        up, down = across(position[source], position[destination], request.sizes[source, destination], count + 1)
    return float(np.maximum(seconds_of(up, halves.up), seconds_of(down, halves.down)).max(initial=0.0))


def seconds_of(amount: FloatArray | float, rate: FloatArray | float) -> FloatArray:
    """Return ``amount / rate``; 0 where nothing is sent, infinite where it cannot be."""
    amount, rate = np.broadcast_arrays(amount, rate)
    return np.divide(amount, rate, out=np.where(amount > 0, np.inf, 0.0), where=rate > 0)


def _latencies(fabric: Fabric, node: int, *, reverse: bool = False) -> FloatArray:
    """Return the ``(nodes,)`` least latency from ``node`` (``reverse``: to it): Bellman-Ford, about a pass per hop."""
    far, near = (fabric.sources, fabric.entering) if reverse else (fabric.destinations, fabric.leaving)
    seconds = np.full(len(fabric.kinds), np.inf)
    seconds[node] = 0.0
    latest = np.empty(len(seconds), dtype=np.intp)
    closer = np.array([node])
    while closer.size:
        links, degree = rows_of(*near, closer)
        arrival, ends = np.repeat(seconds[closer], degree) + fabric.latencies[links], far[links]
        sooner = arrival < seconds[ends]
        arrival, ends = arrival[sooner], ends[sooner]
        np.minimum.at(seconds, ends, arrival)
        # A node that is reached more than once goes on once.
        latest[ends] = np.arange(len(ends))
        closer = ends[latest[ends] == np.arange(len(ends))]
    return seconds
