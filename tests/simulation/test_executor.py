from collections.abc import Callable, Mapping

import numpy as np
import pytest
from hypothesis import given, strategies as st
from small import Admitting, Gather, Never, by_rank, collective, executor, star

from fredfw.collectives import CollectiveAlgorithm, CollectiveRequest, Pattern, Schedule
from fredfw.collectives.direct import DirectAlgorithm
from fredfw.errors import DeadlockError, InputError, ScheduleError, UnsupportedError
from fredfw.fabric import Admission, AlwaysStart, Fabric, GroupView
from fredfw.framework import Framework
from fredfw.simulation import Planner, SharingPolicy, Simulator, Timeline
from fredfw.simulation.assignment import Assignment
from fredfw.workloads import GraphBuilder, TaskGraph, TaskKind


class Silent(Gather):
    name = "silent"

    def schedule(self, request: CollectiveRequest, view: GroupView) -> Schedule:
        return Schedule(request.pattern, request.ranks, float(request.size), 1, ())


def simulate(
    graph: TaskGraph,
    *,
    algorithm: CollectiveAlgorithm | None = None,
    sharing: SharingPolicy | None = None,
    admission: Callable[[], Admission] = AlwaysStart,
    priorities: Mapping[str, int] | None = None,
    fidelity: str = "compressed",
    fabric: Fabric | None = None,
) -> Timeline:
    on = fabric or star(graph.ranks, controllers=1, able=True)
    on = on.with_defaults(admission=Admitting(admission))
    algorithms = (algorithm,) if algorithm else ()
    timeline = executor(graph, on, *algorithms, sharing=sharing, priorities=priorities, fidelity=fidelity).run()
    total = sum(timeline.breakdown_by_rank.values(), np.zeros(graph.ranks))
    np.testing.assert_allclose(total, timeline.duration, rtol=1e-12)
    return timeline


def parts(timeline: Timeline) -> dict[str, list[float]]:
    return {label: seconds.tolist() for label, seconds in timeline.breakdown_by_rank.items() if seconds.any()}


def test_dependencies_hold_rank_by_rank_and_groups_end_on_their_own() -> None:
    builder = GraphBuilder(4)
    work = [builder.compute(f"w{rank}", [rank], seconds=float(rank)) for rank in range(4)]
    reduce = builder.collective("r", Pattern.ALL_REDUCE, [[0, 1], [2, 3]], 100.0, label="mp", after=work)
    builder.compute("after", [0, 1, 2, 3], seconds=1.0, after=[reduce])
    timeline = simulate(builder.build())
    after = np.flatnonzero(timeline.task == len(builder.build()) - 1)
    ends = {tuple(timeline.ranks[span].tolist()): timeline.end[span] for span in after}
    assert ends == {(0, 1): 4.0, (2, 3): 6.0}
    # Ranks 0 and 1 end at 4 s; the iteration goes on with the other group's all-reduce and its computation.
    assert parts(timeline)["bubble"] == [1.0 + 1.0, 0.0 + 1.0, 1.0, 0.0]
    assert parts(timeline)["mp"] == [2.0 + 1.0, 2.0 + 1.0, 2.0, 2.0]


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
    assert {label: seconds[2] for label, seconds in timeline.breakdown_by_rank.items()} == {
        "compute": 1.0,
        "bubble": 3.0,
        "pp": 2.0,
    }


def test_a_computation_begins_together_on_the_ranks_that_another_one_kept_busy() -> None:
    builder = GraphBuilder(2)
    first = builder.compute("first", [0, 1], seconds=1.0)
    second = builder.compute("second", [0, 1], seconds=1.0)
    builder.compute("third", [0], seconds=1.0, after=[first])  # gets ready when first ends, and waits for second
    timeline = simulate(builder.build())
    assert [timeline.ranks[span].tolist() for span in np.flatnonzero(timeline.task == second)] == [[0, 1]]


def starts(timeline: Timeline) -> dict[str, float]:
    names = timeline.graph.names
    return {names[task]: float(start) for task, start in zip(timeline.task, timeline.start, strict=True)}


@pytest.mark.parametrize("ranks", [[0], [0, 1]])
@pytest.mark.parametrize("busy", [1.0, 9.0])
def test_computations_of_the_same_moment_start_in_the_order_in_which_they_got_ready(
    busy: float, ranks: list[int]
) -> None:
    builder = GraphBuilder(2)
    builder.compute("busy", [0, 1], seconds=busy)
    first = builder.transfer("first", [[1, 0]], 100.0, label="pp")
    second = builder.transfer("second", [[1, 0]], 100.0, label="pp")
    # Both transfers end at 2 s, the first one before the second, with ranks at work or not.
    builder.compute("a", ranks, seconds=4.0, after=[second])
    builder.compute("b", ranks, seconds=1.0, after=[first])
    builder.compute("c", ranks, seconds=2.0, after=[first])
    timeline = simulate(builder.build())
    assert [timeline.graph.names[task] for task in timeline.task if task in (first, second)] == ["first", "second"]
    began, free = starts(timeline), max(busy, 2.0)
    assert [began[name] for name in "bca"] == [free, free + 1.0, free + 3.0]


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


def test_repeated_block_takes_the_same_time_compressed_and_stepwise() -> None:
    builder = GraphBuilder(2)
    with builder.repeated(5):
        work = builder.compute("a", [0, 1], seconds=1.0)
        builder.collective("r", Pattern.ALL_REDUCE, [[0, 1]], 100.0, label="mp", after=[work])
    compressed, stepwise = (simulate(builder.build(), fidelity=one) for one in ("compressed", "exact"))
    assert compressed.duration == stepwise.duration == 5 * (1.0 + 2.0)
    assert parts(compressed) == parts(stepwise) == {"compute": [5.0, 5.0], "mp": [10.0, 10.0]}
    assert (len(compressed), len(stepwise)) == (2, 10)


EVERY = pytest.mark.parametrize("fidelity", ["compressed", "stepwise", "exact", "per-rank-rendezvous"])


@EVERY
def test_many_messages_that_are_there_are_received_one_after_the_other(fidelity: str) -> None:
    builder = GraphBuilder(2)
    before = [builder.compute("busy", [1], seconds=9.0)]
    sends = [builder.send(f"s{number}", 0, 1, 0.0, label="pp") for number in range(3000)]
    for number, send in enumerate(sends):
        before = [builder.receive(f"r{number}", send, after=before)]
    assert simulate(builder.build(), fidelity=fidelity).duration == 9.0


@EVERY
def test_messages_in_a_repeated_block(fidelity: str) -> None:
    builder = GraphBuilder(2)
    with builder.repeated(3):
        work = builder.compute("work", [0, 1], seconds=1.0)
        send = builder.send("send", 0, 1, 100.0, label="pp", after=[work])
        builder.receive("receive", send, after=[work])
    builder.compute("end", [1], seconds=1.0)
    timeline = simulate(builder.build(), fidelity=fidelity)
    assert timeline.end[timeline.graph.kinds[timeline.task] == TaskKind.RECEIVE].tolist() == (
        [6.0] if fidelity == "compressed" else [2.0, 4.0, 6.0]
    )


@pytest.mark.parametrize("alone", [False, True])
def test_deadlock_of_single_ranks_names_the_rank(alone: bool) -> None:
    builder = GraphBuilder(3)
    work = builder.compute("work", [2], seconds=1.0)
    stuck = builder.collective("stuck", Pattern.ALL_REDUCE, [[0, 1]], 100.0, label="mp")
    builder.collective(
        "next", Pattern.ALL_REDUCE, [[1, 2]] if alone else [[1, 2], [2, 0]], 1.0, label="mp", after=[work, stuck]
    )
    with pytest.raises(DeadlockError, match=r"next \(mp\) waits for work, stuck on rank 1" if alone else "on rank 0"):
        simulate(builder.build(), admission=Never)


def test_sizes_of_pairs_are_sent_directly() -> None:
    builder = GraphBuilder(4)
    sizes = np.zeros((2, 2, 2))
    sizes[:, 0, 1], sizes[:, 1, 0], sizes[:, 0, 0] = (100.0, 500.0), (300.0, 0.0), 7.0
    builder.all_to_all_v("exchange", [[0, 1], [3, 2]], sizes, label="ep")
    graph = builder.build()
    assert graph.bytes.tolist() == [507.0]
    timeline = simulate(graph, algorithm=DirectAlgorithm())
    assert timeline.end.tolist() == [3.0, 5.0]
    assert [ranks.tolist() for ranks in timeline.ranks] == [[0, 1], [2, 3]]


def test_deadlock_names_who_waits_for_what() -> None:
    builder = GraphBuilder(2)
    reduce = builder.collective("reduce it", Pattern.ALL_REDUCE, [[0, 1]], 100.0, label="dp")
    builder.compute("then this", [0, 1], seconds=1.0, after=[reduce])
    send = builder.send("send", 0, 1, 100.0, label="pp")
    builder.receive("receive", send)
    with pytest.raises(DeadlockError) as raised:
        simulate(builder.build(), admission=Never)
    message = str(raised.value)
    assert "4 of 4 tasks" in message
    assert "reduce it (dp) has started and does not end" in message
    assert "then this (compute) waits for reduce it on rank 0" in message
    assert "send (pp) has started and does not end" in message
    assert "receive (pp) waits for send, the send of rank 0" in message
    assert "flows that cannot move: dp, pp" in message


def test_sending_nothing_is_an_error() -> None:
    # Of more ranks than schedules are replayed for.
    with pytest.raises(ScheduleError, match=r"'silent' .* rank 0 sends 0\.0 bytes in all phases, .* at least 100\.0"):
        simulate(collective([range(33)]), algorithm=Silent())


@st.composite
def written(draw: st.DrawFn) -> tuple[TaskGraph, TaskGraph]:
    """The same work twice: with tasks that stand for all ranks, and with a task of its own for each rank or group."""
    whole, apart = GraphBuilder(6), GraphBuilder(6)
    own: list[dict[int, list[int]]] = []  # of each task of the one, by rank, those of the other
    tables = [[[0, 1], [2, 3], [4, 5]], [[0, 2, 4], [1, 3, 5]], [[0, 1, 2, 3, 4, 5]], [[1, 2], [2, 3]], [[3, 0]]]
    for number in range(draw(st.integers(1, 7))):
        after = draw(st.lists(st.sampled_from(range(number)), unique=True, max_size=2)) if number else []
        kind = draw(st.sampled_from(["compute", "slow", "collective"]))
        table = [[rank] for rank in range(6)] if kind == "compute" else draw(st.sampled_from(tables))
        if kind == "slow":
            table = [[rank] for rank in sorted({rank for group in table for rank in group})]
        # No two sums of some are the same: of what gets ready at one moment, what begins first is a matter of order.
        size = draw(st.sampled_from([0.25, 1.0, 2.5, 7.0])) + 2.0 ** -(number + 4)
        mine: dict[int, list[int]] = {}
        for group in table:
            before = {one for task in after for rank in group for one in own[task].get(rank, [])}
            if kind == "collective":
                task = apart.collective(f"{number}", Pattern.ALL_REDUCE, [group], size, label="mp", after=before)
            else:
                task = apart.compute(f"{number}", group, seconds=size, after=before)
            for rank in group:
                mine.setdefault(rank, []).append(task)
        own.append(mine)
        if kind == "collective":
            whole.collective(f"{number}", Pattern.ALL_REDUCE, table, size, label="mp", after=after)
        else:
            whole.compute(f"{number}", [group[0] for group in table], seconds=size, after=after)
    return whole.build(), apart.build()


@given(written())
def test_a_task_of_all_ranks_is_as_a_task_of_each(graphs: tuple[TaskGraph, TaskGraph]) -> None:
    one, other = (simulate(graph) for graph in graphs)
    assert one.duration == pytest.approx(other.duration, rel=1e-12)
    assert by_rank(one) == pytest.approx(by_rank(other), rel=1e-12)


FRAMEWORK = Framework()


def assigned(graph: TaskGraph, algorithm: str = "ring", fabric: Fabric | None = None) -> Assignment:
    on = fabric or FRAMEWORK.topology("mesh2d", rows=2, columns=4, io_controllers=True).build()
    planner = Planner(Simulator(on), {None: (FRAMEWORK.plugins.collectives.get(algorithm)(),)})
    return Assignment(graph, planner=planner, placement=np.arange(graph.ranks)[::-1])


def test_collectives_that_no_algorithm_can_serve_are_known_at_once() -> None:
    assigned(collective([[0, 1, 2]], pattern=Pattern.ALL_REDUCE)).check_collectives()
    with pytest.raises(UnsupportedError, match="no algorithm can do all-to-all"):
        assigned(collective([[0, 1, 2]], pattern=Pattern.ALL_TO_ALL), "tree").check_collectives()


def test_streams_that_have_no_controller_or_no_links_are_known_at_once() -> None:
    builder = GraphBuilder(8)
    builder.load("weights", [0], [[0, 1]], 8.0, label="load")
    graph = builder.build()
    assigned(graph).check_streams()
    with pytest.raises(InputError, match="uses I/O controller 0, and '2x4 mesh' has 0"):
        assigned(graph, fabric=FRAMEWORK.topology("mesh2d", rows=2, columns=4, io_controllers=False).build())


def test_groups_of_one_plan_share_it() -> None:
    tasks = assigned(collective([[0, 1], [2, 3], [0, 3]], pattern=Pattern.ALL_REDUCE))
    (share,) = tasks.planned(0)
    assert share.groups is tasks.groups(0)
    assert share.members.tolist() == [3, 2]
    assert tasks.planned(0)[0] is share
    assert list(tasks.algorithms.values()) == ["ring"]
