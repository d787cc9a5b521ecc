from collections import Counter
from functools import partial
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings, strategies as st

from fredfw.collectives import CollectiveRequest, Pattern, Phase, Schedule, check, in_series, parallel, ring_schedule
from fredfw.errors import ScheduleError


def ring(pattern: Pattern, n: int) -> Schedule:
    return ring_schedule(pattern, 1.0 * n, np.arange(n)[:, None])


def one_chunk(pattern: Pattern, n: int, *phases: Phase) -> Schedule:
    return Schedule(pattern, n, 1.0, 1, phases)


all_reduce, broadcast, reduce = (partial(one_chunk, Pattern(name)) for name in ("all-reduce", "broadcast", "reduce"))


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
    everyone = range(schedule.ranks)
    for chunk in range(schedule.chunks):
        owner = [] if schedule.owner is None else [int(schedule.owner[chunk])]
        wanted = Counter(owner if schedule.pattern is Pattern.ALL_GATHER else everyone)
        ends = owner if schedule.pattern is Pattern.REDUCE_SCATTER else everyone
        if any(held[rank][chunk] != wanted for rank in ends):
            return False
    return True


PATTERNS = Pattern.REDUCE_SCATTER, Pattern.ALL_GATHER, Pattern.ALL_REDUCE


@st.composite
def places(draw: st.DrawFn) -> tuple[Schedule, int, int]:
    schedule = ring(draw(st.sampled_from(PATTERNS)), draw(st.integers(3, 7)))
    index = draw(st.integers(0, len(schedule.phases) - 1))
    return schedule, index, draw(st.integers(0, schedule.ranks - 1))


@settings(max_examples=100)
@given(places(), st.sampled_from(["source", "destination", "offset", "stride", "count", "reduce", "repeat"]), st.data())
def test_whatever_a_change_breaks_is_caught(place: tuple[Schedule, int, int], column: str, data: st.DataObject) -> None:
    schedule, index, row = place
    assert is_right(schedule)
    check(schedule)
    if column == "repeat":
        value = data.draw(st.integers(1, schedule.ranks + 1))
    else:
        value = getattr(schedule.phases[index], column).copy()
        value[row] = data.draw(st.integers(1 if column == "count" else 0, schedule.ranks - (column != "count")))
    phases: list[Any] = list(schedule.phases)
    phases[index] = evolve(phases[index], **{column: value})
    mutant = evolve(schedule, phases=phases)
    if not is_right(mutant):
        with pytest.raises(ScheduleError):
            check(mutant)


def adds(source: Any, destination: Any, **more: Any) -> Phase:
    return Phase.of(source, destination, 0, reduce=True, **more)


def copies(source: Any, destination: Any, **more: Any) -> Phase:
    return Phase.of(source, destination, 0, **more)


@pytest.mark.parametrize(
    "schedule",
    [
        all_reduce(2, adds([0, 1], [1, 0])),  # all reads happen before the writes
        broadcast(2, copies([0, 0], 1)),  # equal copies do not conflict
        # A stream combines all sources for all destinations.
        all_reduce(5, copies(range(5), range(5), stream=0)),
        reduce(5, copies(range(5), 0, stream=0)),
        reduce(5, adds(range(1, 5), 0, stream=0)),
        broadcast(5, copies(0, range(1, 5), stream=0)),
        reduce(4, adds([1, 2, 3], 0, stream=[-1, 4, 4])),  # 2 and 3 on their way to 0, and 1 alone
        # Phases have an order, which may be indirect, or read the same.
        broadcast(3, copies(0, 1), copies(1, 2, after=(0,))),
        broadcast(5, *in_series(copies(*ends) for ends in ((0, 1), (1, 2), (2, 3), (3, 4), (4, 1)))),
        broadcast(3, copies(0, 1), copies(0, 2)),
        parallel([ring(Pattern.ALL_REDUCE, 4)] * 3),
    ],
)
def test_these_are_right(schedule: Schedule) -> None:
    check(schedule)


CONFLICT = "phase 0, repetition 0: two writes to chunk 0 of rank 0 conflict"


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (all_reduce(2, adds(0, 1), adds(1, 0, after=(0,))), "phase 1, .*: rank 0 adds the contribution of rank 0 to"),
        (broadcast(3, copies([0, 1], [1, 2])), "phase 0, repetition 0: rank 1 sends chunk 0, which it does not hold"),
        (broadcast(2, adds(0, 1)), "rank 1 adds to chunk 0, which it does not hold"),
        (reduce(3, Phase.of([1, 2], 0, 0, reduce=[False, False])), CONFLICT),
        (reduce(3, Phase.of([1, 2], 0, 0, reduce=[True, False])), CONFLICT),
        (reduce(3, adds(1, 0)), r"chunk 0 with the contributions of ranks \[0, 1\]; reduce needs .*\[0, 1, 2\]"),
        # A copied stream replaces what a bystander holds.
        (reduce(3, copies([1, 2], 0, stream=0)), r"contributions of ranks \[1, 2\]"),
        (reduce(3, adds(1, 2), adds([1, 2], 0, stream=7, after=(0,))), "phase 1, .*, stream 7: .* of rank 1 .* twice"),
        (broadcast(3, copies(0, 1, channel=0), copies(1, 2, channel=0)), "0 and 1 are not ordered, .* of rank 1"),
        (reduce(3, adds(1, 0), adds(2, 0)), "phases 0 and 1 are not ordered, and phase 0 writes chunk 0 of rank 0"),
        *((one_chunk(one, 2), r"does not say the (owner|origin)") for one in Pattern if one.owned),
    ],
)
def test_what_is_wrong_is_named(schedule: Schedule, message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        check(schedule)


@pytest.mark.parametrize(
    "columns", [{"chunk": [0, 0], "count": [1, 2]}, {"chunk": [0, 1]}, {"chunk": 0, "reduce": [True, False]}]
)
def test_the_rows_of_a_stream_agree(columns: dict[str, Any]) -> None:
    phase = Phase.of([1, 2], 0, stream=0, modulus=2, **columns)
    with pytest.raises(ScheduleError, match="phase 0, repetition 0, stream 0: its rows differ"):
        check(Schedule(Pattern.REDUCE, 3, 1.0, 2, (phase,)))


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ([2.0, 1.0], r"rank 0 owns 2.0 bytes, not its share of 1.5"),
        *(([1.0, size], "chunk 1 has") for size in (-1.0, float("nan"), float("inf"))),
    ],
)
def test_chunks_have_a_size_and_owners_get_equal_bytes(sizes: list[float], message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        check(evolve(ring(Pattern.REDUCE_SCATTER, 2), chunk_bytes=sizes))


@pytest.mark.parametrize(
    ("request_", "root", "message"),
    [
        (CollectiveRequest(Pattern.REDUCE, 3, 3.0), 0, "pattern is all-reduce, the request's is reduce"),
        (CollectiveRequest(Pattern.ALL_REDUCE, 4, 3.0), 0, "ranks is 3, the request's is 4"),
        (CollectiveRequest(Pattern.ALL_REDUCE, 3, 4.0), 0, "chunks sum to 3.0 bytes, not to the 4.0"),
        (CollectiveRequest(Pattern.ALL_REDUCE, 3, 3.0), 1, "root is 1, the request's is 0"),
    ],
)
def test_a_schedule_must_serve_its_request(request_: CollectiveRequest, root: int, message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        check(evolve(ring(Pattern.ALL_REDUCE, 3), root=root), request_)


def test_an_all_to_all_is_compared_pair_by_pair_its_own_blocks_included() -> None:
    blocks: dict[str, Any] = {"owner": np.array([0, 1, 0, 1]), "origin": np.array([0, 0, 1, 1])}
    schedule = Schedule(Pattern.ALL_TO_ALL, 2, 2.0, 4, (Phase.of([0, 1], [1, 0], [1, 2]),), **blocks)
    check(schedule, CollectiveRequest(Pattern.ALL_TO_ALL, 2, 4.0))
    assert schedule.size == 2 * 4.0
    with pytest.raises(ScheduleError, match=r"rank 1 sends 2.0 bytes to rank 0, not 3.0"):
        check(schedule, CollectiveRequest(Pattern.ALL_TO_ALL, 2, 4.0, sizes=np.array([[2.0, 2.0], [3.0, 2.0]])))
