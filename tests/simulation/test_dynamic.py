import math
import pickle
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import pytest
from attrs import frozen
from kit import changed
from small import Log, ends, flows, pipe

from fredfw import Framework
from fredfw.errors import PluginError
from fredfw.fabric import Fabric
from fredfw.simulation import ActiveFlows, Dynamics, FlowNetwork, HeldRates, Samples, StatefulSharing, max_min
from fredfw.typing import FloatArray


class Ramp(Dynamics):
    """Flows have a share of their max-min rate until they have drained for a second, then all of it."""

    def __init__(self, share: float) -> None:
        self.share = share
        self.seen: list[tuple[float, list[int], list[float], list[float]]] = []

    def rates(self, flows: ActiveFlows, capacities: FloatArray, now: float) -> HeldRates:
        self.seen.append((now, flows.ids.tolist(), flows.births.tolist(), flows.remaining.tolist()))
        ends = flows.births + 1.0
        slow = ends > now
        fair = max_min(flows.incidence, capacities)
        return HeldRates(np.where(slow, self.share * fair, fair), float(ends[slow].min()) if slow.any() else math.inf)

    def figures(self, now: float) -> Mapping[str, float]:
        return {"asked": float(len(self.seen)), "end (s)": now}

    def samples(self) -> Mapping[str, Samples]:
        times = np.array([now for now, *_ in self.seen])
        return {"queue": Samples(times, np.arange(len(times), dtype=float), "B")}

    def notes(self) -> tuple[str, ...]:
        return ("flows ramp",)


@frozen
class Ramping(StatefulSharing):
    name: ClassVar[str] = "ramping"
    share: float = 0.25

    def begin(self, fabric: Fabric) -> Dynamics:
        return Ramp(self.share)


@frozen
class Answering(StatefulSharing):
    name: ClassVar[str] = "answering"
    dynamics: Any = None

    def begin(self, fabric: Fabric) -> Dynamics:
        dynamics: Dynamics = self.dynamics
        return dynamics


def answering(rates: Callable[[ActiveFlows, FloatArray, float], Any]) -> StatefulSharing:
    return Answering(changed(Ramp, rates=staticmethod(rates)))


def test_rates_hold_as_long_as_they_say() -> None:
    network = FlowNetwork(pipe(), Ramping())
    # 25 B in the first second, the other 175 B at 100 B/s, and then the latency.
    assert ends(network, flows([200.0])) == [(1 + 1.75 + 0.5, [0])]
    assert network.link_bytes()[""].tolist() == [200.0]


def test_a_flow_keeps_its_number_and_what_is_known_of_it() -> None:
    network = FlowNetwork(pipe(), Ramping())
    early, late = Log(network), Log(network)
    network.start(flows([200.0, 30.0]), early)
    network.schedule(0.5, lambda: network.start(flows([100.0]), late))
    network.advance()
    dynamics = network.dynamics
    assert isinstance(dynamics, Ramp)
    # 12.5 B/s each until 0.5 s; 8.33 B/s each until 1 s; then those two have 33.3 B/s.
    first, second, third, *later = dynamics.seen
    assert first == (0.0, [0, 1], [0.0, 0.0], [200.0, 30.0])
    assert second == (0.5, [0, 1, 2], [0.0, 0.0, 0.5], [193.75, 23.75, 100.0])
    assert third[:3] == (1.0, [0, 1, 2], [0.0, 0.0, 0.5])
    assert third[3] == pytest.approx([193.75 - 25 / 6, 23.75 - 25 / 6, 100.0 - 25 / 6])
    assert [ids for _, ids, *_ in later][-1] in ([0], [2])
    assert [[done for _, done in log.ends] for log in (early, late)] == [[[1], [0]], [[0]]]


def test_steps_and_copies_make_no_difference() -> None:
    whole, stepped = FlowNetwork(pipe(), Ramping()), FlowNetwork(pipe(), Ramping())
    for network in (whole, stepped):
        network.start(flows([200.0, 30.0]), print)
    whole.advance()
    events = []
    while (time := stepped.next_event_time()) < math.inf:
        events.append(time)
        stepped.advance((stepped.now + time) / 2)
        stepped = pickle.loads(pickle.dumps(stepped))
        stepped.advance(time)
    assert stepped.now == pytest.approx(whole.now)
    assert 1.0 in events  # rates change, although no flow comes or goes


def test_a_change_of_links_asks_again() -> None:
    network = FlowNetwork(pipe(), Ramping(share=1.0))
    network.start(flows([200.0]), print)
    network.schedule(1.5, lambda: network.set_bandwidths(np.array([0]), np.array([10.0])))
    network.advance()
    assert network.now == pytest.approx(1.5 + 50 / 10 + 0.5)


def test_flows_may_all_stand_still_for_a_time() -> None:
    def pause(active: ActiveFlows, capacities: FloatArray, now: float) -> HeldRates:
        return HeldRates(np.full(len(active), 0.0 if now < 2 else capacities[0]), 2.0 if now < 2 else math.inf)

    network = FlowNetwork(pipe(), answering(pause))
    network.start(flows([100.0]), print)
    network.advance(1.0)
    assert network.stalled() == []
    network.advance()
    assert network.now == 2 + 1 + 0.5


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda active, capacities, now: HeldRates(np.ones(1), now), "holds rates until 0.0 at 0.0; expected seconds"),
        (lambda active, capacities, now: HeldRates(np.ones(1), math.nan), "holds rates until nan"),
        (lambda active, capacities, now: HeldRates(np.zeros(1)), "gives none of 1 flows a rate"),
        (lambda active, capacities, now: HeldRates(np.ones(2)), "an array of 1 numbers"),
        (lambda active, capacities, now: capacities, "expected fredfw.HeldRates"),
    ],
)
def test_an_answer_that_cannot_be_used(answer: Any, said: str) -> None:
    network = FlowNetwork(pipe(), answering(answer))
    network.start(flows([100.0]), print)
    with pytest.raises(PluginError, match=said):
        network.advance()
    with pytest.raises(PluginError, match=r"Answering.begin\(\) of .answering. returned 3; expected fredfw.Dynamics"):
        FlowNetwork(pipe(), Answering(3))


def test_standing_still_for_ever_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fredfw.simulation.network._PATIENCE", 5)
    network = FlowNetwork(pipe(), answering(lambda active, capacities, now: HeldRates(np.zeros(1), now + 1)))
    network.start(flows([100.0]), print)
    with pytest.raises(PluginError, match="gave none of 1 flows a rate, 5 times in turn"):
        network.advance()


def test_what_a_run_says() -> None:
    framework = Framework()
    fabric = framework.topology("switch", npus=4, link_bandwidth=100.0, link_latency=0.0).build()
    fabric = fabric.with_defaults(sharing=Ramping())
    usual, exact = (
        framework.simulate_collective(fabric, "all-reduce", size=400.0, algorithm="ring", fidelity=fidelity)
        for fidelity in ("compressed", "exact")
    )
    # Six steps of 100 B, each slow for its first second: 25 B, then 75 B at full rate.
    assert usual.duration == exact.duration == pytest.approx(6 * 1.75)
    assert usual.figures["end (s)"] == pytest.approx(10.5)
    assert "flows ramp" in usual.notes
    said = "rates of the sharing 'ramping' change in time, so the repetitions"
    assert any(note.startswith(said) for note in usual.notes)
    assert not any("change in time" in note for note in exact.notes)
