from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import pytest
from attrs import evolve, frozen

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
    Phase,
    Refuse,
    Schedule,
    Start,
    Wait,
    ring_schedule,
)
from fredfw.collectives.direct import DirectAlgorithm
from fredfw.errors import PluginError, RefusedError, ScheduleError, UnsupportedError
from fredfw.simulation import Lowering, Planner
from fredfw.simulation.planner import too_fast
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


def ring(admission: type[Admission], npus: int = 4) -> Fabric:
    here, there = np.arange(npus), (np.arange(npus) + 1) % npus
    return Fabric(
        name="ring",
        kinds=[NodeKind.NPU] * npus,
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


class Almost(Neighbours):
    """Longer than Neighbours by less than rounding."""

    name: ClassVar[str] = "almost"

    def schedule(self, request: CollectiveRequest, view: GroupView) -> Schedule:
        return super().schedule(evolve(request, size=request.size * (1 + 1e-12)), view)


def test_times_that_differ_by_rounding_are_ties() -> None:
    plan = planner(ring(AlwaysStart), Neighbours(), Almost()).plan(REQUEST, MEMBERS)
    assert plan.candidates["almost"] > plan.candidates["neighbours"]
    assert plan.algorithm == "almost"


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


@pytest.mark.parametrize(("now", "noted"), [(1e-3, True), (1e9, False)])
def test_a_time_below_its_bound_is_noted_unless_the_clock_cannot_tell(now: float, noted: bool) -> None:
    request = CollectiveRequest(Pattern.ALL_REDUCE, 8, 8192.0)
    assert (too_fast("ring", request, 82.72e-9, 82.73e-9, now) is not None) == noted


def test_first_takes_the_first_that_can_serve() -> None:
    plan = planner(ring(OneHop), DirectAlgorithm(), Neighbours(), fastest=False).plan(REQUEST, MEMBERS)
    assert plan.algorithm == "direct"


@frozen
class Hasty(Neighbours):
    """Half of the bytes, the root ignored, nothing at all, or chunks that there are not."""

    name: ClassVar[str] = "hasty"
    patterns: ClassVar[frozenset[Pattern]] = frozenset({Pattern.ALL_REDUCE, Pattern.BROADCAST})
    fault: str = "half"

    def schedule(self, request: CollectiveRequest, view: GroupView) -> Schedule:
        others = np.arange(1, request.ranks)
        match self.fault:
            case "nothing":
                return None  # type: ignore[return-value]  # that is the fault
            case "chunks":
                return Schedule(request.pattern, request.ranks, request.size, 1, [Phase.of(0, others, 1)])
            case "root":
                return Schedule(request.pattern, request.ranks, request.size, 1, [Phase.of(0, others, 0)])
        return ring_schedule(request.pattern, request.size / 2, np.arange(request.ranks)[:, None])


def test_a_wrong_schedule_is_an_error_that_names_the_algorithm() -> None:
    # It wins, being twice as fast.
    with pytest.raises(ScheduleError) as wrong:
        planner(ring(AlwaysStart), Neighbours(), Hasty()).plan(REQUEST, MEMBERS)
    assert str(wrong.value) == (
        f"module {__name__!r} ({__file__}): algorithm 'hasty' does not do all-reduce among 4 NPUs: the chunks sum to "
        "2000000000.0 bytes, not to the 4000000000.0 of the request"
    )
    with pytest.raises(ScheduleError, match=r"'hasty\(fault=chunks\)' does not .*: phase 0 has a chunk outside 0\.\.0"):
        planner(ring(AlwaysStart), Hasty("chunks")).plan(REQUEST, MEMBERS)
    with pytest.raises(PluginError, match=r"Hasty\.schedule\(\) of 'hasty' returned None; expected a fredfw"):
        planner(ring(AlwaysStart), Hasty("nothing")).plan(REQUEST, MEMBERS)


def test_a_schedule_is_replayed_for_every_request_that_it_answers() -> None:
    plans = planner(ring(AlwaysStart), Hasty("root"))
    plans.plan(CollectiveRequest(Pattern.BROADCAST, 4, 4e9), MEMBERS)
    for _ in range(2):  # what was refused once is not taken the second time
        with pytest.raises(ScheduleError, match="root is 0, the request's is 2"):
            plans.plan(CollectiveRequest(Pattern.BROADCAST, 4, 4e9, root=2), MEMBERS)
