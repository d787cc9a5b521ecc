import numpy as np
import pytest
from attrs import evolve

import fredfw_collective_ring
from fredfw import CollectiveRequest, Framework, GroupView, Level, Pattern, Schedule
from fredfw.fabric import IdealTransport
from fredfw.testing import CollectiveTests
from fredfw.testing.fabrics import filled
from fredfw_collective_ring import Ring

FRAMEWORK = Framework()


def plan(pattern: Pattern, n: int, size: float = 1.0, root: int = 0) -> Schedule:
    return Ring().plan(CollectiveRequest(pattern, n, size, root), GroupView(n))


@pytest.mark.parametrize("pattern", sorted(Ring.patterns))
def test_every_rank_sends_to_the_next_one_only(pattern: Pattern) -> None:
    for phase in plan(pattern, 7, root=3 if pattern.rooted else 0).phases:
        assert ((phase.source + 1) % 7 == phase.destination).all()


@pytest.mark.parametrize("pattern", [Pattern.SCATTER, Pattern.GATHER])
def test_a_block_for_each_other_rank_passes_the_root(pattern: Pattern) -> None:
    """Each step has one for it; times of the other patterns are in the tests of closed forms."""
    schedule = plan(pattern, 5, size=60.0)
    assert [schedule.row_bytes(phase).max() for phase in schedule.phases] == [12.0] * 4


def test_a_ring_of_100000_ranks_is_two_phases() -> None:
    schedule = plan(Pattern.ALL_REDUCE, 100_000, 1e9)
    assert [(len(phase), phase.repeat) for phase in schedule.phases] == [(100_000, 99_999)] * 2
    assert isinstance(schedule.chunk_bytes, float)


def nodes_of(inner: int, count: int, seed: int | None = None) -> GroupView:
    """Return a group of ``count`` nodes of ``inner`` ranks."""
    return filled(Level(inner, "switch", 300e9), Level(count, "switch", 25e9), seed=seed)


SAME = (2, 2), (2, 2, 2), (4, 4, 4), (8, 8), (3, 3, 3, 3, 3)


@pytest.mark.parametrize("sizes", [*SAME, (3, 2), (2, 3, 4), (1, 4), (5, 3, 3, 4), (1, 1, 2)])
@pytest.mark.parametrize("pattern", [Pattern.ALL_REDUCE, Pattern.REDUCE_SCATTER, Pattern.ALL_GATHER])
def test_rotated_rings_are_as_many_as_the_smallest_server_has_ranks(pattern: Pattern, sizes: tuple[int, ...]) -> None:
    """Then no rank carries more than its share of what enters and leaves the smallest one."""
    n, fewest = sum(sizes), min(sizes)
    servers = np.random.default_rng(0).permutation(np.repeat(np.arange(len(sizes)), sizes))
    views = [GroupView(n, servers=servers)]
    views += [nodes_of(fewest, len(sizes), seed) for seed in (None, 0) if fewest == max(sizes)]
    request = CollectiveRequest(pattern, n, 1e6)
    for view in views:
        position, server = (None, servers) if view.coordinates is None else view.coordinates.T
        schedule = Ring(rotated=True).plan(request, view)
        assert schedule.steps == Ring().plan(request, view).steps
        for phase in schedule.phases:
            away = server[phase.source] != server[phase.destination]
            for ends in (phase.source, phase.destination):
                # Each ring enters and leaves each server once, in a large one at ranks of its own.
                assert np.bincount(server[ends[away]]).tolist() == [fewest] * len(sizes)
                if fewest > 1:
                    assert np.bincount(ends[away]).max() == 1
            if position is not None:
                # It stays on its rail, for which two positions and an odd number of nodes leave no way.
                leaving, entering = (position[ends[away]] for ends in (phase.source, phase.destination))
                assert (entering == leaving).all() or (fewest, len(sizes) % 2) == (2, 1)
            assert schedule.row_bytes(phase) == pytest.approx(1e6 / n / fewest)


def test_rotated_rings_use_the_network_cards_of_servers_with_a_gpu_less() -> None:
    """Of four servers with 8, 7, 7 and 7 GPUs: 7 of 8 network cards carry 2 (n - 1) / n of the data, divided by 7."""
    fabric = FRAMEWORK.topology("cluster", preset="dgx-h100", nodes=4).build()
    fabric = fabric.with_defaults(transport=IdealTransport())
    group = [npu for npu in range(32) if npu % 8 != 7 or npu < 8]
    result = FRAMEWORK.simulate_collective(fabric, "all-reduce", size=1e9, group=group, algorithm="ring", rotated=True)
    assert result.duration == pytest.approx(2 * 28 / 29 * 1e9 / (7 * 50e9), rel=0.02)  # 56 latencies
    chosen = FRAMEWORK.simulate_collective(fabric, "all-reduce", size=1e9, group=group)
    assert chosen.duration <= result.duration


def test_rotated_rings_need_nodes_and_are_one_ring_in_one_of_them() -> None:
    view = filled(Level(8, "switch", 300e9))
    request = CollectiveRequest(Pattern.ALL_REDUCE, 8, 1e6)
    assert Ring(rotated=True).equivalent(view) == Ring()
    assert Ring(rotated=True).plan(request, view).key == Ring().plan(request, view).key
    assert "not a full product" in str(Ring(rotated=True).refusal(request, GroupView(8)))
    assert Ring(rotated=True) in Ring.variants(Pattern.ALL_GATHER)
    assert Ring.variants(Pattern.ALL_TO_ALL) == [Ring()]
    torus = evolve(filled(Level(4, "ring", 1e9), Level(4, "ring", 1e9)), independent=True)
    assert not Ring(rotated=True).worthwhile(torus)
    assert Ring(rotated=True).worthwhile(nodes_of(4, 2))


class TestRing(CollectiveTests):
    plugin = fredfw_collective_ring
    algorithms = (Ring(), Ring(chunks=3))
