import pickle
from collections import Counter
from collections.abc import Sequence
from functools import cache, partial
from itertools import combinations, product
from math import ceil, log2
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, strategies as st

from fredfw.errors import InputError, SimulationError
from fredfw_topology_fred.switch import (
    FredSwitch,
    InvalidFlowError,
    RoutingConflict,
    SwitchConfiguration,
    SwitchFlow,
    routing,
)
from fredfw_topology_fred.switch.routing import Search


def all_reduce(*ports: int) -> SwitchFlow:
    return SwitchFlow(ports, ports)


def random_flows(ports: int, random: np.random.Generator) -> tuple[SwitchFlow, ...]:
    """Return flows that share no input and no output; every other time they are all-reduces."""
    labels = random.integers(random.integers(2), random.integers(1, ports), (2, ports), endpoint=True)  # 0: not used
    inputs, outputs = labels if random.integers(2) else labels[[0, 0]]
    return tuple(
        SwitchFlow(*(np.flatnonzero(side == label) for side in (inputs, outputs)))
        for label in range(1, ports + 1)
        if label in inputs and label in outputs
    )


@st.composite
def flow_sets(draw: st.DrawFn) -> tuple[int, tuple[SwitchFlow, ...]]:
    """Ports of a switch and flows; drawn one by one, ports would mostly be in one flow and hardly any set conflict."""
    ports = draw(st.integers(2, 17))
    return ports, random_flows(ports, np.random.default_rng(draw(st.integers(0, 2**32))))


def wanted(ports: int, flows: tuple[SwitchFlow, ...]) -> tuple[frozenset[int], ...]:
    inputs = {port: flow.inputs for flow in flows for port in flow.outputs}
    return tuple(inputs.get(port, frozenset()) for port in range(ports))


def assert_executes(configuration: SwitchConfiguration, flows: tuple[SwitchFlow, ...]) -> None:
    """Every output gets each contribution of its flow once and nothing else, and no line is shared."""
    assert set(configuration.flows) == set(flows)
    expected = [Counter(inputs) if inputs else None for inputs in wanted(configuration.ports, flows)]
    assert configuration.evaluate() == expected
    assert_middle_switches_fit(configuration)


def assert_middle_switches_fit(configuration: SwitchConfiguration) -> None:
    """They carry what enters and leaves them, and no more; one flow per line."""
    m, half = configuration.m, ceil(configuration.ports / 2)
    if half == 1:
        return
    assert len(configuration.middles) == m
    for number, middle in enumerate(configuration.middles):
        carriers = zip(configuration.flows, configuration.carriers, strict=True)
        inner = [flow.inside() for flow, carrier in carriers if carrier == number]
        for side in ("inputs", "outputs"):
            lines = [port for flow in inner for port in getattr(flow, side)]
            assert len(lines) == len(set(lines))
        if middle is None:
            assert not inner
        else:
            assert (middle.m, middle.ports, Counter(middle.flows)) == (m, half, Counter(inner))
            assert_middle_switches_fit(middle)


@cache
def realisable(m: int, targets: tuple[frozenset[int], ...]) -> bool:
    """Whether some settings of all microswitches of a FRED_m give each output the reduction of just those inputs.

    Tries every way in which the used inputs can be sent to middle switches, one by one, knowing nothing of flows. An
    output can then only be fed from the middle switch that all its inputs went to, as D microswitches do not reduce.
    """
    if len(targets) == 2:
        return True
    used = sorted(frozenset().union(*targets))
    return any(
        _sent(m, targets, dict(zip(used, choice, strict=True))) for choice in product(range(m), repeat=len(used))
    )


def _sent(m: int, targets: tuple[frozenset[int], ...], middle_of: dict[int, int]) -> bool:
    half = ceil(len(targets) / 2)
    lines = [[frozenset[int]()] * half for _ in range(m)]
    for port, middle in middle_of.items():
        lines[middle][port // 2] |= {port}
    inner = [[frozenset[int]()] * half for _ in range(m)]
    for output, target in enumerate(targets):
        if not target:
            continue
        through = {middle_of[port] for port in target}
        if len(through) > 1:
            return False
        middle = through.pop()
        taken = frozenset(at for at, line in enumerate(lines[middle]) if line & target)
        if frozenset().union(*(lines[middle][at] for at in taken)) != target:
            return False  # another's value is on one of its lines
        if inner[middle][output // 2] not in (frozenset(), taken):
            return False  # two values for one line
        inner[middle][output // 2] = taken
    return all(realisable(m, tuple(each)) for each in inner)


TRIANGLE = (all_reduce(0, 2), all_reduce(1, 4), all_reduce(3, 5))  # they meet at microswitches 0, 1 and 2


def test_a_conflict_inside_a_middle_switch_is_named_by_its_place() -> None:
    # Each even port is the only one in use of its microswitch, so nothing conflicts outside; inside, in whichever
    # middle switch, these are the triangle above.
    flows = (all_reduce(0, 4), all_reduce(2, 8), all_reduce(6, 10))
    for m in (2, 3):
        assert_executes(FredSwitch(m, 16).route(flows), flows)  # outside they are free to part
    held = (*flows, all_reduce(1, 3, 5, 7, 9, 11))  # meets all three, so they have to stay together if m = 2
    with pytest.raises(RoutingConflict, match=r"depth 1 in middle switch [01]$") as raised:
        FredSwitch(2, 16).route(held)
    assert set(raised.value.core) == set(held)
    assert (raised.value.depth, len(raised.value.place), raised.value.proven) == (1, 1, True)
    assert_executes(FredSwitch(3, 16).route(held), held)


def outcome(switch: FredSwitch, flows: tuple[SwitchFlow, ...]) -> RoutingConflict | None:
    try:
        configuration = switch.route(flows)
    except RoutingConflict as conflict:
        return conflict
    assert_executes(configuration, flows)
    return None


def routes(switch: FredSwitch, flows: tuple[SwitchFlow, ...]) -> bool:
    return outcome(switch, flows) is None


@given(flow_sets(), st.sampled_from([2, 3, 4]))
def test_what_is_routed_executes_and_what_is_not_has_a_minimal_core(
    case: tuple[int, tuple[SwitchFlow, ...]], m: int
) -> None:
    ports, flows = case
    switch = FredSwitch(m, ports)
    conflict = outcome(switch, flows)
    if conflict is not None:
        assert conflict.proven
        assert conflict.depth == len(conflict.place) < ceil(log2(ports))
        assert set(conflict.core) <= set(flows)
        assert outcome(switch, conflict.core) is not None
        for left_out in conflict.core:
            assert outcome(switch, tuple(flow for flow in conflict.core if flow != left_out)) is None


@pytest.mark.sampled
@pytest.mark.parametrize("ports", [4, 5, 6])
@pytest.mark.parametrize("m", [2, 3, 4])
def test_brute_force_over_microswitch_settings_agrees(m: int, ports: int) -> None:
    switch, random = FredSwitch(m, ports), np.random.default_rng(ports)
    sets = [random_flows(ports, random) for _ in range(400)]
    routable = [routes(switch, flows) for flows in sets]
    assert routable == [realisable(m, wanted(ports, flows)) for flows in sets]
    assert m > 2 or not all(routable)  # both answers have been put to the test


# A graph that needs m + 1 colours has at least m(m + 1)/2 edges, and each pair of ports that share a microswitch gives
# one edge at most: up to some size nothing conflicts, and at the next a complete graph does.


@pytest.mark.parametrize(
    ("m", "most"), [(2, 5), (3, 11), pytest.param(4, 19, marks=pytest.mark.slow)]
)  # floor(P/2) edges, the same on both sides
def test_all_reduces_route_on_switches_too_small_and_conflict_on_the_next(m: int, most: int) -> None:
    random = np.random.default_rng(m)
    for ports in [most - 1, most] * 200:
        flows = (all_reduce(*flow.inputs) for flow in random_flows(ports, random))
        assert routes(FredSwitch(m, ports), tuple(flows))
    members: dict[int, list[int]] = {flow: [] for flow in range(m + 1)}
    for microswitch, pair in enumerate(combinations(members, 2)):
        for side, flow in enumerate(pair):
            members[flow].append(2 * microswitch + side)
    complete = tuple(all_reduce(*ports) for ports in members.values())
    assert sum(len(flow.inputs) for flow in complete) == most + 1
    conflict = outcome(FredSwitch(m, most + 1), complete)
    assert conflict is not None
    assert set(conflict.core) == set(complete)
    assert routes(FredSwitch(m + 1, most + 1), complete)


@given(st.integers(2, 33).flatmap(lambda ports: st.permutations(range(ports))), st.data())
def test_random_unicast_permutations_and_parts_of_them_route(permutation: list[int], data: st.DataObject) -> None:
    ports = len(permutation)
    flows = tuple(SwitchFlow([port], [other]) for port, other in enumerate(permutation))
    kept = tuple(flow for flow in flows if data.draw(st.booleans()))
    for some in (flows, kept):
        assert_executes(FredSwitch(2, ports).route(some), some)


@pytest.mark.parametrize("ports", [2, 3, 8])
def test_an_idle_switch_lets_nothing_through(ports: int) -> None:
    idle = FredSwitch(3, ports).idle()
    assert_executes(idle, ())
    assert idle.evaluate(range(ports)) == [None] * ports


def test_values_are_whatever_can_be_added() -> None:
    flows = (SwitchFlow([0, 1, 4], [0, 6]), SwitchFlow([5, 6], [1, 2, 3]), SwitchFlow([3], [5]))
    configuration = FredSwitch(3, 7).route(flows)
    arrays = [np.array([1.0, 10.0]) * 2**port for port in range(7)]
    outputs = configuration.evaluate(arrays)
    for output, factor in zip(outputs, [19, 96, 96, 96, None, 8, 19], strict=True):
        np.testing.assert_array_equal(output, factor and np.array([1.0, 10.0]) * factor)
    assert configuration.evaluate([1, 2, 4, 8, 16, 32, 64]) == [19, 96, 96, 96, None, 8, 19]
    # An input without a value contributes nothing.
    assert configuration.evaluate([1, None, 4, None, 16, None, 64]) == [17, 64, 64, 64, None, None, 17]


def test_a_search_that_is_cut_short_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "Search", partial(Search, limit=1))
    assert_executes(FredSwitch(2, 8).route(TRIANGLE[:2]), TRIANGLE[:2])  # the greedy order does
    with pytest.raises(RoutingConflict, match="could not be routed") as raised:
        FredSwitch(2, 8).route(TRIANGLE)
    assert not raised.value.proven


@pytest.mark.parametrize(
    ("ends", "message"),
    [
        ([([0, 1], [0, 1]), ([3, 8], [3])], r"flow \{3,8\}->\{3\} uses input port 8, but the switch has 8 ports"),
        ([([0], [1, 9])], r"flow \{0\}->\{1,9\} uses output port 9"),
        ([([-1], [0])], r"flow \{-1\}->\{0\} uses input port -1"),
        ([([0], [1]), ([2], [1])], r"flows \{0\}->\{1\} and \{2\}->\{1\} both use output port 1"),
        ([([0, 5], [1]), ([5], [2])], r"flows \{0,5\}->\{1\} and \{5\}->\{2\} both use input port 5"),
        ([([], [1])], r"flow \{\}->\{1\} has no inputs"),
        ([([2], [])], r"flow \{2\}->\{\} has no outputs"),
        ([([0.5], [1])], r"\[0.5\] is not a set of ports"),
        ([(3, [1])], r"3 is not a set of ports"),
    ],
)
def test_flows_that_do_not_fit_are_refused(ends: list[tuple[Any, Any]], message: str) -> None:
    with pytest.raises(InvalidFlowError, match=message):
        FredSwitch(2, 8).route([SwitchFlow(*one) for one in ends])


def test_what_is_no_flow_and_switches_that_cannot_be_are_refused() -> None:
    not_a_flow: Any = ({0}, {1})
    with pytest.raises(InvalidFlowError, match="is not a flow"):
        FredSwitch(2, 8).route([not_a_flow])
    for m, ports, name in ((1, 8, "m"), (2, 1, "ports")):
        with pytest.raises(InputError, match=f"^{name}: "):
            FredSwitch(m, ports)


def test_flows_are_written_in_order_and_conflicts_and_configurations_pickled() -> None:
    flow = SwitchFlow(np.array([5, 3, 4, 3]), range(2))
    assert flow == SwitchFlow({3, 4, 5}, (0, 1))
    assert str(flow) == repr(flow) == "{3,4,5}->{0,1}"
    assert str(FredSwitch(3, 12)) == "FRED_3(12)"
    with pytest.raises(RoutingConflict) as raised:
        FredSwitch(2, 6).route(TRIANGLE)
    copy = pickle.loads(pickle.dumps(raised.value))
    assert (type(copy), vars(copy), str(copy)) == (RoutingConflict, vars(raised.value), str(raised.value))
    assert isinstance(copy, SimulationError)
    assert_executes(pickle.loads(pickle.dumps(FredSwitch(3, 6).route(TRIANGLE))), TRIANGLE)


VERTEX = st.integers(0, 6)


@given(
    edges=st.sets(st.frozensets(VERTEX, min_size=2, max_size=2)),
    clashes=st.lists(st.frozensets(VERTEX, min_size=2, max_size=4), max_size=4),
    colours=st.integers(2, 4),
)
# Where choices have to be taken back.
@example(edges=set(), clashes=[frozenset(one) for one in ({3, 5}, {0, 1, 3, 6}, {5, 6})], colours=2)
@example(edges=set(), clashes=[frozenset(one) for one in ({2, 6}, {4, 6}, {2, 4})], colours=2)
def test_a_search_finds_a_colouring_exactly_where_there_is_one(
    edges: set[frozenset[int]], clashes: list[frozenset[int]], colours: int
) -> None:
    """The ends of an edge, and the vertices of a clash, may not all have one colour."""

    def fits(colour_of: Sequence[int]) -> bool:
        return all(len({colour_of[vertex] for vertex in together}) > 1 for together in [*edges, *clashes])

    neighbours = [sum(1 << other for edge in edges if one in edge for other in edge - {one}) for one in range(7)]
    found = Search(colours).colour(neighbours, [sum(1 << vertex for vertex in clash) for clash in clashes])
    if found is None:
        assert not any(map(fits, product(range(colours), repeat=7)))
    else:
        assert set(found) <= set(range(colours))
        assert fits(found)
