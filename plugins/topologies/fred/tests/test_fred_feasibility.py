from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, strategies as st

from fredfw import DeviceMesh, Fabric, OpenAdmission, Operation, Placement
from fredfw.errors import UnsupportedError
from fredfw.typing import IntArray
from fredfw.workloads import LinearPlacement
from fredfw_topology_fred import Fred, FredSwitch, RoutablePlacement, SwitchFlow
from fredfw_topology_fred.feasibility import NO_PLACE, Check, Finding, Switching, check
from fredfw_topology_fred.strategies import DP, MP, MP_AND_DP, PP, Stream, name, phases, strategies


def checked(m: int, placement: Placement | None = None) -> Check:
    return check(Fred(middle_switches=m).build(), placement or LinearPlacement(), strategies(20))


# --- strategies


def test_strategies_are_all_triples_the_smallest_first() -> None:
    found, whole = (
        [tuple(map(one.size, ("mp", "dp", "pp"))) for one in strategies(20, whole=whole)] for whole in (False, True)
    )
    assert sorted(found) == [one for one in product(range(1, 21), repeat=3) if np.prod(one) <= 20]
    assert [np.prod(one) for one in found] == sorted(np.prod(one) for one in found)
    assert whole == [one for one in found if np.prod(one) == 20]


# --- phases


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
    ("mp", "dp", "pp", "names"),
    [
        (1, 1, 1, []),
        (4, 1, 1, [MP]),
        (1, 4, 1, [DP]),
        (1, 1, 4, [PP, PP]),
        (2, 2, 1, [MP, DP]),
        (2, 1, 3, [MP, PP, PP]),
        (2, 2, 4, [MP, DP, PP, PP, MP_AND_DP, MP_AND_DP, MP_AND_DP]),
    ],
)
def test_only_groups_of_two_or_more_communicate(mp: int, dp: int, pp: int, names: list[str]) -> None:
    assert [name for name, _ in phases(DeviceMesh({"mp": mp, "pp": pp, "dp": dp}))] == names


@given(st.fixed_dictionaries({axis: st.integers(1, 4) for axis in ("mp", "pp", "dp")}).map(DeviceMesh))
def test_streams_of_a_phase_have_no_input_and_no_output_in_common(mesh: DeviceMesh) -> None:
    for _, streams in phases(mesh):
        for side in zip(*streams, strict=True):
            ranks = [rank for one in side for rank in one]
            assert len(ranks) == len(set(ranks))
            assert set(ranks) <= set(range(mesh.ranks))


# --- the answer for the paper's wafer


def test_three_middle_switches_are_enough_for_20_npus() -> None:
    # That every one of these phases is also delivered, by execution, is in test_fred_ports.py.
    answer = checked(3)
    kinds = [(one.size("mp") > 1, one.size("dp") > 1, one.size("pp")) for one in strategies(20)]
    number = sum(mp + dp + 2 * (pp > 1) + (mp and dp) * (pp - 1) for mp, dp, pp in kinds)
    assert answer == Check(m=3, placement="linear", strategies=152, phases=number, findings=())
    assert answer.routable == 152


def asked(fabric: Fabric, streams: tuple[Stream, ...]) -> dict[int, list[SwitchFlow]]:
    """Return what each switch is asked to carry, with rank r on NPU r."""
    flows: dict[int, list[SwitchFlow]] = {}
    for sources, destinations in streams:
        operation = Operation.MULTICAST if len(sources) == 1 else Operation.ALL_REDUCE
        tree = fabric.defaults.router.tree(fabric, np.array(sources), np.array(destinations), operation)
        for switch, carried in Switching.of(fabric).circuits.streams(tree)[0].items():
            flows.setdefault(switch, []).extend(carried)
    return flows


def meet(one: SwitchFlow, other: SwitchFlow) -> bool:
    """Whether two flows share a microswitch of the first or of the last stage."""
    sides = (one.inputs, other.inputs), (one.outputs, other.outputs)
    return any({port // 2 for port in some} & {port // 2 for port in others} for some, others in sides)


@cache
def possible(m: int, ports: int, flows: frozenset[SwitchFlow]) -> bool:
    """Whether flows can be dealt out to m middle switches at every depth; all ways are tried, as defined."""
    if ports == 2 or len(flows) < 2:
        return True
    pairs = [pair for pair in combinations(flows, 2) if meet(*pair)]
    for carriers in product(range(m), repeat=len(flows)):
        carrier = dict(zip(flows, carriers, strict=True))
        if all(carrier[one] != carrier[other] for one, other in pairs) and all(
            possible(m, -(-ports // 2), frozenset(flow.inside() for flow in flows if carrier[flow] == middle))
            for middle in range(m)
        ):
            return True
    return False


def test_the_conflicts_of_two_middle_switches_are_there_and_no_others() -> None:
    # Nothing routes the phases with a finding, tried in all ways; those without one are routed, and executed.
    answer = checked(2)
    assert [name(one.strategy) for one in answer.findings[:2]] == ["MP(1)-DP(2)-PP(5)", "MP(5)-DP(2)-PP(1)"]
    text = "L2.0: FRED_2(20): {0,5}->{0,5}, {1,6}->{1,6}, {2,7}->{2,7}, {3,8}->{3,8}, {4,9}->{4,9} cannot be routed"
    assert answer.findings[0].conflict.startswith(text)
    assert Counter(finding.phase for finding in answer.findings) == {DP: 29}
    assert (answer.routable, all(finding.proven for finding in answer.findings)) == (152 - 29, True)
    fabric = Fred(middle_switches=2).build()
    ports = Switching.of(fabric).circuits.ports.ports
    stuck = {(finding.strategy, finding.phase) for finding in answer.findings}
    for mesh in strategies(20):
        for phase, streams in phases(mesh):
            flows = asked(fabric, streams)
            if (mesh, phase) in stuck:
                assert not all(possible(2, ports[switch], frozenset(some)) for switch, some in flows.items())
                continue
            for switch, some in flows.items():
                contributions = {port: Counter(flow.inputs) for flow in some for port in flow.outputs}
                expected = [contributions.get(port) for port in range(ports[switch])]
                assert FredSwitch(2, ports[switch]).route(some).evaluate() == expected


def test_a_search_for_a_placement_mends_all_of_them() -> None:
    answer = checked(2, RoutablePlacement())
    assert (answer.placement, answer.strategies, answer.routable, answer.findings) == ("routable", 152, 152, ())


# --- other fabrics, other placements


def test_a_placement_without_a_place_is_a_finding() -> None:
    class Nowhere(LinearPlacement):
        def order(self, fabric: Fabric, mesh: DeviceMesh) -> IntArray:
            if mesh.size("pp") == 2:
                raise UnsupportedError("no place for two stages")
            return super().order(fabric, mesh)

    one, *two = (DeviceMesh(axes) for axes in ({"pp": 1}, {"pp": 2}, {"pp": 2, "dp": 2}))
    answer = check(Fred().build(), Nowhere(), [one, *two])
    assert answer.findings == tuple(Finding(each, NO_PLACE, "no place for two stages", proven=False) for each in two)
    assert (answer.strategies, answer.routable, answer.phases) == (3, 1, 0)


def test_fabrics_without_fred_switches_are_refused() -> None:
    fabric = Fred().build().with_defaults(admission=OpenAdmission())
    with pytest.raises(UnsupportedError, match=r"'FRED-D' has no FRED switches .*a fabric of topology 'fred'"):
        check(fabric, LinearPlacement(), strategies(2))
