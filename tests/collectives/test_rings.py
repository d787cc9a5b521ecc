from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from fredfw import CollectiveRequest, Pattern, check, ring_schedule
from fredfw.errors import ScheduleError

PATTERNS = [Pattern.ALL_REDUCE, Pattern.REDUCE_SCATTER, Pattern.ALL_GATHER]


def positions(sizes: tuple[int, ...]) -> np.ndarray[tuple[int, int], np.dtype[np.intp]]:
    return np.stack(np.unravel_index(np.arange(int(np.prod(sizes))), sizes), axis=1).astype(np.intp)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("step", [1, -1])
@given(sizes=st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple), data=st.data())
def test_rings_do_what_the_pattern_promises(
    pattern: Pattern, step: int, sizes: tuple[int, ...], data: st.DataObject
) -> None:
    n = int(np.prod(sizes))
    coordinates = positions(sizes)[data.draw(st.permutations(range(n)))]
    order = data.draw(st.permutations(range(len(sizes))))
    schedule = ring_schedule(pattern, 8.0 * n, coordinates, order, step=step)
    check(schedule, CollectiveRequest(pattern, n, 8.0 * n))
    halves = 2 if pattern is Pattern.ALL_REDUCE else 1
    assert schedule.steps == halves * sum(size - 1 for size in sizes)
    # The bandwidth-optimal volume: every rank sends all but its own share, once for each half.
    sent = sum(float(schedule.row_bytes(phase).sum()) * phase.repeat for phase in schedule.phases)
    assert sent == pytest.approx(halves * 8.0 * n * (n - 1))


@pytest.mark.parametrize("step", [1, -1])
def test_everybody_sends_to_the_next_position_in_one_dimension(step: int) -> None:
    schedule = ring_schedule(Pattern.REDUCE_SCATTER, 60.0, positions((3, 4)), (1, 0), step=step, channels=True)
    across, along = schedule.phases
    assert along.destination.tolist() == [((x + step) % 3) * 4 + y for x in range(3) for y in range(4)]
    assert across.destination.tolist() == [x * 4 + (y + step) % 4 for x in range(3) for y in range(4)]
    assert [phase.channel for phase in schedule.phases] == [1, 0]
    # A quarter of the buffer per step in the rings of 4, then a third of that quarter.
    assert schedule.row_bytes(across).tolist() == [15.0] * 12
    assert schedule.row_bytes(along).tolist() == [5.0] * 12


def test_what_rings_cannot_do_is_refused() -> None:
    with pytest.raises(ScheduleError, match="collectives over dimensions do not do broadcast"):
        ring_schedule(Pattern.BROADCAST, 1.0, positions((2, 2)))
    with pytest.raises(ScheduleError, match="3 ranks are not a full product"):
        ring_schedule(Pattern.ALL_REDUCE, 1.0, positions((2, 2))[:3])
