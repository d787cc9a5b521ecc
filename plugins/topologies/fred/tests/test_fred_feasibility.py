from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from fredfw import DeviceMesh, Fabric, OpenAdmission, Placement
from fredfw.errors import UnsupportedError
from fredfw.workloads import LinearPlacement
from fredfw_topology_fred import Fred, RoutablePlacement, placement
from fredfw_topology_fred.feasibility import (
    DP,
    MP,
    MP_AND_DP,
    NO_PLACE,
    PP,
    Stream,
    check,
    conflict_finder,
    name,
    phases,
    strategies,
)


def test_strategies_are_all_triples_the_smallest_first() -> None:
    def found(*, whole: bool = False) -> list[tuple[int, ...]]:
        return [tuple(map(one.size, (MP, DP, PP))) for one in strategies(20, whole=whole)]

    assert sorted(found()) == [one for one in product(range(1, 21), repeat=3) if np.prod(one) <= 20]
    assert sorted(found(), key=np.prod) == found()
    assert found(whole=True) == [one for one in found() if np.prod(one) == 20]


def all_reduces(*groups: tuple[int, ...]) -> tuple[Stream, ...]:
    return tuple(Stream(group, group) for group in groups)


def test_phases_of_a_small_strategy() -> None:
    # Rank mp + 2 (pp + 2 dp): MP groups are consecutive, stages two apart, replicas four apart.
    assert list(phases(DeviceMesh({"mp": 2, "pp": 2, "dp": 2}))) == [
        (MP, all_reduces((0, 1), (2, 3), (4, 5), (6, 7))),
        (DP, all_reduces((0, 4), (1, 5), (2, 6), (3, 7))),
        # One member of a stage to all of the next one, in each replica, and back.
        (PP, (Stream((0,), (2, 3)), Stream((4,), (6, 7)))),
        (PP, (Stream((2,), (0, 1)), Stream((6,), (4, 5)))),
        # The first stage still at its MP groups, the second, done with its backward pass, at its DP groups.
        (MP_AND_DP, all_reduces((0, 1), (4, 5), (2, 6), (3, 7))),
    ]


@pytest.mark.parametrize(
    ("m", "placement", "conflicts"),
    [(3, LinearPlacement(), 0), (2, LinearPlacement(), 29), (2, RoutablePlacement(), 0)],
)
def test_20_npus_need_three_middle_switches_or_a_search_for_a_placement(
    m: int, placement: Placement, conflicts: int
) -> None:
    # That what routes is delivered, and that nothing else could be, is in the tests of switch and topology.
    answer = check(Fred(middle_switches=m).build(), placement, strategies(20))
    kinds = [(one.size("mp") > 1, one.size("dp") > 1, one.size("pp")) for one in strategies(20)]
    number = sum(mp + dp + 2 * (pp > 1) + (mp and dp) * (pp - 1) for mp, dp, pp in kinds)
    assert (answer.m, answer.placement, answer.strategies, answer.phases) == (m, placement.name, 152, number)
    assert answer.routable == 152 - conflicts
    assert [(finding.phase, finding.proven) for finding in answer.findings] == [(DP, True)] * conflicts
    if conflicts:
        assert [name(one.parallelism) for one in answer.findings[:2]] == ["MP(1)-DP(2)-PP(5)", "MP(5)-DP(2)-PP(1)"]
        text = "L2.0: FRED_2(20): {0,5}->{0,5}, {1,6}->{1,6}, {2,7}->{2,7}, {3,8}->{3,8}, {4,9}->{4,9} cannot be routed"
        assert answer.findings[0].conflict.startswith(text)


def fred(m: int = 2, **fields: Any) -> Fabric:
    return Fred(middle_switches=m, **fields).build()


def conflicts(fabric: Fabric, mesh: DeviceMesh, order: Any) -> list[str]:
    conflict_of = conflict_finder(fabric)
    return [name for name, streams in phases(mesh) if conflict_of(streams, np.asarray(order)) is not None]


# What two middle switches cannot route in NPU order, and the way in which the search finds a place.
NESTED = DeviceMesh({"mp": 1, "pp": 5, "dp": 2})
EXCHANGED = DeviceMesh({"mp": 3, "pp": 1, "dp": 5})


def test_npu_order_stays_where_it_routes_and_other_strategies_get_another() -> None:
    fabric = fred()
    stuck = {finding.parallelism for finding in check(fabric, LinearPlacement(), strategies(20)).findings}
    for mesh in list(strategies(20))[::5]:
        if mesh not in stuck:
            assert RoutablePlacement().order(fabric, mesh).tolist() == list(range(20))
    assert {NESTED, EXCHANGED} <= stuck
    for mesh in (NESTED, EXCHANGED):
        assert conflicts(fabric, mesh, np.arange(20)) == ["dp"]
        order = RoutablePlacement().order(fabric, mesh)
        assert sorted(order.tolist()) == list(range(20))
        assert conflicts(fabric, mesh, order) == []
        # On a fabric that remembers nothing, too.
        assert RoutablePlacement().order(fred(), mesh).tolist() == order.tolist()


def test_exchanges_find_what_no_nesting_has() -> None:
    # With DP innermost the groups {i, i + 5} become {2i, 2i + 1}: each has a microswitch of L2 for itself.
    order = RoutablePlacement(exchanges=0).order(fred(), NESTED)
    assert sorted(map(sorted, order[NESTED.groups("dp")].tolist())) == [[2 * i, 2 * i + 1] for i in range(5)]
    # It has no place for the other strategy.
    answer = check(fred(), RoutablePlacement(exchanges=0), [NESTED, EXCHANGED])
    (finding,) = answer.findings
    assert (finding.phase, finding.proven, finding.parallelism) == (NO_PLACE, False, EXCHANGED)
    assert finding.conflict.startswith("no placement found in 0 exchanges of MP(3)-PP(1)-DP(5) on 'FRED-D' without")
    assert (answer.strategies, answer.routable, answer.phases) == (2, 1, len(list(phases(NESTED))))
    orders = [RoutablePlacement(seed=seed).order(fred(), EXCHANGED) for seed in (0, 1, 2)]
    assert len({tuple(order.tolist()) for order in orders}) > 1
    assert not any(conflicts(fred(), EXCHANGED, order) for order in orders)


def test_few_orders_are_all_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    # 4 x 3 orders of two workers. FRED's switches route everything this small, so these route one alone, and then none.
    routable = [1, 3]

    def finder(_fabric: Fabric) -> Callable[..., object]:
        return lambda _streams, at: None if at[:2].tolist() == routable else "a conflict"

    monkeypatch.setattr(placement, "conflict_finder", finder)
    fabric, pair = fred(arity=(4,), io_controllers=0), DeviceMesh({"dp": 2})
    assert RoutablePlacement(exchanges=0).assign(fabric, pair).tolist() == routable
    routable.clear()
    with pytest.raises(UnsupportedError, match=r"there is no placement of DP\(2\) .*more middle switches"):
        RoutablePlacement(exchanges=0).assign(fabric, pair)


def test_fabrics_without_fred_switches_are_refused() -> None:
    fabric = Fred().build().with_defaults(admission=OpenAdmission())
    with pytest.raises(UnsupportedError, match=r"'FRED-D' has no FRED switches .*a fabric of topology 'fred'"):
        check(fabric, LinearPlacement(), strategies(2))


def test_every_strategy_of_small_wafers_has_a_place() -> None:
    # Two middle switches, wafers of six NPUs: three pairs can be a triangle on the root, but need not be.
    for arity in ((6,), (3, 2), (2, 3)):
        fabric = fred(arity=arity, bandwidths=[1e12] * len(arity))
        linear, routable = (check(fabric, one, strategies(6)) for one in (LinearPlacement(), RoutablePlacement()))
        assert [name(finding.parallelism) for finding in linear.findings] == ["MP(1)-DP(2)-PP(3)", "MP(3)-DP(2)-PP(1)"]
        assert routable.findings == ()
