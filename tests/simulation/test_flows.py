"""Flows and messages that come and go drain at the rates that the policy gives, although a part is solved again."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, strategies as st
from small import KNOWN, derived, flows, joined, switched

from fredfw.fabric import Fabric, FlowSet, Routes
from fredfw.simulation import FlowNetwork, MaxMin, SharingPolicy, Statistics, engine
from fredfw.simulation.sharing import ActiveFlows, Dynamics, HeldRates, StatefulSharing, max_min
from fredfw.simulation.ways import Way, Ways
from fredfw.typing import FloatArray, IntArray

LINKS = 8


def each_on(links: Sequence[int], volumes: Sequence[float]) -> FlowSet:
    """One flow on each of ``links``, which end by themselves."""
    return flows(volumes, [[link] for link in links], 0.0)


def way(path: list[int], latency: float = 0.0) -> Way:
    """The way of a message over the links of ``path``."""
    routes = Routes.of([np.array(path, dtype=np.intp)], [latency])
    return Way(Ways(routes, lambda flow, router: routes), 0)


def network(policy: SharingPolicy, bandwidths: FloatArray) -> FlowNetwork:
    """Two NPUs that links join, each of which a flow may use with any others."""
    return FlowNetwork(joined([(0, 1)] * len(bandwidths), bandwidths), policy)


CLASSES, LABELS = st.integers(0, 2), st.sampled_from(("", "dp", "pp"))
LINK, BYTES = st.integers(0, LINKS - 1), st.floats(1.0, 100.0)


@st.composite
def flow_sets(draw: st.DrawFn, most: int) -> FlowSet:
    def each(values: st.SearchStrategy[float], count: int) -> st.SearchStrategy[FloatArray]:
        return st.lists(values, min_size=count, max_size=count).map(np.array)

    paths = draw(st.lists(st.lists(LINK, max_size=4, unique=True), min_size=1, max_size=most))
    coefficients = draw(st.none() | each(st.sampled_from([0.5, 1.0, 2.0]), sum(map(len, paths))))
    caps = draw(st.none() | each(st.floats(0.01, 5.0), len(paths)))
    volumes, latency = draw(each(BYTES, len(paths))), draw(st.sampled_from([0.0, 0.0, 0.5]))
    one = flows(volumes.tolist(), paths, latency, caps=caps, priority=draw(CLASSES), label=draw(LABELS))
    return evolve(one, routes=evolve(one.routes, coefficients=coefficients))


STARTS = st.tuples(st.just("start"), flow_sets(2))
SENDS = st.tuples(
    st.just("send"), st.lists(LINK, min_size=1, max_size=4, unique=True), st.just(0.0) | BYTES, CLASSES, LABELS
)
CANCELS = st.tuples(st.just("cancel"), st.integers(0, 20))
CHANGES = st.tuples(st.just("change"), LINK, st.just(0.0) | st.floats(0.25, 8.0))
STEPS = st.tuples(st.just(0.0) | st.floats(0.0, 4.0), STARTS | SENDS | CANCELS | CHANGES)
PROGRAMS = st.tuples(
    st.lists(st.floats(0.5, 8.0), min_size=LINKS, max_size=LINKS), flow_sets(12), st.lists(STEPS, max_size=14)
)
"""The bandwidths of links, what starts on them, and what happens after which delays."""


def run(policy: SharingPolicy, program: Any) -> tuple[list[tuple[int, int, float]], dict[str, FloatArray]]:
    """Return which flow of which set ended when, and the bytes by link."""
    bandwidths, first, steps = program
    on = FlowNetwork(switched(np.array(bandwidths)), policy)
    ends, tickets, left = list[tuple[int, int, float]](), dict[int, int](), dict[int, int]()

    def ended(number: int, activities: IntArray) -> None:
        ends.extend((number, activity, on.now) for activity in activities.tolist())
        left[number] -= len(activities)

    for number, (delay, step) in enumerate([(0.0, ("start", first)), *steps]):
        on.advance(on.now + delay)
        alive = [one for one, count in left.items() if count]
        match step:
            case "start", flow_set:
                left[number] = flow_set.activities
                tickets[number] = on.start(flow_set, partial(ended, number))
            case "send", path, size, priority, label:
                left[number] = 1
                tickets[number] = on.send(way(path, 0.25), size, partial(ended, number), priority, label)
            case "cancel", choice if alive:
                chosen = alive[choice % len(alive)]
                left[chosen] = 0
                on.cancel(tickets[chosen])
            case "change", link, bandwidth:
                on.set_bandwidths(np.array([link]), np.array([bandwidth]))
    on.set_bandwidths(np.arange(LINKS), np.array(bandwidths))
    on.advance()
    assert on.idle
    assert not any(left.values())
    return sorted(ends), on.link_bytes()


class Fair(Dynamics):
    """Asks again and again, and always gets max-min fair rates."""

    def rates(self, flows: ActiveFlows, capacities: FloatArray, now: float) -> HeldRates:
        return HeldRates(max_min(flows.incidence, capacities), now + 17.3)


class Held(StatefulSharing):
    name = "held"

    def begin(self, fabric: Fabric) -> Dynamics:
        return Fair()


@pytest.mark.parametrize(
    ("policy", "other"),
    [*((policy, derived(policy)) for policy in KNOWN), (Held(), MaxMin())],
    ids=lambda policy: policy.name,
)
@given(program=PROGRAMS)
def test_whatever_happens_flows_end_when_the_policy_lets_them(
    policy: SharingPolicy, other: SharingPolicy, program: Any
) -> None:
    expected, there = run(other, program)
    ends, moved = run(policy, program)
    assert [end[:2] for end in ends] == [end[:2] for end in expected]
    assert [end[2] for end in ends] == pytest.approx([end[2] for end in expected], rel=1e-9)
    assert moved.keys() == there.keys()
    for label, load in moved.items():
        assert load == pytest.approx(there[label], rel=1e-9, abs=1e-9)


def test_passes_are_counted_and_counters_of_simulations_add_up_but_for_the_most() -> None:
    # A chain: each link but the first has one flow more than the one before it can use.
    count = 30
    on = network(MaxMin(), np.array([2.0**link for link in range(1, count + 1)]))
    on.start(flows([1.0] * count, [*([link, link + 1] for link in range(count - 1)), [0]], 0.0), lambda _: None)
    on.next_event_time()
    statistics = on.statistics
    assert (statistics.solves, statistics.passes, statistics.most_passes) == (1, count - 1, count - 1)
    one, other = Statistics(events=1, passes=5, most_passes=5), Statistics(events=2, passes=4, most_passes=3)
    assert one + other == Statistics(events=3, passes=9, most_passes=5)


def islands(count: int) -> FlowNetwork:
    """Return a network with ``count`` flows, twenty on each link of 20 B/s."""
    on = network(MaxMin(), np.full(count // 20, 20.0))
    on.start(each_on((np.arange(count) // 20).tolist(), (100.0 + np.arange(count) / count).tolist()), lambda _: None)
    on.next_event_time()
    return on


@pytest.mark.parametrize("count", [1_000, 20_000])
def test_the_piece_does_not_grow_with_the_flows_that_a_change_does_not_reach(count: int) -> None:
    on, solved = islands(count), list[int]()

    def settled() -> None:
        on.next_event_time()
        solved.append(on.statistics.solved)

    settled()
    ticket = on.start(flows([1000.0], [[7]], 0.0), lambda _: None)
    settled()
    on.cancel(ticket)
    settled()
    assert np.diff(solved).tolist() == [21, 20]
    assert solved[0] == count


def ends_of(on: FlowNetwork, *sets: FlowSet) -> list[tuple[float, int]]:
    found = Counter[float]()
    for one in sets:
        on.start(one, lambda activities: found.update({on.now: len(activities)}))
    on.advance()
    return sorted(found.items())


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize(
    ("bandwidth", "volumes", "moments"),
    [
        # What remains of the second when the first is drained: 1 byte of 1e12, and a billionth of next to nothing.
        (1e12, [1e12, 1e12 + 1], [(1.0, 2)]),
        (1e-12, [1e-12, (1 + 1e-9) * 1e-12], [(1.0, 1), (1.0 + 1e-9, 1)]),
        (1.0, [1.0, 1.0 + 1e-10], [(1.0, 1), (1.0 + 1e-10, 1)]),
        (1.0, [1.0, 1.0 + 1e-12], [(1.0, 2)]),
    ],
)
def test_a_flow_is_drained_by_the_share_of_its_volume_that_remains(
    together: bool, bandwidth: float, volumes: list[float], moments: list[tuple[float, int]]
) -> None:
    on = network(MaxMin(), np.array([bandwidth] * 2 + [1.0] * 8))
    # Eight others that end at 100 seconds.
    on.start(each_on(range(2, 10), [100.0] * 8), lambda _: None)
    on.next_event_time()
    if together:
        found = ends_of(on, each_on(range(2), volumes))
    else:
        found = ends_of(on, *(each_on([lane], [volume]) for lane, volume in enumerate(volumes)))
    assert [count for _, count in found] == [count for _, count in moments]
    assert [time for time, _ in found] == pytest.approx([time for time, _ in moments], rel=1e-13)


@pytest.mark.parametrize(("apart", "together"), [(3e-10, True), (1e-8, False)])
def test_late_in_the_day_a_few_roundings_of_the_clock_are_one_moment(apart: float, together: bool) -> None:
    # After a million seconds the clock goes on in steps of 1.2e-10 s.
    on, day = network(MaxMin(), np.ones(10)), 1e6
    on.start(each_on(range(2, 10), [2 * day] * 8), lambda _: None)
    on.advance(day)
    assert len(ends_of(on, each_on(range(2), [1e-9, 1e-9 + apart]))) == (1 if together else 2)


def test_a_flow_at_its_cap_does_not_wait_for_others() -> None:
    # The first link offers 1 to each of its two flows, which is the cap of one; the other has 0.5 on the second link.
    offsets, links = np.array([0, 1, 3]), np.array([0, 0, 1])
    rates, passes = engine.max_min(offsets, links, None, np.array([1.0, np.inf]), np.array([2.0, 0.5]))
    assert rates.tolist() == [1.0, 0.5]
    assert passes == 1


@given(st.data())
def test_flows_apart_have_what_their_links_and_caps_allow(data: st.DataObject) -> None:
    # No link is crossed twice; some flows have no link, some a cap, some links are closed.
    lengths = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=4))
    offsets = np.cumsum([0, *lengths])
    links = np.array(data.draw(st.permutations(range(12))), dtype=np.intp)[: offsets[-1]]
    number = st.floats(0, 1e12, allow_subnormal=False)
    capacities = np.array(data.draw(st.lists(number, min_size=12, max_size=12)))
    caps = np.array(data.draw(st.lists(number | st.just(np.inf), min_size=len(lengths), max_size=len(lengths))))
    rates, passes = engine.max_min(offsets, links, None, caps, capacities)
    expected = [min([cap, *capacities[links[a:b]]]) for cap, a, b in zip(caps, offsets, offsets[1:], strict=False)]
    assert rates.tolist() == expected
    assert passes == (len(links) > 0)


def test_an_engine_of_another_version_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "ABI", -1)
    with pytest.raises(ImportError, match="install both again"):
        engine.library.__wrapped__()
