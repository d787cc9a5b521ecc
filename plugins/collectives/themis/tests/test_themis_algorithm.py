from typing import Any, ClassVar

import pytest

import fredfw_collective_themis
from fredfw import CollectiveRequest, GroupView, Level, LevelSteps, Pattern, Schedule
from fredfw.testing import CollectiveTests
from fredfw.testing.fabrics import filled
from fredfw_collective_themis import Themis, orders

# The worked example of the paper's figure 5: 4 x 4, the first dimension with twice the bandwidth, 4 chunks of 64 MB.
WORKED = (Level(4, "switch", 2.0), Level(4, "switch", 1.0))


def plan(levels: tuple[Level, ...], pattern: Pattern = Pattern.ALL_REDUCE, **options: Any) -> Schedule:
    group = filled(*levels)
    return Themis(**options).plan(CollectiveRequest(pattern, group.size, 1.0), group)


SLOW = (Level(4, "switch", 2.0, 1.0), Level(4, "switch", 1.0))
EVEN = (Level(2, "switch", 2.0), Level(2, "switch", 1.0))


@pytest.mark.parametrize(
    ("levels", "pattern", "size", "expected"),
    [
        # Per chunk of 1: dimension 1 first takes 2 x 3/4 / 2 there and 2 x 3/16 on dimension 2; the other way round
        # 2 x 3/4 and 2 x 3/32. Loads: (.75, .375), (.84, 1.875), (1.59, 2.25), (2.34, 2.625): figure 5 begins so, too.
        (WORKED, Pattern.ALL_REDUCE, 1.0, [(0, 1), (1, 0), (0, 1), (0, 1)]),
        # Latency is a load from the start: an all-reduce takes four steps, 4 s on the first level, and a chunk .75 s.
        (SLOW, Pattern.ALL_REDUCE, 1.0, [(1, 0), (1, 0)]),
        (SLOW, Pattern.REDUCE_SCATTER, 100.0, [(0, 1)]),  # less than the threshold of 2.3 s
        # 1/2 / 2 and 1/4 / 1: the two levels are alike after each chunk, and are taken as they come.
        (EVEN, Pattern.ALL_GATHER, 1.0, [(0, 1)] * 5),
    ],
)
def test_orders_by_hand(
    levels: tuple[Level, ...], pattern: Pattern, size: float, expected: list[tuple[int, ...]]
) -> None:
    assert orders(LevelSteps.of(filled(*levels), "by-kind"), pattern, size, len(expected)) == expected


def test_an_all_gather_goes_the_way_back() -> None:
    rings = (Level(3, "ring", 1.0), Level(3, "ring", 1.0))
    assert [phase.channel for phase in plan(rings, Pattern.ALL_REDUCE, chunks=1).phases] == [0, 1, 1, 0]
    assert [phase.channel for phase in plan(rings, Pattern.ALL_GATHER, chunks=1).phases] == [1, 0]


def test_what_it_cannot_do_is_refused() -> None:
    request = CollectiveRequest(Pattern.ALL_REDUCE, 6, 1.0)
    assert "not a full product" in str(Themis().refusal(request, GroupView(6)))
    assert "along one level" in str(Themis().refusal(request, filled(Level(6, "switch", 1.0))))


class TestThemis(CollectiveTests):
    plugin = fredfw_collective_themis
    algorithms = (Themis(chunks=4), Themis(chunks=3, policy="fifo"))
    expected_failures: ClassVar[dict[str, str]] = {
        "stepwise_takes_as_long": "channels are released early, so steps of different chunks take turns on a ring"
    }
