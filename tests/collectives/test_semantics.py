from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings, strategies as st

from fredfw.collectives import CollectiveRequest, Pattern, Phase, Schedule, check, parallel, sequence
from fredfw.errors import ScheduleError
from fredfw.typing import AnyArray


def rotation(n: int, *, reduce: bool) -> Phase:
    rank = np.arange(n)
    return Phase.of(rank, (rank + 1) % n, rank - reduce, stride=-1, modulus=n, reduce=reduce, repeat=n - 1)


def scatter_ring(n: int) -> Schedule:
    return Schedule(Pattern.REDUCE_SCATTER, n, 1.0, n, (rotation(n, reduce=True),), owner=np.arange(n))


def gather_ring(n: int) -> Schedule:
    return Schedule(Pattern.ALL_GATHER, n, 1.0, n, (rotation(n, reduce=False),), owner=np.arange(n))


def ring(n: int) -> Schedule:
    return sequence(scatter_ring(n), gather_ring(n), Pattern.ALL_REDUCE)


def one_chunk(pattern: Pattern, n: int, *phases: Phase) -> Schedule:
    return Schedule(pattern, n, 1.0, 1, phases)


def result(schedule: Schedule) -> list[list[Counter[int] | None]]:
    """Run an all-reduce, reduce-scatter or all-gather in plain Python: how often each contribution is in each chunk."""
    spread = schedule.pattern is Pattern.ALL_GATHER
    owner = np.zeros(schedule.chunks) if schedule.owner is None else schedule.owner
    held: list[list[Counter[int] | None]] = [
        [Counter([rank]) if not spread or owner[chunk] == rank else None for chunk in range(schedule.chunks)]
        for rank in range(schedule.ranks)
    ]
    for phase in schedule.phases:
        for repetition in range(phase.repeat):
            sent = []
            for row in range(len(phase)):
                for j in range(phase.count[row]):
                    place = (phase.offset[row] + repetition * phase.stride[row] + j) % phase.modulus[row]
                    chunk = int(phase.base[row] + place)
                    sent.append((row, chunk, held[phase.source[row]][chunk]))
            for row, chunk, what in sent:
                there = held[phase.destination[row]]
                if what is not None and phase.reduce[row]:
                    there[chunk] = (there[chunk] or Counter()) + what
                elif what is not None:
                    there[chunk] = Counter(what)
    return held


def is_right(schedule: Schedule) -> bool:
    held = result(schedule)
    for chunk in range(schedule.chunks):
        owner = -1 if schedule.owner is None else int(schedule.owner[chunk])
        everyone = Counter(range(schedule.ranks))
        wanted = Counter([owner]) if schedule.pattern is Pattern.ALL_GATHER else everyone
        ends = [owner] if schedule.pattern is Pattern.REDUCE_SCATTER else range(schedule.ranks)
        if any(held[rank][chunk] != wanted for rank in ends):
            return False
    return True


def changed(array: AnyArray, row: int, value: int) -> AnyArray:
    copy = array.copy()
    copy[row] = value
    return copy


def rows(phase: Phase, chosen: list[int]) -> Phase:
    names = ("source", "destination", "base", "offset", "stride", "modulus", "count", "reduce")
    return evolve(phase, **{name: getattr(phase, name)[chosen] for name in names})


def with_phase(schedule: Schedule, index: int, phase: Phase) -> Schedule:
    phases = list(schedule.phases)
    phases[index] = phase
    return evolve(schedule, phases=tuple(phases))


RINGS = st.tuples(st.sampled_from([scatter_ring, gather_ring, ring]), st.integers(3, 7)).map(lambda one: one[0](one[1]))


@st.composite
def places(draw: st.DrawFn) -> tuple[Schedule, int, int]:
    schedule = draw(RINGS)
    index = draw(st.integers(0, len(schedule.phases) - 1))
    return schedule, index, draw(st.integers(0, schedule.ranks - 1))


@given(RINGS)
def test_a_right_schedule_passes(schedule: Schedule) -> None:
    assert is_right(schedule)
    check(schedule)


@given(places())
def test_a_dropped_row_is_caught(place: tuple[Schedule, int, int]) -> None:
    schedule, index, row = place
    phase = schedule.phases[index]
    kept = [one for one in range(len(phase)) if one != row]
    with pytest.raises(ScheduleError, match=r"rank \d+ .*chunk \d+"):
        check(with_phase(schedule, index, rows(phase, kept)))


@given(st.integers(2, 7), st.data())
def test_a_contribution_added_twice_is_caught(n: int, data: st.DataObject) -> None:
    schedule = data.draw(st.sampled_from([scatter_ring, ring]))(n)
    twice = [*range(n), data.draw(st.integers(0, n - 1))]
    with pytest.raises(
        ScheduleError, match=r"phase 0, repetition \d+: rank \d+ adds the contribution of rank \d+ .*twice"
    ):
        check(with_phase(schedule, 0, rows(schedule.phases[0], twice)))


@settings(max_examples=300)
@given(places(), st.sampled_from(["source", "destination", "offset", "stride", "count", "reduce", "repeat"]), st.data())
def test_whatever_a_change_breaks_is_caught(place: tuple[Schedule, int, int], column: str, data: st.DataObject) -> None:
    schedule, index, row = place
    phase = schedule.phases[index]
    if column == "repeat":
        broken = evolve(phase, repeat=data.draw(st.integers(1, schedule.ranks + 1)))
    else:
        value = data.draw(st.integers(1 if column == "count" else 0, schedule.ranks - (column != "count")))
        change: dict[str, Any] = {column: changed(getattr(phase, column), row, value)}
        broken = evolve(phase, **change)
    mutant = with_phase(schedule, index, broken)
    if not is_right(mutant):
        with pytest.raises(ScheduleError):
            check(mutant)


def test_all_reads_happen_before_the_writes() -> None:
    check(one_chunk(Pattern.ALL_REDUCE, 2, Phase.of([0, 1], [1, 0], 0, reduce=True)))


def test_phases_are_not_one_repetition() -> None:
    first, second = Phase.of(0, 1, 0, reduce=True), Phase.of(1, 0, 0, reduce=True, after=(0,))
    with pytest.raises(ScheduleError, match="phase 1, repetition 0: rank 0 adds the contribution of rank 0 to chunk 0"):
        check(one_chunk(Pattern.ALL_REDUCE, 2, first, second))


def test_a_chunk_is_sent_only_by_who_holds_it() -> None:
    with pytest.raises(ScheduleError, match="phase 0, repetition 0: rank 1 sends chunk 0, which it does not hold"):
        check(one_chunk(Pattern.BROADCAST, 3, Phase.of([0, 1], [1, 2], 0)))


def test_nothing_is_added_to_a_chunk_that_is_not_there() -> None:
    with pytest.raises(ScheduleError, match="rank 1 adds to chunk 0, which it does not hold"):
        check(one_chunk(Pattern.BROADCAST, 2, Phase.of(0, 1, 0, reduce=True)))


@pytest.mark.parametrize("reduce", [[False, False], [True, False]])
def test_two_different_writes_conflict(reduce: list[bool]) -> None:
    with pytest.raises(ScheduleError, match="phase 0, repetition 0: two writes to chunk 0 of rank 0 conflict"):
        check(one_chunk(Pattern.REDUCE, 3, Phase.of([1, 2], 0, 0, reduce=reduce)))


def test_two_equal_copies_do_not_conflict() -> None:
    check(one_chunk(Pattern.BROADCAST, 2, Phase.of([0, 0], 1, 0)))


def test_an_end_that_is_not_reached_is_named() -> None:
    with pytest.raises(
        ScheduleError, match=r"rank 0 has chunk 0 with the contributions of ranks \[0, 1\]; reduce needs .*\[0, 1, 2\]"
    ):
        check(one_chunk(Pattern.REDUCE, 3, Phase.of(1, 0, 0, reduce=True)))


@pytest.mark.parametrize("pattern", [one for one in Pattern if one.owned])
def test_owners_must_be_given(pattern: Pattern) -> None:
    with pytest.raises(ScheduleError, match=r"does not say the (owner|origin)"):
        check(one_chunk(pattern, 2))


# In-network transfers.


def test_a_stream_combines_all_sources_for_all_destinations() -> None:
    check(one_chunk(Pattern.ALL_REDUCE, 5, Phase.of(range(5), range(5), 0, stream=0)))
    check(one_chunk(Pattern.REDUCE, 5, Phase.of(range(5), 0, 0, stream=0)))
    check(one_chunk(Pattern.REDUCE, 5, Phase.of(range(1, 5), 0, 0, stream=0, reduce=True)))
    check(one_chunk(Pattern.BROADCAST, 5, Phase.of(0, range(1, 5), 0, stream=0)))


def test_streams_and_unicasts_share_a_phase() -> None:
    # 2 and 3 are combined on their way to 0, where 1 arrives alone.
    check(one_chunk(Pattern.REDUCE, 4, Phase.of([1, 2, 3], 0, 0, reduce=True, stream=[-1, 4, 4])))


def test_a_copied_stream_replaces_what_a_bystander_holds() -> None:
    with pytest.raises(ScheduleError, match=r"contributions of ranks \[1, 2\]"):
        check(one_chunk(Pattern.REDUCE, 3, Phase.of([1, 2], 0, 0, stream=0)))


def test_a_stream_that_combines_a_contribution_twice_is_caught() -> None:
    first = Phase.of(1, 2, 0, reduce=True)
    second = Phase.of([1, 2], 0, 0, reduce=True, stream=7, after=(0,))
    with pytest.raises(
        ScheduleError, match=r"phase 1, repetition 0, stream 7: .* contribution of rank 1 to chunk 0 twice"
    ):
        check(one_chunk(Pattern.REDUCE, 3, first, second))


@pytest.mark.parametrize(
    "columns", [{"chunk": [0, 0], "count": [1, 2]}, {"chunk": [0, 1]}, {"chunk": 0, "reduce": [True, False]}]
)
def test_the_rows_of_a_stream_agree(columns: dict[str, list[int]]) -> None:
    phase = Phase.of([1, 2], 0, stream=0, modulus=2, **columns)  # type: ignore[arg-type]  # any column may be given
    with pytest.raises(ScheduleError, match="phase 0, repetition 0, stream 0: its rows differ"):
        check(Schedule(Pattern.REDUCE, 3, 1.0, 2, (phase,)))


# Races.


def test_phases_without_an_order_must_not_write_what_the_other_touches() -> None:
    hops = Phase.of(0, 1, 0, channel=0), Phase.of(1, 2, 0, channel=0)
    with pytest.raises(ScheduleError, match="phases 0 and 1 are not ordered, and phase 0 writes chunk 0 of rank 1"):
        check(one_chunk(Pattern.BROADCAST, 3, *hops))
    check(one_chunk(Pattern.BROADCAST, 3, hops[0], evolve(hops[1], after=(0,))))


def test_two_unordered_writes_are_a_race_even_if_they_add() -> None:
    with pytest.raises(ScheduleError, match="phases 0 and 1 are not ordered, and phase 0 writes chunk 0 of rank 0"):
        check(one_chunk(Pattern.REDUCE, 3, Phase.of(1, 0, 0, reduce=True), Phase.of(2, 0, 0, reduce=True)))


def test_an_order_may_be_indirect() -> None:
    chain = [Phase.of(rank, rank + 1, 0, after=(rank - 1,) if rank else ()) for rank in range(4)]
    back = Phase.of(4, 1, 0, after=(3,))
    check(one_chunk(Pattern.BROADCAST, 5, *chain, back))


def test_unordered_phases_may_read_the_same() -> None:
    check(one_chunk(Pattern.BROADCAST, 3, Phase.of(0, 1, 0), Phase.of(0, 2, 0)))


def test_parts_side_by_side_do_not_race() -> None:
    check(parallel([ring(4)] * 3))


# Bytes.


def test_owners_must_get_equal_bytes() -> None:
    with pytest.raises(ScheduleError, match=r"rank 0 owns 2.0 bytes, not its share of 1.5"):
        check(evolve(scatter_ring(2), chunk_bytes=[2.0, 1.0]))


@pytest.mark.parametrize("size", [-1.0, float("nan"), float("inf")])
def test_chunks_have_a_size(size: float) -> None:
    with pytest.raises(ScheduleError, match="chunk 1 has"):
        check(evolve(scatter_ring(2), chunk_bytes=[1.0, size]))


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (CollectiveRequest(Pattern.REDUCE, 3, 3.0), "pattern is all-reduce, the request's is reduce"),
        (CollectiveRequest(Pattern.ALL_REDUCE, 4, 3.0), "ranks is 3, the request's is 4"),
        (CollectiveRequest(Pattern.ALL_REDUCE, 3, 4.0), "chunks sum to 3.0 bytes, not to the 4.0"),
    ],
)
def test_a_schedule_must_serve_its_request(request_: CollectiveRequest, message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        check(ring(3), request_)


def test_a_schedule_must_have_the_root_of_its_request() -> None:
    with pytest.raises(ScheduleError, match="root is 1, the request's is 0"):
        check(evolve(ring(3), root=1), CollectiveRequest(Pattern.ALL_REDUCE, 3, 3.0))


def test_an_all_to_all_is_compared_pair_by_pair_its_own_blocks_included() -> None:
    phase = Phase.of([0, 1], [1, 0], [1, 2])
    schedule = Schedule(
        Pattern.ALL_TO_ALL, 2, 2.0, 4, (phase,), owner=np.array([0, 1, 0, 1]), origin=np.array([0, 0, 1, 1])
    )
    check(schedule, CollectiveRequest(Pattern.ALL_TO_ALL, 2, 4.0))
    assert schedule.size == 2 * 4.0
    with pytest.raises(ScheduleError, match=r"rank 1 sends 2.0 bytes to rank 0, not 3.0"):
        check(schedule, CollectiveRequest(Pattern.ALL_TO_ALL, 2, 4.0, sizes=np.array([[2.0, 2.0], [3.0, 2.0]])))
