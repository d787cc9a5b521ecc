from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from attrs import define

from fredfw import DeviceMesh, Fabric
from fredfw.errors import InputError, UnsupportedError
from fredfw.workloads import LinearPlacement
from fredfw_topology_fred import Fred, RoutablePlacement
from fredfw_topology_fred.circuits import Circuits, Conflict
from fredfw_topology_fred.feasibility import Switching, check
from fredfw_topology_fred.ports import SwitchFlows
from fredfw_topology_fred.strategies import name, phases, strategies
from fredfw_topology_fred.switch import RoutingConflict


def fred(m: int = 2, **fields: Any) -> Fabric:
    return Fred(middle_switches=m, **fields).build()


def conflicts(fabric: Fabric, mesh: DeviceMesh, order: Any) -> list[str]:
    """The phases that meet a conflict."""
    switching = Switching.of(fabric)
    return [name for name, streams in phases(mesh) if switching.conflict(streams, np.asarray(order)) is not None]


# What two middle switches cannot route in NPU order, and the way in which the search finds a place.
NESTED = DeviceMesh({"mp": 1, "pp": 5, "dp": 2})
EXCHANGED = DeviceMesh({"mp": 3, "pp": 1, "dp": 5})


def test_npu_order_stays_where_it_routes_and_other_strategies_get_another() -> None:
    fabric = fred()
    stuck = {finding.strategy for finding in check(fabric, LinearPlacement(), strategies(20)).findings}
    for mesh in list(strategies(20))[::5]:
        if mesh not in stuck:
            assert RoutablePlacement().order(fabric, mesh).tolist() == list(range(20))
    assert {NESTED, EXCHANGED} <= stuck
    for mesh in (NESTED, EXCHANGED):
        assert conflicts(fabric, mesh, np.arange(20)) == ["dp"]
        order = RoutablePlacement().order(fabric, mesh)
        assert sorted(order.tolist()) == list(range(20))
        assert conflicts(fabric, mesh, order) == []
        # Again, and on a fabric that remembers nothing.
        for other in (fabric, fred()):
            assert RoutablePlacement().order(other, mesh).tolist() == order.tolist()


def test_data_parallel_neighbours_need_no_search() -> None:
    # With DP innermost the groups {i, i + 5} become {2i, 2i + 1}: each has a microswitch of L2 for itself.
    order = RoutablePlacement(exchanges=0).order(fred(), NESTED)
    groups = order[NESTED.groups("dp")]
    assert sorted(map(sorted, groups.tolist())) == [[2 * i, 2 * i + 1] for i in range(5)]


def test_exchanges_find_what_no_nesting_has() -> None:
    with pytest.raises(UnsupportedError) as caught:
        RoutablePlacement(exchanges=0).order(fred(), EXCHANGED)
    assert caught.value.message == (
        "no placement found in 0 exchanges of MP(3)-PP(1)-DP(5) on 'FRED-D' without routing conflicts"
    )
    assert "more middle switches" in str(caught.value)
    orders = [RoutablePlacement(seed=seed).order(fred(), EXCHANGED).tolist() for seed in (0, 0, 1, 2)]
    assert orders[0] == orders[1]
    assert len(set(map(tuple, orders))) > 1
    for order in orders:
        assert sorted(order) == list(range(20))
        assert conflicts(fred(), EXCHANGED, order) == []


@define(eq=False)
class Picky(Circuits):
    """Switches that carry nothing but one stream, from and to the given ports of the only switch."""

    wanted: frozenset[int] = frozenset()

    def conflict_among(self, streams: Iterable[SwitchFlows]) -> Conflict | None:
        ((flow,),) = (carried for stream in streams for carried in stream.values())
        if flow.inputs == self.wanted:
            return None
        return Conflict("L1.0", RoutingConflict(2, 4, (flow,), proven=True))


def picky(*ports: int) -> Fabric:
    fabric = fred(arity=(4,), io_controllers=0)
    known = Switching.of(fabric).circuits
    return fabric.with_defaults(admission=Picky(2, known.ports, known.node_name, "block", frozenset(ports)))


def test_few_orders_are_all_tried() -> None:
    # 4 x 3 orders of two workers. FRED's switches route everything this small, so these are picky ones.
    pair = DeviceMesh({"dp": 2})
    assert RoutablePlacement(exchanges=0).assign(picky(1, 3), pair).tolist() == [1, 3]
    with pytest.raises(UnsupportedError) as caught:
        RoutablePlacement(exchanges=0).assign(picky(), pair)
    assert caught.value.message == "there is no placement of DP(2) on 'FRED-D' without routing conflicts"


def test_every_strategy_of_small_wafers_has_a_place() -> None:
    # Two middle switches, wafers of six NPUs: three pairs can be a triangle on the root, but need not be.
    for arity in ((6,), (3, 2), (2, 3)):
        bandwidths: Any = [1e12] * len(arity)
        fabric = fred(arity=arity, bandwidths=bandwidths)
        linear, routable = (check(fabric, one, strategies(6)) for one in (LinearPlacement(), RoutablePlacement()))
        assert [name(finding.strategy) for finding in linear.findings] == ["MP(1)-DP(2)-PP(3)", "MP(3)-DP(2)-PP(1)"]
        assert routable.findings == ()


@pytest.mark.parametrize(("field", "value"), [("exchanges", -1), ("exchanges", 1.5), ("seed", -1)])
def test_bad_input(field: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"^{field}: "):
        RoutablePlacement(**{field: value})
