from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, strategies as st
from small import joined, star

from fredfw.errors import InputError
from fredfw.fabric import Fabric, NodeKind
from fredfw.simulation import (
    CircuitPreempt,
    Incidence,
    MaxMin,
    StrictLinks,
    WeightedMaxMin,
    max_min,
)
from fredfw.typing import FloatArray

LINKS = 6


def incidence(
    flows: list[list[int]],
    coefficients: list[float] | None = None,
    caps: list[float] | None = None,
    priorities: list[int] | None = None,
) -> Incidence:
    offsets = np.concatenate([[0], np.cumsum([len(flow) for flow in flows])]).astype(np.intp)
    return Incidence(
        offsets,
        np.array([link for flow in flows for link in flow], dtype=np.intp),
        None if coefficients is None else np.array(coefficients),
        None if caps is None else np.array(caps),
        np.array(priorities or [0] * len(flows), dtype=np.intp),
    )


def water_filling(problem: Incidence, capacities: FloatArray) -> FloatArray:
    """Textbook progressive filling: raise all rates together until a link or a cap stops some, freeze those, repeat."""
    count = len(problem)
    usage = np.zeros((count, len(capacities)))
    coefficients = np.ones(len(problem.links)) if problem.coefficients is None else problem.coefficients
    for pair, (flow, link) in enumerate(zip(problem.flows, problem.links, strict=True)):
        usage[flow, link] += coefficients[pair]
    caps = np.full(count, np.inf) if problem.caps is None else problem.caps
    rates = np.zeros(count)
    active = usage.sum(axis=1) > 0
    rates[~active] = caps[~active]
    while active.any():
        weight = usage[active].sum(axis=0)
        left = capacities - rates[np.isfinite(rates)] @ usage[np.isfinite(rates)]
        used = weight > 0
        step = min(np.min(np.maximum(left[used], 0.0) / weight[used]), np.min(caps[active] - rates[active]))
        rates[active] += step
        left = capacities - rates[np.isfinite(rates)] @ usage[np.isfinite(rates)]
        full = used & (left <= 1e-9 * capacities)
        stopped = active & ((usage[:, full].sum(axis=1) > 0) | (caps - rates <= 1e-9 * np.maximum(rates, 1e-9)))
        assert stopped.any()
        active &= ~stopped
    return rates


@st.composite
def problems(draw: st.DrawFn) -> tuple[Incidence, FloatArray]:
    link_lists = st.lists(st.integers(0, LINKS - 1), min_size=0, max_size=LINKS, unique=True)
    flows = draw(st.lists(link_lists, min_size=1, max_size=12))
    pairs = sum(map(len, flows))
    amounts = st.floats(0.25, 4.0)
    coefficients = draw(st.none() | st.lists(amounts, min_size=pairs, max_size=pairs))
    limits = st.lists(st.floats(0.01, 10.0), min_size=len(flows), max_size=len(flows))
    # Flows that use no link have no bottleneck, so they need a cap.
    caps = draw(limits if any(not flow for flow in flows) else st.none() | limits)
    priorities = draw(st.lists(st.integers(0, 2), min_size=len(flows), max_size=len(flows)))
    capacities = np.array(draw(st.lists(st.floats(0.5, 20.0), min_size=LINKS, max_size=LINKS)))
    return incidence(flows, coefficients, caps, priorities), capacities


@given(problems())
def test_max_min_equals_textbook_water_filling(problem: tuple[Incidence, FloatArray]) -> None:
    flows, capacities = problem
    np.testing.assert_allclose(max_min(flows, capacities), water_filling(flows, capacities), rtol=1e-7)


def test_many_flows_over_links_that_all_offer_the_same() -> None:
    # Around a ring of 6,000 links each flow takes 3, so each link carries 3.
    links = (np.arange(6000)[:, None] + np.arange(3)) % 6000
    flows = incidence(links.tolist())
    assert (max_min(flows, np.full(6000, 12.0)) == 4.0).all()
    # One link offers less to its flows; each other flow still has a link that none of these takes.
    rates = max_min(flows, np.where(np.arange(6000) == 100, 6.0, 12.0))
    assert rates == pytest.approx(np.where(np.isin(np.arange(6000), [98, 99, 100]), 2.0, 4.0))


@given(problems())
def test_what_a_change_does_not_reach_keeps_its_rate_to_the_last_bit(problem: tuple[Incidence, FloatArray]) -> None:
    flows, capacities = problem
    before = max_min(flows, capacities)
    disturbed = np.zeros(LINKS, dtype=bool)
    disturbed[flows.links[:1]] = True
    reached = flows.reach(disturbed)
    mine, others = (set(flows.links[np.isin(flows.flows, np.flatnonzero(mask))]) for mask in (reached, ~reached))
    assert not mine & others
    assert max_min(flows.select(reached), capacities).tobytes() == before[reached].tobytes()


@given(problems())
def test_strict_links_fills_class_by_class(problem: tuple[Incidence, FloatArray]) -> None:
    flows, capacities = problem
    rates = StrictLinks().rates(flows, capacities, star(LINKS // 2))
    left = capacities.copy()
    for priority in range(3):
        chosen = flows.priorities == priority
        if chosen.any():
            part = flows.select(chosen)
            np.testing.assert_allclose(rates[chosen], water_filling(part, left), rtol=1e-6, atol=1e-9)
            left = np.maximum(left - part.load(rates[chosen], LINKS), 0.0)
            left[left < 1e-9] = 0.0


def test_strict_links_leaves_exactly_nothing_of_a_full_link() -> None:
    # A tenth ten times adds up to a little less than one; for other numbers it is a little more.
    for count in range(1, 60):
        for capacity in (1.0, 3e11, 0.7):
            flows = incidence([[0]] * (count + 1), priorities=[0] * count + [1])
            assert StrictLinks().rates(flows, np.full(LINKS, capacity), star(LINKS // 2))[-1] == 0.0


def test_flow_without_links_runs_at_its_cap() -> None:
    assert max_min(incidence([[], [0]], caps=[3.0, 9.0]), np.array([1.0])).tolist() == [3.0, 1.0]
    assert max_min(incidence([[]]), np.array([1.0])).tolist() == [np.inf]


TWO = joined([(0, 1), (1, 2)], np.array([12.0, 30.0]))


@pytest.mark.parametrize(
    ("weights", "links", "fields", "expected"),
    [
        pytest.param([1.0, 2.0, 3.0], [[0], [0], [0]], {}, [2.0, 4.0, 6.0], id="in proportion"),
        # Link 0 gives 4 and 8; of the 30 of link 1 the second flow leaves 22 to the third, whatever that weighs.
        pytest.param([1.0, 2.0, 0.5], [[0], [0, 1], [1]], {}, [4.0, 8.0, 22.0], id="what one cannot use"),
        pytest.param([1.0, 3.0], [[0], [0]], {"caps": np.array([np.inf, 5.0])}, [7.0, 5.0], id="a limit"),
        # x + 0.5 * 2 x = 12
        pytest.param([1.0, 2.0], [[0], [0]], {"coefficients": np.array([1.0, 0.5])}, [6.0, 12.0], id="a share"),
        pytest.param(None, [[0], [0]], {}, [6.0, 6.0], id="no weights"),
    ],
)
def test_weights_divide_links(
    weights: list[float] | None, links: list[list[int]], fields: dict[str, Any], expected: list[float]
) -> None:
    weighing = None if weights is None else np.array(weights)
    given = evolve(incidence(links), weights=weighing, **fields)
    assert WeightedMaxMin().rates(given, np.array([12.0, 30.0]), TWO) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        *((one, "^weights: .* is (refused|not a label)") for one in ("dp", None, {5: 1.0})),
        *(({"dp": one}, "weights.dp: .* is not a weight") for one in (0.0, -1.0, np.nan, np.inf, "heavy", None)),
    ],
)
def test_weights_that_are_none(weights: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        WeightedMaxMin(weights)


def test_circuits_without_switches_are_noted() -> None:
    switched = Fabric("star", np.array([NodeKind.NPU, NodeKind.SWITCH]), [0, 1], [1, 0], 1.0, 0.0, 0.0)
    assert CircuitPreempt().notes(switched) == ()
    (note,) = CircuitPreempt().notes(TWO)
    assert note.endswith("has no switches, so circuit-preempt shares links max-min fair, whatever the priorities")
    assert MaxMin().notes(TWO) == ()
