"""What is checked of a topology: that it builds one network, a sound one, and that its own router can route it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from typing import Any, ClassVar

import networkx as nx
import numpy as np
from attrs import frozen

from fredfw.collectives import CollectiveRequest, Pattern, ring_schedule
from fredfw.fabric import SLOTS, Fabric, NodeKind, Topology
from fredfw.plugin import configure
from fredfw.plugin.answers import built
from fredfw.simulation import Incidence, answers, lower_bound
from fredfw.simulation.sharing import sharing_of
from fredfw.testing.collective import simulate
from fredfw.testing.conformance import EXACT, NOTHING, Faults, _Tests, check_all, seeded, twin, where
from fredfw.testing.process import Elsewhere
from fredfw.testing.routes import RoutedCase
from fredfw.typing import IntArray

_OF_NODES = "kinds", "coordinates", "copies", "reduces"
_OF_LINKS = "sources", "destinations", "bandwidths", "latencies", "energies", "tiers"
_TRIED = 16
_PURE = "build() may depend on the fields alone: no random numbers without a fixed seed, nothing kept between calls"
_ON_PURPOSE = "where that is on purpose, say why in expected_failures"
_Found = tuple[float, str]  # a figure, and where it was found


@frozen(eq=False, kw_only=True)
class TopologyCase(RoutedCase[Topology], Elsewhere[Topology]):
    """A topology, built once."""

    shows: ClassVar[str] = "the fabric that is built"

    @cached_property
    def fabric(self) -> Fabric:
        return built(self.subject)

    def seen(self) -> list[object]:
        fabric, routes = self.fabric, self.routes
        names = [fabric.node_name(node) for node in range(min(len(fabric.kinds), _TRIED))]
        return [*_parts(fabric).values(), names, routes.offsets, routes.links]

    def build_is_pure(self) -> Faults:
        """Two builds, also of an equal instance, give equal fabrics and change nothing."""
        before = configure.unstructure(self.subject)
        for seed, topology in enumerate((self.subject, twin(self.subject))):
            with seeded(seed):
                again = _parts(built(topology))
            for name, one in _parts(self.fabric).items():
                if not np.array_equal(one, again[name]):
                    yield f"two builds differ in their {name}{_where(one, again[name])}; {_PURE}"
        if configure.unstructure(self.subject) != before:
            yield f"build() changes the fields of the topology; {_PURE}"

    def capacities_are_positive_and_finite(self) -> Faults:
        """Every link has a positive, finite bandwidth, and a finite latency and energy that are not negative."""
        fabric = self.fabric
        for what, values, fine in (
            ("bandwidth", fabric.bandwidths, fabric.bandwidths > 0),
            ("latency", fabric.latencies, fabric.latencies >= 0),
            ("energy", fabric.energies, fabric.energies >= 0),
        ):
            for link in where(~(fine & np.isfinite(values))):
                yield f"{fabric.link_name(link)} has {what} {values[link]}; leave a link out that carries nothing"

    def is_connected(self) -> Faults:
        """There is a directed path from every NPU, controller and memory to every other."""
        fabric = self.fabric
        if not len(fabric.npus):
            yield "there is no NPU; give nodes that compute the kind NodeKind.NPU"
        ends = set(np.flatnonzero(fabric.kinds != NodeKind.SWITCH).tolist())
        start = int(fabric.npus[0])
        graph: nx.DiGraph[int] = nx.DiGraph()
        graph.add_nodes_from(range(len(fabric.kinds)))
        graph.add_edges_from(zip(fabric.sources.tolist(), fabric.destinations.tolist(), strict=True))
        for ways, there in ((graph, 1), (graph.reverse(), -1)):
            reached = nx.descendants(ways, start)
            missing = sorted(ends - reached - {start})
            if missing:
                path = " to ".join([fabric.node_name(start), fabric.node_name(missing[0])][::there])
                more = f" (nor for {len(missing) - 1} other nodes)" if len(missing) > 1 else ""
                yield f"there is no path from {path}{more}; links are directed, a cable is one each way"

    def capacity_is_symmetric(self) -> Faults:
        """Two neighbours have the same bandwidth each way."""
        fabric, nodes = self.fabric, len(self.fabric.kinds)
        ends = np.sort([fabric.sources, fabric.destinations], axis=0)
        neighbours, link = np.unique(ends[0] * nodes + ends[1], return_inverse=True)
        up = fabric.sources < fabric.destinations
        there, back = (np.bincount(link, fabric.bandwidths * way, len(neighbours)) for way in (up, ~up))
        for one in where(~np.isclose(there, back, rtol=EXACT, atol=0)):
            near, far = map(fabric.node_name, divmod(int(neighbours[one]), nodes))
            yield f"{near} sends {there[one]:g} B/s to {far} and gets {back[one]:g} B/s back; {_ON_PURPOSE}"

    def latency_is_symmetric(self) -> Faults:
        """The route there takes as long as the route back."""
        there, back = np.split(self.routes.latencies, 2)
        for flow in where(~np.isclose(there, back, rtol=EXACT, atol=0)):
            fault = f"from {self.pair(flow)} a route takes {there[flow]:g} s, back it takes {back[flow]:g} s"
            yield f"{fault}; {_ON_PURPOSE}"

    def levels_are_a_full_product(self) -> Faults:
        """Levels come with coordinates, and coordinates with levels; ``Fabric`` checks that NPUs fill all positions."""
        fabric = self.fabric
        if (fabric.coordinates is None) != (not fabric.levels):
            given = "levels without coordinates" if fabric.levels else "coordinates without levels"
            yield f"there are {given}, of which algorithms see nothing; give both or neither"

    def levels_promise_no_more_than_the_links(self) -> Faults:
        """No level has more bandwidth per member than the links of an NPU."""
        fabric = self.fabric
        for number, level in enumerate(fabric.levels):
            if level.size < 2:
                continue
            for ends, verb in ((fabric.sources, "send"), (fabric.destinations, "receive")):
                own = np.bincount(ends, fabric.bandwidths, len(fabric.kinds))[fabric.npus]
                for npu in where(own < level.bandwidth * (1 - EXACT)):
                    links = f"the links of {fabric.node_name(int(fabric.npus[npu]))} together {verb} {own[npu]:g} B/s"
                    yield f"level {number} promises each member {level.bandwidth:g} B/s, but {links}"

    def levels_are_as_fast_as_they_say(self) -> Faults:
        """With all NPUs sending along a level at once, the slowest flow and the longest route are what it says."""
        fabric = self.fabric
        for number, shifts in _shifts(fabric):
            level = fabric.levels[number]
            rates, latencies = zip(*(_extremes(self, step, *ends) for step, ends in shifts.items()), strict=True)
            rate, place = min(rates, key=itemgetter(0))
            if not np.isclose(rate, level.bandwidth, rtol=EXACT, atol=0):
                fault = f"level {number} promises each member {level.bandwidth:g} B/s"
                yield f"{fault}; {place} the rate is {rate:g} B/s, and nowhere less"
            latency, place = max(latencies, key=itemgetter(0))
            if not np.isclose(latency, level.latency, rtol=EXACT, atol=0):
                fault = f"level {number} says that its latency is {level.latency:g} s"
                yield f"{fault}; {place} a route takes {latency:g} s, and nowhere more"

    def carries_a_collective(self) -> Faults:
        """A ring all-gather among the first NPUs ends, admitted and shared as the fabric wants, and beats no bound."""
        members: IntArray = np.arange(min(len(self.fabric.npus), _TRIED))
        if len(members) < 2:
            return
        request = CollectiveRequest(Pattern.ALL_GATHER, len(members), 1e9)
        schedule = ring_schedule(request.pattern, request.size, members[:, None])
        seconds = simulate(self.fabric, schedule, members)[0]
        bound = lower_bound(self.fabric, request, members).seconds
        if not bound * (1 - EXACT) <= seconds < np.inf:
            yield f"a ring all-gather takes {seconds:g} s, no algorithm takes less than {bound:g} s"


def _parts(fabric: Fabric) -> dict[str, Any]:
    slots = [type(getattr(fabric.defaults, slot)).__name__ for slot in SLOTS]
    said = {"defaults": slots, "name": fabric.name, "levels": fabric.levels, "offers": fabric.offers}
    return {name: getattr(fabric, name) for name in (*_OF_NODES, *_OF_LINKS)} | said


class TopologyTests(_Tests, case=TopologyCase, subjects="topologies"):
    """Tests of the configured ``topologies``."""

    topologies: ClassVar[Sequence[Topology]] = ()


def check_topology(
    topology: Topology, *, plugin: object = None, expected_failures: Mapping[str, str] = NOTHING
) -> None:
    """Check a configured topology; a ``ConformanceError`` lists every check that fails, with what to mend.

    Args:
        topology: What to check.
        plugin: The module or object whose hooks register it, to check that as well.
        expected_failures: By the name of a check, the reason why it cannot hold. No reason, a check that holds after
            all, or one that does not exist is a failure, too.
    """
    check_all("topology", TopologyCase(subject=topology, plugin=plugin), expected_failures)


def _where(one: object, other: object) -> str:
    if not (isinstance(one, np.ndarray) and isinstance(other, np.ndarray)):
        return f": {one} and {other}"
    if one.shape != other.shape:
        return f": {len(one)} and {len(other)} of them"
    at = tuple(int(index) for index in np.argwhere(one != other)[0])
    return f": {one[at]} and {other[at]} at {list(at) if len(at) > 1 else at[0]}"


def _extremes(case: RoutedCase[Any], step: str, sources: IntArray, destinations: IntArray) -> tuple[_Found, _Found]:
    """Return the lowest rate and the highest latency of flows that run at once, and where these are."""
    fabric, routes = case.fabric, case.ask(sources, destinations)
    classes = np.zeros(len(routes), dtype=np.intp)
    flows = Incidence(routes.offsets, routes.links, routes.coefficients, None, classes)
    rates = answers.rates(sharing_of(fabric), flows, fabric.bandwidths, fabric)
    slowest, longest = int(rates.argmin()), int(routes.latencies.argmax())
    slow, long = (case.pair(flow, (sources, destinations)) for flow in (slowest, longest))
    place = f"with all NPUs sending {step} at once, from {slow}"
    return (float(rates[slowest]), place), (float(routes.latencies[longest]), f"from {long}")


def _shifts(fabric: Fabric) -> Iterator[tuple[int, dict[str, tuple[IntArray, IntArray]]]]:
    """Yield the number of each level that has a next position, and the ``(F,)`` ends of the flows of each shift.

    On a ring or line that is ``two_way`` all NPUs send to the next and the previous position at once; on a switch, and
    where all are connected, to others after the next. Admission is not asked: a member uses all ``lanes``.
    """
    sizes = tuple(level.size for level in fabric.levels)
    place = fabric.coordinates
    if place is None or np.prod(sizes) != len(fabric.npus):
        return  # another check says so
    at = np.empty(len(fabric.npus), dtype=np.intp)
    at[np.ravel_multi_index(tuple(place.T), sizes)] = fabric.npus

    def ends(number: int, step: int) -> tuple[IntArray, IntArray]:
        level = fabric.levels[number]
        there = place.copy()
        there[:, number] += step
        kept = np.full(len(place), True) if level.kind != "line" else there[:, number] < level.size
        there[:, number] %= level.size
        return fabric.npus[kept], at[np.ravel_multi_index(tuple(there[kept].T), sizes)]

    for number, level in enumerate(fabric.levels):
        if level.size < 2:
            continue
        if level.any_to_any:
            steps = range(1, min(level.size, 9))  # as far as that is tried
            yield number, {f"{step} on" if step > 1 else "to the next": ends(number, step) for step in steps}
            continue
        near, far = ends(number, 1)
        if not level.two_way or (level.kind == "ring" and level.size == 2):  # of two, the next is the previous one
            yield number, {"to the next": (near, far)}
        else:
            both = np.concatenate([near, far]), np.concatenate([far, near])
            yield number, {"to the next and the previous one": both}
