import numpy as np
import pytest

from fredfw.collectives import Pattern
from fredfw.errors import InputError, UnsupportedError
from fredfw.fabric import Fabric
from fredfw.framework import Framework
from fredfw.simulation import Lowering, MaxMin, Planner
from fredfw.simulation.assignment import Assignment
from fredfw.workloads import GraphBuilder, TaskGraph

FRAMEWORK = Framework()


def assigned(graph: TaskGraph, algorithm: str = "ring", fabric: Fabric | None = None) -> Assignment:
    on = fabric or FRAMEWORK.topology("mesh2d", rows=2, columns=4, io_controllers=True).build()
    lowering, algorithms = Lowering(on), (FRAMEWORK.plugins.collectives.get(algorithm)(),)
    planner = Planner(on, MaxMin(), lowering, {None: algorithms})
    placement = np.arange(graph.ranks)[::-1]
    return Assignment(graph, fabric=on, placement=placement, planner=planner, lowering=lowering)


def collective(pattern: Pattern, groups: list[list[int]]) -> TaskGraph:
    builder = GraphBuilder(8)
    builder.collective("c", pattern, groups, 8.0, label="mp")
    return builder.build()


def test_collectives_that_no_algorithm_can_serve_are_known_at_once() -> None:
    assigned(collective(Pattern.ALL_REDUCE, [[0, 1, 2]])).check_collectives()
    with pytest.raises(UnsupportedError, match="no algorithm can do all-to-all"):
        assigned(collective(Pattern.ALL_TO_ALL, [[0, 1, 2]]), "tree").check_collectives()


def test_streams_that_have_no_controller_or_no_links_are_known_at_once() -> None:
    builder = GraphBuilder(8)
    builder.load("weights", [0], [[0, 1]], 8.0, label="load")
    graph = builder.build()
    assigned(graph).check_streams()
    with pytest.raises(InputError, match="uses I/O controller 0, and '2x4 mesh' has 0"):
        assigned(graph, fabric=FRAMEWORK.topology("mesh2d", rows=2, columns=4, io_controllers=False).build())


def test_groups_of_one_plan_share_it() -> None:
    tasks = assigned(collective(Pattern.ALL_REDUCE, [[0, 1], [2, 3], [0, 3]]))
    (share,) = tasks.planned(0)
    assert (share.served, share.first, share.members.tolist()) == (None, 0, [7, 6])
    assert tasks.planned(0)[0] is share
    assert list(tasks.algorithms.values()) == ["ring"]
