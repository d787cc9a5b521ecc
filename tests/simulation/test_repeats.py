"""Repetitions that are skipped, against all of them one by one."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fredfw.collectives import Pattern
from fredfw.fabric import AlwaysStart, Decision, Fabric, FlowSet
from fredfw.framework import Framework
from fredfw.simulation import Executor, FlowNetwork, Incidence, Lowering, MaxMin, Planner, Timeline
from fredfw.simulation.repeats import Block, Repeats, blocks
from fredfw.simulation.sharing import SharingPolicy, sharing_of
from fredfw.testing.fabrics import Admitting
from fredfw.typing import FloatArray
from fredfw.workloads import GraphBuilder, TaskGraph

FRAMEWORK = Framework()
Result = tuple[Timeline, dict[str, FloatArray], int]


def fabric(topology: str, **fields: Any) -> Fabric:
    return FRAMEWORK.topology(topology, **fields).build()


MESH = fabric("mesh2d", rows=3, columns=4)
SWITCH = fabric("switch", npus=12)
TREE = fabric("fat-tree", npus=12, levels=2, radix=8)
FRED = fabric("fred", variant="C")
# Here the switches reduce.
IN_NETWORK = fabric("fred", variant="D")
NARROW = fabric("fred", variant="B")
# Each rank of a stage sends to one of the other, so that those of a stage stay in step even without barriers.
PAIRS = [[3, 8], [0, 11], [1, 9], [2, 10]]


def simulate(
    graph: TaskGraph, on: Fabric, fidelity: str = "stepwise", *, skip: bool = True, sharing: SharingPolicy | None = None
) -> Result:
    """Simulate with a ring for every all-reduce, or with the switches; ``mp`` goes before the others."""
    lowering = Lowering(on)
    sharing = sharing or sharing_of(on)
    algorithms = {
        Pattern.ALL_REDUCE: ("in-network" if on.name in (IN_NETWORK.name, NARROW.name) else "ring",),
        None: ("direct",),
    }
    candidates = {
        pattern: tuple(FRAMEWORK.plugins.collectives.get(name)() for name in names)
        for pattern, names in algorithms.items()
    }
    network = FlowNetwork(on, sharing)
    executor = Executor(
        graph,
        fabric=on,
        network=network,
        placement=np.arange(graph.ranks),
        planner=Planner(on, sharing, lowering, candidates),
        lowering=lowering,
        compute_seconds=lambda flops, moved, _kernels: flops + moved,
        priorities={"mp": 0, "pp": 1, "dp": 2},
        fidelity=fidelity,
    )
    with pytest.MonkeyPatch.context() as patch:
        if not skip:
            patch.setattr(Repeats, "jump", lambda *_: None)
        timeline = executor.run()
    return timeline, executor.link_bytes(), executor.statistics.skipped


def ends(timeline: Timeline) -> tuple[list[tuple[int, int]], FloatArray]:
    """Each task and rank that has a part in it, in order, and when that ended."""
    last: dict[tuple[int, int], float] = {}
    for task, end, ranks in zip(timeline.task.tolist(), timeline.end.tolist(), timeline.ranks, strict=True):
        for rank in ranks.tolist():
            last[task, rank] = max(last.get((task, rank), 0.0), end)
    return sorted(last), np.array([last[key] for key in sorted(last)])


def layers(
    builder: GraphBuilder, groups: list[list[int]], times: int, seconds: float, size: float, after: list[int]
) -> int:
    """Add a block of ``times`` layers, each a computation and an all-reduce in ``groups``."""
    with builder.repeated(times):
        done = builder.compute("work", np.ravel(groups), seconds=seconds, after=after)
        return builder.collective("reduce", Pattern.ALL_REDUCE, groups, size, label="mp", after=[done])


def check_same(graph: TaskGraph, on: Fabric, fidelity: str) -> int:
    """Check that a simulation that skips gives the same as one that does not; return how many it skips."""
    (one, loads, skipped), (other, expected, _) = (simulate(graph, on, fidelity, skip=skip) for skip in (True, False))
    assert one.duration == pytest.approx(other.duration, rel=1e-12)
    (keys, found), (others, known) = ends(one), ends(other)
    assert keys == others
    np.testing.assert_allclose(found, known, rtol=1e-12, atol=1e-12 * other.duration)
    for label, bytes_ in expected.items():
        np.testing.assert_allclose(loads[label], bytes_, rtol=1e-12, atol=1e-12 * bytes_.max(initial=0.0))
    # In the order in which they ended, each behind what made it start.
    assert (np.diff(one.end) >= 0).all()
    assert (one.trigger < np.arange(len(one))).all()
    # Where several spans end last, rounding decides to whose chain the others are charged.
    if np.count_nonzero(other.end >= other.duration * (1 - 1e-12)) == 1:
        for label, seconds in other.breakdown_by_rank.items():
            np.testing.assert_allclose(one.breakdown_by_rank[label], seconds, atol=1e-11 * other.duration)
    return skipped


@pytest.mark.parametrize("fidelity", ["stepwise", "per-rank"])
@pytest.mark.parametrize("on", [MESH, SWITCH, TREE, FRED, IN_NETWORK], ids=lambda one: one.name)
def test_two_stages_skip_what_the_other_does_not_disturb(on: Fabric, fidelity: str) -> None:
    """Stages on nodes of their own, with layers of different length, and a transfer now and then."""
    builder = GraphBuilder(12)
    one, other = [[0, 1, 2, 3]], [[8, 9, 10, 11]]
    there, back = ([[3, 8]], [[9, 1]]) if fidelity == "stepwise" else (PAIRS, [pair[::-1] for pair in PAIRS])
    sent: list[int] = []
    for _ in range(3):
        first = layers(builder, one, 20, 1e-6, 3e6, sent)
        sent = [builder.transfer("activations", there, 2e6, label="pp", after=[first])]
        second = layers(builder, other, 30, 1.7e-6, 1e6, sent)
        sent = [builder.transfer("gradients", back, 2e6, label="pp", after=[second])]
    layers(builder, one, 25, 0.9e-6, 1e6, [])
    skipped = check_same(builder.build(), on, fidelity)
    assert skipped > 100 or (on is MESH and fidelity == "per-rank")  # of 175; hops of a mesh's ring differ


def test_streams_that_meet_at_a_switch_are_simulated() -> None:
    """Five pairs that two middle switches cannot carry together, so that one of them has to wait."""
    builder = GraphBuilder(20)
    for pair in range(5):
        layers(builder, [[pair, pair + 5]], 20, 1e-6, 3e9, [])
    graph = builder.build()
    assert check_same(graph, fabric("fred", variant="D", middle_switches=2, on_conflict="block"), "stepwise") == 0
    assert check_same(graph, fabric("fred", variant="D", middle_switches=3), "stepwise") > 50


def test_ranks_that_are_not_in_step_do_not_skip() -> None:
    """One rank of a group is late; then its ring is out of step by as many hops for good."""
    builder = GraphBuilder(12)
    late = builder.compute("late", [0], seconds=1e-5)
    layers(builder, [[0, 1, 2, 3]], 20, 1e-6, 3e6, [late])
    assert check_same(builder.build(), SWITCH, "per-rank") == 0
    assert check_same(builder.build(), SWITCH, "stepwise") > 10


@pytest.mark.parametrize("fidelity", ["stepwise", "per-rank"])
def test_what_begins_behind_a_jump_does_not_end_before_it(fidelity: str) -> None:
    """Computations that take no time begin where the clock is, which rounds a sum of periods as one."""
    builder = GraphBuilder(12)
    first = layers(builder, [[0, 1, 2, 3]], 9, 0.0, 10_000.0, [])
    layers(builder, [[4, 5, 6, 7]], 10, 5e-6, 10_000.0, [])
    layers(builder, [[0, 1, 2, 3]], 26, 0.0, 4_641_519.0, [first])
    on = MESH if fidelity == "stepwise" else SWITCH  # where a ring's ranks stay in step without barriers
    assert check_same(builder.build(), on, fidelity) > 20


def test_units_that_may_fill_a_link_together_do_not_skip() -> None:
    """Two rings over one row of a mesh: each alone would take its links, and both at once share them."""
    builder = GraphBuilder(12)
    layers(builder, [[0, 2]], 20, 1e-6, 3e6, [])
    layers(builder, [[1, 3]], 20, 1.3e-6, 3e6, [])
    assert check_same(builder.build(), MESH, "stepwise") < 20  # one alone at the end may


def test_a_unit_skips_beside_others_that_affect_each_other() -> None:
    """The two of the test before, and one on another row, whose block is over at another time."""
    builder = GraphBuilder(12)
    layers(builder, [[0, 2]], 40, 1e-6, 3e6, [])
    layers(builder, [[1, 3]], 40, 1.3e-6, 3e6, [])
    done = layers(builder, [[8, 9, 10, 11]], 30, 2e-6, 1e6, [])
    layers(builder, [[8, 10]], 20, 1e-6, 1e6, [done])
    assert check_same(builder.build(), MESH, "stepwise") > 35  # of 48; nobody else may but at the end
    # Ranks of a group that meets others do not leave together, so nobody knows what they send.
    check_same(builder.build(), MESH, "per-rank")


def test_what_others_decide_is_simulated() -> None:
    """A policy of which nothing is known, and an admission."""

    class Unknown(MaxMin):
        name = "unknown"
        max_min_in_class = False

    class Asked(AlwaysStart):
        def compatible(self, together: Sequence[FlowSet]) -> bool:
            return False

    class Overridden(MaxMin):
        name = "overridden"

        def rates(self, incidence: Incidence, capacities: FloatArray, fabric: Fabric) -> FloatArray:
            return super().rates(incidence, capacities / 2, fabric)

    class Silent(AlwaysStart):
        def admit(self, flows: FlowSet, active: Sequence[FlowSet]) -> Decision:
            return super().admit(flows, active)

    builder = GraphBuilder(12)
    layers(builder, [[0, 1, 2, 3]], 20, 1e-6, 3e6, [])
    graph = builder.build()
    assert simulate(graph, SWITCH)[2] == 17  # neither the first, nor the second, which shows the period, nor the last
    assert simulate(graph, SWITCH, sharing=Unknown())[2] == 0
    assert simulate(graph, SWITCH.with_defaults(admission=Admitting(Asked)))[2] == 0
    # What is said of answers that a class overrides is not said of its own.
    assert simulate(graph, SWITCH, sharing=Overridden())[2] == 0
    assert simulate(graph, SWITCH.with_defaults(admission=Admitting(Silent)))[2] == 0


def test_a_compressed_simulation_has_nothing_to_skip() -> None:
    builder = GraphBuilder(12)
    layers(builder, [[0, 1, 2, 3]], 20, 1e-6, 3e6, [])
    assert simulate(builder.build(), SWITCH, "compressed")[2] == 0


def test_progress_counts_what_is_skipped() -> None:
    builder = GraphBuilder(12)
    told: list[float] = []
    layers(builder, [[0, 1, 2, 3]], 50, 1e-6, 3e6, [])
    lowering = Lowering(SWITCH)
    ring = FRAMEWORK.plugins.collectives.get("ring")()
    Executor(
        builder.build(),
        fabric=SWITCH,
        network=FlowNetwork(SWITCH, MaxMin()),
        placement=np.arange(12),
        planner=Planner(SWITCH, MaxMin(), lowering, {None: (ring,)}),
        lowering=lowering,
        compute_seconds=lambda flops, moved, _kernels: flops + moved,
        fidelity="stepwise",
        progress=told.append,
    ).run()
    assert told == sorted(told)
    assert told[-1] == 0.99


def test_blocks_are_numbered_as_they_are_written_out() -> None:
    builder = GraphBuilder(12)
    first = builder.compute("a", [0], seconds=1.0)
    layers(builder, [[0, 1]], 5, 1.0, 1.0, [first])
    layers(builder, [[0, 1]], 2, 1.0, 1.0, [])
    graph = builder.build()
    found = list(blocks(graph))
    assert found == [Block(0, 1, 1), Block(1, 2, 5), Block(11, 2, 2)]
    assert found[-1].tasks(1)[-1] == len(graph.expanded()) - 1
    assert (found[1].place(4), found[1].repetition(4)) == (1, 1)


@st.composite
def pipelines(draw: st.DrawFn) -> TaskGraph:
    """Stages with blocks of layers, transfers between them and collectives beside them."""
    builder = GraphBuilder(12)
    stages = draw(
        st.sampled_from(
            [
                [[[0, 1, 2, 3]], [[4, 5, 6, 7]], [[8, 9, 10, 11]]],
                [[[0, 1], [2, 3]], [[8, 9], [10, 11]]],
                [[[0, 4, 8]], [[1, 5, 9], [2, 6, 10]], [[3, 7, 11]]],
                [[[0, 5], [3, 10]], [[1, 6], [2, 9]]],
            ]
        )
    )
    last: dict[int, int] = {}
    for _ in range(draw(st.integers(1, 6))):
        stage = draw(st.integers(0, len(stages) - 1))
        kind = draw(st.sampled_from(["layers", "layers", "layers", "send", "reduce"]))
        after = [last[stage]] if stage in last else []
        groups, size = stages[stage], draw(st.floats(1e4, 5e6))
        if kind == "layers":
            last[stage] = layers(builder, groups, draw(st.integers(1, 30)), draw(st.floats(0, 5e-6)), size, after)
        elif kind == "reduce":  # beside what comes next
            builder.collective("gradients", Pattern.ALL_REDUCE, groups, size, label="dp", after=after)
        else:
            other = (stage + 1) % len(stages)
            ends = [[stages[stage][0][0], stages[other][0][1]]]
            sent = builder.transfer("activations", ends, size, label="pp", after=after)
            last[other] = builder.compute(
                "receive", np.ravel(stages[other]), seconds=0.0, after=[sent, *([last[other]] if other in last else [])]
            )
    return builder.build()


@settings(max_examples=40, deadline=None)
@given(
    pipelines(),
    st.sampled_from([MESH, SWITCH, TREE, FRED, IN_NETWORK, NARROW]),
    st.sampled_from(["stepwise", "per-rank"]),
)
def test_what_is_skipped_is_as_if_it_were_not(graph: TaskGraph, on: Fabric, fidelity: str) -> None:
    if len(graph):
        check_same(graph, on, fidelity)
