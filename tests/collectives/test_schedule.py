from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, strategies as st

from fredfw.collectives import Pattern, Phase, Schedule, check, parallel, pipelined, ring_schedule, sequence
from fredfw.collectives.schedule import carried
from fredfw.errors import ScheduleError


def ring(pattern: Pattern, n: int, size: float = 1.0) -> Schedule:
    return ring_schedule(pattern, size, np.arange(n)[:, None])


def slowly_carried(phase: Phase, row: int, repetition: int) -> list[int]:
    base, offset, stride = int(phase.base[row]), int(phase.offset[row]), int(phase.stride[row])
    return [base + (offset + repetition * stride + j) % int(phase.modulus[row]) for j in range(phase.count[row])]


@st.composite
def phases(draw: st.DrawFn) -> Phase:
    def column(least: int, most: int) -> list[int]:
        return draw(st.lists(st.integers(least, most), min_size=rows, max_size=rows))

    rows = draw(st.integers(1, 4))
    modulus = column(1, 6)
    count = [draw(st.integers(1, most)) for most in modulus]
    more: dict[str, Any] = {"count": count, "base": column(0, 5), "stride": column(-9, 9), "modulus": modulus}
    return Phase.of(np.arange(rows), 0, column(-9, 9), repeat=draw(st.integers(1, 4)), **more)


@given(phases(), st.lists(st.sampled_from([0.0, 0.1, 1 / 3, 1e12]), min_size=11, max_size=11))
def test_chunks_and_bytes_are_those_of_the_docstring(phase: Phase, sizes: list[float]) -> None:
    schedule = Schedule(Pattern.BROADCAST, 4, np.array(sizes), 11, (phase,))
    every = []
    for repetition in range(phase.repeat):
        slow = [slowly_carried(phase, row, repetition) for row in range(len(phase))]
        row, chunk = carried(phase, repetition)
        assert [chunk[row == one].tolist() for one in range(len(phase))] == slow
        every.append(schedule.row_bytes(phase, repetition))
        # Relative to the row itself: a tiny chunk beside a huge one keeps all its digits.
        np.testing.assert_allclose(every[-1], [sum(sizes[one] for one in chunks) for chunks in slow], rtol=1e-15)
    if schedule.uniform(phase):
        assert all(np.array_equal(every[0], one) for one in every)


def test_a_phase_inside_blocks_of_equal_chunks_is_uniform_and_without_a_modulus_nothing_wraps() -> None:
    both = parallel([ring(Pattern.ALL_GATHER, 7, 0.1), ring(Pattern.ALL_GATHER, 7, 0.7)])
    assert all(both.uniform(phase) for phase in both.phases)
    np.testing.assert_array_equal(both.row_bytes(both.phases[1], 3), np.full(7, 0.7 / 7))
    uneven = evolve(ring(Pattern.ALL_GATHER, 3), chunk_bytes=[1.0, 2.0, 3.0])
    assert not uneven.uniform(uneven.phases[0])
    phase = Phase.of(0, [1, 2], 3, count=2, stride=2, repeat=3)
    assert [carried(phase, t)[1].tolist() for t in range(3)] == [[3, 4, 3, 4], [5, 6, 5, 6], [7, 8, 7, 8]]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        *((columns, "row 0 carries") for columns in ({"count": 0}, {"count": 3, "modulus": 2}, {"modulus": 0})),
        ({"source": np.zeros(1, dtype=np.intp)}, "columns"),
        ({"stream": np.zeros(3, dtype=np.intp)}, "streams"),
    ],
)
def test_columns_have_one_length_and_a_row_carries_chunks_once(columns: dict[str, Any], message: str) -> None:
    phase = Phase.of([0, 1], [1, 0], 0, count=1, modulus=1)
    columns = {name: np.broadcast_to(one, 2) if isinstance(one, int) else one for name, one in columns.items()}
    with pytest.raises(ScheduleError, match=message):
        evolve(phase, **columns)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"phases": [Phase.of(2, 0, 0)]}, "phase 0 has a source outside 0..1"),
        ({"phases": [Phase.of(0, -1, 0)]}, "phase 0 has a destination outside 0..1"),
        ({"phases": [Phase.of(0, 1, 3)]}, "phase 0 has a chunk outside 0..2"),
        ({"phases": [Phase.of(0, 1, 0, base=-1)]}, "phase 0 has a chunk outside 0..2"),
        ({"phases": [Phase.of(0, 1, 0, after=(0,))]}, "not all of which are earlier"),
        ({"phases": [Phase.of(0, 1, 0, repeat=0)]}, "repeats 0 times"),
        ({"chunk_bytes": np.ones(2)}, "chunk_bytes has shape"),
        ({"owner": np.zeros(2, dtype=np.intp)}, "owner has shape"),
        ({"owner": np.array([0, 1, 2])}, "owner outside"),
    ],
)
def test_a_schedule_refuses_what_does_not_exist(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        evolve(Schedule(Pattern.SCATTER, 2, 1.0, 3, ()), **fields)


def test_the_key_tells_apart_whatever_differs() -> None:
    one: dict[str, Any] = {"source": [0, 1], "destination": [1, 0], "chunk": [0, 1], "modulus": 4, "repeat": 2}
    others: list[dict[str, Any]] = [
        *({"source": [1, 0]}, {"destination": 1}, {"chunk": [1, 0]}, {"base": [0, 1]}, {"stride": 1}, {"modulus": 3}),
        *({"count": 2}, {"reduce": True}, {"stream": 0}, {"stream": [0, 1]}, {"repeat": 3}, {"channel": 0}),
    ]
    phases = [Phase.of(**one | other) for other in [{}, *others]]
    schedules = [Schedule(Pattern.BROADCAST, 2, 1.0, 5, (phase,)) for phase in phases]
    schedules += [Schedule(Pattern.BROADCAST, 2, size, 5, (phases[0],)) for size in (2.0, np.arange(5.0))]
    schedules += [Schedule(Pattern.BROADCAST, 2, 1.0, 5, (phases[0],), root=1), Schedule(Pattern.REDUCE, 2, 1.0, 5, ())]
    schedules += [Schedule(Pattern.BROADCAST, 2, 1.0, 5, (phases[0], evolve(phases[0], after=(0,))))]
    assert len({schedule.key for schedule in schedules}) == len(schedules)
    assert Schedule(Pattern.BROADCAST, 2, 1.0, 5, (Phase.of(**one),)).key == schedules[0].key


def test_sequence_starts_the_second_when_all_of_the_first_is_done_and_shifts_its_dependencies() -> None:
    gather = pipelined(ring(Pattern.ALL_GATHER, 3), 2)
    gather = evolve(gather, phases=(gather.phases[0], evolve(gather.phases[1], after=(0,))))
    whole = sequence(pipelined(ring(Pattern.REDUCE_SCATTER, 3), 2), gather, Pattern.ALL_REDUCE)
    assert [phase.after for phase in whole.phases] == [(), (), (0, 1), (2,)]
    assert (whole.pattern, whole.owner) == (Pattern.ALL_REDUCE, None)
    check(whole)


def test_sequence_keeps_the_owners_and_the_root_of_the_part_that_has_them() -> None:
    n, root, others = 3, 2, np.array([0, 1])
    reduce = Schedule(Pattern.REDUCE, n, 1.0, n, (Phase.of(others, root, 0, count=n, reduce=True),), root=root)
    scatter = Schedule(Pattern.SCATTER, n, 1.0, n, (Phase.of(root, others, others),), owner=np.arange(n), root=root)
    gather = Schedule(Pattern.GATHER, n, 1 / n, n, (Phase.of(others, root, others),), owner=np.arange(n), root=root)
    check(sequence(reduce, scatter, Pattern.REDUCE_SCATTER))
    broadcast = sequence(scatter, ring(Pattern.ALL_GATHER, n, 3.0), Pattern.BROADCAST)
    assert broadcast.root == root
    check(broadcast)
    check(sequence(ring(Pattern.REDUCE_SCATTER, n), gather, Pattern.REDUCE))


def test_parallel_gives_each_part_chunks_and_phases_of_its_own_if_they_belong_together() -> None:
    both = parallel([ring(Pattern.REDUCE_SCATTER, 4, 3.0), ring(Pattern.REDUCE_SCATTER, 4, 1.0)])
    assert (both.chunks, both.size) == (8, 4.0)
    assert both.owner is not None
    assert both.owner.tolist() == [0, 1, 2, 3, 0, 1, 2, 3]
    assert both.phases[1].base.tolist() == [4] * 4
    assert [phase.after for phase in both.phases] == [(), ()]
    check(both)
    assert parallel([ring(Pattern.ALL_GATHER, 4, 2.0)] * 3).chunk_bytes == 0.5
    with pytest.raises(ScheduleError, match="one pattern, one group"):
        parallel([ring(Pattern.ALL_GATHER, 3), ring(Pattern.ALL_GATHER, 4)])
    with pytest.raises(ScheduleError, match="6 chunks on 3 ranks cannot go on as 3 on 3"):
        sequence(pipelined(ring(Pattern.REDUCE_SCATTER, 3), 2), ring(Pattern.ALL_GATHER, 3), Pattern.ALL_REDUCE)


@given(st.integers(2, 6), st.integers(1, 5), st.sampled_from([Pattern.ALL_GATHER, Pattern.REDUCE_SCATTER]))
def test_pipelined_is_right_and_moves_the_same_bytes(n: int, pieces: int, pattern: Pattern) -> None:
    one = ring(pattern, n, 7.0)
    many = pipelined(one, pieces)
    check(many)
    assert many.steps == pieces * one.steps
    assert many.size == pytest.approx(one.size, rel=1e-12)
    uneven = evolve(one, chunk_bytes=np.arange(1.0, n + 1))
    assert np.asarray(pipelined(uneven, 2).chunk_bytes) == pytest.approx(np.tile(np.arange(1.0, n + 1) / 2, 2))


@pytest.mark.parametrize(
    ("pattern", "factor"),
    [
        # nccl-tests, doc/PERFORMANCE.md, for 4 ranks
        (Pattern.ALL_REDUCE, 2 * 3 / 4),
        *((Pattern(name), 3 / 4) for name in ("reduce-scatter", "all-gather", "all-to-all", "gather", "scatter")),
        *((Pattern(name), 1) for name in ("broadcast", "reduce", "point-to-point")),
    ],
)
def test_bus_factor(pattern: Pattern, factor: float) -> None:
    assert pattern.bus_factor(4) == factor
