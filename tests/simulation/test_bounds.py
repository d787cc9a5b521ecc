from collections.abc import Iterator, Sequence
from itertools import chain, combinations, permutations
from typing import Any

import networkx as nx
import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, strategies as st
from small import joined, pipe, star

from fredfw.collectives import CollectiveRequest, Pattern
from fredfw.fabric import Capabilities, Fabric, Level, NodeKind
from fredfw.simulation import Bound, LowerBounds, lower_bound
from fredfw.simulation.bounds.cuts import Cuts, across

S = 1e9
B = 100.0
ALPHA = 0.25


def around(npus: int, *, reduces: bool = False, multicasts: bool = False) -> Fabric:
    """NPUs around a switch with a link each way, without levels."""
    offers = Capabilities(reduces=reduces, multicasts=multicasts)
    return star(npus, bandwidth=B, latency=ALPHA, able=True, offers=offers)


def bound(fabric: Fabric, pattern: Pattern, size: float = S, members: Any = None, **fields: Any) -> Bound:
    group = np.arange(len(fabric.npus)) if members is None else np.asarray(members)
    return lower_bound(fabric, CollectiveRequest(pattern, len(group), size, **fields), group)


@pytest.mark.parametrize(
    ("pattern", "injection", "ejection"),
    [
        (Pattern.ALL_REDUCE, 2 * 7 / 8, 2 * 7 / 8),  # Patarasuk and Yuan, 2009
        (Pattern.REDUCE_SCATTER, 7 / 8, 7 / 8),
        (Pattern.ALL_GATHER, 7 / 8, 7 / 8),
        (Pattern.ALL_TO_ALL, 7 / 8, 7 / 8),
        (Pattern.BROADCAST, 1, 1),
        (Pattern.REDUCE, 1, 1),
        (Pattern.SCATTER, 7 / 8, 1 / 8),
        (Pattern.GATHER, 1 / 8, 7 / 8),
    ],
)
def test_what_the_ends_of_a_switch_must_send_and_receive(pattern: Pattern, injection: float, ejection: float) -> None:
    found = bound(around(8), pattern)
    assert (found.injection, found.ejection) == pytest.approx((injection * S / B, ejection * S / B))
    # All latencies are equal, so that the one bound comes on top of the other.
    assert found.latency == 2 * ALPHA
    assert found.seconds == pytest.approx(max(injection, ejection) * S / B + 2 * ALPHA)


def test_with_a_switch_that_combines_and_copies_everyone_sends_and_receives_once() -> None:
    for pattern in (Pattern.ALL_REDUCE, Pattern.REDUCE, Pattern.BROADCAST):
        found = bound(around(8, reduces=True, multicasts=True), pattern)
        assert max(found.injection, found.ejection, found.cut) == pytest.approx(S / B)
        assert found.seconds == pytest.approx(S / B + 2 * ALPHA)
    # Where nobody but the ranks adds, what they receive is that of a network without any help.
    found = bound(around(8, multicasts=True), Pattern.ALL_REDUCE)
    assert (found.ejection, found.injection) == pytest.approx((2 * 7 / 8 * S / B, S / B))


def test_a_point_to_point_is_as_fast_as_its_thinnest_end_and_takes_for_ever_without_a_way() -> None:
    fabric = around(3)
    bandwidths = fabric.bandwidths.copy()
    bandwidths[4] = B / 4  # down to NPU 1
    found = bound(evolve(fabric, bandwidths=bandwidths), Pattern.POINT_TO_POINT, members=[2, 1])
    assert (found.injection, found.ejection) == pytest.approx((S / B, 4 * S / B))
    assert found.seconds == pytest.approx(4 * S / B + 2 * ALPHA)
    assert found.binding == "ejection"
    there, back = (bound(pipe(B, ALPHA), Pattern.POINT_TO_POINT, members=group) for group in ([0, 1], [1, 0]))
    assert there.seconds == S / B + ALPHA
    assert back.seconds == back.injection == back.latency == np.inf


def test_all_to_all_v_counts_what_the_pairs_exchange() -> None:
    sizes = np.array([[9.0, 1.0, 2.0], [0.0, 9.0, 4.0], [0.0, 0.0, 9.0]]) * S
    found = bound(around(3), Pattern.ALL_TO_ALL, sizes=sizes)
    assert (found.injection, found.ejection) == pytest.approx((4 * S / B, 6 * S / B))
    assert found.seconds == pytest.approx(6 * S / B + 2 * ALPHA)


@pytest.mark.parametrize("pattern", list(Pattern))
def test_nothing_to_send_takes_no_time(pattern: Pattern) -> None:
    pair = around(2)
    assert bound(pair, pattern, 0.0) == Bound()
    assert bound(pair, pattern, members=[1]) == Bound()
    if pattern is Pattern.ALL_TO_ALL:
        assert bound(pair, pattern, sizes=np.diag([S, S])) == Bound()


def test_a_ring_of_one_way_has_its_end_far_away() -> None:
    one_way = joined([(here, (here + 1) % 6) for here in range(6)], B, ALPHA)
    found = bound(one_way, Pattern.ALL_GATHER, 6.0)
    assert found.latency == 5 * ALPHA
    assert found.injection == pytest.approx(5 / B)
    assert found.binding == "latency"
    # The last byte that leaves a rank still has all the way to go.
    assert found.seconds == pytest.approx(5 * ALPHA + 1 / B)


# What must get where, from first principles: bytes, who has a part in them, who needs them.
Need = tuple[float, set[int], set[int]]


def needs(pattern: Pattern, n: int, root: int) -> list[Need]:
    everyone, each, one = set(range(n)), [{rank} for rank in range(n)], {root}
    ends = {
        Pattern.ALL_REDUCE: [(everyone, everyone)],
        Pattern.BROADCAST: [(one, everyone)],
        Pattern.POINT_TO_POINT: [(one, everyone)],
        Pattern.REDUCE: [(everyone, one)],
        Pattern.REDUCE_SCATTER: [(everyone, rank) for rank in each],
        Pattern.ALL_GATHER: [(rank, everyone) for rank in each],
        Pattern.GATHER: [(rank, one) for rank in each],
        Pattern.SCATTER: [(one, rank) for rank in each],
        Pattern.ALL_TO_ALL: list(permutations(each, 2)),
    }[pattern]
    return [(S if len(ends) == 1 else S / n, *pair) for pair in ends]


def best_cut(fabric: Fabric, wanted: list[Need], members: Sequence[int]) -> float:
    """Return the most seconds that any cut at all asks for; NPUs are the first nodes."""
    best = 0.0
    nodes = range(len(fabric.kinds))
    for side in map(set, chain.from_iterable(combinations(nodes, size) for size in nodes)):
        inside = {rank for rank, npu in enumerate(members) if npu in side}
        crossing = sum(size for size, sources, ends in wanted if sources & inside and ends - inside)
        if crossing:
            out = [
                bandwidth
                for source, end, bandwidth in zip(fabric.sources, fabric.destinations, fabric.bandwidths, strict=True)
                if source in side and end not in side
            ]
            best = max(best, crossing / sum(out) if out else np.inf)
    return best


def partitions(nodes: Sequence[int]) -> Iterator[list[list[int]]]:
    if not nodes:
        yield []
        return
    for rest in partitions(nodes[1:]):
        yield [[nodes[0]], *rest]
        for index, part in enumerate(rest):
            yield [*rest[:index], [nodes[0], *part], *rest[index + 1 :]]


def best_sum(fabric: Fabric, times: int) -> float:
    """Return the most seconds that the messages between parts take, over all partitions of a fabric of NPUs alone."""
    best = 0.0
    for parts in partitions(range(len(fabric.kinds))):
        part = {node: index for index, nodes in enumerate(parts) for node in nodes}
        ends = zip(fabric.sources, fabric.destinations, fabric.bandwidths, strict=True)
        total = sum(bandwidth for source, end, bandwidth in ends if part[source] != part[end])
        if len(parts) > 1:
            best = max(best, times * (len(parts) - 1) * S / total if total else np.inf)
    return best


@st.composite
def fabrics(draw: st.DrawFn, *, switches: int) -> Fabric:
    """Any links between a few NPUs and switches, over a ring that joins them all one way."""
    npus = draw(st.integers(2, 5))
    nodes = npus + draw(st.integers(0, switches))
    pairs = draw(st.lists(st.sampled_from(list(permutations(range(nodes), 2))), max_size=10))
    pairs += [(node, (node + 1) % nodes) for node in range(nodes)]
    kinds = [NodeKind.NPU] * npus + [NodeKind.SWITCH] * (nodes - npus)
    numbers = st.lists(st.sampled_from([1.0, 2.0, 5.0]), min_size=len(pairs), max_size=len(pairs))
    sources, destinations = np.array(pairs).T
    fabric = Fabric("any", kinds, sources, destinations, draw(numbers), draw(numbers), 0.0)
    if npus % 2 == 0 and draw(st.booleans()):
        coordinates = np.stack([np.arange(npus) % 2, np.arange(npus) // 2], axis=1)
        fabric = evolve(fabric, levels=(Level(2, "line", 1.0), Level(npus // 2, "line", 1.0)), coordinates=coordinates)
    return fabric


@given(fabrics(switches=2), st.sampled_from(list(Pattern)), st.data())
def test_cuts_and_latencies_are_those_of_real_cuts_and_paths(
    fabric: Fabric, pattern: Pattern, data: st.DataObject
) -> None:
    npus = len(fabric.npus)
    size = 2 if pattern is Pattern.POINT_TO_POINT else data.draw(st.integers(2, npus))
    members = data.draw(st.permutations(range(npus)))[:size]
    root = data.draw(st.integers(0, size - 1)) if pattern.rooted else 0
    found = bound(fabric, pattern, members=members, root=root)
    wanted = needs(pattern, size, root)
    if pattern in (Pattern.ALL_TO_ALL, Pattern.SCATTER, Pattern.GATHER, Pattern.POINT_TO_POINT):
        assert max(found.injection, found.ejection, found.cut) <= best_cut(fabric, wanted, members) * (1 + 1e-12)
    lengths = dict(nx.all_pairs_dijkstra_path_length(fabric.to_networkx(), weight="latency"))
    distances = [
        lengths[members[x]][members[y]] for _, sources, ends in wanted for x in sources for y in ends if x != y
    ]
    assert found.latency in distances
    assert found.latency <= found.seconds
    assert found.seconds <= max(found.injection, found.ejection, found.cut) + max(distances) + 1e-9


@given(fabrics(switches=2), st.sampled_from(list(Pattern)), st.just(0.0) | st.floats(1e-90, 1e9))
def test_no_bound_is_above_its_ceiling(fabric: Fabric, pattern: Pattern, size: float) -> None:
    members = np.arange(2 if pattern is Pattern.POINT_TO_POINT else len(fabric.npus))
    request = CollectiveRequest(pattern, len(members), size)
    bounds = LowerBounds(fabric)
    found, again = bounds.of(request, members), bounds.of(request, members)
    assert found == again == lower_bound(fabric, request, members)
    assert found.seconds <= bounds.ceiling(request, members)


@given(fabrics(switches=0) | fabrics(switches=2), st.sampled_from(sorted({*Pattern} - {Pattern.POINT_TO_POINT})))
def test_a_bound_is_that_of_the_thinnest_cut_or_of_the_weakest_partition(fabric: Fabric, pattern: Pattern) -> None:
    npus, apart = len(fabric.npus), pattern in (Pattern.ALL_TO_ALL, Pattern.SCATTER, Pattern.GATHER)
    least = most = best_cut(fabric, needs(pattern, npus, 0), range(npus))
    if npus == len(fabric.kinds) and not apart:
        most = max(most, best_sum(fabric, 2 if pattern is Pattern.ALL_REDUCE else 1))
        least = most if pattern is Pattern.ALL_REDUCE else least
    found = bound(fabric, pattern)
    seconds = max(found.injection, found.ejection, found.cut)
    if npus == len(fabric.kinds):
        assert seconds <= most * (1 + 1e-12)
    if not apart:
        assert seconds >= least * (1 - 1e-9)


def cables(*ends: tuple[int, int, float]) -> Fabric:
    """Return NPUs, and a link each way for each cable between two of them."""
    one, other, rates = zip(*ends, strict=True)
    return joined([*zip(one, other, strict=True), *zip(other, one, strict=True)], np.array(rates * 2))


def boxes(count: int) -> Fabric:
    """Boxes of 8 GPUs, each with 300 GB/s to the switch of its box and 25 GB/s to a switch of all."""
    gpus = range(8 * count)
    common = [(gpu, 9 * count, 25.0) for gpu in gpus] if count > 1 else []
    fabric = cables(*((gpu, 8 * count + gpu // 8, 300.0) for gpu in gpus), *common)
    return evolve(fabric, kinds=np.where(np.arange(len(fabric.kinds)) < 8 * count, NodeKind.NPU, NodeKind.SWITCH))


def grid(*sizes: int, rate: float, closed: bool = False) -> Fabric:
    graph = nx.convert_node_labels_to_integers(nx.grid_graph(sizes, periodic=closed))
    return cables(*((one, other, rate) for one, other in graph.edges))


def dgx1() -> Fabric:
    """The hybrid cube mesh: two fully connected quads, and a link between the two of a place; some links are double."""
    quad = [(0, 1, 25.0), (0, 2, 25.0), (1, 3, 25.0), (2, 3, 25.0), (0, 3, 50.0), (1, 2, 50.0)]
    other = [(x + 4, y + 4, rate) for x, y, rate in quad]
    return cables(*quad, *other, *((x, x + 4, 50.0) for x in range(4)))


@pytest.mark.parametrize(
    ("fabric", "rate"),
    [
        (grid(8, rate=50.0, closed=True), 114.286),
        (grid(4, 5, rate=750.0), 1578.947),
        (grid(3, 3, rate=750.0), 1687.5),
        (grid(4, 4, rate=750.0, closed=True), 3200.0),
        (grid(4, 8, rate=50.0, closed=True), 206.452),
        (dgx1(), 171.429),
        (boxes(1), 342.857),
        (boxes(2), 346.667),
        (boxes(4), 266.667),
    ],
)
def test_all_gathers_have_the_optimum_of_forestcoll(fabric: Fabric, rate: float) -> None:
    # Computed with the authors' code (Zhao et al., "ForestColl", 2024): bytes of the whole buffer per second.
    for pattern in (Pattern.ALL_GATHER, Pattern.REDUCE_SCATTER):
        assert S / bound(fabric, pattern).seconds == pytest.approx(rate, rel=1e-5)


@given(st.integers(1, 6), st.data())
def test_across_is_the_sum_over_what_crosses(positions: int, data: st.DataObject) -> None:
    place = st.integers(0, positions - 1)
    items = data.draw(st.lists(st.tuples(place, place, st.sampled_from([0.0, 1.0, 1e-6, 1e15])), min_size=1))
    starts, ends, amounts = (np.array(column) for column in zip(*items, strict=True))
    up, down = across(starts, ends, amounts, positions)
    for cut in range(positions - 1):
        # A large number on the wrong side of a cut leaves no trace.
        there = sum(amount for start, end, amount in items if start <= cut < end)
        expected = there, sum(amount for start, end, amount in items if end <= cut < start)
        np.testing.assert_allclose([up[cut], down[cut]], expected, rtol=1e-12)


def test_long_dimensions_are_cut_between_runs() -> None:
    here = np.arange(999)
    line = Fabric("line", np.zeros(1000), here, here + 1, 1.0, 0.0, 0.0)
    (halves,) = Cuts(line).halves(np.arange(1000))
    assert (halves.up.tolist(), halves.down.tolist()) == ([1.0] * 127, [0.0] * 127)
    assert (np.diff(halves.position) >= 0).all()
