from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest
from attrs import frozen
from hypothesis import given, strategies as st

from fredfw import Fabric, NodeKind, Operation, Routes
from fredfw_topology_fred import Fred, FredSwitch, RoutingConflict, SwitchFlow
from fredfw_topology_fred.circuits import Circuits
from fredfw_topology_fred.feasibility import Switching
from fredfw_topology_fred.strategies import phases, strategies

Cable = tuple[int, int]
"""A node and which of its lanes to its parent; an NPU and a controller have one, a switch one per NPU below it."""


def circuits(fabric: Fabric) -> Circuits:
    return Switching.of(fabric).circuits


def wafer(arity: tuple[int, ...] = (4, 5), controllers: int = 0, m: int = 3) -> Fabric:
    bandwidths: Any = [1e9] * len(arity)
    return Fred(arity=arity, bandwidths=bandwidths, io_controllers=controllers, middle_switches=m).build()


@frozen
class Wiring:
    """The cables of a tree of switches, read off its links; written down apart from ``PortMap``.

    Args:
        at: The cable on each port of each switch: those of the children, the switch's own, those of controllers.
    """

    at: dict[int, list[Cable]]

    @classmethod
    def of(cls, fabric: Fabric) -> Wiring:
        neighbours: dict[int, list[int]] = {node: [] for node in range(len(fabric.kinds))}
        for one, other in zip(fabric.sources.tolist(), fabric.destinations.tolist(), strict=True):
            neighbours[one].append(other)
        switches = np.flatnonzero(fabric.kinds == NodeKind.SWITCH).tolist()
        lanes = dict.fromkeys(fabric.npus.tolist(), 1)
        at = {}
        for switch in switches:
            tree = [node for node in neighbours[switch] if fabric.kinds[node] != NodeKind.CONTROLLER]
            children = sorted(node for node in tree if node < switch)
            down = [(child, lane) for child in children for lane in range(lanes[child])]
            lanes[switch] = len(down)
            up = [(switch, lane) for lane in range(len(down))] if len(tree) > len(children) else []
            gates = sorted(set(neighbours[switch]) - set(tree))
            at[switch] = [*down, *up, *((gate, 0) for gate in gates)]
        return cls(at)


@frozen
class Stream:
    """Who contributes to what, and who gets the result."""

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
        (flows,) = circuits(fabric).streams(self.routes(fabric))
        return dict(flows)

    @property
    def delivered(self) -> dict[int, Counter[int]]:
        """What must arrive where: every contribution once; the source of a multicast is not sent its own data."""
        receivers = set(self.destinations) - (set(self.sources) if len(self.sources) == 1 else set())
        return {end: Counter(self.sources) for end in receivers}


def executed(fabric: Fabric, streams: Iterable[Stream]) -> dict[int, Counter[int]]:
    """Route ``streams`` on every switch, send the number of each NPU into the tree, and return what comes out.

    Up from the leaves and then down from the root, by what the microswitches are set to; nothing else is known here of
    what the streams are.

    Raises:
        RoutingConflict: A switch cannot carry them together.
    """
    wiring = Wiring.of(fabric)
    asked: dict[int, list[SwitchFlow]] = {switch: [] for switch in wiring.at}
    for stream in streams:
        for switch, flows in stream.flows(fabric).items():
            asked[switch] += flows
    m = circuits(fabric).m
    configured = {switch: FredSwitch(m, len(wiring.at[switch])).route(flows) for switch, flows in asked.items()}
    rising: dict[Cable, Any] = {
        (end, 0): Counter([end]) for end in [*fabric.npus.tolist(), *fabric.controllers.tolist()]
    }
    falling: dict[Cable, Any] = {}
    for upwards, switches in ((True, sorted(asked)), (False, sorted(asked, reverse=True))):
        for switch in switches:
            cables = wiring.at[switch]
            inputs = [(falling if cable[0] == switch else rising).get(cable) for cable in cables]
            for cable, value in zip(cables, configured[switch].evaluate(inputs), strict=True):
                if cable[0] != switch:
                    falling[cable] = value
                elif upwards:
                    rising[cable] = value
                else:  # what comes down changes nothing of what goes up
                    assert rising[cable] == value
    ends = {*fabric.npus.tolist(), *fabric.controllers.tolist()}
    return {node: value for (node, _), value in falling.items() if node in ends and value is not None}


def random_streams(npus: int, random: np.random.Generator) -> Iterator[Stream]:
    """Yield streams of all kinds that have no NPU in common."""
    order, start = random.permutation(npus).tolist(), 0
    while start < npus:
        group = order[start : start + int(random.integers(1, 7))]
        start += len(group)
        some = group[: int(random.integers(1, len(group) + 1))]
        both = [(group, group), (some, group), (group, some), (group[:1], group), (group, group[-1:])]
        apart = [(some, rest)] if (rest := group[len(some) :]) else []
        sources, destinations = [*both, *apart][int(random.integers(len(both) + len(apart)))]
        if set(sources) | set(destinations) != set(sources) & set(destinations) or len(sources) > 1:
            yield Stream(tuple(sources), tuple(destinations))


TREES = st.sampled_from([(4, 5), (6,), (7,), (3, 3), (1, 6), (5, 1), (2, 3, 2), (3, 2, 3), (2, 2, 2, 2)])
SEEDS = st.integers(0, 2**32)


# --- numbers of ports


@pytest.mark.parametrize(
    ("arity", "controllers", "expected"),
    [
        # FRED (ISCA 2025): an L1 switch has 4 ports to NPUs, 4 to L2 and 4 or 3 to controllers; L2 has 5 x 4.
        ((4, 5), 18, [12, 12, 12, 11, 11, 20]),
        ((4, 5), 0, [8, 8, 8, 8, 8, 20]),
        ((6,), 0, [6]),
        ((6,), 5, [11]),
        # Twelve L1 switches of 2 + 2 ports with 2 or 1 controllers, four L2 switches of 6 + 6, one L3 switch of 24.
        ((2, 3, 4), 13, [6, *[5] * 11, *[12] * 4, 24]),
        ((1, 1), 0, [2, 1]),
    ],
)
def test_a_switch_has_ports_down_up_and_for_its_controllers(
    arity: tuple[int, ...], controllers: int, expected: list[int]
) -> None:
    fabric = wafer(arity, controllers)
    switches = np.flatnonzero(fabric.kinds == NodeKind.SWITCH)
    ports = circuits(fabric).ports.ports
    assert [ports[switch] for switch in switches] == expected
    assert sum(ports) == sum(expected)  # other nodes have none
    assert {switch: len(cables) for switch, cables in Wiring.of(fabric).at.items()} == dict(
        zip(switches.tolist(), expected, strict=True)
    )


# --- flows of one stream, by hand
#
# NPU 4k + j is below L1.k (node 20 + k) at port j; port 4 + j of L1.k is joined to port 4k + j of L2 (node 25); ports 8
# and on are controllers (nodes 26 and on), the first four those of L1.0.


def flow(inputs: list[int], outputs: list[int]) -> SwitchFlow:
    return SwitchFlow(inputs, outputs)


@pytest.mark.parametrize(
    ("sources", "destinations", "expected"),
    [
        # A unicast below one switch, and one across.
        ([0], [1], {20: [flow([0], [1])]}),
        ([2], [19], {20: [flow([2], [6])], 25: [flow([2], [19])], 24: [flow([7], [3])]}),
        # An all-reduce below one switch turns there.
        ([5, 6], [5, 6], {21: [flow([1, 2], [1, 2])]}),
        # Across switches: reduce locally towards the lane of the first member, all-reduce above, multicast down.
        (
            [1, 3, 6, 7, 10],
            [1, 3, 6, 7, 10],
            {
                20: [flow([1, 3], [5]), flow([5], [1, 3])],
                21: [flow([2, 3], [6]), flow([6], [2, 3])],
                22: [flow([2], [6]), flow([6], [2])],
                25: [flow([1, 6, 10], [1, 6, 10])],
            },
        ),
        # A multicast of an NPU passes its own switch once, which copies it.
        ([1], [1, 2, 8, 9], {20: [flow([1], [2, 5])], 25: [flow([1], [8])], 22: [flow([4], [0, 1])]}),
        # A reduction to one of its own members, whose contribution turns at its switch.
        ([0, 4, 5], [4], {20: [flow([0], [4])], 25: [flow([0], [4])], 21: [flow([0, 1, 4], [0])]}),
        # Some reduce, others get it: up on one side, down on the other, both where they meet.
        (
            [0, 1, 4],
            [5, 8],
            {
                20: [flow([0, 1], [4])],
                21: [flow([0], [4]), flow([5], [1])],
                22: [flow([4], [0])],
                25: [flow([0, 4], [5, 8])],
            },
        ),
        # Streams of controllers: number 0 (node 26, port 8) goes up in lane 0, number 2 (node 28, port 10) in lane 2.
        ([26], [0, 5], {20: [flow([8], [0, 4])], 25: [flow([0], [5])], 21: [flow([5], [1])]}),
        ([0, 5], [28], {20: [flow([0, 6], [10])], 25: [flow([5], [2])], 21: [flow([1], [5])]}),
    ],
)
def test_flows_of_a_stream(sources: list[int], destinations: list[int], expected: dict[int, list[SwitchFlow]]) -> None:
    fabric = Fred().build()
    stream = Stream(tuple(sources), tuple(destinations))
    assert stream.flows(fabric) == {switch: tuple(flows) for switch, flows in expected.items()}
    assert executed(fabric, [stream]) == stream.delivered


def test_an_all_reduce_turns_at_the_lowest_switch_that_all_share() -> None:
    # Of a tree 2 x 2 x 2, NPUs 0, 2 and 3 meet at L2.0 (node 12): L3 (node 14) is not passed.
    assert Stream((0, 2, 3), (0, 2, 3)).flows(wafer((2, 2, 2))) == {
        8: (flow([0], [2]), flow([2], [0])),
        9: (flow([0, 1], [2]), flow([2], [0, 1])),
        12: (flow([0, 2], [0, 2]),),
    }


def test_every_route_of_several_has_flows_of_its_own() -> None:
    fabric = wafer((4, 5))
    flows = circuits(fabric).streams(fabric.defaults.router.route(fabric, np.array([0, 3, 7]), np.array([1, 3, 6])))
    # Nothing is sent from an NPU to itself.
    assert [dict(one) for one in flows] == [{20: (flow([0], [1]),)}, {}, {21: (flow([3], [2]),)}]


# --- proof by execution, over all switches


@given(TREES, st.integers(0, 6), SEEDS)
def test_what_is_routed_delivers(arity: tuple[int, ...], controllers: int, seed: int) -> None:
    fabric, random = wafer(arity, controllers), np.random.default_rng(seed)
    ends = [*fabric.npus.tolist(), *fabric.controllers.tolist()]
    mixed = Stream(*(tuple(random.permutation(ends)[: random.integers(1, len(ends) + 1)].tolist()) for _ in range(2)))
    assert executed(fabric, [mixed]) == mixed.delivered
    kept: list[Stream] = []
    for stream in random_streams(len(fabric.npus), random):
        try:
            executed(fabric, [*kept, stream])
        except RoutingConflict:
            continue
        kept.append(stream)
    expected = {end: value for stream in kept for end, value in stream.delivered.items()}
    assert executed(fabric, kept) == expected
    flows = [flows for stream in kept for flows in circuits(fabric).streams(stream.routes(fabric))]
    assert circuits(fabric).conflict_among(flows) is None


@pytest.mark.slow
def test_every_phase_of_every_strategy_of_the_wafer_delivers() -> None:
    # On the paper's wafer, with FRED's placement: rank r on NPU r. That all of them route is the paper's claim.
    fabric = Fred(middle_switches=3).build()
    for mesh in strategies(20):
        for _, asked in phases(mesh):
            streams = [Stream(one.sources, one.destinations) for one in asked]
            expected = {end: value for stream in streams for end, value in stream.delivered.items()}
            assert executed(fabric, streams) == expected
