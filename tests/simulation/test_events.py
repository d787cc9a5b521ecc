"""Links that fail, come back and get slower while a task graph runs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from fredfw import Framework, GraphBuilder, Pattern, TaskGraph
from fredfw.errors import DeadlockError, InputError
from fredfw.experiment.results import GraphResult
from fredfw.simulation import LinkEvent

SIZE = 1e6
BACK = "npu1->npu2"


def message(size: float = SIZE) -> TaskGraph:
    builder = GraphBuilder(4)
    builder.transfer("message", np.array([[1, 2]]), size, label="pp")
    return builder.build()


def simulate(graph: TaskGraph, *events: LinkEvent, fidelity: str = "compressed") -> GraphResult:
    """On four NPUs in a ring of links of 1 MB/s."""
    framework = Framework()
    fabric = framework.topology("torus", dimensions=[4], link_bandwidth=1e6, link_latency=0).build()
    return framework.simulate_graph(
        graph, fabric, events=events, fidelity=fidelity, collectives={"default": ["ring", "direct"]}
    )


def reduce(times: int = 3) -> TaskGraph:
    builder = GraphBuilder(4)
    with builder.repeated(times):
        work = builder.compute("work", np.arange(4), seconds=0.5)
        builder.collective("sum", Pattern.ALL_REDUCE, np.arange(4)[None, :], SIZE, label="dp", after=[work])
    return builder.build()


def test_a_message_goes_the_other_way_with_what_it_has_left() -> None:
    result = simulate(message(), LinkEvent(BACK, at=0.25))
    assert result.seconds == pytest.approx(1.0)
    assert result.bytes_by_cause["pp"] == pytest.approx(0.25 * SIZE + 3 * 0.75 * SIZE)
    assert any("1 flow under way took another path" in note for note in result.notes)


def test_a_link_that_gets_slower_and_is_restored() -> None:
    slow = LinkEvent(BACK, "degrade", at=0.5, factor=0.5)
    assert simulate(message(), slow).seconds == pytest.approx(1.5)
    assert simulate(message(), slow, LinkEvent(BACK, "restore", at=1.0)).seconds == pytest.approx(1.25)


def test_flows_without_a_way_wait_for_the_link_and_are_named_if_it_stays_away() -> None:
    cut = LinkEvent("npu1->*", at=0.5)
    assert simulate(message(), cut, LinkEvent(BACK, "restore", at=2.0)).seconds == pytest.approx(2.5)
    with pytest.raises(DeadlockError, match=r"message \(pp\)"):
        simulate(message(), cut)


def test_events_after_the_end_change_nothing() -> None:
    result = simulate(message(), LinkEvent(BACK, at=5.0))
    assert result.seconds == pytest.approx(1.0)
    assert "no link event happened before the end" in result.notes


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({"links": BACK}, "at"),
        ({"links": BACK, "at": 1.0, "mtbf": 1.0}, "at"),
        ({"links": BACK, "at": 1.0, "mttr": 1.0}, "mttr"),
        ({"links": BACK, "at": 1.0, "action": "explode"}, "action"),
        ({"links": BACK, "at": 1.0, "action": "degrade"}, "factor"),
        ({"links": BACK, "at": 1.0, "factor": 0.5}, "factor"),
        ({"links": BACK, "at": -1.0}, "at"),
        ({"links": BACK, "mtbf": 0.0}, "mtbf"),
        ({"links": BACK, "mtbf": 1.0, "action": "restore"}, "action"),
    ],
)
def test_an_event_that_cannot_be_is_refused(fields: dict[str, object], key: str) -> None:
    with pytest.raises(InputError) as caught:
        LinkEvent(**fields)  # type: ignore[arg-type]
    assert caught.value.key == key


def test_links_that_are_not_there_are_refused_before_anything_runs() -> None:
    tables = {
        "fabrics": {
            "a": {"topology": {"name": "switch", "npus": 4}, "events": [{"links": "npu0->npu9", "at": "1 us"}]}
        },
        "workloads": {"w": {"workload": {"name": "cnn"}}},
    }
    framework = Framework()
    with pytest.raises(InputError, match="npu0->npu9") as caught:
        framework.compare(framework.load_experiment(tables), strict=True)
    assert caught.value.key == "fabrics.a.events[0].links"


def check_failures(seed: int, mtbf: float, mttr: float | None, fidelity: str) -> bool:
    """Run a training iteration; return whether it ended, and make sure that no byte was lost then."""
    try:
        result = simulate(reduce(), LinkEvent("*", mtbf=mtbf, mttr=mttr, seed=seed), fidelity=fidelity)
    except DeadlockError as error:
        if mttr is not None or "flows that cannot move: dp" not in str(error):
            raise
        return False
    # A ring of four sends 3/2 of the vector from each, three times; detours only add to it.
    sent = 3 * 4 * 1.5 * SIZE
    assert result.bytes_by_cause["dp"] >= sent * (1 - 1e-9)
    assert result.seconds >= 3 * (0.5 + 0.75) * (1 - 1e-9)
    return True


@settings(max_examples=8, deadline=None)
@given(
    st.integers(0, 10_000),
    st.floats(0.2, 20.0),
    st.none() | st.floats(0.05, 2.0),
    st.sampled_from(["compressed", "exact"]),
)
def test_random_failures_lose_no_byte_and_name_what_is_stalled(
    seed: int, mtbf: float, mttr: float | None, fidelity: str
) -> None:
    assert check_failures(seed, mtbf, mttr, fidelity) or mttr is None


@pytest.mark.slow
def test_a_thousand_failures_during_runs() -> None:
    failures = 0
    for seed in range(150):
        result = simulate(reduce(), LinkEvent("*", mtbf=4.0, mttr=0.3, seed=seed))
        assert result.bytes_by_cause["dp"] >= 3 * 4 * 1.5 * SIZE * (1 - 1e-9)
        (note,) = (one for one in result.notes if one.startswith("links failed"))
        failures += int(note.split()[2])
    assert failures >= 1000
