import math

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, strategies as st

from fredfw.collectives import CollectiveRequest, Pattern, Phase, Schedule, check, parallel, ring_schedule
from fredfw.collectives.amounts import check_amounts
from fredfw.collectives.direct import DirectAlgorithm
from fredfw.collectives.schedule import COLUMNS
from fredfw.errors import ScheduleError
from fredfw.fabric import GroupView
from fredfw.plugin.manager import PluginManager

ALGORITHMS = [cls() for cls in PluginManager.discover().collectives]
RINGS = (Pattern.ALL_REDUCE, Pattern.REDUCE_SCATTER, Pattern.ALL_GATHER)
LARGE = 4096


@given(st.sampled_from(ALGORITHMS), st.sampled_from(Pattern), st.integers(2, 40), st.integers(0, 39))
def test_what_every_algorithm_writes_passes(algorithm, pattern, ranks, root) -> None:  # type: ignore[no-untyped-def]
    ranks = 2 if pattern is Pattern.POINT_TO_POINT else ranks
    request = CollectiveRequest(pattern, ranks, 1e6, root % ranks if pattern.rooted else 0)
    if algorithm.refusal(request, GroupView(ranks)) is None:
        check_amounts(algorithm.plan(request, GroupView(ranks)), request)


@given(st.sampled_from(RINGS), st.lists(st.integers(2, 6), min_size=1, max_size=3), st.data())
def test_a_dropped_phase_or_half_of_the_bytes_is_caught(
    pattern: Pattern, sizes: list[int], data: st.DataObject
) -> None:
    ranks = math.prod(sizes)
    schedule = ring_schedule(pattern, 1e6, np.argwhere(np.ones(sizes)))
    request = CollectiveRequest(pattern, ranks, 1e6)
    check_amounts(schedule, request)
    dropped = data.draw(st.integers(0, len(schedule.phases) - 1))
    kept = [evolve(one, after=()) for index, one in enumerate(schedule.phases) if index != dropped]
    with pytest.raises(ScheduleError, match=r"rank \d+ (sends|receives) .* bytes in all phases|all ranks exchange"):
        check_amounts(evolve(schedule, phases=kept), request)
    with pytest.raises(ScheduleError, match="the chunks sum to 500000"):
        check_amounts(evolve(schedule, chunk_bytes=5e5 / ranks), request)


@pytest.mark.parametrize("pattern", Pattern)
def test_nothing_and_too_few_rows_are_caught_at_a_thousand_ranks(pattern: Pattern) -> None:
    request = CollectiveRequest(pattern, {Pattern.ALL_TO_ALL: 256, Pattern.POINT_TO_POINT: 2}.get(pattern, 1024), 1e6)
    schedule = DirectAlgorithm().plan(request, GroupView(request.ranks))
    check_amounts(schedule, request)
    last = schedule.phases[-1]
    for phase in ((), (evolve(last, **{name: getattr(last, name)[:-1] for name in COLUMNS[:-1]}),)):
        with pytest.raises(ScheduleError, match=r"rank \d+ (sends|receives)|all ranks exchange"):
            check_amounts(evolve(schedule, phases=(*schedule.phases[:-1], *phase)), request)


def test_an_all_reduce_takes_two_messages_a_rank_but_two_and_none_to_oneself_count() -> None:
    # Of 4 ranks each sends and receives everything once, in a circle: no rank can know all.
    circle = Phase.of(np.arange(4), (np.arange(4) + 1) % 4, 0, reduce=True)
    with pytest.raises(ScheduleError, match=r"all ranks exchange 4\.0 bytes in all phases, .* at least 6\.0"):
        check_amounts(Schedule(Pattern.ALL_REDUCE, 4, 1.0, 1, (circle,)))
    phase = Phase.of([0, 1], [1, 1], 0)
    with pytest.raises(ScheduleError, match=r"rank 2 receives 0\.0 bytes in all phases, and broadcast needs .* 1\.0"):
        check_amounts(Schedule(Pattern.BROADCAST, 3, 1.0, 1, (phase,)))
    check_amounts(Schedule(Pattern.BROADCAST, 3, 1.0, 1, (phase, Phase.of(0, 2, 0))))


@pytest.mark.parametrize(
    ("pattern", "source", "destination", "reduce"),
    [
        (Pattern.ALL_REDUCE, np.arange(64), np.arange(64), True),
        (Pattern.BROADCAST, np.zeros(63, dtype=int), np.arange(1, 64), False),
        (Pattern.REDUCE, np.arange(1, 64), np.zeros(63, dtype=int), True),
    ],
)
def test_an_in_network_transfer_has_each_of_its_ends_once(pattern, source, destination, reduce) -> None:  # type: ignore[no-untyped-def]
    phase = Phase.of(source, destination, 0, reduce=reduce, stream=0)
    check_amounts(Schedule(pattern, 64, 1.0, 1, (phase,)))
    half = Phase.of(source[:40], destination[:40], 0, reduce=reduce, stream=0)
    with pytest.raises(ScheduleError, match=r"rank 4\d (sends|receives) 0\.0 bytes"):
        check_amounts(Schedule(pattern, 64, 1.0, 1, (half,)))


@given(st.integers(2, 12), st.floats(0.1, 0.9), st.sampled_from(RINGS))
def test_chunks_of_several_sizes_are_weighed(ranks: int, share: float, pattern: Pattern) -> None:
    grid = np.arange(ranks)[:, None]
    parts = [ring_schedule(pattern, 1e6 * share, grid), ring_schedule(pattern, 1e6 * (1 - share), grid, step=-1)]
    whole, request = parallel(parts), CollectiveRequest(pattern, ranks, 1e6)
    check(whole, request)
    check_amounts(whole, request)
    with pytest.raises(ScheduleError):
        check_amounts(evolve(whole, phases=whole.phases[: len(parts[0].phases)]), request)


@given(st.integers(2, 9), st.integers(0, 2**32 - 1))
def test_uneven_blocks_are_never_taken_for_too_few(ranks: int, seed: int) -> None:
    sizes = np.random.default_rng(seed).uniform(0.5, 2.0, ranks * 3)
    owner = np.repeat(np.arange(ranks), 3)
    sizes *= np.repeat(ranks * 3 / np.bincount(owner, sizes), 3) / (ranks * 3)  # equal blocks of unequal chunks
    rank = np.arange(ranks)
    ring = Phase.of(rank, (rank + 1) % ranks, rank * 3, count=3, stride=-3, modulus=ranks * 3, repeat=ranks - 1)
    schedule = Schedule(Pattern.ALL_GATHER, ranks, sizes, ranks * 3, (ring,), owner=owner)
    check(schedule)
    check_amounts(schedule)
    direct = [Phase.of(rank, (rank + step) % ranks, rank * 3, count=3) for step in range(1, ranks)]
    check_amounts(evolve(schedule, phases=direct))
    with pytest.raises(ScheduleError, match=r"(sends|receives) .* bytes in all phases"):
        check_amounts(evolve(schedule, phases=direct[1:]))
