import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pytest
from attrs import evolve, frozen
from kit import changed
from small import Admitting, deciding, joined, never

from fredfw import Call, CollectiveAlgorithm, CollectiveRequest, Costs, NodeKind, Pattern, Phase, Schedule, Transport
from fredfw.collectives import pipelined, ring_schedule
from fredfw.collectives.direct import DirectAlgorithm
from fredfw.errors import PluginError, RefusedError, ScheduleError, UnsupportedError
from fredfw.fabric import Admission, AlwaysStart, Decision, Defaults, Fabric, FlowSet, GroupView, Level, OpenAdmission
from fredfw.fabric.admission import Refuse, Start
from fredfw.simulation import Planner, Simulator
from fredfw.simulation.bounds.schedules import Bound, Entrant
from fredfw.simulation.choice import CLOSE, contest, too_fast

REQUEST = CollectiveRequest(Pattern.ALL_REDUCE, 4, 4e9)
MEMBERS = np.arange(4)


@frozen
class Neighbours(CollectiveAlgorithm):
    """A ring of all ranks, in any order."""

    name: ClassVar[str] = "neighbours"
    patterns: ClassVar[frozenset[Pattern]] = frozenset({Pattern.ALL_REDUCE})
    order: tuple[int, ...] = ()

    def schedule(self, request: CollectiveRequest, view: GroupView) -> Schedule:
        return ring_schedule(request.pattern, request.size, np.array(self.order or range(request.ranks))[:, None])


@deciding
def one_hop(flows: FlowSet, active: Sequence[FlowSet]) -> Decision:
    longest = int(np.diff(flows.routes.offsets).max(initial=0))
    return Start() if longest <= 1 else Refuse(f"{longest} hops are too many")


def ring(admission: Callable[[], Admission] = AlwaysStart, npus: int = 4, *levels: Level) -> Fabric:
    here, there = np.arange(npus), (np.arange(npus) + 1) % npus
    fabric = joined([*zip(here, there, strict=True), *zip(there, here, strict=True)], 1e9)
    defaults = Defaults(admission=OpenAdmission() if admission is AlwaysStart else Admitting(admission))
    place = here[:, None] if levels else None
    return evolve(fabric, name="ring", levels=levels, coordinates=place, defaults=defaults)


def planner(
    fabric: Fabric, *candidates: CollectiveAlgorithm, fastest: bool = True, worthwhile: bool = False
) -> Planner:
    return Planner(Simulator(fabric), {None: candidates}, fastest=fastest, worthwhile=worthwhile)


@pytest.mark.parametrize(("worthwhile", "chosen"), [(False, "adjacent"), (True, "direct")])
def test_who_does_not_want_to_be_tried_is_if_somebody_names_it(worthwhile: bool, chosen: str) -> None:
    # As fast as the other one, so that names decide.
    reluctant = changed(Neighbours, name="adjacent", worthwhile=lambda self, view: False)
    chooser = planner(ring(), reluctant, DirectAlgorithm(), worthwhile=worthwhile)
    assert chooser.plan(REQUEST, MEMBERS).algorithm == chosen


class Hardly(Neighbours):
    name: ClassVar[str] = "sooner"

    def schedule(self, request: CollectiveRequest, view: GroupView) -> Schedule:
        return super().schedule(evolve(request, size=request.size * (1 - 1e-12)), view)


def test_a_candidate_that_cannot_win_or_is_hardly_faster_is_not_simulated() -> None:
    # Where bounds are as close as that, the first by name is simulated.
    plan = planner(ring(), Neighbours(), Hardly()).plan(REQUEST, MEMBERS)
    assert plan.candidates == {"neighbours": pytest.approx(6.0)}
    # Neighbours send 1 GB in each of 14 steps; where they are apart, most links carry twice that.
    request, apart = CollectiveRequest(Pattern.ALL_REDUCE, 8, 8e9), Neighbours((0, 2, 4, 6, 1, 3, 5, 7))
    plan = planner(ring(AlwaysStart, 8), apart, Neighbours()).plan(request, np.arange(8))
    assert plan.candidates == {"neighbours": pytest.approx(14.0)}


def test_a_candidate_that_the_fabric_refuses_is_left_out_and_where_all_are_every_reason_is_given() -> None:
    plan = planner(ring(one_hop), DirectAlgorithm(), Neighbours()).plan(REQUEST, MEMBERS)
    assert (plan.algorithm, list(plan.candidates)) == ("neighbours", ["neighbours"])
    refused = "NPUs: direct, neighbours: fabric 'ring' refuses flows: 2 hops are too many"
    with pytest.raises(RefusedError, match=refused) as caught:
        planner(ring(one_hop), DirectAlgorithm(), Neighbours((0, 2, 1, 3))).plan(REQUEST, MEMBERS)
    assert isinstance(caught.value, UnsupportedError)
    with pytest.raises(RefusedError, match="flows that cannot move on 'ring'"):
        planner(ring(never), DirectAlgorithm(), Neighbours()).plan(REQUEST, MEMBERS)


def test_a_single_candidate_is_not_tried_and_of_others_the_first_is_taken_where_asked() -> None:
    assert planner(ring(never), Neighbours()).plan(REQUEST, MEMBERS).candidates == {}
    plan = planner(ring(one_hop), DirectAlgorithm(), Neighbours(), fastest=False).plan(REQUEST, MEMBERS)
    assert plan.algorithm == "direct"


@pytest.mark.parametrize(("now", "noted"), [(1e-3, True), (1e9, False)])
def test_a_time_below_its_bound_is_noted_unless_the_clock_cannot_tell(now: float, noted: bool) -> None:
    request = CollectiveRequest(Pattern.ALL_REDUCE, 8, 8192.0)
    assert (too_fast("ring", request, 82.72e-9, 82.73e-9, now) is not None) == noted


@frozen
class Hasty(Neighbours):
    """Half of the bytes, the root ignored, or chunks that there are not."""

    name: ClassVar[str] = "hasty"
    patterns: ClassVar[frozenset[Pattern]] = frozenset({Pattern.ALL_REDUCE, Pattern.BROADCAST})
    fault: str = "half"

    def schedule(self, request: CollectiveRequest, view: GroupView) -> Schedule:
        if self.fault in ("chunks", "root"):
            phase = Phase.of(0, np.arange(1, request.ranks), 1 if self.fault == "chunks" else 0)
            return Schedule(request.pattern, request.ranks, request.size, 1, [phase])
        return super().schedule(evolve(request, size=request.size / 2), view)


def test_a_wrong_schedule_is_an_error_that_names_the_algorithm() -> None:
    # It wins, being twice as fast.
    with pytest.raises(ScheduleError) as wrong:
        planner(ring(), Neighbours(), Hasty()).plan(REQUEST, MEMBERS)
    assert str(wrong.value) == (
        f"module {__name__!r} ({__file__}): algorithm 'hasty' does not do all-reduce among 4 NPUs: the chunks sum to "
        "2000000000.0 bytes, not to the 4000000000.0 of the request"
    )
    with pytest.raises(ScheduleError, match=r"'hasty\(fault=chunks\)' does not .*: phase 0 has a chunk outside 0\.\.0"):
        planner(ring(), Hasty(fault="chunks")).plan(REQUEST, MEMBERS)


def test_a_schedule_is_replayed_for_every_request_that_it_answers() -> None:
    plans = planner(ring(), Hasty(fault="root"))
    plans.plan(CollectiveRequest(Pattern.BROADCAST, 4, 4e9), MEMBERS)
    for _ in range(2):  # what was refused once is not taken the second time
        with pytest.raises(ScheduleError, match="root is 0, the request's is 2"):
            plans.plan(CollectiveRequest(Pattern.BROADCAST, 4, 4e9, root=2), MEMBERS)


def two_sides() -> Fabric:
    """Four NPUs on either side of a trunk that is twice as fast as they are."""
    up = [(npu, 8 + npu // 4) for npu in range(8)]
    down = [(side, npu) for npu, side in up]
    fabric = joined([*up, *down, (8, 9), (9, 8)], np.repeat([1e9, 2e9], [16, 2]), 1e-4)
    return evolve(fabric, kinds=[NodeKind.NPU] * 8 + [NodeKind.SWITCH] * 2)


CROSSING = np.array([[0, 1, 4, 5], [2, 3, 6, 7]])


def test_groups_of_a_task_are_timed_together_and_what_nobody_waits_for_leaves_links_to_others() -> None:
    # Of 4 GB, either algorithm sends 6 GB from each NPU. The ring of a group puts 6 GB on the trunk each way, direct
    # 8 GB: alone that is 4 s, less than the 6 s of the NPUs; for two groups it is 8 s.
    plans = planner(two_sides(), Neighbours(), DirectAlgorithm())
    assert plans.plan(REQUEST, CROSSING[0]).algorithm == "direct"
    [(together, indices)] = plans.plans(REQUEST, CROSSING)
    assert together.algorithm == "neighbours"
    assert indices.tolist() == [0, 1]
    # Six steps over three links at most.
    assert together.candidates == {"neighbours": pytest.approx(6.0 + 6 * 3e-4)}
    # Alone, direct is faster by four of six latencies, 0.02 percent, and puts three flows on an NPU's link.
    [(awaited, _)] = plans.plans(REQUEST, CROSSING[:1])
    [(beside, _)] = plans.plans(REQUEST, CROSSING[:1], awaited=False)
    assert (awaited.algorithm, beside.algorithm) == ("direct", "neighbours")
    assert beside.candidates == {"direct": pytest.approx(6.0 + 2 * 3e-4), "neighbours": pytest.approx(6.0 + 6 * 3e-4)}


def test_groups_that_look_alike_are_timed_where_they_are() -> None:
    # In a line of three each link carries 1 GB in each of the ring's four steps: slow ones take twice as long.
    even = ring(AlwaysStart, 8, Level(8, "ring", 5e8))
    fabric = evolve(even, bandwidths=np.where(np.minimum(even.sources, even.destinations) < 4, 1e9, 5e8))
    request = CollectiveRequest(Pattern.ALL_REDUCE, 3, 3e9)
    fast, slow = np.arange(3), np.arange(4, 7)
    assert fabric.view(fast).key == fabric.view(slow).key
    for order in ([fast, slow], [slow, fast]):
        plans = planner(fabric, Neighbours(), DirectAlgorithm())
        for group in order:
            seconds = plans.plan(request, group).candidates.values()
            assert min(seconds) == pytest.approx(4.0 if group is fast else 8.0)


@frozen
class Pieces(Neighbours):
    """A ring in pieces that follow each other, and a parameter without effect; notes what it was asked to write."""

    name: ClassVar[str] = "pieces"
    proportional: ClassVar[bool] = True
    asked: ClassVar[list[str]] = []
    chunks: int = 1
    idle: int = 0

    @classmethod
    def variants(cls, pattern: Pattern) -> Sequence[CollectiveAlgorithm]:
        return [cls(chunks=chunks, idle=idle) for chunks in (1, 4) for idle in (0, 1)]

    def equivalent(self, view: GroupView) -> CollectiveAlgorithm:
        return evolve(self, idle=0)

    def undivided(self) -> CollectiveAlgorithm:
        return self if self.chunks == 1 else evolve(self, chunks=1)

    def schedule(self, request: CollectiveRequest, view: GroupView) -> Schedule:
        self.asked.append(str(self))
        return pipelined(super().schedule(request, view), self.chunks)


def test_what_groups_that_look_alike_do_is_written_once() -> None:
    Pieces.asked.clear()
    plans = planner(ring(AlwaysStart, 16, Level(16, "ring", 1e9)), Pieces(), DirectAlgorithm())
    first, second = np.arange(8).reshape(2, 4), np.arange(8, 16).reshape(2, 4)
    [(one, _)], [(same, _)], [(other, _)] = (plans.plans(REQUEST, groups) for groups in (first, first, second))
    assert same is one
    assert other.schedule is one.schedule
    assert Pieces.asked == ["pieces"]


@frozen
class Sized(Pieces):
    """Does not say that its schedules grow with the size."""

    name: ClassVar[str] = "sized"

    def schedule(self, request: CollectiveRequest, view: GroupView) -> Schedule:
        return super().schedule(request, view)


@pytest.mark.parametrize(("cls", "again"), [(Pieces, 0), (Sized, 1)])
def test_what_grows_with_the_size_is_written_once(cls: type[Pieces], again: int) -> None:
    cls.asked.clear()
    slow = evolve(ring(), bandwidths=np.full(8, 1e8))
    plans = planner(slow, *cls.variants(Pattern.ALL_REDUCE), DirectAlgorithm())
    plans.plan(REQUEST, MEMBERS)
    # Direct takes 4 to 6 times as long as 1 GB over a link, the ring 6 times: what has the same bytes cannot win.
    assert cls.asked == [cls.name]
    plans.plan(evolve(REQUEST, size=2e9), MEMBERS)
    assert cls.asked == [cls.name] * (1 + again)


@frozen
class Costly(Transport):
    """Larger messages take longer, so each size has costs of its own."""

    name: ClassVar[str] = "costly"

    def costs(self, call: Call, fabric: Fabric) -> Costs:
        return Costs(launch=1e-6, step=1e-6 + call.size * 1e-15, efficiency=0.9)


@pytest.mark.parametrize("size", [3e9, 0.1])
def test_doubled_bytes_are_the_same_schedule_to_the_last_bit(size: float) -> None:
    """Whatever was asked before."""
    fabric = ring().with_defaults(transport=Costly())
    Pieces.asked.clear()
    plans = planner(fabric, Pieces(), DirectAlgorithm())
    first = plans.plan(evolve(REQUEST, size=size / 8), MEMBERS)
    for doubled in (size, 2 * size, size / 4):
        request = evolve(REQUEST, size=doubled)
        found, alone = (one.plan(request, MEMBERS) for one in (plans, planner(fabric, Pieces(), DirectAlgorithm())))
        assert found.candidates == alone.candidates
        assert found.schedule.key == alone.schedule.key
        assert found.schedule.phases[0] is first.schedule.phases[0]
    assert Pieces.asked.count("pieces") == 1 + 3  # three planners of their own


def test_a_wrong_word_to_auto_is_an_error_that_names_the_plugin() -> None:
    for about in ("equivalent", "undivided"):
        odd = changed(Neighbours, **{about: lambda *_: DirectAlgorithm()})
        with pytest.raises(PluginError, match=rf"\.{about}\(\) of 'neighbours' returned .* a configuration of"):
            planner(ring(), odd, DirectAlgorithm()).plan(REQUEST, MEMBERS)
    stopped = partial(changed, AlwaysStart, cap=lambda self: 0.0)
    with pytest.raises(PluginError, match=r"\.cap\(\) returned 0\.0; expected bytes per second, more than 0"):
        planner(ring(stopped), Neighbours())


def test_where_a_candidate_cannot_serve_some_groups_another_one_does() -> None:
    adjacent = changed(
        Neighbours, name="adjacent", refusal=lambda self, request, view: "apart" if view.levels[0].latency > 1 else None
    )
    plans = planner(ring(AlwaysStart, 8, Level(8, "line", 1e9, 1.0)), adjacent, DirectAlgorithm())
    request = CollectiveRequest(Pattern.ALL_REDUCE, 3, 3e9)
    groups = np.array([[0, 1, 2], [3, 5, 7]])
    chosen = {int(alike[0]): plan.algorithm for plan, alike in plans.plans(request, groups)}
    assert chosen[1] == "direct"
    assert chosen[0] in ("adjacent", "direct")


@frozen
class ToTheMiddle(Neighbours):
    """Adds up where most links of the group are, and sends the sum from there."""

    name: ClassVar[str] = "to-the-middle"
    reads_links: ClassVar[bool] = True

    def schedule(self, request: CollectiveRequest, view: GroupView) -> Schedule:
        assert view.links is not None
        middle = int(np.bincount(view.links.sources).argmax())
        others = np.delete(np.arange(request.ranks), middle)
        phases = [Phase.of(others, middle, 0, reduce=True), Phase.of(middle, others, 0, after=(0,))]
        return Schedule(request.pattern, request.ranks, request.size, 1, phases)


@pytest.mark.parametrize("fastest", [False, True])
def test_groups_with_other_links_have_schedules_of_their_own(fastest: bool) -> None:
    # All groups look alike. The second rank is the middle of the first two, the first one that of the last.
    groups = np.array([[0, 1, 2], [3, 4, 5], [4, 3, 5]])
    request = CollectiveRequest(Pattern.ALL_REDUCE, 3, 1.0)
    chooser = planner(ring(AlwaysStart, 6), ToTheMiddle(), fastest=fastest)
    plans = [(int(plan.schedule.phases[1].source[0]), alike.tolist()) for plan, alike in chooser.plans(request, groups)]
    assert plans == [(1, [0, 1]), (0, [2])]
    # One after the other, they are not taken for each other either.
    for group, middle in zip(groups, (1, 1, 0), strict=True):
        assert chooser.plan(request, group).schedule.phases[1].source[0] == middle
    assert len(planner(ring(AlwaysStart, 6), Neighbours()).plans(request, groups)) == 1


@frozen(eq=False)
class Bounds:
    """Bounds of an entrant, which are noted when they are asked for."""

    name: str
    seconds: tuple[float, ...]
    flows: int
    asked: list[str]
    crowd: int = 1

    @property
    def names(self) -> list[str]:
        return [self.name]

    @property
    def rungs(self) -> list[Callable[[], Bound]]:
        return [partial(self.ask, one) for one in self.seconds]

    def ask(self, seconds: float) -> Bound:
        self.asked.append(self.name)
        return Bound(seconds / 2, seconds)


@pytest.mark.parametrize(
    ("bounds", "flows", "options", "times", "slower", "asked"),
    [
        # The bound of a, with many flows, is lower by less than two thousandths: its routes are not found.
        ([(1.0, 9.0), (1.0004, 1.0004)], 1 << 24, {}, {"b": 1.0005}, {"a": 1.0}, "bab"),
        ([(1.0, 1.0), (1.0, 1.5)], 1 << 24, {}, {"a": 1.2}, {"b": 1.5}, "baba"),  # where they may win they are
        # With barriers the bound of b is above the 1.2 of a; else it is half of that. That of c is too high even so.
        ([(1.0,), (1.5,), (2.6,)], 10, {}, {"a": 1.2}, {"b": 1.5, "c": 2.6}, "abc"),
        ([(1.0,), (1.5,), (2.6,)], 10, {"barriers": False}, {"a": 1.2, "b": 1.1}, {"c": 1.3}, "abc"),
        # Low effort ends where none can be much faster.
        ([(1.0,), (1.01,), (2.0,)], 10, {"close": CLOSE["low"]}, {"a": 1.05}, {"b": 1.01, "c": 2.0}, "abc"),
        ([(1.0,), (1.01,), (2.0,)], 10, {}, {"a": 1.05, "b": 1.02}, {"c": 2.0}, "abc"),
        # What is cut off takes longer than the best.
        ([(1.0,), (1.01,)], 10, {}, {"a": 1.2, "b": math.inf}, {"b": 1.2}, "ab"),
    ],
)
def test_nobody_is_timed_who_cannot_win(
    bounds: list[tuple[float, ...]],
    flows: int,
    options: dict[str, Any],
    times: dict[str, float],
    slower: dict[str, float],
    asked: str,
) -> None:
    noted, timed = list[str](), dict[str, float]()

    def time(one: Entrant, limit: float) -> float:
        assert limit == pytest.approx(min(timed.values(), default=math.inf))
        (name,) = one.names
        timed[name] = times[name]
        return times[name]

    entrants: Any = [
        Bounds(name, rungs, flows if name == "a" else 10, noted) for name, rungs in zip("abc", bounds, strict=False)
    ]
    winner, _, others, _ = contest(entrants, time, **options)
    assert timed == times
    assert winner is not None
    assert winner.names == [min(times, key=times.__getitem__)]
    assert (others, "".join(noted)) == (slower, asked)
