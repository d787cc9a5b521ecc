"""Rates in the engine, against the policies' own rates of all flows, which they are asked for after each change."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fredfw.errors import InputError
from fredfw.fabric import Fabric, FlowSet, NodeKind, Routes
from fredfw.simulation import CircuitPreempt, FlowNetwork, MaxMin, SharingPolicy, StrictLinks, WeightedMaxMin
from fredfw.simulation.engine import max_min
from fredfw.typing import FloatArray

LINKS = 8


class AskedMaxMin(MaxMin):
    """The engine does not know a class that is derived, so it asks for the rates of all flows."""


class AskedWeighted(WeightedMaxMin):
    """Likewise."""


class AskedStrict(StrictLinks):
    """Likewise."""


class AskedCircuits(CircuitPreempt):
    """Likewise."""


POLICIES: list[tuple[SharingPolicy, SharingPolicy]] = [
    (MaxMin(), AskedMaxMin()),
    (WeightedMaxMin({"a": 3.0}), AskedWeighted({"a": 3.0})),
    (StrictLinks(), AskedStrict()),
    (CircuitPreempt(), AskedCircuits()),
]


def parallel(bandwidths: FloatArray) -> Fabric:
    """Links from one NPU or switch to another, each of which a flow may use with any others."""
    count = len(bandwidths)
    kinds = np.array([NodeKind.NPU, *[NodeKind.SWITCH] * 4, NodeKind.NPU])
    return Fabric("parallel", kinds, np.arange(count) % 5, np.arange(count) % 5 + 1, bandwidths, 0.0, 0.0)


@st.composite
def flow_sets(draw: st.DrawFn, most: int) -> FlowSet:
    count = draw(st.integers(1, most))
    paths = [draw(st.lists(st.integers(0, LINKS - 1), max_size=4, unique=True)) for _ in range(count)]
    pairs = sum(map(len, paths))
    coefficients = draw(st.none() | st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=pairs, max_size=pairs))
    offsets = np.cumsum([0, *map(len, paths)])
    links = np.array([link for path in paths for link in path], dtype=np.intp)
    weights = None if coefficients is None else np.array(coefficients, dtype=float)
    routes = Routes(offsets, links, np.zeros(count), weights)
    volumes = np.array(draw(st.lists(st.floats(1.0, 100.0), min_size=count, max_size=count)))
    caps = draw(st.none() | st.lists(st.floats(0.01, 5.0), min_size=count, max_size=count))
    return FlowSet(
        routes,
        volumes,
        np.arange(count),
        count,
        caps=None if caps is None else np.array(caps),
        priority=draw(st.integers(0, 2)),
        label=draw(st.sampled_from("ab")),
    )


@st.composite
def programs(draw: st.DrawFn) -> tuple[FloatArray, list[tuple[float, str, object]]]:
    """What happens on links of the given bandwidths: when, what, and with what."""
    bandwidths = np.array(draw(st.lists(st.floats(0.5, 8.0), min_size=LINKS, max_size=LINKS)))
    steps: list[tuple[float, str, object]] = [(0.0, "start", draw(flow_sets(12)))]
    for _ in range(draw(st.integers(0, 14))):
        delay = draw(st.floats(0.0, 4.0))
        what = draw(st.sampled_from(["start", "start", "start", "cancel", "change"]))
        if what == "start":
            steps.append((delay, what, draw(flow_sets(2))))
        elif what == "cancel":
            steps.append((delay, what, draw(st.integers(0, 20))))
        else:
            steps.append(
                (delay, what, (draw(st.integers(0, LINKS - 1)), draw(st.one_of(st.just(0.0), st.floats(0.25, 8.0)))))
            )
    return bandwidths, steps


def run(
    policy: SharingPolicy, program: tuple[FloatArray, list[tuple[float, str, object]]]
) -> list[tuple[int, int, float]]:
    """Return which flow of which set ended when."""
    bandwidths, steps = program
    on, open_sets = FlowNetwork(parallel(bandwidths), policy), list[int]()
    ends: list[tuple[int, int, float]] = []

    def ended(number: int, activities: np.ndarray) -> None:
        ends.extend((number, activity, on.now) for activity in activities.tolist())

    for number, (delay, _, value) in enumerate(steps):
        on.advance(on.now + delay)
        if isinstance(value, FlowSet):
            open_sets.append(on.start(value, partial(ended, number)))
        elif isinstance(value, int):
            with suppress(InputError):  # it has ended
                on.cancel(open_sets[value % len(open_sets)])
        elif isinstance(value, tuple):
            on.set_bandwidths(np.array([value[0]]), np.array([value[1]]))
    on.set_bandwidths(np.arange(LINKS), np.maximum(on.bandwidths, 0.5))  # what was closed is back
    on.advance()
    assert on.idle
    return sorted(ends)


def check_same(policies: tuple[SharingPolicy, SharingPolicy], program: tuple[FloatArray, list[Any]]) -> None:
    found, expected = (run(policy, program) for policy in policies)
    assert [one[:2] for one in found] == [one[:2] for one in expected]
    assert [one[2] for one in found] == pytest.approx([one[2] for one in expected], rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("policies", POLICIES, ids=lambda both: both[0].name)
@given(program=programs())
def test_whatever_happens_flows_end_when_the_policy_says(
    policies: tuple[SharingPolicy, SharingPolicy], program: tuple[FloatArray, list[Any]]
) -> None:
    check_same(policies, program)


@pytest.mark.slow
@settings(max_examples=10_000, deadline=None)
@given(program=programs())
def test_circuits_are_preempted_as_the_policy_says(program: tuple[FloatArray, list[Any]]) -> None:
    check_same(POLICIES[3], program)


@pytest.mark.parametrize("count", [1_000, 10_000])
def test_a_change_costs_what_it_disturbs(count: int) -> None:
    """Each link has ten flows of its own, and one that ends: its end disturbs nobody elsewhere."""
    links = count // 10
    zeros = np.zeros(links, dtype=np.intp)
    on = FlowNetwork(Fabric("parallel", [0, 0], zeros, zeros + 1, 1.0, 0.0, 0.0), MaxMin())

    def start(path: np.ndarray, volume: float) -> None:
        routes = Routes(np.arange(len(path) + 1), path, np.zeros(len(path)))
        on.start(FlowSet(routes, np.full(len(path), volume), np.arange(len(path)), len(path)), lambda _: None)

    start(np.repeat(np.arange(links), 10), 1000.0)
    on.advance(1.0)
    for link in range(20):
        start(np.array([link]), 1e-3)
        on.advance(on.now + 1.0)
    before = on.statistics.solved
    start(np.array([links - 1]), 1e-3)
    on.advance(on.now + 1.0)
    # One more flow on the link, and then one less.
    assert on.statistics.solved - before <= 22


def test_slots_of_flows_that_are_gone_are_used_again() -> None:
    """Twenty flows at a time, whatever has gone before; what is left of each is what time has not taken."""
    on, ends = FlowNetwork(parallel(np.ones(LINKS)), MaxMin()), list[float]()

    def ended(_: object) -> None:
        ends.append(on.now)
        if len(ends) < 20_000:
            start(len(ends) % LINKS)

    def start(link: int) -> None:
        routes = Routes.of([np.array([link])], [0.0])
        on.start(FlowSet(routes, np.ones(1), np.zeros(1, dtype=np.intp), 1), ended, checked=True)

    for number in range(16):
        start(number % LINKS)
    on.advance()
    assert len(ends) == 20_015
    assert on.link_bytes()[""].sum() == pytest.approx(20_015.0)
    # Each link has had something to send all the time, but at the end.
    assert on.now == pytest.approx(20_015.0 / LINKS, rel=1e-2)


def test_a_flow_at_its_cap_does_not_wait_for_others() -> None:
    # The capped one takes 1 of 10, the other two share the rest; one without links has its cap.
    rates, _ = max_min(
        np.array([0, 1, 2, 3, 3]),
        np.zeros(3, dtype=np.intp),
        None,
        np.array([1.0, np.inf, np.inf, 7.0]),
        np.array([10.0]),
    )
    assert rates.tolist() == [1.0, 4.5, 4.5, 7.0]
