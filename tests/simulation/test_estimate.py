"""Estimates of task graphs: NPUs around a switch, links of 100 B/s without latency, so that all is counted by hand."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from small import Gather, collective, executor, never, star

from fredfw.collectives import Pattern
from fredfw.errors import SimulationError
from fredfw.fabric import Fabric
from fredfw.simulation import Planner, Simulator
from fredfw.simulation.assignment import Assignment
from fredfw.simulation.estimate import Estimate, Estimator
from fredfw.workloads import GraphBuilder, TaskGraph


def estimate(graph: TaskGraph, fabric: Fabric | None = None) -> Estimate:
    fabric = fabric or around(graph.ranks)
    planner = Planner(Simulator(fabric), {None: (Gather(),)})
    tasks = Assignment(graph, planner=planner, placement=np.arange(graph.ranks))
    found = Estimator(tasks, lambda flops, moved, _kernels: flops + moved).estimate()
    assert sum(found.breakdown.values()) == pytest.approx(found.seconds, rel=1e-12)
    return found


def around(npus: int, **fields: Any) -> Fabric:
    """NPUs and a controller around a switch; 1 J for each 50 bytes on a link."""
    return star(npus, controllers=1, energy=0.02, able=True, **fields)


def test_a_chain_takes_the_sum_of_its_parts() -> None:
    builder = GraphBuilder(2)
    first = builder.compute("a", [0, 1], flops=1.0)
    reduce = builder.collective("r", Pattern.ALL_REDUCE, [[0, 1]], 100.0, label="dp", after=[first])
    builder.compute("b", [0, 1], seconds=3.0, after=[reduce])
    found = estimate(builder.build())
    assert found.seconds == 1.0 + 2.0 + 3.0
    assert found.breakdown == {"compute": 4.0, "dp": 2.0}
    assert found.algorithms == {"dp all-reduce x2": "there-and-back"}
    # 100 bytes over two links, and back.
    assert found.energy == pytest.approx(400 * 0.02)


def test_repeated_blocks_are_scaled_and_equal_communications_are_simulated_once() -> None:
    builder = GraphBuilder(2)
    last: tuple[int, ...] = ()
    for _ in range(5):
        with builder.repeated(10):
            one = builder.compute("a", [0, 1], seconds=1.0, after=last)
            last = (builder.collective("r", Pattern.ALL_REDUCE, [[0, 1]], 100.0, label="dp", after=[one]),)
    found = estimate(builder.build())
    assert found.seconds == 5 * 10 * (1.0 + 2.0)
    assert found.energy == pytest.approx(50 * 400 * 0.02)
    single = GraphBuilder(2)
    with single.repeated(10):
        single.collective("r", Pattern.ALL_REDUCE, [[0, 1]], 100.0, label="dp")
    assert found.statistics == estimate(single.build()).statistics


def test_what_shares_links_does_not_hinder_each_other() -> None:
    builder = GraphBuilder(2)
    builder.collective("r", Pattern.ALL_REDUCE, [[0, 1]], 100.0, label="dp")
    builder.collective("s", Pattern.ALL_REDUCE, [[0, 1]], 100.0, label="mp")
    graph = builder.build()
    assert executor(graph, around(2)).run().duration == pytest.approx(4.0)
    found = estimate(graph)
    assert found.seconds == 2.0
    assert sorted(found.algorithms) == ["dp all-reduce x2", "mp all-reduce x2"]


def groups_that_share_links(builder: GraphBuilder) -> None:
    builder.collective("r", Pattern.BROADCAST, [[0, 1], [0, 2]], 100.0, label="dp")


def ranks_that_wait_for_their_own_pairs(builder: GraphBuilder) -> None:
    slow = builder.compute("slow", [0], seconds=5.0)
    fast = builder.compute("fast", [1, 2, 3], seconds=1.0)
    pairs = builder.collective("r", Pattern.ALL_REDUCE, [[0, 1], [2, 3]], 100.0, label="dp", after=[slow, fast])
    builder.compute("behind the slow pair", [1], seconds=1.0, after=[pairs])
    builder.compute("behind the fast pair", [2], seconds=4.5, after=[pairs])


def a_transfer_that_waits_for_its_sender_alone(builder: GraphBuilder) -> None:
    ready = [builder.compute("sender", [0], seconds=1.0), builder.compute("receiver", [1], seconds=1.5)]
    sent = builder.transfer("t", [[0, 1]], 100.0, label="pp", after=ready)
    builder.compute("behind", [1], seconds=2.0, after=[sent])


def a_receive_that_ends_with_its_message(builder: GraphBuilder) -> None:
    before = builder.compute("before", [0], seconds=1.0)
    receive = builder.receive("r", builder.send("s", 0, 1, 100.0, label="pp", after=[before]))
    builder.compute("behind", [1], seconds=2.0, after=[receive])


def computations_of_one_rank(builder: GraphBuilder) -> None:
    for name, rank, seconds in (("a", 0, 2.0), ("b", 0, 3.0), ("c", 1, 4.0)):
        builder.compute(name, [rank], seconds=seconds)


def a_load(builder: GraphBuilder) -> None:
    load = builder.load("l", [0], [[0, 1]], 100.0, label="load")
    builder.compute("behind", [0, 1], seconds=2.0, after=[load])


@pytest.mark.parametrize(
    ("add", "expected"),
    [
        (groups_that_share_links, {"compute": 0.0, "dp": 2.0}),
        (ranks_that_wait_for_their_own_pairs, {"compute": 5.0 + 1.0, "dp": 2.0}),
        (a_transfer_that_waits_for_its_sender_alone, {"compute": 1.0 + 2.0, "pp": 1.0}),
        (a_receive_that_ends_with_its_message, {"compute": 1.0 + 2.0, "pp": 1.0}),
        (a_load, {"compute": 2.0, "load": 1.0}),
        (computations_of_one_rank, {"compute": 5.0}),
        (lambda builder: None, {"compute": 0.0}),
    ],
)
def test_what_nobody_else_hinders_is_as_simulated(
    add: Callable[[GraphBuilder], None], expected: dict[str, float]
) -> None:
    builder = GraphBuilder(4)
    add(builder)
    graph = builder.build()
    found = estimate(graph)
    assert found.seconds == executor(graph, around(4)).run().duration == sum(expected.values())
    assert found.breakdown == expected


def test_a_communication_that_does_not_end_is_named() -> None:
    with pytest.raises(SimulationError, match="task 'gradients' does not end on 'star'"):
        estimate(collective([[0, 1]], name="gradients"), around(2, admission=never))
