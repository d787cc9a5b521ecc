"""Topologies, routers and admissions that are wrong on purpose: the kit finds each, and says what to mend."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pytest
from attrs import evolve, field, frozen
from given_plugins import plugin
from kit import found
from small import Admitting

import fredfw
from fredfw import FlowSet, NodeKind, Operation, Refuse, Router, Routes, Split, Start, Topology, Wait, units
from fredfw.fabric import Admission, Capabilities, Decision, Decompose, Fabric, ShortestPathRouter
from fredfw.testing.admission import AdmissionCase
from fredfw.testing.conformance import Case
from fredfw.testing.fabrics import grid, star
from fredfw.testing.routes import RouterCase
from fredfw.testing.topology import TopologyCase
from fredfw.typing import IntArray


@frozen
class Loop(Topology):
    """NPUs in a ring, with one fault or none."""

    name: ClassVar[str] = "loop"
    fault: str = units.option("none", help="which")

    def build(self) -> Fabric:
        fabric = grid(6, closed=True)
        (level,) = fabric.levels
        match self.fault:
            case "asymmetric":  # the way back is narrower and takes longer
                back = np.arange(12) >= 6
                level = evolve(level, bandwidth=50e9, latency=3e-6)
                bandwidths, latencies = np.where(back, 50e9, 100e9), np.where(back, 3e-6, 1e-6)
                return evolve(fabric, bandwidths=bandwidths, latencies=latencies, levels=(level,))
            case "void":
                return None  # type: ignore[return-value]  # that is the fault
            case "unfinished":
                raise NotImplementedError("later")
        faulty = {
            "two halves": _only(fabric, (fabric.sources < 3) == (fabric.destinations < 3)),
            "no way out": _only(fabric, fabric.sources != 0),  # of NPU 0
            "random": evolve(fabric, latencies=np.tile(np.random.random(6), 2)),
            "no coordinates": evolve(fabric, coordinates=None),
            "clockwise": fabric.with_defaults(router=Wrong("clockwise")),
        }
        places = PLACES.get(self.fault, np.arange(6))[:, None]
        right = evolve(fabric, levels=(evolve(level, **LEVELS.get(self.fault, {})),), coordinates=places)
        return faulty.get(self.fault, right)


# What a level of the ring of 6 says wrongly, and where NPUs are not.
LEVELS: dict[str, dict[str, Any]] = {
    "boastful": {"bandwidth": 300e9},
    "unshared": {"bandwidth": 200e9},
    "modest": {"bandwidth": 50e9},
    "near": {"latency": 0.5e-6},
    "far": {"latency": 2e-6},
    "line": {"kind": "line"},
    "switch": {"kind": "switch", "latency": 3e-6},
}
PLACES = {"shuffled": np.array([0, 3, 1, 5, 2, 4]), "line": np.array([0, 5, 1, 4, 2, 3])}


def _only(fabric: Fabric, kept: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Fabric:
    columns = ("sources", "destinations", "bandwidths", "latencies", "energies")
    return evolve(fabric, **{name: getattr(fabric, name)[kept] for name in columns})


@frozen
class Nothing(Loop):
    def build(self) -> Fabric:
        return Fabric("nothing", [NodeKind.SWITCH], [], [], 1.0, 0.0, 0.0)


def _longer(value: list[int]) -> list[int]:
    return [*value, 1]


@frozen(eq=False)
class Undescribed(Loop):
    """Fields that are no configuration."""

    name: ClassVar[str] = "Un described"
    silent: int = 3
    listed: list[int] = field(factory=list, converter=_longer, metadata={"help": "grows"})


PROMISES, FAST = "levels_promise_no_more_than_the_links", "levels_are_as_fast_as_they_say"


TOPOLOGIES = [
    (Loop("asymmetric"), "capacity_is_symmetric", "npu0 sends 1e+11 B/s to npu1 and gets 5e+10 B/s back; where"),
    (Loop("asymmetric"), "latency_is_symmetric", "from npu0 to npu1 a route takes 1e-06 s, back it takes 3e-06 s"),
    (Loop("two halves"), "is_connected", "there is no path from npu0 to npu3 (nor for 2 other nodes); links are "),
    (Loop("two halves"), "routes_exist", "raises UnsupportedError: fabric 'ring of 6' has no path from npu0 to n"),
    (Loop("no way out"), "is_connected", "there is no path from npu0 to npu1 (nor for 4 other nodes)"),
    (Loop("random"), "build_is_pure", "at 0; build() may depend on the fields alone: no random numbers without a"),
    (Loop("void"), "is_connected", "Loop.build() of 'loop' returned None; expected a fredfw.Fabric"),
    (Loop("unfinished"), "is_connected", "Loop.build() of 'loop' fails: NotImplementedError: later (line "),
    (Loop("unfinished"), "is_connected", f"module {__name__!r} ({__file__})"),
    (Loop("no coordinates"), "levels_are_a_full_product", "levels without coordinates, of which algorithms see n"),
    (Loop("boastful"), PROMISES, "level 0 promises each member 3e+11 B/s, but the links of npu0 together send 2e+"),
    (Loop("unshared"), PROMISES, ""),
    (Loop("unshared"), FAST, "level 0 promises each member 2e+11 B/s; with all NPUs sending"),
    (Loop("modest"), FAST, "vious one at once, from npu0 to npu1 the rate is 1e+11 B/s, and nowhere less"),
    (Loop("near"), FAST, "level 0 says that its latency is 5e-07 s; from npu0 to npu1 a route takes 1e-06 s, and "),
    (Loop("far"), FAST, "level 0 says that its latency is 2e-06 s; from npu0 to npu1 a route takes 1e-06 s, and n"),
    (Loop("shuffled"), FAST, "level 0 promises each member 1e+11 B/s; with all NPUs sending to the next and the p"),
    (Loop("line"), FAST, "level 0 promises each member 1e+11 B/s; with all NPUs sending to the next and the previ"),
    # From each to the third after it: three flows meet on every link.
    (Loop("switch"), FAST, "level 0 promises each member 1e+11 B/s; with all NPUs sending 3 on at once, from npu0"),
    (Loop("clockwise"), FAST, "at once, from npu0 to npu1 the rate is 1.66667e+10 B/s, and nowhere less"),
    (Nothing(), "is_connected", "there is no NPU; give nodes that compute the kind NodeKind.NPU"),
    (Nothing(), "is_documented", "Nothing has no docstring; its first line is what lists and helps show"),
    (Undescribed(), "name_is_valid", "Undescribed.name is 'Un described'; give the class a variable name"),
    (Undescribed(), "is_documented", "the fields silent do not say what they mean; declare them with help="),
    (Undescribed(), "configuration_round_trips", "converters must accept what they return"),
]
REGISTERED: list[tuple[dict[str, Any], str]] = [
    ({"fredfw_topology": lambda: [Loop]}, "which is not a hook; did you mean 'fredfw_topologies'?"),
    ({"fredfw_topologies": lambda: [Nothing]}, "no entry point names Loop, and no hook of the plugin returns"),
    ({"fredfw_topologies": lambda: [Loop]}, ""),
]


# Routers, on a ring of 6 and a star of 8.


# Halves of a flow on a mesh of 4 x 4. No node sees more than the whole flow; the second half goes over
HALVES = {
    "half loops": [(0, 1), (0, 4), (4, 8), (8, 4), (4, 5), (5, 1)],  # NPU 4 twice
    "halves meet": [(0, 1), (1, 5), (5, 9), (0, 4), (4, 5), (5, 1), (1, 2), (2, 6), (6, 10), (10, 9)],  # 5 to 1, once
}


@frozen
class Wrong(Router):
    """A shortest-path router with one fault."""

    name: ClassVar[str] = "wrong"
    fault: str = units.option("none", help="which")

    def route(self, fabric: Fabric, sources: IntArray, destinations: IntArray) -> Routes:
        routes = ShortestPathRouter().route(fabric, sources, destinations)
        ways = np.split(routes.links, routes.offsets[1:-1])
        match self.fault:
            case "clockwise":  # always the same way round the ring of 6
                hops = (destinations - sources) % 6
                ways = [(one + np.arange(count)) % 6 for one, count in zip(sources, hops, strict=True)]
            case "gap":
                ways = [one[:-1] if len(one) > 1 else one for one in ways]
            case "detour":
                circle = fabric.links_between(np.array([0, 1]), np.array([1, 0]))
                ways = [np.concatenate([one, circle]) if len(one) else one for one in ways]
            case "half loops" | "halves meet":
                first, last = HALVES[self.fault][0][0], HALVES[self.fault][-1][1]
                split = fabric.links_between(*np.array(HALVES[self.fault]).T)
                chosen = (sources == first) & (destinations == last)
                ways = [split if here else way for here, way in zip(chosen, ways, strict=True)]
                shares = [np.full(len(one), 0.5 if one is split else 1.0) for one in ways]
                return Routes.of(ways, routes.latencies, shares)
            case "self":
                ways = [one if len(one) else np.zeros(1, dtype=np.intp) for one in ways]
            case "free":
                return evolve(routes, latencies=routes.latencies / 2)
            case "batch":
                # In a batch, every other flow goes the long way round.
                odd = len(sources) > 1
                ways = [_around(fabric, one) if odd and at % 2 else one for at, one in enumerate(ways)]
            case "moody":
                ways = [_around(fabric, one) if np.random.random() < 0.5 else one for one in ways]
            case "greedy":
                sources[:] = 0
            case "half":
                return evolve(routes, coefficients=np.full(len(routes.links), 0.5))
            case "few":
                return routes.select(np.arange(len(routes) - 1))
        return fabric.paths(np.cumsum([0, *map(len, ways)]), np.concatenate(ways))

    def path(self, fabric: Fabric, source: int, destination: int) -> Routes:
        one = super().path(fabric, source, destination)
        return fabric.path(_around(fabric, one.links)) if self.fault == "single" else one

    def tree(self, fabric: Fabric, sources: IntArray, destinations: IntArray, operation: Operation) -> Routes:
        return ShortestPathRouter().tree(fabric, sources, destinations, operation)


def _around(fabric: Fabric, links: IntArray) -> IntArray:
    """Return the other way round the ring of 6."""
    if not len(links):
        return links
    start, end = int(fabric.sources[links[0]]), int(fabric.destinations[links[-1]])
    step = 1 if links[0] >= 6 else -1
    node = (start + step * np.arange((end - start) * step % 6)) % 6
    return fabric.links_between(node, (node + step) % 6)


FABRICS = {
    "ring": grid(6, closed=True),
    "star": star(4),
    "mesh": grid(4, 4),
    "unable": evolve(star(4), copies=False, reduces=False),
    "offering nothing": evolve(star(4), offers=Capabilities()),
}


@frozen
class WrongTrees(ShortestPathRouter):
    """The trees of a star of 4 that combines and copies, with one fault or none."""

    name: ClassVar[str] = "wrong-trees"
    fault: str = units.option("none", help="which")

    def tree(self, fabric: Fabric, sources: IntArray, destinations: IntArray, operation: Operation) -> Routes:
        if self.fault == "refused":
            raise fredfw.errors.UnsupportedError("no trees here")
        tree = super().tree(FABRICS["star"], sources, destinations, operation)
        wrong = {
            "leaf": tree.links[:-1],
            "twig": np.append(tree.links, np.setdiff1d(2 * np.arange(4) + 1, tree.links)[:1]),
            "twice": np.append(tree.links, tree.links[:1]),
        }
        return Routes.of([wrong.get(self.fault, tree.links)], tree.latencies / (2 if self.fault == "free" else 1))


GOES_ON, LEAVES = "routes_lead_from_source_to_destination", "trees_reach_exactly_their_leaves"


ROUTERS = [
    (Wrong("gap"), "ring", GOES_ON, "the route from npu0 to npu2 is npu0->npu1: 1 of the flow enters npu1 and 0 "),
    (Wrong("half"), "ring", GOES_ON, "0 of the flow enters npu0 and 0.5 leaves it, the source, which sends 1"),
    (Wrong("few"), "ring", "routes_exist", "42 pairs were asked for, 41 routes came back; one for each pair"),
    (Wrong("detour"), "ring", "routes_have_no_loops", "is npu0->npu1, npu0->npu1, npu1->npu0, which goes round"),
    (Wrong("halves meet"), "mesh", "routes_have_no_loops", ""),
    (Wrong("half loops"), "mesh", "routes_have_no_loops", "the route from npu0 to npu1 is "),
    (Wrong("self"), "ring", "routes_to_oneself_are_empty", "from npu0 to npu0 has npu0->npu1 and takes 1e-06 s"),
    (Wrong("free"), "ring", "routes_take_as_long_as_their_links", "takes 5e-07 s, its links (npu0->npu1) take 1e"),
    (Wrong("batch"), "ring", "routes_do_not_depend_on_the_batch", "is npu0->npu1; beside 41 others it is npu0->n"),
    (Wrong("single"), "ring", "routes_of_one_pair_are_the_same", "and takes 5e-06 s, route() is npu0->npu1 and t"),
    (Wrong("moody"), "ring", "routes_are_deterministic", "asked twice, the route from npu"),
    (Wrong("greedy"), "ring", "routes_are_deterministic", "route() changes the arrays it is given; copy what "),
    (WrongTrees("leaf"), "star", LEAVES, "nothing gets from npu0 to npu3; a tree leads from each source"),
    (WrongTrees("twig"), "star", LEAVES, "switch0->npu3, switch0->npu0: switch0->npu0 is one too many; a tree lea"),
    (WrongTrees("twice"), "star", LEAVES, "switch0->npu3, npu0->switch0: npu0->switch0 is crossed twice; a tree "),
    (WrongTrees("free"), "star", "trees_take_as_long_as_their_deepest_branch", "to npu1, npu2, npu3 takes 1e-06"),
    (WrongTrees("refused"), "star", "trees_exist_where_offered", "the fabric offers Capabilities(reduces=True, "),
    # A fabric that offers nothing need not have trees, but those that it has must be right.
    (WrongTrees("refused"), "offering nothing", "trees_exist_where_offered", ""),
    (WrongTrees(), "unable", "trees_branch_only_where_they_can", "but switch0 cannot copy streams; say so in the "),
]


EVER: list[FlowSet] = []
ALWAYS: dict[str, Decision] = {
    "early": Start(setup=-1e-6),
    "apart": Decompose("streams are not carried"),
    "mute": Refuse(" "),
    "number": Refuse(42),  # type: ignore[arg-type]  # wrong on purpose
    "maybe": Start(setup_once="maybe"),  # type: ignore[arg-type]  # as above
}


@frozen
class Gated(Topology):
    """A star on which two flow sets run at a time, streams one by one; with one fault or none."""

    name: ClassVar[str] = "gated"
    fault: str = units.option("none", help="which")

    def build(self) -> Fabric:
        return star(5).with_defaults(admission=Admitting(partial(Gate, self.fault)))


class Gate(Admission):
    """Two at a time."""

    def __init__(self, fault: str) -> None:
        self._fault = fault
        self._running = 0
        self._seen = 0
        self._waits = 0

    def admit(self, flows: FlowSet, active: Sequence[FlowSet]) -> Decision:
        self._seen += 1
        EVER.append(flows)
        count = len(flows.volumes)
        wrong = {
            **ALWAYS,
            "generous": Start(caps=np.full(count, 1e15)),
            "shut": Start(caps=np.zeros(count)),
            "nobody": Start() if active else Wait(),
            "moody": Start(setup=float(np.random.random())),
            "remembers": Start(setup=1e-9 * len(EVER)),
        }
        if self._fault in wrong:
            return wrong[self._fault]
        match self._fault:
            case "loses" if count > 2:
                return Split((np.arange(1), np.arange(2, count)))
            case "tires" if self._seen > 9 and count > 1:
                return Split((np.arange(1), np.arange(1, count)))
            case "spoils":
                flows.volumes[:] = 1.0
            case "none" | "same" if count > 8:
                return Split((np.arange(8), np.arange(8, count)))
        if self._running >= 2:
            self._waits += 1
            return Wait("two run already")
        self._running += 1
        return Start(setup=1e-6)

    def release(self, flows: FlowSet) -> None:
        if self._fault != "leaks":
            self._running -= 1

    def compatible(self, together: Sequence[FlowSet]) -> bool:
        return self._fault == "same"

    def figures(self) -> Mapping[str, float]:
        return {"" if self._fault == "nameless" else "waits": np.nan if self._fault == "nan" else self._waits}

    def notes(self) -> tuple[str, ...]:
        return ("",) if self._fault == "says nothing" else ()


ADMISSIONS = [
    ("early", "decisions_are_well_formed", "Gate.admit() returned Start with a setup of -1e-06"),
    ("loses", "decisions_are_well_formed", "into parts that do not hold each of its "),
    ("mute", "decisions_are_well_formed", "Refuse has no reason; say why, in words"),
    ("number", "decisions_are_well_formed", "the reason is 42; a text"),
    ("maybe", "decisions_are_well_formed", "setup_once is 'maybe'; True or False"),
    ("generous", "caps_keep_to_those_of_the_flows", " B/s and gets one of 1e+15 B/s; return the smaller of"),
    ("same", "compatible_flows_start_at_once", "although compatible() says that they start "),
    ("apart", "only_streams_are_decomposed", "on star of 5 are decomposed, but they are unicasts; refuse, spl"),
    ("nobody", "waits_end", "wait for ever: nothing runs any more that could be released; free in release() all"),
    ("leaks", "waits_end", "wait for ever: nothing runs any more that could be released; free in release() all"),
    ("tires", "release_undoes_admit", "get a start, and a split into [[0], [1"),
    ("shut", "everything_arrives", "cannot go on: a cap of 0, or a wait without end"),
    ("nan", "figures_and_notes_are_well_formed", "Gate.figures() returned {'waits': nan}; expected finite numbers"),
    ("nameless", "figures_and_notes_are_well_formed", "names say what the figure is, and its unit"),
    ("says nothing", "figures_and_notes_are_well_formed", "notes() has an empty text in it"),
    ("moody", "is_deterministic", "get a start with a set-up of 0."),
    ("remembers", "is_deterministic", "a simulation must know nothing of those before it"),
    ("spoils", "is_deterministic", "admit() changes the flows it is given; copy what has to change"),
]


@pytest.mark.parametrize(
    ("case", "check", "expected"),
    [
        *((TopologyCase(subject=one), *said) for one, *said in TOPOLOGIES),
        *((TopologyCase(subject=Loop(), plugin=plugin(**one)), "is_registered", said) for one, said in REGISTERED),
        *((RouterCase(subject=one, fabric=FABRICS[on]), *said) for one, on, *said in ROUTERS),
        *((AdmissionCase(subject=Gated(fault)), *said) for fault, *said in ADMISSIONS),
    ],
    ids=str,
)
def test_wrong_ones_are_found(case: Case[Any], check: str, expected: str) -> None:
    message = found(case, check)
    assert expected in message
    assert bool(expected) == bool(message)
