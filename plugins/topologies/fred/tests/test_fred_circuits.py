import itertools
import re
from collections.abc import Iterable, Sequence
from typing import Any

import networkx as nx
import numpy as np
import pytest
from fabrics import Run

from fredfw import Fabric, FlowSet, OpenAdmission, Operation, Pattern, Phase, Routes, Schedule, Start
from fredfw.errors import SimulationError
from fredfw.simulation import CircuitPreempt, FlowNetwork, Lowering, ScheduleRun
from fredfw.typing import IntArray
from fredfw_topology_fred import Fred
from fredfw_topology_fred.circuits import POLICIES, Circuits, Conflict

# The DP groups of MP(1)-DP(2)-PP(5): NPUs {i, i + 5}. All of them cross L2, whose port i is that of NPU i and whose
# microswitch i // 2 is that of ports 2j and 2j + 1, so the groups are at its microswitches
#   {0,5}: 0 2    {1,6}: 0 3    {2,7}: 1 3    {3,8}: 1 4    {4,9}: 2 4
# and conflict where they share one: 0-1 (at 0), 1-2 (3), 2-3 (1), 3-4 (4), 4-0 (2). That is a cycle of five, which has
# no colouring with two colours and has one with three. Groups of four, {i, i + 5, i + 10, i + 15}, are alike: they
# are at 0 2 5 7, 0 3 5 8, 1 3 6 8, 1 4 6 9 and 2 4 7 9.
PAIRS = np.array([[i, i + 5] for i in range(5)])
FOURS = np.array([[i, i + 5, i + 10, i + 15] for i in range(5)])
CORE = "{0,5}->{0,5}, {1,6}->{1,6}, {2,7}->{2,7}, {3,8}->{3,8}, {4,9}->{4,9}"

# FRED-D: an NPU's link is the bottleneck of an all-reduce, and it crosses four links up and down through L2.
VOLUME = 3e9
DRAIN, LATENCY = VOLUME / 3e12, 4 * 20e-9
ONCE = DRAIN + LATENCY


def fred(m: int = 2, policy: str = "block", **fields: Any) -> Fabric:
    return Fred(middle_switches=m, on_conflict=policy, **fields).build()


def flow_set(routes: Routes, **fields: Any) -> FlowSet:
    count = len(routes)
    return FlowSet(routes, np.full(count, VOLUME), np.arange(count), count, label="dp", **fields)


def streams(fabric: Fabric, ends: Iterable[tuple[Any, Any]], operation: Operation, **fields: Any) -> FlowSet:
    """A stream for each root and its leaves, from the leaves if they are reduced."""
    ways = [(leaves, root) if operation is Operation.REDUCE else (root, leaves) for root, leaves in ends]
    trees = [fabric.defaults.router.tree(fabric, np.array(one), np.array(other), operation) for one, other in ways]
    return flow_set(Routes.concatenate(trees), **fields)


def all_reduces(fabric: Fabric, groups: Sequence[IntArray] | IntArray, **fields: Any) -> FlowSet:
    return streams(fabric, zip(groups, groups, strict=True), Operation.ALL_REDUCE, **fields)


def conflict(fabric: Fabric, *groups: Sequence[IntArray] | IntArray) -> Conflict | None:
    return Circuits.of(fabric).conflict([all_reduces(fabric, one).routes for one in groups])


UNDISTURBED: Any = ((0, 0, 0), ({}, ()))


def ran(run: Run) -> Any:
    return run.decisions, run.told


@pytest.mark.parametrize("groups", [PAIRS, FOURS])
def test_five_groups_in_a_cycle_need_three_middle_switches(groups: IntArray) -> None:
    microswitches = [{port // 2 for port in group} for group in groups.tolist()]
    graph = nx.Graph([(a, b) for a, b in itertools.combinations(range(5), 2) if microswitches[a] & microswitches[b]])
    assert nx.is_isomorphic(graph, nx.cycle_graph(5))
    found = conflict(fred(), groups)
    assert found is not None
    assert (found.switch, found.cause.depth, found.cause.proven) == ("L2.0", 0, True)
    assert {tuple(sorted(flow.inputs)) for flow in found.cause.core} == set(map(tuple, groups.tolist()))
    assert conflict(fred(m=3), groups) is None
    # Without any one of them the cycle is cut.
    assert all(conflict(fred(), np.delete(groups, left, axis=0)) is None for left in range(5))


EACH = [PAIRS[[group]] for group in range(5)]


@pytest.mark.parametrize(
    ("groups", "repeats", "ends", "decisions"),
    [
        # Four of the five go together, the fifth comes after them.
        ([PAIRS], [1], [1, 1, 1, 1, 2], (0, 1, 0)),
        # A part starts when all repetitions of the one before are delivered.
        ([PAIRS], [3], [3, 3, 3, 3, 6], (0, 1, 0)),
        # Later flows wait.
        (EACH, [1] * 5, [1, 1, 1, 1, 2], (1, 0, 0)),
        # They go on as soon as any rival is done: without one there is no cycle left.
        (EACH, [1, 5, 5, 5, 1], [1, 5, 5, 5, 2], (1, 0, 0)),
        # Asked about again when {10,11} below one switch is done, in vain, and when the four are: one conflict.
        ([*EACH[:4], np.array([[10, 11]]), EACH[4]], [5, 5, 5, 5, 1, 1], [5, 5, 5, 5, 1 - 4e-8 / ONCE, 6], (1, 0, 0)),
        # Flows that fit by themselves wait whole.
        ([PAIRS[4:], PAIRS[:4]], [1, 1], [1, 2, 2, 2, 2], (1, 0, 0)),
    ],
)
def test_block_runs_in_parts_or_lets_later_flows_wait(
    groups: list[IntArray], repeats: list[int], ends: list[float], decisions: tuple[int, int, int]
) -> None:
    fabric = fred()
    run = Run(fabric, *(all_reduces(fabric, one, repeat=each) for one, each in zip(groups, repeats, strict=True)))
    assert np.concatenate(run.ends) == pytest.approx(np.array(ends) * ONCE, rel=1e-12)
    assert run.decisions == decisions
    note = (
        f"1 set of streams met a routing conflict, the first on L2.0: FRED_2(20): {CORE} cannot be routed together, "
        f"stuck at depth 0 in the switch itself; policy 'block': {POLICIES['block']}"
    )
    assert run.told == ({"routing conflicts": 1.0}, (note,))


def test_conflicts_that_end_the_simulation_name_switch_and_flows() -> None:
    # What is no collective cannot be decomposed.
    messages = {"error": "'FRED-D' refuses dp", "decompose": "cannot carry dp, and cannot replace it by unicasts"}
    for policy, message in messages.items():
        fabric = fred(policy=policy)
        said = re.escape(f"{message}: routing conflict on L2.0: FRED_2(20): {CORE} cannot be routed together")
        with pytest.raises(SimulationError, match=said):
            Run(fabric, all_reduces(fabric, PAIRS))


def test_decompose_is_done_by_the_ends() -> None:
    # Each of n = 4 sends V / n to each other one, twice: to combine and to collect. The L1 uplinks, of 12 TB/s for four
    # NPUs, are as busy as those of the NPUs.
    fabric = fred(policy="decompose")
    network, lowering = FlowNetwork(fabric, CircuitPreempt()), Lowering(fabric)
    everybody = np.arange(4)
    schedule = Schedule(Pattern.ALL_REDUCE, 4, VOLUME, 1, (Phase.of(everybody, everybody, 0, stream=0),))
    ended: list[int] = []
    ScheduleRun(network, lowering, schedule, FOURS, lambda groups: ended.extend(groups.tolist()), label="dp").start()
    network.advance()
    assert sorted(ended) == [0, 1, 2, 3, 4]
    assert network.now == pytest.approx(2 * 3 / 4 * DRAIN + 2 * LATENCY, rel=1e-12)
    assert (network.statistics.waits, network.statistics.splits, network.statistics.decompositions) == (0, 0, 1)
    assert network.admission.figures() == {"routing conflicts": 1.0}
    assert "decompose" in network.admission.notes()[0]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("groups", [PAIRS, FOURS])
def test_without_a_conflict_nothing_changes(policy: str, groups: IntArray) -> None:
    fabric = fred(m=3, policy=policy)
    plain = fabric.with_defaults(admission=OpenAdmission())
    one, other = (Run(each, all_reduces(each, groups)) for each in (fabric, plain))
    assert one.network.now == other.network.now == pytest.approx(ONCE, rel=1e-12)
    assert one.network.link_bytes()["dp"].tolist() == other.network.link_bytes()["dp"].tolist()
    assert ran(one) == UNDISTURBED


@pytest.mark.parametrize("operation", [Operation.MULTICAST, Operation.REDUCE])
def test_multicasts_and_reductions_conflict_like_all_reduces(operation: Operation) -> None:
    # One port on one side, and on the other ports of microswitches 0 and 1, 0 and 2, 1 and 2: a triangle.
    fabric = fred(policy="error", arity=(6,), io_controllers=0)
    ends = [([4], [1, 2]), ([2], [0, 4]), ([0], [3, 5])]
    with pytest.raises(SimulationError, match=r"L1\.0: FRED_2\(6\)"):
        Run(fabric, streams(fabric, ends, operation))
    Run(fabric, streams(fabric, ends[:2], operation))


def test_classes_have_circuits_of_their_own_and_unicasts_none() -> None:
    # The lower class is pre-empted at the switches, as any is; that is no conflict.
    fabric = fred(policy="error")
    assert ran(Run(fabric, all_reduces(fabric, PAIRS[:4]), all_reduces(fabric, PAIRS[4:], priority=1))) == UNDISTURBED
    # Between the members of the fifth group, which as in-network stream would be one too many.
    unicasts = flow_set(fabric.defaults.router.route(fabric, PAIRS[4], PAIRS[4, ::-1]))
    for order in (1, -1):
        assert ran(Run(fabric, *[all_reduces(fabric, PAIRS[:4]), unicasts][::order])) == UNDISTURBED


@pytest.mark.parametrize("operation", [Operation.MULTICAST, Operation.REDUCE])
def test_streams_that_share_ports_take_turns(operation: Operation) -> None:
    # All 18 controllers to (or from) all NPUs: every stream uses the ports of all NPUs. The links' sharing accounts for
    # that: all 18 fit on an NPU's link and into an L1 switch, so that every controller runs at its 128 GB/s.
    fabric = fred(policy="error")
    ends = [(controller, fabric.npus) for controller in fabric.controllers[:, None]]
    run = Run(fabric, streams(fabric, ends, operation))
    assert ran(run) == UNDISTURBED
    assert run.network.now == pytest.approx(VOLUME / 128e9 + LATENCY, rel=1e-9)


def test_streams_that_share_ports_or_conflict_are_not_compatible() -> None:
    fabric = fred()
    # The five groups conflict also beside a sixth that shares ports with all of them, and so has a turn of its own.
    assert conflict(fabric, [fabric.npus], PAIRS[:4]) is None
    assert conflict(fabric, [fabric.npus], PAIRS) is not None
    admission = Circuits.of(fabric).begin(fabric)
    four, five, everybody = (all_reduces(fabric, one) for one in (PAIRS[:4], PAIRS[4:], [fabric.npus]))
    unicasts = flow_set(fabric.defaults.router.route(fabric, PAIRS[4], PAIRS[4, ::-1]))
    assert admission.compatible([four, unicasts])
    assert admission.compatible([four, four])
    assert isinstance(admission.admit(four, [unicasts]), Start)
    assert not admission.compatible([four, five])
    assert not admission.compatible([everybody, five])


def test_each_set_that_meets_a_conflict_counts_once_whoever_asks_first() -> None:
    # The second set beside the first, and the third by itself; the note has the first of the two conflicts.
    fabric = fred()
    figures, (note,) = Run(fabric, *(all_reduces(fabric, groups) for groups in (PAIRS[:3], PAIRS[3:], FOURS))).told
    assert figures == {"routing conflicts": 2.0}
    assert note.startswith(f"2 sets of streams met a routing conflict, the first on L2.0: FRED_2(20): {CORE}")
    texts = {str(conflict(fred(), PAIRS[order])) for order in ([0, 1, 2, 3, 4], [4, 2, 0, 1, 3])}
    assert texts == {f"L2.0: FRED_2(20): {CORE} cannot be routed together, stuck at depth 0 in the switch itself"}
