from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fredfw import CollectiveRequest, Fabric, Framework, GroupView, Level, Pattern, check
from fredfw.errors import UnsupportedError
from fredfw.testing.views import views
from fredfw_collective_swing import Swing, fredfw_collectives

S = 1e9
FRAMEWORK = Framework()


def torus(*sizes: int, **fields: Any) -> Fabric:
    return FRAMEWORK.topology("torus", dimensions=list(sizes), link_bandwidth=1e9, **fields).build()


def test_it_is_registered() -> None:
    assert fredfw_collectives() == [Swing]


@pytest.mark.parametrize("ranks", [2, 4, 8, 16, 32])
@pytest.mark.parametrize("pattern", sorted(Swing.patterns))
def test_it_does_what_the_pattern_promises_for_all_factorisations(pattern: Pattern, ranks: int) -> None:
    request = CollectiveRequest(pattern, ranks, 1e6)
    for _, view in views(ranks):
        for algorithm in Swing.variants(pattern):
            if view.coordinates is not None:
                check(algorithm.plan(request, view), request)


def test_partners_are_those_of_the_paper() -> None:
    # Section 3.1: rank 0 of 16 exchanges with 1, -1, 3 and -5, rank 1 with the mirror images.
    view = GroupView(16, (Level(16, "ring", 1.0),), np.arange(16)[:, None])
    phases = Swing(method="latency").plan(CollectiveRequest(Pattern.ALL_REDUCE, 16, 1.0), view).phases
    assert [phase.destination[0] for phase in phases] == [1, 15, 3, 11]
    assert [phase.destination[1] for phase in phases] == [0, 2, 14, 6]
    # The second part goes the other way around first.
    assert [phase.destination[16] for phase in phases] == [15, 1, 13, 5]


@pytest.mark.parametrize(("sizes", "most"), [((8, 8), 1.19), ((16, 16), 1.19), ((4, 4, 4), 1.03), ((8, 8, 8), 1.03)])
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


@pytest.mark.parametrize(
    ("view", "reason"),
    [
        (GroupView(12, (Level(12, "ring", 1.0),), np.arange(12)[:, None]), "12 positions in a level"),
        (GroupView(8), "not a full product"),
    ],
)
def test_it_says_why_it_cannot(view: GroupView, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        Swing().plan(CollectiveRequest(Pattern.ALL_REDUCE, view.size, S), view)
