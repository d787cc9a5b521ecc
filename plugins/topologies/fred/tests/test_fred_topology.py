from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import product
from typing import Any

import numpy as np
import pytest
from attrs import evolve, frozen
from fabrics import streams
from hypothesis import given, strategies as st

import fredfw_topology_fred
from fredfw import Capabilities, CircuitPreempt, DeviceMesh, Fabric, Level, NodeKind, Operation, Routes
from fredfw.errors import InputError, UnsupportedError
from fredfw.testing import AdmissionTests, PlacementTests, RouterTests, TopologyTests
from fredfw_topology_fred import Fred, FredSwitch, RoutablePlacement, RoutingConflict, SwitchFlow, UpDownRouter
from fredfw_topology_fred.circuits import Circuits


def between(fabric: Fabric, source: str, destination: str) -> Any:
    """Links from nodes whose name starts with ``source`` to nodes whose name starts with ``destination``."""
    names = [fabric.link_name(link).split("->") for link in range(len(fabric.sources))]
    return np.array([one.startswith(source) and other.startswith(destination) for one, other in names])


@pytest.mark.parametrize(
    ("variant", "uplink", "share", "bisection", "in_network"),
    # FRED (ISCA 2025), the table of configurations: L1-L2 per L1 switch and per NPU, bisection, in-network collectives.
    [
        ("A", 1.5e12, 375e9, 3.75e12, False),
        ("B", 1.5e12, 375e9, 3.75e12, True),
        ("C", 12e12, 3e12, 30e12, False),
        ("D", 12e12, 3e12, 30e12, True),
    ],
)
def test_variants_are_those_of_the_paper(
    variant: str, uplink: float, share: float, bisection: float, in_network: bool
) -> None:
    fabric = Fred(variant=variant).build()
    assert fabric.name == f"FRED-{variant}"
    assert (len(fabric.npus), len(fabric.controllers), len(fabric.kinds)) == (20, 18, 20 + 5 + 1 + 18)
    for below, above, bandwidth, count in (("npu", "L1", 3e12, 20), ("L1", "L2", uplink, 5), ("con", "L1", 128e9, 18)):
        for links in (between(fabric, below, above), between(fabric, above, below)):
            assert fabric.bandwidths[links].tolist() == [bandwidth] * count
            assert fabric.latencies[links] == pytest.approx(20e-9)
            assert fabric.energies[links] == pytest.approx(0.0 if below == "con" else 0.063e-12 * 8)
    assert fabric.bandwidths[between(fabric, "L1", "L2")].sum() / 2 == bisection
    assert fabric.levels == (Level(4, "switch", 3e12, 40e-9), Level(5, "switch", share, 80e-9))
    assert fabric.offers == Capabilities(reduces=in_network, multicasts=in_network)
    for able in (True, False):
        assert Fred(variant=variant, in_network=able).build().offers == Capabilities(reduces=able, multicasts=able)
    assert (fabric.copies == (fabric.kinds == NodeKind.SWITCH)).all()
    assert (fabric.reduces == (fabric.kinds == NodeKind.SWITCH)).all()
    assert fabric.defaults.sharing == CircuitPreempt()
    nodes = {0: "npu0", 19: "npu19", 20: "L1.0", 24: "L1.4", 25: "L2.0", 26: "controller0", 43: "controller17"}
    assert {node: fabric.node_name(node) for node in nodes} == nodes


def test_deeper_trees() -> None:
    fabric = Fred(arity=(2, 3, 4), bandwidths=(100e9, 150e9, 1.2e12), io_controllers=13).build()
    assert np.bincount(fabric.kinds).tolist() == [24, 12 + 4 + 1, 13]
    assert fabric.node_name(24 + 12 + 4) == "L3.0"
    # Per NPU: 100; 150 / 2; 1200 / 6 but no more than what passes the level below.
    assert [level.bandwidth for level in fabric.levels] == [100e9, 75e9, 75e9]
    assert [level.latency for level in fabric.levels] == pytest.approx([40e-9, 80e-9, 120e-9])
    assert fabric.coordinates is not None
    assert fabric.coordinates.tolist() == [[a, b, c] for c, b, a in product(range(4), range(3), range(2))]
    parents = dict(zip(fabric.sources[:40].tolist(), fabric.destinations[:40].tolist(), strict=True))
    above = [*(24 + npu // 2 for npu in range(24)), *(36 + switch // 3 for switch in range(12)), *[40] * 4]
    assert parents == dict(enumerate(above))
    doors = fabric.destinations[np.isin(fabric.sources, fabric.controllers)]
    assert sorted(doors) == [24, 24, *range(25, 36)]


@pytest.mark.parametrize("operation", [Operation.MULTICAST, Operation.REDUCE])
@pytest.mark.parametrize(("variant", "rate"), [("A", 0.78125), ("D", 1.0)])
def test_io_rate_of_the_variants(variant: str, rate: float, operation: Operation) -> None:
    fabric = Fred(variant=variant).build()
    load = streams(fabric, operation)
    # Into (out of) an L1 switch with 3 controllers: the streams of the 15 others, 1920 GB/s.
    inner = between(fabric, "L2", "L1") if operation is Operation.MULTICAST else between(fabric, "L1", "L2")
    assert load[inner].tolist() == [14, 14, 14, 15, 15]
    assert (fabric.bandwidths / np.maximum(load, 1)).min() / 128e9 == pytest.approx(rate)


@pytest.mark.parametrize(
    ("kinds", "pairs"),
    [
        # No switch; a cycle; a node that is not joined.
        ([0, 0], [(0, 1), (1, 0)]),
        ([0, 1, 1], [(0, 1), (1, 0), (1, 2), (2, 1), (0, 2), (2, 0)]),
        ([0, 1, 0], [(0, 1), (1, 0), (0, 1), (1, 0)]),
    ],
)
def test_the_router_refuses_what_is_no_tree(kinds: list[int], pairs: list[tuple[int, int]]) -> None:
    ends = np.array(pairs)
    fabric = Fabric("knot", kinds, ends[:, 0], ends[:, 1], 1.0, 0.0, 0.0)
    with pytest.raises(UnsupportedError, match="up-down router cannot route fabric 'knot'"):
        UpDownRouter().route(fabric, np.array([0]), np.array([1]))
    one_way = Fabric("one-way", [NodeKind.NPU, NodeKind.SWITCH], [1, 1], [0, 0], 1.0, 0.0, 0.0)
    with pytest.raises(InputError, match="no link from npu0 to switch0"):
        UpDownRouter().route(one_way, np.array([0]), np.array([1]))


def test_every_level_needs_a_bandwidth() -> None:
    with pytest.raises(InputError, match=r"^bandwidths: .*no bandwidths for the 3 switch levels.* \(accepted: "):
        Fred(arity=(2, 2, 2))
    with pytest.raises(InputError, match=r"^bandwidths: .*1 bandwidths for the 2 switch levels.* \(accepted: "):
        Fred(bandwidths=(3e12,))


DEEP = Fred(arity=(4, 2, 3), bandwidths=(3e12, 12e12, 48e12), io_controllers=0)
# A node and which of its lanes to its parent; an NPU and a controller have one, a switch one per NPU below it.
Cable = tuple[int, int]


def wafer(arity: tuple[int, ...] = (4, 5), controllers: int = 0) -> Fabric:
    return Fred(arity=arity, bandwidths=(1e9,) * len(arity), io_controllers=controllers).build()


def wiring(fabric: Fabric) -> dict[int, list[Cable]]:
    """The cable on each port of each switch: those of the children, the switch's own, those of controllers.

    Read off the links of a tree of switches, apart from ``PortMap``.
    """
    lanes = dict.fromkeys(fabric.npus.tolist(), 1)
    at = {}
    for switch in np.flatnonzero(fabric.kinds == NodeKind.SWITCH).tolist():
        neighbours = sorted(fabric.destinations[fabric.sources == switch].tolist())
        tree = [node for node in neighbours if fabric.kinds[node] != NodeKind.CONTROLLER]
        down = [(child, lane) for child in tree if child < switch for lane in range(lanes[child])]
        lanes[switch] = len(down)
        up = [(switch, lane) for lane in range(len(down)) if tree[-1] > switch]
        at[switch] = [*down, *up, *((gate, 0) for gate in neighbours[len(tree) :])]
    return at


@frozen
class Stream:
    sources: tuple[int, ...]
    destinations: tuple[int, ...]

    def routes(self, fabric: Fabric) -> Routes:
        ends = np.array(self.sources), np.array(self.destinations)
        if len(self.sources) > 1:
            operation = Operation.REDUCE if len(self.destinations) == 1 else Operation.ALL_REDUCE
            return fabric.defaults.router.tree(fabric, *ends, operation)
        if len(self.destinations) > 1:
            return fabric.defaults.router.tree(fabric, *ends, Operation.MULTICAST)
        return fabric.defaults.router.route(fabric, *ends)

    def flows(self, fabric: Fabric) -> dict[int, tuple[SwitchFlow, ...]]:
        (flows,) = Circuits.of(fabric).streams(self.routes(fabric))
        return dict(flows)

    @property
    def receivers(self) -> set[int]:
        """The source of a multicast is not sent its own data."""
        return set(self.destinations) - (set(self.sources) if len(self.sources) == 1 else set())


def delivered(streams: Iterable[Stream]) -> dict[int, Counter[int]]:
    """What must arrive where: every contribution once."""
    return {end: Counter(stream.sources) for stream in streams for end in stream.receivers}


def executed(fabric: Fabric, streams: Iterable[Stream]) -> dict[int, Counter[int]]:
    """Route ``streams`` on every switch, send the number of each NPU into the tree, and return what comes out.

    Up from the leaves, then down from the root, by what the microswitches are set to, or ``RoutingConflict`` is raised.
    """
    at = wiring(fabric)
    asked: dict[int, list[SwitchFlow]] = {switch: [] for switch in at}
    for stream in streams:
        for switch, flows in stream.flows(fabric).items():
            asked[switch] += flows
    m, ends = Circuits.of(fabric).m, [*fabric.npus.tolist(), *fabric.controllers.tolist()]
    configured = {switch: FredSwitch(m, len(at[switch])).route(flows) for switch, flows in asked.items()}
    rising: dict[Cable, Any] = {(end, 0): Counter([end]) for end in ends}
    falling: dict[Cable, Any] = {}
    for upwards, switches in ((True, sorted(asked)), (False, sorted(asked, reverse=True))):
        for switch in switches:
            cables = at[switch]
            inputs = [(falling if cable[0] == switch else rising).get(cable) for cable in cables]
            for cable, value in zip(cables, configured[switch].evaluate(inputs), strict=True):
                if cable[0] != switch:
                    falling[cable] = value
                elif upwards:
                    rising[cable] = value
                else:  # what comes down changes nothing of what goes up
                    assert rising[cable] == value
    return {node: value for (node, _), value in falling.items() if node in ends and value is not None}


def random_streams(npus: int, random: np.random.Generator) -> Iterator[Stream]:
    """From some of each group to some, of groups that share no NPU."""
    order = random.permutation(npus)
    while order.size:
        group, order = np.split(order, [random.integers(1, 7)])
        sides = [random.permutation(group)[: random.integers(1, len(group) + 1)] for _ in range(2)]
        sources, destinations = (tuple(side.tolist()) for side in sides) if random.integers(2) else [tuple(group)] * 2
        if len(sources) > 1 or sources != destinations:
            yield Stream(sources, destinations)


TREES = st.sampled_from([(4, 5), (6,), (7,), (3, 3), (1, 6), (5, 1), (2, 3, 2), (3, 2, 3), (2, 2, 2, 2)])
SEEDS = st.integers(0, 2**32)


@given(TREES, st.integers(0, 6))
def test_a_switch_has_ports_down_up_and_for_its_controllers(arity: tuple[int, ...], controllers: int) -> None:
    fabric = wafer(arity, controllers)
    found = wiring(fabric)
    assert list(Circuits.of(fabric).ports.ports) == [len(found.get(node, ())) for node in range(len(fabric.kinds))]
    # FRED (ISCA 2025): an L1 switch has 4 ports to NPUs, 4 to L2 and 4 or 3 to controllers; L2 has 5 x 4.
    assert [one for one in Circuits.of(Fred().build()).ports.ports if one] == [12, 12, 12, 11, 11, 20]


# NPU 4k + j is below L1.k (node 20 + k) at port j; port 4 + j of L1.k is joined to port 4k + j of L2 (node 25); ports 8
# and on are controllers (nodes 26 and on), the first four those of L1.0.


def flows_of(text: str) -> tuple[SwitchFlow, ...]:
    """Return flows such as ``1,3:5 5:1,3``, inputs and outputs."""
    ends = ([[int(port) for port in side.split(",")] for side in one.split(":")] for one in text.split())
    return tuple(SwitchFlow(inputs, outputs) for inputs, outputs in ends)


ACROSS = {20: "1,3:5 5:1,3", 21: "2,3:6 6:2,3", 22: "2:6 6:2", 25: "1,6,10:1,6,10"}


@pytest.mark.parametrize(
    ("sources", "destinations", "expected"),
    [
        # Across switches: reduce locally towards the lane of the first member, all-reduce above, multicast down.
        ((1, 3, 6, 7, 10), (1, 3, 6, 7, 10), ACROSS),
        # Some reduce, others get it: up on one side, down on the other, both where they meet.
        ((0, 1, 4), (5, 8), {20: "0,1:4", 21: "0:4 5:1", 22: "4:0", 25: "0,4:5,8"}),
        # Streams of controllers: number 0 (node 26, port 8) goes up in lane 0, number 2 (node 28, port 10) in lane 2.
        ((26,), (0, 5), {20: "8:0,4", 25: "0:5", 21: "5:1"}),
        ((0, 5), (28,), {20: "0,6:10", 25: "5:2", 21: "1:5"}),
    ],
)
def test_flows_of_a_stream(sources: tuple[int, ...], destinations: tuple[int, ...], expected: dict[int, str]) -> None:
    fabric, stream = Fred().build(), Stream(sources, destinations)
    assert stream.flows(fabric) == {switch: flows_of(text) for switch, text in expected.items()}
    assert executed(fabric, [stream]) == delivered([stream])


def test_every_route_of_several_has_flows_of_its_own() -> None:
    fabric = wafer((4, 5))
    flows = Circuits.of(fabric).streams(fabric.defaults.router.route(fabric, np.array([0, 3, 7]), np.array([1, 3, 6])))
    # Nothing is sent from an NPU to itself.
    assert [dict(one) for one in flows] == [{20: flows_of("0:1")}, {}, {21: flows_of("3:2")}]


@given(TREES, st.integers(0, 6), SEEDS)
def test_what_is_routed_delivers(arity: tuple[int, ...], controllers: int, seed: int) -> None:
    fabric, random = wafer(arity, controllers), np.random.default_rng(seed)
    ends = [*fabric.npus.tolist(), *fabric.controllers.tolist()]
    mixed = Stream(*(tuple(random.permutation(ends)[: random.integers(1, len(ends) + 1)].tolist()) for _ in range(2)))
    assert executed(fabric, [mixed]) == delivered([mixed])
    kept: list[Stream] = []
    for stream in random_streams(len(fabric.npus), random):
        with suppress(RoutingConflict):
            executed(fabric, [*kept, stream])
            kept.append(stream)
    assert executed(fabric, kept) == delivered(kept)
    flows = [flows for stream in kept for flows in Circuits.of(fabric).streams(stream.routes(fabric))]
    assert Circuits.of(fabric).conflict_among(flows) is None


class TestFred(TopologyTests):
    plugin = fredfw_topology_fred
    topologies = (*(Fred(variant=one) for one in "ABCD"), Fred(arity=(1,)), DEEP)


class TestCircuits(AdmissionTests):
    plugin = fredfw_topology_fred
    topologies = (Fred(variant="D"), Fred(variant="B", middle_switches=2, on_conflict="decompose"))


class TestUpDown(RouterTests):
    plugin = fredfw_topology_fred
    routers = (UpDownRouter(),)
    fabrics = (
        Fred().build(),
        DEEP.build(),
        evolve(DEEP.build(), copies=False, offers=Capabilities(reduces=True)),
        evolve(DEEP.build(), reduces=False, offers=Capabilities(multicasts=True)),
    )


class TestRoutable(PlacementTests):
    plugin = fredfw_topology_fred
    placements = (RoutablePlacement(), RoutablePlacement(seed=1))
    fabrics = (Fred().build(), Fred(arity=(3, 2), io_controllers=2).build())
    meshes = (
        DeviceMesh({"mp": 1, "pp": 1, "dp": 1}),
        DeviceMesh({"mp": 2, "pp": 2, "dp": 1}),
        DeviceMesh({"mp": 2, "pp": 1, "dp": 3}),
        DeviceMesh({"mp": 4, "pp": 1, "dp": 5}),
    )
