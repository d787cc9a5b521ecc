from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import pytest
from attrs import frozen

from fredfw import (
    Admission,
    AlwaysStart,
    CollectiveAlgorithm,
    CollectiveRequest,
    Decision,
    Fabric,
    FlowSet,
    GroupView,
    NodeKind,
    Pattern,
    Refuse,
    Schedule,
    Start,
    Wait,
    ring_schedule,
)
from fredfw.collectives.direct import DirectAlgorithm
from fredfw.errors import RefusedError, UnsupportedError
from fredfw.simulation import Lowering, Planner
from fredfw.simulation.sharing import MaxMin

REQUEST = CollectiveRequest(Pattern.ALL_REDUCE, 4, 4e9)
MEMBERS = np.arange(4)


@frozen
class Neighbours(CollectiveAlgorithm):
    name: ClassVar[str] = "neighbours"
    patterns: ClassVar[frozenset[Pattern]] = frozenset({Pattern.ALL_REDUCE})

    def schedule(self, request: CollectiveRequest, view: GroupView) -> Schedule:
        return ring_schedule(request.pattern, request.size, np.arange(request.ranks)[:, None])


class OneHop(Admission):
    """Refuses flows over more than one link."""

    def admit(self, flows: FlowSet, active: Sequence[FlowSet]) -> Decision:
        longest = int(np.diff(flows.routes.offsets).max(initial=0))
        return Start() if longest <= 1 else Refuse(f"{longest} hops are too many")


class Never(Admission):
    def admit(self, flows: FlowSet, active: Sequence[FlowSet]) -> Decision:
        return Wait("for something that never comes")


def ring(admission: type[Admission]) -> Fabric:
    here, there = np.arange(4), (np.arange(4) + 1) % 4
    return Fabric(
        name="ring",
        kinds=[NodeKind.NPU] * 4,
        sources=np.concatenate([here, there]),
        destinations=np.concatenate([there, here]),
        bandwidths=1e9,
        latencies=0.0,
        energies=0.0,
        admission=admission,
    )


def planner(fabric: Fabric, *candidates: CollectiveAlgorithm, fastest: bool = True) -> Planner:
    return Planner(fabric, MaxMin(), Lowering(fabric), {None: candidates}, fastest=fastest)


def test_the_fastest_candidate_is_taken_ties_by_name() -> None:
    free = ring(AlwaysStart)
    plan = planner(free, Neighbours(), DirectAlgorithm()).plan(REQUEST, MEMBERS)
    # The ring sends 2 * 3/4 * 4 GB over each link of one direction: 6 s. Direct sends 1 GB to each other rank, and each
    # link carries that of the neighbour and of one or two pairs across, so between 2 and 3 GB for either half.
    assert plan.candidates["neighbours"] == pytest.approx(6.0)
    assert 4.0 <= plan.candidates["direct"] <= 6.0
    assert plan.algorithm == min(sorted(plan.candidates), key=plan.candidates.__getitem__)


def test_a_candidate_that_the_fabric_refuses_is_left_out() -> None:
    plan = planner(ring(OneHop), DirectAlgorithm(), Neighbours()).plan(REQUEST, MEMBERS)
    assert plan.algorithm == "neighbours"
    assert list(plan.candidates) == ["neighbours"]


def test_where_all_are_refused_every_reason_is_given() -> None:
    with pytest.raises(RefusedError, match="direct: fabric 'ring' refuses flows: 2 hops are too many") as caught:
        planner(ring(OneHop), DirectAlgorithm(), _Two()).plan(REQUEST, MEMBERS)
    assert "two: " in str(caught.value)
    assert isinstance(caught.value, UnsupportedError)


class _Two(DirectAlgorithm):
    name: ClassVar[str] = "two"


def test_a_candidate_that_never_ends_is_no_candidate() -> None:
    with pytest.raises(RefusedError, match="flows that cannot move on 'ring'"):
        planner(ring(Never), DirectAlgorithm(), Neighbours()).plan(REQUEST, MEMBERS)


def test_a_single_candidate_is_not_tried() -> None:
    assert planner(ring(Never), Neighbours()).plan(REQUEST, MEMBERS).candidates == {}


def test_first_takes_the_first_that_can_serve() -> None:
    plan = planner(ring(OneHop), DirectAlgorithm(), Neighbours(), fastest=False).plan(REQUEST, MEMBERS)
    assert plan.algorithm == "direct"
