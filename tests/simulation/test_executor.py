from collections.abc import Callable

import numpy as np
import pytest
from small import Fixed, Gather, collective, executor, never, star

from fredfw.collectives import CollectiveAlgorithm, Pattern, Schedule
from fredfw.errors import DeadlockError, InputError, ScheduleError, UnsupportedError
from fredfw.fabric import Admission, AlwaysStart
from fredfw.framework import Framework
from fredfw.simulation import Planner, Simulator, Timeline
from fredfw.simulation.assignment import Assignment
from fredfw.workloads import GraphBuilder, TaskGraph


def simulate(
    graph: TaskGraph,
    *,
    algorithm: CollectiveAlgorithm | None = None,
    admission: Callable[[], Admission] = AlwaysStart,
    fidelity: str = "compressed",
) -> Timeline:
    on = star(graph.ranks, controllers=1, able=True, admission=admission)
    timeline = executor(graph, on, algorithm or Gather(), fidelity=fidelity).run()
    total = sum(timeline.breakdown_by_rank.values(), np.zeros(graph.ranks))
    np.testing.assert_allclose(total, timeline.duration, rtol=1e-12)
    return timeline


def parts(timeline: Timeline) -> dict[str, list[float]]:
    return {label: seconds.tolist() for label, seconds in timeline.breakdown_by_rank.items() if seconds.any()}


def test_hidden_communication_is_not_exposed() -> None:
    builder = GraphBuilder(2)
    first = builder.compute("a", [0, 1], seconds=1.0)
    reduce = builder.collective("r", Pattern.ALL_REDUCE, [[0, 1]], 100.0, label="dp", after=[first])
    second = builder.compute("b", [0, 1], seconds=1.5, after=[first])
    builder.compute("c", [0, 1], seconds=1.0, after=[reduce, second])
    timeline = simulate(builder.build())
    assert timeline.duration == 4.0
    assert parts(timeline) == {"compute": [3.5, 3.5], "dp": [0.5, 0.5]}


def test_chain_of_causes_is_walked_back() -> None:
    # Rank 2 waits for rank 1, which waited for rank 0: 1 s bubble, 1 s pp, 2 s bubble, 1 s pp.
    builder = GraphBuilder(3)
    a = builder.compute("a", [0], seconds=1.0)
    b = builder.transfer("0-1", [[0, 1]], 100.0, label="pp", after=[a])
    c = builder.compute("c", [1], seconds=2.0, after=[b])
    d = builder.transfer("1-2", [[1, 2]], 100.0, label="pp", after=[c])
    builder.compute("e", [2], seconds=1.0, after=[d])
    timeline = simulate(builder.build())
    found = {label: seconds[2] for label, seconds in timeline.breakdown_by_rank.items()}
    assert found == {"compute": 1.0, "bubble": 3.0, "pp": 2.0}


@pytest.mark.parametrize("controller", [1, -1])
@pytest.mark.parametrize("kind", ["load", "store"])
def test_a_controller_that_is_not_there_is_an_error_before_anything_runs(kind: str, controller: int) -> None:
    builder = GraphBuilder(2)
    getattr(builder, kind)("weights", [0], [[0, 1]], 100.0, label="stream")
    getattr(builder, kind)("more weights", [controller], [[0, 1]], 100.0, label="stream")
    with pytest.raises(
        InputError, match=rf"'more weights' uses I/O controller {controller}, .*'star'.* \(accepted: 0 to 0\)"
    ):
        simulate(builder.build())


@pytest.mark.parametrize("fidelity", ["compressed", "stepwise", "exact", "per-rank-rendezvous"])
def test_many_messages_that_are_there_are_received_one_after_the_other(fidelity: str) -> None:
    builder = GraphBuilder(2)
    before = [builder.compute("busy", [1], seconds=9.0)]
    sends = [builder.send(f"s{number}", 0, 1, 0.0, label="pp") for number in range(3000)]
    for number, send in enumerate(sends):
        before = [builder.receive(f"r{number}", send, after=before)]
    assert simulate(builder.build(), fidelity=fidelity).duration == 9.0


@pytest.mark.parametrize("alone", [False, True])
def test_deadlock_of_single_ranks_names_the_rank(alone: bool) -> None:
    builder = GraphBuilder(3)
    work = builder.compute("work", [2], seconds=1.0)
    stuck = builder.collective("stuck", Pattern.ALL_REDUCE, [[0, 1]], 100.0, label="mp")
    builder.collective(
        "next", Pattern.ALL_REDUCE, [[1, 2]] if alone else [[1, 2], [2, 0]], 1.0, label="mp", after=[work, stuck]
    )
    with pytest.raises(DeadlockError, match=r"next \(mp\) waits for work, stuck on rank 1" if alone else "on rank 0"):
        simulate(builder.build(), admission=never)


def test_deadlock_names_who_waits_for_what() -> None:
    builder = GraphBuilder(2)
    reduce = builder.collective("reduce it", Pattern.ALL_REDUCE, [[0, 1]], 100.0, label="dp")
    builder.compute("then this", [0, 1], seconds=1.0, after=[reduce])
    send = builder.send("send", 0, 1, 100.0, label="pp")
    builder.receive("receive", send)
    with pytest.raises(DeadlockError) as raised:
        simulate(builder.build(), admission=never)
    for said in (
        *("4 of 4 tasks", "reduce it (dp) has started and does not end", "send (pp) has started and does not end"),
        *("then this (compute) waits for reduce it on rank 0", "receive (pp) waits for send, the send of rank 0"),
        "flows that cannot move: dp, pp",
    ):
        assert said in str(raised.value)


def test_sending_nothing_is_an_error() -> None:
    # Of more ranks than schedules are replayed for.
    with pytest.raises(ScheduleError, match=r"rank 0 sends 0\.0 bytes in all phases, .* at least 100\.0"):
        simulate(collective([range(33)]), algorithm=Fixed(Schedule(Pattern.ALL_REDUCE, 33, 100.0, 1, ())))


def test_collectives_that_no_algorithm_can_serve_are_known_at_once() -> None:
    tree = Framework().plugins.collectives.get("tree")()
    planner = Planner(Simulator(star(3)), {None: (tree,)})

    def check(pattern: Pattern) -> None:
        graph = collective([[0, 1, 2]], pattern=pattern)
        Assignment(graph, planner=planner, placement=np.arange(3)).check_collectives()

    check(Pattern.ALL_REDUCE)
    with pytest.raises(UnsupportedError, match="no algorithm can do all-to-all"):
        check(Pattern.ALL_TO_ALL)
