"""What is counted where flow sets meet repetitions that are simulated as one."""

from functools import partial
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, strategies as st
from small import flows, joined, one_at_a_time

from fredfw import Framework
from fredfw.fabric import Fabric, FlowSet
from fredfw.simulation import FlowNetwork


def links(count: int, **fields: Any) -> Fabric:
    """So many links of 1 B/s, each between two NPUs of its own."""
    return joined([(2 * link, 2 * link + 1) for link in range(count)], **fields)


def met(*started: tuple[float, FlowSet], fabric: Fabric | None = None) -> int:
    network = FlowNetwork(fabric or links(2))
    for moment, flow_set in started:
        network.schedule(moment, partial(network.start, flow_set, lambda _: None))
    network.advance()
    assert network.idle
    return network.statistics.met


LATER = flows([1.0], [[0]])


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        pytest.param(flows([2.0], [[0]], repeat=3), flows([5.0], [[1]], repeat=2), 0, id="apart"),
        pytest.param(flows([2.0], [[0]]), flows([5.0], [[0]]), 0, id="not repeated"),
        pytest.param(flows([2.0], [[0]], repeat=3), flows([6.0], [[0]]), 1, id="one repeated"),
        pytest.param(flows([2.0], [[0]], repeat=3), flows([2.0], [[0]], repeat=3), 0, id="in step"),
        pytest.param(flows([2.0], [[0]], repeat=3), flows([3.0], [[0]], repeat=2), 1, id="other steps"),
        pytest.param(flows([2.0], [[0]], repeat=3), flows([3.0], [[0]], repeat=3), 1, id="longer steps"),
        pytest.param(flows([2.0], [[0]], repeat=3), flows([2.0], [[0]], 0.25, repeat=3), 1, id="shorter paths"),
        pytest.param(flows([2.0], [[0]], repeat=3, setup=1.0), flows([2.0], [[0]], repeat=3), 1, id="set up"),
    ],
)
def test_two_that_start_together(one: FlowSet, other: FlowSet, expected: int) -> None:
    assert met((0.0, one), (0.0, other)) == expected


@pytest.mark.parametrize(
    ("one", "moments", "expected"),
    [
        # Three repetitions of two seconds and a half, the last half of which no byte is on the link.
        (flows([2.0], [[0]], repeat=3), [7.4], 1),
        (flows([2.0], [[0]], repeat=3), [7.5], 0),
        (flows([2.0], [[0]], repeat=3), [1.0, 2.0], 2),
        # Flows that are simulated together.
        (flows([2.0, 3.0], [[0], [0]], repeat=2), [], 1),
        (flows([2.0, 3.0], [[0], [0]]), [], 0),
        (flows([2.0, 2.0], [[0], [0]], repeat=2), [], 0),
        (flows([2.0, 3.0], [[0], [1]], repeat=2), [], 0),
        (flows([2.0, 2.0, 3.0], [[0], [0, 1], [1]], repeat=2), [], 1),
    ],
)
def test_those_that_come_later_and_those_that_are_one(one: FlowSet, moments: list[float], expected: int) -> None:
    assert met((0.0, one), *((moment, LATER) for moment in moments)) == expected


@pytest.mark.parametrize(("repeat", "expected"), [(1, 0), (3, 1)])
def test_what_waits_for_all_repetitions(repeat: int, expected: int) -> None:
    fabric = links(2, admission=one_at_a_time)
    assert met((0.0, flows([2.0], [[0]], repeat=repeat)), (0.0, flows([5.0], [[1]])), fabric=fabric) == expected


REPEATED = st.builds(
    flows,
    st.integers(1, 4).map(lambda size: [size]),
    st.lists(st.integers(0, 2), min_size=1, max_size=2, unique=True).map(lambda links: [links]),
    st.integers(0, 1),
    repeat=st.integers(1, 3),
)


@given(st.lists(st.lists(REPEATED, min_size=1, max_size=3), min_size=1, max_size=3))
def test_where_nothing_is_counted_stepwise_takes_as_long(chains: list[list[FlowSet]]) -> None:
    ends, counts = [], []
    for stepwise in (False, True):
        network, finished = FlowNetwork(links(3)), list[float]()

        def go(left: list[FlowSet], network: FlowNetwork = network, finished: list[float] = finished) -> None:
            if left:
                network.start(left[0], lambda _: go(left[1:], network, finished))
            else:
                finished.append(network.now)

        for chain in chains:
            go([evolve(one, repeat=1) for one in chain for _ in range(one.repeat)] if stepwise else chain)
        network.advance()
        ends.append(sorted(finished))
        counts.append(network.statistics.met)
    assert counts[1] == 0
    if counts[0] == 0:
        assert ends[0] == pytest.approx(ends[1], rel=1e-9)


@pytest.mark.parametrize(
    ("orders", "fidelity", "microseconds", "said"),
    [
        ("opposite", "compressed", 0.6163, True),
        ("opposite", "exact", None, False),
        ("forward", "compressed", None, False),
    ],
)
def test_a_collective_says_when_its_parts_met(
    orders: str, fidelity: str, microseconds: float | None, said: bool
) -> None:
    framework = Framework()
    result = framework.simulate_collective(
        framework.topology("fred", variant="C", arity=[3, 3]).build(),
        "reduce-scatter",
        size=1_000_003.0,
        algorithm="hierarchical",
        orders=orders,
        shares="equal",
        fidelity=fidelity,
    )
    assert any("parts of the schedule met" in note for note in result.notes) == said
    assert bool(result.statistics["met"]) == said
    if microseconds is not None:
        assert result.duration == pytest.approx(microseconds * 1e-6, rel=1e-4)
