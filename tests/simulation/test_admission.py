"""What the engine does with the answers of a fabric's admission; flows share one link unless a test says otherwise."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from attrs import evolve
from small import Log, deciding, ends, flows, joined, no_trees, pipe, star, started

from fredfw import Admission, Decompose, Fabric, FlowSet, Operation, Routes, ShortestPathRouter
from fredfw.collectives import Pattern, Phase, Schedule
from fredfw.errors import PluginError, SimulationError
from fredfw.fabric import Decision, Split, Start, Wait
from fredfw.simulation import FlowNetwork
from fredfw.typing import IntArray


class UpDown(ShortestPathRouter):
    def tree(self, fabric: Fabric, sources: IntArray, destinations: IntArray, operation: Operation) -> Routes:
        return Routes.of([np.concatenate([sources, len(fabric.npus) + destinations])], [2 * fabric.latencies[0]])


def up_down(npus: int, admission: Callable[[], Admission], latency: float = 0.25) -> Fabric:
    """A star on which all-reduces go up from all members and down to them."""
    return star(npus, latency=latency, admission=admission).with_defaults(router=UpDown())


def singles(flows: FlowSet) -> Split:
    return Split(tuple(np.arange(len(flows.volumes))[:, None]))


def halved(flows: FlowSet, active: Sequence[FlowSet]) -> Decision:
    """Split in halves, again and again."""
    count = len(flows.volumes)
    return Start() if count == 1 else Split((np.arange(count // 2), np.arange(count // 2, count)), "too many")


halves = deciding(halved)


class Circuits(Admission):
    """One flow at a time; setting up takes a second, and nothing where the flow is the last one again."""

    def __init__(self) -> None:
        self.last: Routes | None = None

    def admit(self, flows: FlowSet, active: Sequence[FlowSet]) -> Decision:
        if len(flows.volumes) > 1:
            return singles(flows)
        changed, self.last = self.last is not flows.routes, flows.routes
        return Start(setup=1.0 if changed else 0.0, setup_once=True)


@pytest.mark.parametrize("repeat", [1, 4])
def test_parts_run_one_after_the_other(repeat: int) -> None:
    volumes = [100.0, 400.0, 200.0, 50.0, 300.0]
    network = FlowNetwork(pipe(admission=halves))
    expected = np.cumsum([repeat * (volume / 100.0 + 0.5) for volume in volumes])
    seen = ends(network, flows(volumes, repeat=repeat, label="a"))
    assert [activities for _, activities in seen] == [[0], [1], [2], [3], [4]]
    assert [time for time, _ in seen] == pytest.approx(expected, rel=1e-12)
    assert network.link_bytes()["a"] == pytest.approx([repeat * sum(volumes)])
    # Five flows in halves: 2 + 3, then 1 + 1 and 1 + 2, then 1 + 1.
    assert (network.statistics.splits, network.statistics.batches, network.statistics.flows) == (4, 5, 5)


def ended(admission: Callable[[], Admission], flow_set: FlowSet) -> list[tuple[float, list[int]]]:
    return ends(FlowNetwork(pipe(admission=admission)), flow_set)


def test_an_activity_ends_with_its_last_part() -> None:
    three = Split((np.array([0]), np.array([2, 1]), np.array([3])))
    thirds = deciding(lambda all_, _: three if len(all_.volumes) == 4 else Start())
    # Activity 2 has no flows; those of the others are in parts 0, 1 and 1, 2.
    flow_set = flows([100.0, 200.0, 100.0, 100.0], activity=np.array([0, 1, 0, 1]), activities=3)
    # 1.5 s; two flows at 50 B/s from then: one until 3.5 s, 100 bytes left of the other at 100 B/s until 4.5 s.
    assert ended(thirds, flow_set) == [(0.0, [2]), (4.0, [0]), (6.5, [1])]


def test_a_part_keeps_its_caps_and_pays_its_setup_at_each_turn() -> None:
    assert ended(halves, flows([100.0, 100.0], caps=np.array([10.0, 50.0]), setup=3.0)) == [(13.5, [0]), (19.0, [1])]
    assert ended(Circuits, flows([100.0], repeat=4)) == [(1.0 + 4 * 1.5, [0])]  # circuits that stay
    assert ended(Circuits, flows([100.0, 100.0], repeat=4)) == [(4 * 2.5, [0]), (8 * 2.5, [1])]


@pytest.mark.parametrize(("npus", "split"), [(2, True), (5, True), (2, False), (5, False)])
def test_a_repeated_phase_in_parts_compressed_equals_stepwise(npus: int, split: bool) -> None:
    source = np.arange(npus if split else 1)
    steps = 6
    phase = Phase.of(source, (source + 1) % npus, source, stride=1, modulus=npus, repeat=steps)
    schedule = Schedule(Pattern.ALL_GATHER, npus, 30.0, npus, (phase,))
    for stepwise in (False, True):
        network = FlowNetwork(up_down(npus, Circuits))
        log = started(network, schedule, network.fabric.npus[None, :], "stepwise" if stepwise else "compressed")
        network.advance()
        once = 30.0 / 100.0 + 2 * 0.25
        expected = steps * npus * (1.0 + once) if split else 1.0 + steps * once
        assert [activities for _, activities in log.ends] == [[0]]
        assert network.now == pytest.approx(expected, rel=1e-12)
        assert network.statistics.splits == (0 if not split else steps if stepwise else 1)
        assert network.link_bytes()[""].sum() == pytest.approx(2 * steps * len(source) * 30.0)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([[0, 1], [1, 2]], r"Deciding\.admit\(\) splits mp into .* that do not hold each of its 3 flows exactly once"),
        ([[0, 1], [3]], "do not hold each of its 3 flows exactly once"),
        ([[0], [1]], "do not hold each of its 3 flows exactly once"),
        ([[0, 1, 2]], "splits mp into itself; expected two or more"),
        ([[0, 1, 2], []], "splits mp into itself"),
        ([], "splits mp into itself"),
    ],
)
def test_parts_that_are_none_are_refused(parts: list[list[int]], message: str) -> None:
    split = deciding(lambda *_: Split(tuple(np.array(part, dtype=np.intp) for part in parts)))
    with pytest.raises(PluginError, match=message):
        FlowNetwork(pipe(admission=split)).start(flows([1.0, 1.0, 1.0], label="mp"), lambda _: None)


def test_a_part_waits_for_what_came_before_its_turn() -> None:
    def one_by_one(flows: FlowSet, active: Sequence[FlowSet]) -> Decision:
        if len(flows.volumes) > 1:
            return singles(flows)
        return Wait("busy") if active else Start()

    network = FlowNetwork(pipe(admission=deciding(one_by_one)))
    one, other = Log(network), Log(network)
    network.start(flows([100.0, 100.0]), one)
    network.start(flows([200.0]), other)
    network.advance()
    assert other.ends == [(1.5 + 2.5, [0])]
    assert one.ends == [(1.5, [0]), (1.5 + 2.5 + 1.5, [1])]
    assert (network.statistics.waits, network.statistics.splits) == (2, 1)
    assert network.idle


def tree(groups: int, volume: float) -> FlowSet:
    """Per group a flow over three links, an activity of its own."""
    return flows([volume] * groups, [range(3 * group, 3 * group + 3) for group in range(groups)], 1.0, label="mp")


def unicasts(groups: int, volume: float) -> Callable[[], FlowSet]:
    """Per group two flows over the first of those links."""
    where, activity = [[3 * (flow // 2)] for flow in range(2 * groups)], np.repeat(np.arange(groups), 2)
    flow_set = flows([volume] * 2 * groups, where, 1.0, activity=activity, activities=groups, label="mp")
    return lambda: flow_set


def nine_links(admission: Callable[[], Admission]) -> FlowNetwork:
    return FlowNetwork(joined([(0, 1)] * 9, 100.0, admission=admission))


def decomposed(groups: int, admission: Callable[[], Admission]) -> tuple[FlowNetwork, list[tuple[float, list[int]]]]:
    """Run trees of 100 bytes, or unicasts of 150 instead."""
    network = nine_links(admission)
    log = Log(network)
    network.start(tree(groups, 100.0), log, unicasts=unicasts(groups, 150.0))
    network.advance()
    return network, log.ends


def test_unicasts_run_instead() -> None:
    network, found = decomposed(3, no_trees)
    assert found == [(1.0 + 3.0, [0, 1, 2])]
    assert network.statistics.decompositions == 1
    assert network.link_bytes()["mp"].tolist() == [300.0, 0.0, 0.0] * 3


def test_unicasts_are_asked_about_too() -> None:
    def unicasts_in_halves(flows: FlowSet, active: Sequence[FlowSet]) -> Decision:
        decision = no_trees().admit(flows, active)
        return halved(flows, active) if isinstance(decision, Start) else decision

    network, found = decomposed(1, deciding(unicasts_in_halves))
    assert found == [(2 * 2.5, [0])]
    assert (network.statistics.decompositions, network.statistics.splits) == (1, 1)


def test_what_has_no_unicasts_and_unicasts_themselves_cannot_be_decomposed() -> None:
    with pytest.raises(
        SimulationError, match="fabric 'links' cannot carry mp, and cannot replace it by unicasts: a tree"
    ):
        nine_links(no_trees).start(tree(1, 1.0), lambda _: None)
    nothing = deciding(lambda *_: Decompose("nothing works"))
    with pytest.raises(SimulationError, match="cannot replace it by unicasts: nothing works"):
        nine_links(nothing).start(tree(1, 1.0), lambda _: None, unicasts=unicasts(1, 1.0))


@deciding
def some_trees(flows: FlowSet, active: Sequence[FlowSet]) -> Decision:
    """Of three or more trees, carry the first, and have the others done by unicasts."""
    count = len(flows.volumes)
    if not (np.diff(flows.routes.offsets) > 2).all() or count == 1:
        return Start()
    return Split((np.array([0]), np.arange(1, count))) if count > 2 else Decompose("a conflict")


def test_whole_activities_can_be_decomposed_apart() -> None:
    network, found = decomposed(3, some_trees)
    assert found == [(2.0, [0]), (2.0 + 4.0, [1, 2])]
    assert network.link_bytes()["mp"].tolist() == [100.0] * 3 + [300.0, 0.0, 0.0] * 2


def test_a_piece_of_an_activity_cannot_be_decomposed() -> None:
    network = nine_links(some_trees)
    flow_set = evolve(tree(3, 100.0), activity=np.zeros(3, dtype=np.intp), activities=1)
    network.start(flow_set, lambda _: None, unicasts=unicasts(1, 150.0))
    with pytest.raises(SimulationError, match="cannot replace it by unicasts: a conflict"):
        network.advance()


@pytest.mark.parametrize("npus", [2, 3, 8, 17])
@pytest.mark.parametrize("stepwise", [False, True])
def test_an_all_reduce_by_its_ends(npus: int, stepwise: bool) -> None:
    rank, size, steps = np.arange(npus), 340.0, 3
    phase = Phase.of(rank, (rank + 1) % npus, 0, reduce=True, stream=np.zeros(npus, dtype=np.intp), repeat=steps)
    schedule = Schedule(Pattern.ALL_REDUCE, npus, size, 1, (phase,))
    network = FlowNetwork(up_down(2 * npus, no_trees))
    groups = network.fabric.npus.reshape(2, npus)
    log = started(network, schedule, groups, "stepwise" if stepwise else "compressed")
    network.advance()
    moved = 2 * (npus - 1) / npus * size
    assert [activities for _, activities in log.ends] == [[0, 1]]
    assert network.now == pytest.approx(steps * (moved / 100.0 + 2 * 0.5), rel=1e-12)
    # Every NPU sends that much, and receives it.
    assert network.link_bytes()[""] == pytest.approx(np.full(4 * npus, steps * moved))
