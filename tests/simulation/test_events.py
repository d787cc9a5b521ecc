"""Links that fail, come back and get slower while a task graph runs."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from kit import changed

from fredfw import Framework, GraphBuilder, Pattern, TaskGraph
from fredfw.errors import DeadlockError, InputError, SimulationError
from fredfw.experiment.results import GraphResult
from fredfw.fabric import IdealTransport
from fredfw.simulation import LinkEvent
from fredfw.simulation.links import restarts

SIZE = 1e6
BACK = "npu1->npu2"
FRAMEWORK = Framework()
RING = FRAMEWORK.topology("torus", dimensions=[4], link_bandwidth=1e6, link_latency=0).build()
"""Four NPUs in a ring of links of 1 MB/s."""


def message(size: float = SIZE) -> TaskGraph:
    builder = GraphBuilder(4)
    builder.transfer("message", np.array([[1, 2]]), size, label="pp")
    return builder.build()


def simulate(graph: TaskGraph, *events: LinkEvent, fidelity: str = "compressed") -> GraphResult:
    return FRAMEWORK.simulate_graph(
        graph, RING, events=events, fidelity=fidelity, collectives={"default": ["ring", "direct"]}
    )


def reduce(times: int = 3) -> TaskGraph:
    builder = GraphBuilder(4)
    with builder.repeated(times):
        work = builder.compute("work", np.arange(4), seconds=0.5)
        builder.collective("sum", Pattern.ALL_REDUCE, np.arange(4)[None, :], SIZE, label="dp", after=[work])
    return builder.build()


def test_a_message_goes_the_other_way_with_what_it_has_left_and_events_after_the_end_change_nothing() -> None:
    result, late = simulate(message(), LinkEvent(BACK, at=0.25)), simulate(message(), LinkEvent(BACK, at=5.0))
    assert (result.seconds, late.seconds) == pytest.approx((1.0, 1.0))
    assert result.bytes_by_cause["pp"] == pytest.approx(0.25 * SIZE + 3 * 0.75 * SIZE)
    assert any("1 flow under way took another path" in note for note in result.notes)
    assert "no link event happened before the end" in late.notes


def test_a_link_that_gets_slower_and_is_restored() -> None:
    slow = LinkEvent(BACK, "degrade", at=0.5, factor=0.5)
    assert simulate(message(), slow).seconds == pytest.approx(1.5)
    assert simulate(message(), slow, LinkEvent(BACK, "restore", at=1.0)).seconds == pytest.approx(1.25)


def test_flows_without_a_way_wait_for_the_link_and_are_named_if_it_stays_away() -> None:
    cut = LinkEvent("npu1->*", at=0.5)
    assert simulate(message(), cut, LinkEvent(BACK, "restore", at=2.0)).seconds == pytest.approx(2.5)
    with pytest.raises(DeadlockError, match=r"message \(pp\)"):
        simulate(message(), cut)


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({"links": BACK, "at": 1.0, "mtbf": 1.0}, "at"),
        ({"links": BACK, "at": 1.0, "mttr": 1.0}, "mttr"),
        ({"links": BACK, "at": 1.0, "action": "degrade"}, "factor"),
        ({"links": BACK, "at": 1.0, "factor": 0.5}, "factor"),
        ({"links": BACK, "mtbf": 1.0, "action": "restore"}, "action"),
        ({"links": BACK, "at": 1.0, "action": "restore", "then": "restart"}, "then"),
        ({"links": BACK, "at": 1.0, "detection": 1.0}, "detection"),
        ({"links": BACK, "at": 1.0, "then": "reroute", "lost_work": 1.0}, "lost_work"),
        ({"links": BACK, "mtbf": 1.0, "mttr": 1.0, "then": "restart"}, "mttr"),
    ],
)
def test_an_event_that_cannot_be_is_refused(fields: dict[str, object], key: str) -> None:
    with pytest.raises(InputError, match=f"^{key}: "):
        LinkEvent(**fields)  # type: ignore[arg-type]


RARE, SOON = st.floats(0.2, 20.0), st.none() | st.floats(0.05, 2.0)


@settings(deadline=None)
@given(st.integers(0, 10_000), RARE, SOON, st.sampled_from(["compressed", "exact"]))
def test_random_failures_lose_no_byte_and_name_what_is_stalled(
    seed: int, mtbf: float, mttr: float | None, fidelity: str
) -> None:
    try:
        result = simulate(reduce(), LinkEvent("*", mtbf=mtbf, mttr=mttr, seed=seed), fidelity=fidelity)
    except DeadlockError as error:
        if mttr is not None or "flows that cannot move: dp" not in str(error):
            raise
        return
    # A ring of four sends 3/2 of the vector from each, three times; detours only add to it.
    assert result.bytes_by_cause["dp"] >= 3 * 4 * 1.5 * SIZE * (1 - 1e-9)
    assert result.seconds >= 3 * (0.5 + 0.75) * (1 - 1e-9)


def restart(at: float, links: str = BACK) -> LinkEvent:
    return LinkEvent(links, at=at, then="restart", detection=0.125, restart=2.0, lost_work=4.0)


@pytest.mark.parametrize(
    ("failures", "added", "said"),
    [
        # What was done, detection, restart, and the work before this run.
        ([0.25], 0.25 + 0.125 + 2.0 + 4.0, "1 time: 250 ms of the iteration were lost, 125 ms passed"),
        # The second is while the job is down, the third when it has been back for a second and is doing its work again.
        ([0.25, 2.0, 3.375], 0.25 + 2 * (0.125 + 2.0) + 1.0 + 4.0, "2 times: 1.25 s of the iteration were lost"),
        ([1.5], 0.0, "no link that the job uses failed before its end"),
    ],
)
def test_a_job_that_ends_with_its_links_goes_on_from_its_checkpoint(
    failures: list[float], added: float, said: str
) -> None:
    others = restart(0.125, "npu2->npu1")  # a link that the job does not use
    whole, result = simulate(message()), simulate(message(), others, *(restart(at) for at in failures))
    assert result.seconds == pytest.approx(1.0 + added)
    assert sum(result.breakdown.values()) == pytest.approx(result.seconds)
    assert result.breakdown.get("waiting", 0.0) == pytest.approx(whole.breakdown.get("waiting", 0.0) + added)
    assert any(said in note for note in result.notes)


def test_random_failures_end_a_job_as_often_as_theory_says() -> None:
    """A job of 1 s that begins anew at each of random failures takes (e^r - 1) / r seconds, r of them in a second."""
    runs, rate = 1000, 2.0
    # Of two links, each fails once in a second.
    event = LinkEvent("npu1->*", mtbf=2 / rate, then="restart", detection=0.0, restart=0.0)
    busy = np.ones(len(RING.bandwidths))
    times = [1.0 + restarts([event], RING, run, 1.0, busy)[0] for run in range(runs)]
    error = np.std(times) / runs**0.5
    assert np.mean(times) == pytest.approx((np.exp(rate) - 1) / rate, abs=4 * error)


def test_a_job_that_never_gets_through_is_an_error() -> None:
    event = LinkEvent(BACK, mtbf=0.01, then="restart", detection=0.0, restart=0.0)
    with pytest.raises(SimulationError, match="fails 10000 times before it has done 1 s"):
        simulate(message(), event)


def test_what_a_failure_does_is_up_to_the_transport_and_to_the_event() -> None:
    fragile = RING.with_defaults(transport=changed(IdealTransport, ends_with_links=True))
    ends, goes_on = (
        FRAMEWORK.simulate_graph(message(), fragile, events=[LinkEvent(BACK, at=0.25, then=then)])
        for then in (None, "reroute")
    )
    # 7 x 4.096 us x 2^20, and the rest of 10 % of 54 days for each of 466 interruptions.
    assert ends.seconds == pytest.approx(1.25 + 54 * 86400 / 10 / 466)
    assert any("30.065 s" in note for note in ends.notes)
    assert goes_on.seconds == pytest.approx(1.0)
