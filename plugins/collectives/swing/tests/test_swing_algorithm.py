from typing import Any

import numpy as np
import pytest

import fredfw_collective_swing
from fredfw import CollectiveRequest, Fabric, Framework, GroupView, Level, Pattern
from fredfw.testing import CollectiveTests
from fredfw.testing.fabrics import filled
from fredfw_collective_swing import Swing

S = 1e9
FRAMEWORK = Framework()


def torus(*sizes: int, **fields: Any) -> Fabric:
    return FRAMEWORK.topology("torus", dimensions=list(sizes), link_bandwidth=1e9, **fields).build()


def ring(ranks: int) -> GroupView:
    return filled(Level(ranks, "ring", 1.0))


@pytest.mark.parametrize("sizes", [(6,), (12,), (22,), (6, 4), (6, 6), (2, 10, 6)])
def test_no_rank_sends_more_than_it_must(sizes: tuple[int, ...]) -> None:
    """Each rank sends n - 1 of n blocks of a reduce-scatter, as on a power of two (section 3.2 of the paper)."""
    view = filled(*(Level(size, "ring", 1.0) for size in sizes))
    n = view.size
    schedule = Swing().plan(CollectiveRequest(Pattern.REDUCE_SCATTER, n, 1.0), view)
    sent = np.zeros(n)
    for phase in schedule.phases:
        np.add.at(sent, phase.source, phase.count)
    assert sent == pytest.approx(np.full(n, (n - 1) / n * schedule.chunks))


def test_partners_are_those_of_the_paper() -> None:
    # Section 3.1: rank 0 of 16 exchanges with 1, -1, 3 and -5, rank 1 with the mirror images.
    phases = Swing(method="latency").plan(CollectiveRequest(Pattern.ALL_REDUCE, 16, 1.0), ring(16)).phases
    assert [phase.destination[0] for phase in phases] == [1, 15, 3, 11]
    assert [phase.destination[1] for phase in phases] == [0, 2, 14, 6]
    # The second part goes the other way around first.
    assert [phase.destination[16] for phase in phases] == [15, 1, 13, 5]


@pytest.mark.parametrize(
    ("sizes", "most"),
    [((8, 8), 1.19), ((16, 16), 1.19), ((4, 4, 4), 1.03), ((8, 8, 8), 1.03), ((6, 6), 1.26), ((12, 12), 1.26)],
)
def test_bandwidth_is_as_close_to_the_optimum_as_in_the_paper(sizes: tuple[int, ...], most: float) -> None:
    # Section 4: 2 (n - 1) / n S over the 2 D links of a rank, times the congestion that is left.
    n = int(np.prod(sizes))
    optimum = 2 * (n - 1) / n * S / (2 * len(sizes) * 1e9)
    result = FRAMEWORK.simulate_collective(torus(*sizes, link_latency=0.0), "all-reduce", size=S, algorithm="swing")
    assert 1 <= result.duration / optimum <= most


def test_short_messages_take_the_fewest_hops() -> None:
    # On a ring of 16: distances 1, 1, 3 and 5, against 1, 2, 4 and 8 of recursive doubling.
    fabric = torus(16, link_latency=1e-6)
    duration = FRAMEWORK.simulate_collective(fabric, "all-reduce", size=1, algorithm="swing", method="latency").duration
    assert duration == pytest.approx((1 + 1 + 3 + 5) * 1e-6, rel=1e-2)
    chosen = FRAMEWORK.simulate_collective(fabric, "all-reduce", size=1)
    assert chosen.algorithm == "swing(method=latency)"


def test_it_says_why_it_cannot() -> None:
    def refusal(view: GroupView, method: str = "bandwidth") -> str:
        return str(Swing(method=method).refusal(CollectiveRequest(Pattern.ALL_REDUCE, view.size, S), view))

    assert "15 positions in a level, which is odd" in refusal(ring(15))
    assert "9000 is more than 8192" in refusal(ring(9000))
    assert "not a full product" in refusal(GroupView(8))
    assert "12 positions in a level, which is not a power of two" in refusal(ring(12), "latency")


class TestSwing(CollectiveTests):
    plugin = fredfw_collective_swing
    algorithms = (Swing(),)
