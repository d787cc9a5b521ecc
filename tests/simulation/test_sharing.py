from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, strategies as st
from oracle_network import Flow, rates_of
from small import BY_POLICY, incidence, joined, star, switched

from fredfw.errors import InputError
from fredfw.simulation import CircuitPreempt, Incidence, MaxMin, SharingPolicy, StrictLinks, WeightedMaxMin, max_min
from fredfw.typing import FloatArray

LINKS = 6


@st.composite
def problems(draw: st.DrawFn) -> tuple[Incidence, FloatArray]:
    def numbers(least: float, most: float, count: int) -> st.SearchStrategy[FloatArray]:
        return st.lists(st.floats(least, most), min_size=count, max_size=count).map(np.array)

    link_lists = st.lists(st.integers(0, LINKS - 1), min_size=0, max_size=LINKS, unique=True)
    flows = draw(st.lists(link_lists, min_size=1, max_size=12))
    priorities = draw(st.lists(st.integers(0, 2), min_size=len(flows), max_size=len(flows)))
    given = incidence(
        *flows,
        coefficients=draw(st.none() | numbers(0.25, 4.0, sum(map(len, flows)))),
        caps=draw(st.none() | numbers(0.01, 10.0, len(flows))),
        weights=draw(st.none() | numbers(0.25, 4.0, len(flows))),
        priorities=np.array(priorities, dtype=np.intp),
    )
    return given, draw(numbers(0.5, 20.0, LINKS))


@BY_POLICY
@given(problem=problems(), closed=st.sets(st.integers(0, LINKS - 1), max_size=2))
def test_rates_are_those_of_the_oracle(
    policy: SharingPolicy, problem: tuple[Incidence, FloatArray], closed: set[int]
) -> None:
    given, capacities = problem
    capacities[list(closed)] = 0.0
    if not isinstance(policy, WeightedMaxMin):
        given = evolve(given, weights=None)
    shares = np.ones(len(given.links)) if given.coefficients is None else given.coefficients
    flows = []
    for flow, priority in enumerate(given.priorities.tolist()):
        mine = slice(given.offsets[flow], given.offsets[flow + 1])
        links = dict(zip(given.links[mine].tolist(), shares[mine].tolist(), strict=True))
        one = Flow((0,), (0,), 1.0, 0, links=links, priority=priority)
        one.cap = np.inf if given.caps is None else float(given.caps[flow])
        one.weight = 1.0 if given.weights is None else float(given.weights[flow])
        flows.append(one)
    expected = rates_of(flows, capacities.tolist(), policy, [{LINKS + link // 2} for link in range(LINKS)])
    rates = policy.rates(given, capacities, switched(np.ones(LINKS)))
    np.testing.assert_allclose(rates, [expected[one] for one in flows], rtol=1e-6, atol=1e-9)


def test_many_flows_over_links_that_all_offer_the_same() -> None:
    # Around a ring of 6,000 links each flow takes 3, so each link carries 3.
    links = (np.arange(6000)[:, None] + np.arange(3)) % 6000
    flows = incidence(*links.tolist())
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


def test_strict_links_leaves_exactly_nothing_of_a_full_link() -> None:
    # A tenth ten times adds up to a little less than one; for other numbers it is a little more.
    for count in range(1, 60):
        for capacity in (1.0, 3e11, 0.7):
            flows = incidence(*[[0]] * (count + 1), priorities=np.arange(count + 1) // count)
            assert StrictLinks().rates(flows, np.full(LINKS, capacity), star(LINKS // 2))[-1] == 0.0


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
    assert CircuitPreempt().notes(switched(np.ones(2))) == ()
    (note,) = CircuitPreempt().notes(joined([(0, 1)]))
    assert note.endswith("has no switches, so circuit-preempt shares links max-min fair, whatever the priorities")
    assert MaxMin().notes(joined([(0, 1)])) == ()
