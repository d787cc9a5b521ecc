from __future__ import annotations

import numpy as np
import pytest
from attrs import evolve

from fredfw import Fabric, NodeKind, Pattern, Phase, Schedule, ring_schedule
from fredfw.simulation.bounds import LowerBounds
from fredfw.simulation.bounds.schedules import Draft, Floor, Floors, Place, Sketch

RING = Fabric(
    name="ring",
    kinds=[NodeKind.NPU] * 4,
    sources=[0, 1, 2, 3, 1, 2, 3, 0],
    destinations=[1, 2, 3, 0, 0, 1, 2, 3],
    bandwidths=1e9,
    latencies=1e-3,
    energies=0.0,
)
MEMBERS = np.arange(4)
RINGED = Sketch.of(ring_schedule(Pattern.ALL_REDUCE, 4e9, np.arange(4)[:, None]), 4e9)


@pytest.fixture
def floors() -> Floors:
    return Floors(RING, RING.defaults.router, LowerBounds(RING))


SIZE = 4e9


def sketch(*phases: Phase) -> Sketch:
    return Sketch.of(Schedule(Pattern.BROADCAST, 4, 1e9, 1, phases), 1e9)


def test_a_ring_takes_its_bytes_and_its_steps(floors: Floors) -> None:
    # Six steps of 1 GB over a link of 1 GB/s and 1 ms.
    steps = floors.routed(RINGED, MEMBERS)
    assert steps.seconds(SIZE).barriers == pytest.approx(6 * 1.001)
    assert steps.crowd == 1
    # Without routes, the two links of an NPU count: half of that.
    assert floors.unrouted(RINGED, MEMBERS).seconds(SIZE).barriers == pytest.approx(6 * 0.501)


def test_where_everybody_receives_ranks_cannot_get_out_of_step(floors: Floors) -> None:
    assert floors.routed(RINGED, MEMBERS).seconds(SIZE).any_order == pytest.approx(6 * 1.001)


def test_ranks_that_get_out_of_step_pay_a_latency_at_least_once(floors: Floors) -> None:
    # Rank 3 receives nothing, so that it may send in the last phase when it likes.
    first, second = Phase.of([0, 1, 2], [1, 2, 0], 0), Phase.of([3], [0], 0, after=(0,))
    assert floors.routed(sketch(first, second), MEMBERS).seconds(1e9).any_order == pytest.approx(1.001)
    # If everybody receives in the first, it may not.
    first = Phase.of([0, 1, 2, 3], [1, 2, 3, 0], 0)
    assert floors.routed(sketch(first, second), MEMBERS).seconds(1e9).any_order == pytest.approx(2.002)


def test_the_fastest_transfer_of_a_phase_counts(floors: Floors) -> None:
    # Chunk 1 has a tenth of the bytes, and rank 3 gets it; it sends when that is there.
    first = Phase.of([0, 1, 2, 3], [1, 2, 3, 0], [0, 0, 1, 0])
    second = Phase.of([3], [2], [0], after=(0,))
    made = Schedule(Pattern.BROADCAST, 4, np.array([1e9, 1e8]), 2, (first, second))
    assert floors.routed(Sketch.of(made, 1e9), MEMBERS).seconds(1e9).any_order == pytest.approx(0.101 + 1.001)


def test_a_bound_for_one_size_is_a_bound_for_others(floors: Floors) -> None:
    assert floors.routed(RINGED, MEMBERS).seconds(2 * SIZE).barriers == pytest.approx(6 * 2.001)


def test_a_flow_takes_its_bytes_at_the_cap_of_the_admission() -> None:
    capped = Floors(RING, RING.defaults.router, LowerBounds(RING), 1e8)
    assert capped.unrouted(RINGED, MEMBERS).seconds(SIZE).barriers == pytest.approx(6 * 10.001)


def test_phases_that_wait_or_share_a_channel_add_up(floors: Floors) -> None:
    def steps(**how: object) -> float:
        second = Phase.of(2, 3, 0, **how)  # type: ignore[arg-type]  # one of two keywords
        return floors.routed(sketch(Phase.of(0, 1, 0), second), MEMBERS).seconds(1e9).barriers

    assert steps() == pytest.approx(1.001)
    assert steps(after=(0,)) == pytest.approx(2.002)


def test_what_comes_before_and_after_a_channel_counts(floors: Floors) -> None:
    # Two pieces take turns on channel 0, each on links of its own; one phase comes before and one after each of them.
    phases = [
        phase
        for piece, place in enumerate((0, 4))
        for phase in (
            Phase.of(0, 1, 0),
            Phase.of(1 + piece, 2 + piece, 0, after=(place,), channel=0),
            Phase.of(3, 0, 0, after=(place + 1,)),
            Phase.of(1, 0, 0, after=(place + 2,)),
        )
    ]
    assert sketch(*phases).longest(np.ones(8), np.ones(8)) == 5.0


def test_a_channel_that_is_released_early_is_taken_for_the_bytes_alone(floors: Floors) -> None:
    phases = [Phase.of(0, 1, 0, channel=0), Phase.of(0, 1, 0, channel=0)]
    schedule = Schedule(Pattern.BROADCAST, 4, 1.0, 1, phases)
    for release, expected in (("delivered", 6.0), ("drained", 4.0)):
        released = Sketch.of(evolve(schedule, release=release), 1.0)
        assert released.longest(np.full(2, 3.0), np.full(2, 2.0)) == expected


def test_phases_of_a_turn_run_at_once(floors: Floors) -> None:
    """Turns 1 and 2 of channel 0: the first has two phases side by side, the second two that follow each other."""
    phases = [
        Phase.of(0, 1, 0, channel=0, turn=1),
        Phase.of(1, 2, 0, channel=0, turn=1),
        Phase.of(2, 3, 0, channel=0, turn=2),
        Phase.of(3, 0, 0, channel=0, turn=2, after=(2,)),
        Phase.of(3, 2, 0, channel=0),
    ]
    assert sketch(*phases).longest(np.array([3.0, 4.0, 1.0, 2.0, 5.0]), np.zeros(5)) == 4 + (1 + 2) + 5


def test_bytes_of_all_groups_share_a_link(floors: Floors) -> None:
    # Two groups that do the same at the same place.
    assert floors.together([RINGED], [np.stack([MEMBERS, MEMBERS])]) * SIZE == pytest.approx(12.0)
    assert floors.together([RINGED, RINGED], [MEMBERS[None, :]] * 2) * SIZE == pytest.approx(12.0)


def test_what_is_divided_counts_its_bytes_before_it_is_written(floors: Floors) -> None:
    written: list[int] = []

    def write() -> Sketch:
        written.append(1)
        return RINGED

    place = Place((MEMBERS[None, :],))
    rungs = Floor(floors, (Draft(RINGED, write),), place, SIZE).rungs
    assert [rung().barriers for rung in rungs[:4]] == pytest.approx([3.0, 6.0, 6.0, 0.0])
    assert not written
    assert [rung().barriers for rung in rungs[4:]] == pytest.approx([6 * 0.501, 6 * 1.001])
    assert written == [1]


@pytest.mark.parametrize("sources", [[0, 1, 2], [2, 0, 1], [0, 0, 2], [1, 1, 1]])
def test_pairs_and_their_bytes_are_those_of_the_rows(sources: list[int]) -> None:
    # In rising order or not, in one phase or in two alike.
    rows = Phase.of(sources, 3, 0, count=1)
    again = evolve(rows, after=(0,))
    found = sketch(rows, again)
    assert found.pairs.tolist() == sorted({source * 4 + 3 for source in sources})
    counts = {source * 4 + 3: sources.count(source) for source in sources}
    assert found.totals.tolist() == [2.0 * counts[pair] for pair in found.pairs.tolist()]
    assert found.phase.tolist() == [0] * len(counts) + [1] * len(counts)


def test_an_empty_schedule_takes_nothing(floors: Floors) -> None:
    empty = Sketch.of(Schedule(Pattern.ALL_REDUCE, 1, 1e9, 1, ()), 1e9)
    assert floors.unrouted(empty, MEMBERS[:1]).seconds(1e9).barriers == 0.0
    assert floors.routed(empty, MEMBERS[:1]).seconds(1e9).barriers == 0.0
    assert floors.together([empty], [MEMBERS[None, :1]]) == 0.0
