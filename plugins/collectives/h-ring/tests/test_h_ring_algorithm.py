import pytest
from fabrics import ALPHA, BANDWIDTH, SIZE, on_a_switch

import fredfw_collective_h_ring
from fredfw import CollectiveRequest, GroupView, Pattern
from fredfw.testing import CollectiveTests
from fredfw_collective_h_ring import HRing


def test_rings_stay_inside_groups_and_places_which_must_divide_the_ranks() -> None:
    inside, across = HRing(m=3).plan(CollectiveRequest(Pattern.REDUCE_SCATTER, 12, 1.0), GroupView(12)).phases
    assert (inside.source // 3 == inside.destination // 3).all()
    assert ((inside.source + 1) % 3 == inside.destination % 3).all()
    assert (across.source % 3 == across.destination % 3).all()
    assert ((across.source + 3) % 12 == across.destination).all()
    refusal = HRing(m=4).refusal(CollectiveRequest(Pattern.ALL_REDUCE, 10, 1.0), GroupView(10))
    assert "m = 4 does not divide 10 ranks" in str(refusal)


@pytest.mark.parametrize("fidelity", ["compressed", "exact"])
@pytest.mark.parametrize(("n", "m"), [(12, 4), (12, 3), (16, 2)])
def test_time_on_a_switch(n: int, m: int, fidelity: str) -> None:
    half = (m - 1) * (ALPHA + SIZE / m / BANDWIDTH) + (n // m - 1) * (ALPHA + SIZE / n / BANDWIDTH)
    for pattern, halves in (("all-reduce", 2), ("reduce-scatter", 1), ("all-gather", 1)):
        found = on_a_switch("h-ring", pattern, n, m=m, fidelity=fidelity)
        assert found == pytest.approx(halves * half, rel=1e-9)


class TestHRing(CollectiveTests):
    plugin = fredfw_collective_h_ring
    algorithms = (HRing(), HRing(m=1), HRing(m=3))
