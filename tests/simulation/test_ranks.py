"""Rank by rank: what is folded, and sums by hand; ``tests/oracle`` compares whole programs."""

import numpy as np
import pytest
from attrs import evolve
from hypothesis import example, given, settings, strategies as st
from small import Fixed, Log, by_rank, derived, executor, started

from fredfw.collectives import CollectiveRequest, Pattern, Phase, Schedule
from fredfw.collectives.direct import DirectAlgorithm
from fredfw.fabric import Fabric, FlowSet
from fredfw.fidelities import EXACT, RENDEZVOUS
from fredfw.framework import Framework
from fredfw.simulation import FlowNetwork, Lowering, ScheduleRun, SharingPolicy, StrictLinks
from fredfw.typing import FloatArray, IntArray
from fredfw.workloads import GraphBuilder

FRAMEWORK = Framework()


def alone(on: Fabric, schedule: Schedule, groups: IntArray) -> Log:
    """Run a schedule exactly, with nothing else on the links."""
    network = FlowNetwork(on)
    log = started(network, schedule, groups, "exact")
    network.advance()
    assert network.idle
    return log


def simulated(on: Fabric, schedule: Schedule, groups: IntArray) -> FloatArray:
    log = alone(on, schedule, groups)
    return np.array([log.each[group] for group in range(len(groups))])


def is_folded(on: Fabric, schedule: Schedule, groups: IntArray) -> bool:
    return alone(on, schedule, groups).network.statistics.flows == 0


def by(algorithm: str, fabric: Fabric, members: IntArray, pattern: Pattern, **fields: object) -> Schedule:
    request = CollectiveRequest(pattern, members.shape[1], 1200.0)
    one = FRAMEWORK.plugins.collectives.get(algorithm)(**fields)
    return one.plan(request, fabric.view(members[0]))


def fabric(topology: str, **fields: object) -> Fabric:
    return FRAMEWORK.topology(topology, link_bandwidth=100.0, link_latency=0.25, **fields).build()


def uneven(on: Fabric, seed: int) -> Fabric:
    """Return ``on`` with bandwidths and latencies of all kinds."""
    random, links = np.random.default_rng(seed), len(on.bandwidths)
    return evolve(
        on, bandwidths=100.0 * random.uniform(0.5, 1.5, links), latencies=random.choice([0.0, 0.1, 0.7], links)
    )


SWITCH = fabric("switch", npus=8)


@st.composite
def lonely(draw: st.DrawFn) -> tuple[Fabric, Schedule, IntArray]:
    """Return collectives in groups whose flows meet nobody, on a fabric whose links all differ."""
    on, algorithm, pattern = draw(
        st.sampled_from(
            [
                (fabric("torus", dimensions=[4]), "ring", Pattern.ALL_REDUCE),
                (fabric("torus", dimensions=[3, 2]), "ring", Pattern.ALL_GATHER),
                (fabric("torus", dimensions=[3, 2]), "hierarchical", Pattern.ALL_REDUCE),
                (fabric("torus", dimensions=[3, 2]), "torus-ring", Pattern.ALL_GATHER),
                (SWITCH, "recursive-halving-doubling", Pattern.ALL_REDUCE),
                (SWITCH, "ring", Pattern.REDUCE_SCATTER),
                (SWITCH, "tree", Pattern.BROADCAST),
                (fabric("torus", dimensions=[5]), "tree", Pattern.REDUCE),
            ]
        )
    )
    members = np.arange(len(on.npus))[None, :]
    if algorithm == "ring" and on is SWITCH and draw(st.booleans()):
        members = members.reshape(2, 4)
    fields = {"chunks": 1} if algorithm in ("ring", "tree") else {}
    return uneven(on, draw(st.integers(0, 1000))), by(algorithm, on, members, pattern, **fields), members


def test_links_that_flows_share_are_not_folded() -> None:
    for members in (np.array([[0, 2, 1, 3]]), np.array([[0, 2], [1, 3]])):
        on = fabric("mesh2d", rows=1, columns=4, io_controllers=False)
        schedule = by("ring", on, members, Pattern.ALL_REDUCE, chunks=1)
        assert not is_folded(on, schedule, on.npus[members])
    schedule = by("direct", SWITCH, np.arange(8)[None, :], Pattern.ALL_TO_ALL)
    assert not is_folded(SWITCH, schedule, SWITCH.npus[None, :])


def test_phases_side_by_side_over_one_link_are_not_folded() -> None:
    on = fabric("torus", dimensions=[3])
    one, other = Phase.of(0, 1, 0), Phase.of(0, 1, 1)
    schedule = Schedule(Pattern.BROADCAST, 3, 100.0, 2, (one, other))
    assert not is_folded(on, schedule, on.npus[None, :])
    schedule = Schedule(Pattern.BROADCAST, 3, 100.0, 2, (one, evolve(other, after=(0,))))
    assert is_folded(on, schedule, on.npus[None, :])


PAIR = Schedule(Pattern.ALL_REDUCE, 2, 1e9, 1, (Phase.of([0, 1], [1, 0], 0, stream=[0, 0], reduce=True),))
PAIRS = np.array([[0, 2], [1, 4], [3, 5]])


@pytest.mark.parametrize(
    ("policy", "ends"), [("block", [(1.0, [0, 1]), (2.0, [2])]), ("decompose", [(1.0, [0, 1, 2])])]
)
def test_streams_are_admitted_when_their_own_sources_are_ready(policy: str, ends: list[object]) -> None:
    """Pairs on a switch that routes two of three streams: the third waits, or is done by unicasts beside the others.

    Who waits for the groups hears once of those that end together.
    """
    fields: dict[str, object] = {"arity": [8], "bandwidths": ["1 GB/s"], "middle_switches": 2, "link_latency": "0 s"}
    on = FRAMEWORK.topology("fred", on_conflict=policy, io_controllers=0, **fields).build()
    assert alone(on, PAIR, on.npus[PAIRS]).ends == ends


def test_the_slowest_sender_sets_the_pace_of_all_steps() -> None:
    """Each member is slowed down in turn; then a step is the slowest sender's, and the rest is a jump."""
    on = fabric("torus", dimensions=[4])
    on = evolve(on, bandwidths=np.where(np.arange(8) == 0, 10.0, 100.0), latencies=np.zeros(8))
    phase = evolve(by("ring", on, np.arange(4)[None, :], Pattern.ALL_GATHER, chunks=1).phases[0], repeat=100_000)
    schedule = Schedule(Pattern.ALL_GATHER, 4, 100.0, 4, (phase,), owner=np.arange(4))
    assert simulated(on, schedule, on.npus[None, :]) == pytest.approx([10.0 * 100_000], rel=1e-12)


STRICT = StrictLinks()
ONE_BY_ONE = derived(STRICT)
"""The same, which is not folded."""


def disturbed(
    case: tuple[Fabric, Schedule, IntArray], when: float, what: str, sharing: SharingPolicy
) -> tuple[FloatArray, FloatArray]:
    """Return the ends of groups, and all bytes by link, where something happens ``when``; others have priority."""
    on, schedule, members = case
    network = FlowNetwork(on, sharing)
    ends = np.full(len(members), np.nan)

    def ended(done: IntArray) -> None:
        assert np.isnan(ends[done]).all()
        ends[done] = network.now

    run = ScheduleRun(
        network, Lowering(on), schedule, on.npus[members], ended, fidelity="exact", priority=1, label="all"
    )
    run.start()
    network.advance(when)
    half = network.link_bytes().get("all", np.zeros(len(on.bandwidths)))
    if what == "flow":
        routes = on.defaults.router.route(on, on.npus[:2], on.npus[1:3])
        network.start(FlowSet(routes, np.array([300.0, 500.0]), np.zeros(2, dtype=np.intp), 1), lambda _: None)
    elif what == "slower":
        network.set_bandwidths(np.array([0]), on.bandwidths[:1] / 3)
    elif what == "cancel":
        run.cancel()
    network.advance()
    assert network.idle
    return ends, np.concatenate([half, network.link_bytes()["all"]])


@settings(max_examples=20, deadline=None)
@given(lonely(), st.floats(0, 0.99), st.sampled_from(["flow", "slower", "cancel", "look"]))
def test_what_is_folded_goes_on_flow_by_flow_when_others_come(
    case: tuple[Fabric, Schedule, IntArray], share: float, what: str
) -> None:
    on, schedule, members = case
    when = share * float(simulated(on, schedule, on.npus[members]).max())
    found, moved = disturbed(case, when, what, STRICT)
    expected, sent = disturbed(case, when, what, ONE_BY_ONE)
    assert found == pytest.approx(expected, rel=1e-9, nan_ok=True)
    assert moved == pytest.approx(sent, rel=1e-7, abs=1e-6)


def test_groups_that_have_ended_do_not_keep_their_links() -> None:
    on = fabric("torus", dimensions=[4, 2])
    on = evolve(on, latencies=np.where(on.sources < 4, 0.0, 10.0))
    members = np.array([[0, 2], [1, 3]])
    assert np.isfinite(simulated(on, by("ring", on, members, Pattern.ALL_GATHER, chunks=1), on.npus[members])).all()


def test_a_rank_that_is_late_for_what_is_there_already_is_not_too_fast() -> None:
    """The leaf has what it waits for at once; the time that no algorithm can beat counts from the first entry."""
    builder = GraphBuilder(8)
    busy = builder.compute("work", [1], seconds=50.0)
    builder.collective("copy", Pattern.BROADCAST, [[0, 1]], 100.0, label="dp", after=[busy])
    run = executor(builder.build(), SWITCH, DirectAlgorithm(), fidelity="exact")
    timeline = run.run()
    assert by_rank(timeline) == pytest.approx({("work", 1): 50.0, ("copy", 0): 1.0, ("copy", 1): 50.0})
    assert not run.tasks.notes


def staggered(
    case: tuple[Fabric, Schedule, IntArray], delays: list[float], when: float, fidelity: str, sharing: SharingPolicy
) -> FloatArray:
    """Return when ranks are through that enter after ``delays``, and when the last entered that each waits for.

    Others disturb them.
    """
    on, schedule, members = case
    builder = GraphBuilder(len(on.npus))
    entered = [builder.compute(f"{rank}", [rank], seconds=delays[rank]) for rank in range(len(on.npus))]
    reduce = builder.collective("it", schedule.pattern, members, 1200.0, label="dp", after=entered)
    if when:
        waited = builder.wait("when", [0, 1, 2], seconds=when)
        builder.transfer("others", [[0, 1], [1, 2]], 400.0, label="others", after=[waited])
    timeline = executor(
        builder.build(),
        on,
        collectives={schedule.pattern: (Fixed(schedule),), None: (DirectAlgorithm(),)},
        sharing=sharing,
        priorities={"others": 0, "dp": 1},
        fidelity=fidelity,
    ).run()
    spans = zip(timeline.task, timeline.end, timeline.start, timeline.ranks, strict=True)
    rows = [(rank, end, start) for task, end, start, ranks in spans if task == reduce for rank in ranks]
    return np.array(sorted(rows))


DELAYS = st.one_of(st.sampled_from([0.0, 5.0, 13.0]), st.floats(0.0, 60.0))
TORUS, RANKS = uneven(fabric("torus", dimensions=[3, 2]), 0), np.arange(6)[None, :]
RINGS = TORUS, by("hierarchical", TORUS, RANKS, Pattern.ALL_REDUCE), RANKS


# Others come to the links when a rank waits for its next phase, and another has not entered the first.
@example(RINGS, [0.0, 13.0, 5.0, 0.0, 0.0, 0.0], 12.0, EXACT)
@settings(max_examples=20, deadline=None)
@given(lonely(), st.lists(DELAYS, min_size=8, max_size=8), st.floats(1.0, 60.0), st.sampled_from([EXACT, RENDEZVOUS]))
def test_entries_that_nobody_knows_yet_are_foreseen_as_they_come(
    case: tuple[Fabric, Schedule, IntArray], delays: list[float], when: float, fidelity: str
) -> None:
    """A fold that some have not entered, until others come to the links, says what events say."""
    for disturbed_at in (0.0, when):
        found, expected = (staggered(case, delays, disturbed_at, fidelity, sharing) for sharing in (STRICT, ONE_BY_ONE))
        assert found == pytest.approx(expected, rel=1e-9)
