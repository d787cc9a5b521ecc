"""What is checked of routes and trees: those of a router on a fabric, or of a topology's own router."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import product
from typing import ClassVar, TypeAlias

import networkx as nx
import numpy as np
from attrs import frozen

from fredfw.answers import speaks_for
from fredfw.errors import UnsupportedError
from fredfw.fabric import Capabilities, Fabric, NodeKind, Operation, Router, Routes
from fredfw.testing.conformance import EXACT, NOTHING, Case, Faults, S, _Tests, check_all, describe, seeded, where
from fredfw.typing import FloatArray, IntArray

_ALL_PAIRS = 64  # all pairs of so many NPUs, or as many pairs of more
_SAMPLE = _ALL_PAIRS**2 // 2
_Tree: TypeAlias = tuple[Operation, IntArray, IntArray]  # what a router is asked for: from these sources to these ends
TreeReport: TypeAlias = tuple[list[str], list[str], float]
"""Of a tree: why its links are none, where it joins or branches although the node there cannot, seconds it takes."""


def offered_trees(offers: Capabilities) -> dict[Operation, bool]:
    both = offers.multicasts and offers.reduces
    return {Operation.MULTICAST: offers.multicasts, Operation.REDUCE: offers.reduces, Operation.ALL_REDUCE: both}


def examine(
    fabric: Fabric, operation: Operation, sources: IntArray, destinations: IntArray, links: IntArray
) -> TreeReport:
    """Examine ``links`` as paths from all sources to one node, the most sensible one, and on to all destinations."""
    if operation is Operation.MULTICAST:
        middles = [int(sources[0])]
    else:
        middles = np.unique([*fabric.sources[links], *fabric.destinations[links], *destinations]).tolist()
    reports = [_examine(fabric, (operation, sources, destinations), links, middle) for middle in middles]
    return min(reports, key=lambda one: (len(one[0]), len(one[1]), one[2]))


@frozen(eq=False, kw_only=True)
class RoutedCase(Case[S]):
    """A case with a fabric and a router on it."""

    @property
    def fabric(self) -> Fabric:
        raise NotImplementedError

    @property
    def router(self) -> Router:
        return self.fabric.defaults.router

    @cached_property
    def pairs(self) -> tuple[IntArray, IntArray]:
        """``(F,)`` nodes each way: NPUs with each other and themselves, NPUs with controllers and memories."""
        kinds, npus = self.fabric.kinds, self.fabric.npus
        gates = np.flatnonzero((kinds == NodeKind.CONTROLLER) | (kinds == NodeKind.MEMORY))
        random = np.random.default_rng(0)
        if len(npus) <= _ALL_PAIRS:
            x, y = (npus[one] for one in np.triu_indices(len(npus)))
        else:
            x, y = random.choice(npus, (2, _SAMPLE))
        gate, npu = (one.ravel() for one in np.meshgrid(gates, npus))
        if len(gate) > _SAMPLE:
            chosen = random.choice(len(gate), _SAMPLE, replace=False)
            gate, npu = gate[chosen], npu[chosen]
        one, other = np.concatenate([x, gate]), np.concatenate([y, npu])
        return np.concatenate([one, other]), np.concatenate([other, one])

    @cached_property
    def routes(self) -> Routes:
        return self.ask(*self.pairs)

    @cached_property
    def singles(self) -> list[tuple[int, Routes]]:
        count, (sources, destinations) = len(self.pairs[0]), self.pairs
        flows = np.linspace(0, count - 1, min(count, 128)).astype(np.intp).tolist()
        return [(one, self.ask(sources[one : one + 1], destinations[one : one + 1])) for one in flows]

    def ask(self, sources: IntArray, destinations: IntArray) -> Routes:
        return self.router.route(self.fabric, sources.copy(), destinations.copy())

    @cached_property
    def trees(self) -> list[tuple[str, _Tree, bool, Routes | UnsupportedError]]:
        """Trees among some groups of NPUs, and with a controller: in words, what was asked, if offered, the answer."""
        fabric = self.fabric
        asked: list[tuple[_Tree, bool]] = []
        npus = fabric.npus[:_ALL_PAIRS]
        shuffled = np.random.default_rng(0).permutation(npus)
        for group in (npus, npus[:2], npus[::2], shuffled, shuffled[: len(npus) // 2 + 1]):
            if len(group) > 1:
                first, others = group[:1], group[1:]
                can = offered_trees(fabric.offered(group))
                among: tuple[_Tree, ...] = (
                    (Operation.MULTICAST, first, others),
                    (Operation.REDUCE, others, first),
                    (Operation.REDUCE, group, first),
                    (Operation.ALL_REDUCE, group, group),
                )
                asked += [(one, can[one[0]]) for one in among]
        for gate in fabric.controllers[:1], fabric.controllers[-1:]:
            if len(gate) and len(npus):
                asked += [((Operation.MULTICAST, gate, npus), False), ((Operation.REDUCE, npus, gate), False)]
        found: list[tuple[str, _Tree, bool, Routes | UnsupportedError]] = []
        for tree, offered in asked:
            operation, sources, destinations = tree
            words = " to ".join(_some(ends.tolist(), 4, fabric.node_name) for ends in (sources, destinations))
            text = f"the {operation.value} from {words}"
            try:
                answer = self.router.tree(fabric, sources.copy(), destinations.copy(), operation)
                found.append((text, tree, offered, answer))
            except UnsupportedError as error:
                found.append((text, tree, offered, error))
        return found

    @cached_property
    def reports(self) -> list[tuple[str, Routes, TreeReport]]:
        """The trees that the router knows, in words, as links, and as what these are."""
        return [
            (text, answer, examine(self.fabric, *tree, answer.links))
            for text, tree, _, answer in self.trees
            if isinstance(answer, Routes)
        ]

    def pair(self, flow: int, pairs: tuple[IntArray, IntArray] | None = None) -> str:
        return " to ".join(self.fabric.node_name(int(ends[flow])) for ends in pairs or self.pairs)

    def links(self, routes: Routes, flow: int) -> str:
        links = routes.links[routes.offsets[flow] : routes.offsets[flow + 1]].tolist()
        return _some(links, 8, self.fabric.link_name) or "no link"

    def routes_exist(self) -> Faults:
        """There is a well-formed route for every pair of end points."""
        sources, destinations = self.pairs
        routes = self.routes
        counts = np.diff(routes.offsets)
        if len(routes) != len(sources) or routes.latencies.shape != sources.shape:
            yield f"{len(sources)} pairs were asked for, {len(routes)} routes came back; one for each pair"
        if routes.offsets[0] != 0 or (counts < 0).any() or routes.offsets[-1] != len(routes.links):
            yield "the offsets of the routes must begin with 0, never fall, and end with the number of links"
        outside = routes.links[(routes.links < 0) | (routes.links >= len(self.fabric.sources))]
        if outside.size:
            yield f"a route uses link {outside[0]}, there are {len(self.fabric.sources)} links"
        for flow in where((counts == 0) & (sources != destinations)):
            yield f"the route from {self.pair(flow)} has no links; every pair of end points needs some"

    def routes_lead_from_source_to_destination(self) -> Faults:
        """What leaves the source arrives at the destination, and every node between passes on what it gets."""
        fabric, routes, (sources, destinations) = self.fabric, self.routes, self.pairs
        nodes, flow, share = len(fabric.kinds), _flows(routes), _shares(routes)
        if ((share <= 0) | (share > 1 + EXACT)).any():
            yield "a coefficient of a route is not in (0, 1]; it is the share of the flow on that link"
        near, far = fabric.sources[routes.links], fabric.destinations[routes.links]
        first = np.arange(len(routes)) * nodes
        places = np.concatenate([flow * nodes + near, flow * nodes + far, first + sources, first + destinations])
        whole = np.ones(len(routes))
        places, place = np.unique(places, return_inverse=True)
        excess = np.bincount(place, np.concatenate([share, -share, -whole, whole]))
        for wrong in where(np.abs(excess) > EXACT):
            one, node = divmod(int(places[wrong]), nodes)
            come, gone = (share[(flow == one) & (ends == node)].sum() for ends in (far, near))
            role = "which must pass on what it gets"
            if sources[one] != destinations[one] and node in (sources[one], destinations[one]):
                role = "the source, which sends 1" if node == sources[one] else "the destination, which gets 1"
            fault = f"the route from {self.pair(one)} is {self.links(routes, one)}"
            yield f"{fault}: {come:g} of the flow enters {fabric.node_name(node)} and {gone:g} leaves it, {role}"

    def routes_have_no_loops(self) -> Faults:
        """No path of a route comes back to where it was; two paths of a split route may meet."""
        fabric, routes = self.fabric, self.routes
        for flow in _with_circles(fabric, routes).tolist():
            if _has_loop(fabric, routes, flow, int(self.pairs[0][flow]), int(self.pairs[1][flow])):
                yield f"the route from {self.pair(flow)} is {self.links(routes, flow)}, which goes round in a circle"

    def routes_to_oneself_are_empty(self) -> Faults:
        """A route from a node to itself has no links and takes no time."""
        sources, destinations = self.pairs
        own = sources == destinations
        wrong = own & ((np.diff(self.routes.offsets) > 0) | (self.routes.latencies != 0))
        for flow in where(wrong):
            fault = f"the route from {self.pair(flow)} has {self.links(self.routes, flow)}"
            yield f"{fault} and takes {self.routes.latencies[flow]:g} s; what stays where it is crosses nothing"

    def routes_take_as_long_as_their_links(self) -> Faults:
        """The latency of a route is at least that of its links together (where it is split, of the mean path)."""
        fabric, routes = self.fabric, self.routes
        if not (np.isfinite(routes.latencies) & (routes.latencies >= 0)).all():
            yield "the latency of a route is negative or not finite; it is in seconds"
        least = np.bincount(_flows(routes), _shares(routes) * fabric.latencies[routes.links], len(routes))
        for flow in where(routes.latencies < least * (1 - EXACT)):
            links = f"its links ({self.links(routes, flow)}) take {least[flow]:g} s"
            fault = f"the route from {self.pair(flow)} takes {routes.latencies[flow]:g} s, {links}"
            yield f"{fault}; Fabric.paths adds them up for routes that are paths"

    def routes_do_not_depend_on_the_batch(self) -> Faults:
        """A pair is routed alike whatever it is routed with."""
        for flow, alone in self.singles:
            if not _equal(alone, self.routes.select(np.array([flow]))):
                beside = f"beside {len(self.routes) - 1} others it is {self.links(self.routes, flow)}"
                fault = f"alone, the route from {self.pair(flow)} is {self.links(alone, 0)}; {beside}"
                yield f"{fault}; choose by the two ends alone, for example by a hash of them"

    def routes_of_one_pair_are_the_same(self) -> Faults:
        """Where a router has a ``path``, it is what ``route`` says of that pair alone."""
        if not speaks_for(type(self.router), "path", "route"):
            return
        sources, destinations = (ends.tolist() for ends in self.pairs)
        for flow, alone in self.singles:
            path = self.router.path(self.fabric, sources[flow], destinations[flow])
            if not _equal(path, alone):
                one, other = (f"{self.links(each, 0)} and takes {each.latencies[0]:g} s" for each in (path, alone))
                fault = f"path() from {self.pair(flow)} is {one}, route() is {other}"
                yield f"{fault}; leave path() out where it is not cheaper"

    def routes_are_deterministic(self) -> Faults:
        """A router gives the same answer when it is asked again, and it does not change its arguments."""
        sources, destinations = (ends.copy() for ends in self.pairs)
        with seeded(1):
            again = self.router.route(self.fabric, sources, destinations)
        if not np.array_equal((sources, destinations), self.pairs):
            yield "route() changes the arrays it is given; copy what has to change"
        if _equal(again, self.routes):
            return
        for flow in range(len(self.routes)):
            one = np.array([flow])
            if not _equal(again.select(one), self.routes.select(one)):
                first, second = (self.links(each, flow) for each in (self.routes, again))
                fault = f"asked twice, the route from {self.pair(flow)} is {first} and {second}"
                yield f"{fault}; a router has no state and no random numbers, because routes are kept"

    def trees_exist_where_offered(self) -> Faults:
        """The router has every tree that the fabric offers collectives."""
        for text, _, offered, answer in self.trees:
            if offered and not isinstance(answer, Routes):
                yield f"the fabric offers {self.fabric.offers}, yet the router refuses {text}: {answer}"
            if isinstance(answer, Routes) and len(answer) != 1:
                yield f"{text} is {len(answer)} flows; a tree is one"

    def trees_reach_exactly_their_leaves(self) -> Faults:
        """Every tree joins all its sources, reaches all its destinations, and does nothing else."""
        for tree, answer, (faults, _, _) in self.reports:
            if faults:
                more = f" (and {len(faults) - 1} more faults)" if len(faults) > 1 else ""
                yield (
                    f"{tree} is {self.links(answer, 0)}: {faults[0]}{more}; a tree leads from each "
                    "source by one path to one node, and from there by one path to each destination"
                )

    def trees_branch_only_where_they_can(self) -> Faults:
        """A tree joins only where the fabric says that a node ``reduces``, and branches only where it ``copies``."""
        for tree, answer, (_, stuck, _) in self.reports:
            if stuck:
                fault = f"{tree} is {self.links(answer, 0)}, but {stuck[0]}"
                yield f"{fault}; say so in the fabric's copies and reduces, or raise UnsupportedError for the tree"

    def trees_take_as_long_as_their_deepest_branch(self) -> Faults:
        """The latency of a tree is at least that of its longest way up and its longest way down."""
        for tree, answer, (faults, _, latency) in self.reports:
            seconds = answer.latencies[0]
            if not faults and seconds < latency * (1 - EXACT):
                yield f"{tree} takes {seconds:g} s; its deepest branch takes {latency:g} s"


@frozen(eq=False, kw_only=True)
class RouterCase(RoutedCase[Router]):
    """A router and a fabric that it is to route."""

    fabric: Fabric

    @property
    def router(self) -> Router:
        return self.subject

    def __str__(self) -> str:
        return f"{describe(self.subject)} on {self.fabric.name}"


class RouterTests(_Tests, case=RouterCase, subjects="routers"):
    """Tests of the configured ``routers``, each on every one of ``fabrics``."""

    routers: ClassVar[Sequence[Router]] = ()
    fabrics: ClassVar[Sequence[Fabric]] = ()

    @classmethod
    def cases(cls) -> Iterator[RouterCase]:
        """Yield every router on every fabric."""
        pairs = product(cls.routers, cls.fabrics)
        return (RouterCase(subject=router, fabric=fabric, plugin=cls.plugin) for router, fabric in pairs)


def check_router(
    router: Router, fabric: Fabric, *, plugin: object = None, expected_failures: Mapping[str, str] = NOTHING
) -> None:
    """Check ``router`` on ``fabric``; see ``check_topology``."""
    check_all("router", RouterCase(subject=router, fabric=fabric, plugin=plugin), expected_failures)


def _shares(routes: Routes) -> FloatArray:
    return np.ones(len(routes.links)) if routes.coefficients is None else routes.coefficients


def _flows(routes: Routes) -> IntArray:
    return np.repeat(np.arange(len(routes)), np.diff(routes.offsets))


def _some(items: Sequence[int], most: int, name: Callable[[int], str]) -> str:
    names = ", ".join(map(name, items[:most]))
    return f"{names} and {len(items) - most} more" if len(items) > most else names


def _with_circles(fabric: Fabric, routes: Routes) -> IntArray:
    """Return the flows whose links, all together, form a circle: those of one path must not, those of several may."""
    nodes = len(fabric.kinds)
    flow = _flows(routes)
    leaves, enters = flow * nodes + fabric.sources[routes.links], flow * nodes + fabric.destinations[routes.links]
    entered = np.zeros(len(routes) * nodes, dtype=bool)
    # Links that nothing leads to are taken away, again and again; what is left in the end is on a circle or behind one.
    while leaves.size:
        entered[enters] = True
        kept = entered[leaves]
        entered[enters] = False
        if kept.all():
            break
        leaves, enters = leaves[kept], enters[kept]
    return np.unique(leaves // nodes)


def _has_loop(fabric: Fabric, routes: Routes, flow: int, source: int, destination: int) -> bool:
    """Return whether the links of ``flow`` cannot be those of paths without loops.

    Such paths pass each node at most once with the whole flow, and neither enter the source nor leave the destination.
    Each link can be reached from the source without its far end, and reaches the destination without its near end.
    """
    part = slice(routes.offsets[flow], routes.offsets[flow + 1])
    near, far = fabric.sources[routes.links[part]], fabric.destinations[routes.links[part]]
    through = np.bincount(far, _shares(routes)[part], len(fabric.kinds))
    if through.max() > 1 + EXACT or (far == source).any() or (near == destination).any():
        return True
    links = set(zip(near.tolist(), far.tolist(), strict=True))
    onward = nx.DiGraph(links)
    before = {node: _reached(onward, source, node) for _, node in links}
    after = {node: _reached(onward.reverse(), destination, node) for node, _ in links}
    return any(one not in before[other] or other not in after[one] for one, other in links)


def _reached(graph: nx.DiGraph[int], start: int, avoided: int) -> set[int]:
    """Return the nodes that are reached from ``start``, not by way of the one that is ``avoided``."""
    return {start, *nx.descendants(nx.restricted_view(graph, [avoided], []), start)} if start != avoided else set()


def _equal(one: Routes, other: Routes) -> bool:
    if not (np.array_equal(one.offsets, other.offsets) and np.array_equal(one.links, other.links)):
        return False
    pairs = (one.latencies, other.latencies), (_shares(one), _shares(other))
    return all(np.allclose(*pair, rtol=EXACT, atol=0) for pair in pairs)


def _examine(fabric: Fabric, tree: _Tree, links: IntArray, middle: int) -> TreeReport:
    operation, sources, destinations = tree
    name = fabric.node_name
    rise, climb = _search(fabric, links, middle, backwards=True)
    fall, descent = _search(fabric, links, middle, backwards=False)
    senders, receivers = set(sources.tolist()), set(destinations.tolist())
    if operation is Operation.MULTICAST:
        rise, climb = {}, {middle: 0.0}  # nothing is combined
        receivers -= senders
    faults = [f"nothing gets from {name(one)} to {name(middle)}" for one in sorted(senders - set(climb))]
    faults += [f"nothing gets from {name(middle)} to {name(one)}" for one in sorted(receivers - set(descent))]
    used = Counter([*rise.values(), *fall.values()])
    for link, times in Counter(links.tolist()).items():
        if times > 1 or used[link] > 1:
            faults.append(f"{fabric.link_name(link)} is crossed twice")
        elif not used[link]:
            faults.append(f"{fabric.link_name(link)} is one too many")
    joins = Counter(int(fabric.destinations[link]) for link in rise.values())
    branches = Counter(int(fabric.sources[link]) for link in fall.values())
    empty = [one for one in rise if not joins[one] and one not in senders]
    faults += [f"data leaves {name(one)}, but none arrives there" for one in empty]
    useless = [one for one in fall if not branches[one] and one not in receivers]
    faults += [f"data enters {name(one)}, but is not needed there" for one in useless]
    # The only end of a reduction adds, and the only source of a multicast sends, by itself.
    combines = int(destinations[0]) if operation is Operation.REDUCE else None
    copies = middle if operation is Operation.MULTICAST else None
    stuck = [
        f"{name(node)} cannot {verb} streams"
        for verb, able, counts, ends, exempt in (
            ("combine", fabric.reduces, joins, senders, combines),
            ("copy", fabric.copies, branches, receivers, copies),
        )
        for node in sorted(counts)
        if counts[node] + (node in ends) > 1 and not able[node] and node != exempt
    ]
    up = max((climb[one] for one in senders & set(climb)), default=0.0)
    down = max((descent[one] for one in receivers & set(descent)), default=0.0)
    return faults, stuck, up + down


def _search(fabric: Fabric, links: IntArray, root: int, *, backwards: bool) -> tuple[dict[int, int], dict[int, float]]:
    """Return the link by which a search over ``links`` first met each node, and the seconds from (to) the root."""
    near, far = (fabric.destinations, fabric.sources) if backwards else (fabric.sources, fabric.destinations)
    ways: defaultdict[int, list[int]] = defaultdict(list)
    for link in links.tolist():
        ways[int(near[link])].append(link)
    met: dict[int, int] = {}
    seconds = {root: 0.0}
    queue = [root]
    for node in queue:
        for link in ways[node]:
            other = int(far[link])
            if other not in seconds:
                met[other] = link
                seconds[other] = seconds[node] + float(fabric.latencies[link])
                queue.append(other)
    return met, seconds
