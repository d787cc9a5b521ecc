import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from fredfw.errors import InputError
from fredfw_topology_fred import Fred
from fredfw_topology_fred.hardware import (
    CHIPLET_LIMIT,
    L1_FOUR,
    L1_THREE,
    L2,
    PORT_LIMIT,
    FigureStatus,
    Ports,
    SwitchRow,
    hardware,
)

PUBLISHED, DERIVED, ASSUMED = FigureStatus
# Wafers with a controller bandwidth that is not the paper's, so that every L1 area is scaled, none published.
TREES = st.lists(st.integers(1, 6), min_size=1, max_size=4).flatmap(
    lambda arity: st.builds(
        Fred,
        arity=st.just(tuple(arity)),
        bandwidths=st.lists(st.floats(1e9, 1e14), min_size=len(arity), max_size=len(arity)),
        io_controllers=st.integers(2, 40),
        io_bandwidth=st.just("100 GB/s"),
    ).filter(lambda tree: len(tree.arity) == 1 or math.prod(tree.arity) > 1)  # else the root has a single port
)


def made_of(row: SwitchRow) -> tuple[int, int, tuple[int, int, int], int, int]:
    return (row.level, row.switches, (row.down.count, row.up.count, row.controllers.count), row.planes, row.slices)


def test_the_wafer_of_the_paper() -> None:
    # FRED (ISCA 2025): 15 chiplets of 685 mm2, 10 of 678 for the L1 switches, 10 of 814 for L2, 25,195 mm2, 179.35 W.
    made = hardware(Fred())
    assert hardware(Fred(variant="C")).rows == made.rows
    first, second = (1, 3, (4, 4, 4), 1, 5), (1, 2, (4, 4, 3), 1, 5)
    assert [made_of(row) for row in made.rows] == [first, second, (2, 1, (20, 0, 0), 2, 5)]
    assert [row.bandwidth for row in made.rows] == [24.512e12, 24.384e12, 60e12]
    assert [row.chiplet for row in made.rows] == [L1_FOUR, L1_THREE, L2]
    areas = [(row.total_chiplets.value, row.chiplet_area.value) for row in made.rows]
    assert areas == [(15, 685), (10, 678), (10, 814)]
    # That the L2 chiplet has 10 ports is nowhere in the paper.
    ports = [(row.chiplet_ports.value, row.chiplet_ports.status) for row in made.rows]
    assert ports == [(12, PUBLISHED), (11, DERIVED), (10, DERIVED)]
    for status, figures in (
        (PUBLISHED, [made.chiplets, made.area, made.power, *(row.chiplet_area for row in made.rows)]),
        (DERIVED, [made.power_share, made.area_share, *(row.chiplets for row in made.rows)]),
        (ASSUMED, [made.wire_power, hardware(Fred(variant="A")).power_share]),  # as are powers that are in it
    ):
        assert {figure.status for figure in figures} == {status}
    assert (made.chiplets.value, made.area.value, made.power.value) == (35, 25_195, 179.35)
    assert made.power.value == pytest.approx(made.chiplet_power.value + made.wire_power.value)
    powers = [(row.chiplet_power.value, row.chiplet_power.status) for row in made.rows]
    assert powers == [(3.75, PUBLISHED), (3.75 * 678 / 685, ASSUMED), (3.75 * 814 / 685, ASSUMED)]
    # The paper gives the power as 1.2 % of 15 kW; the area of the wafer is 70,000 mm2.
    assert round(made.power_share.value, 3) == 0.012
    assert made.area_share.value == 25_195 / 70_000


def test_narrow_uplinks() -> None:
    # 375 GB/s per NPU upwards: L1 chiplets have ports of 600 and 75 GB/s; two chiplets of 10 x 375 GB/s are the L2.
    # Those of the paper have 8 x 600 + 4 x 128 / 5 and 10 x 600 GB/s.
    made = hardware(Fred(variant="B"))
    assert hardware(Fred(variant="A")) == made
    four, _, root = made.rows
    assert [made_of(row)[3:] for row in made.rows] == [(1, 5), (1, 5), (2, 1)]
    assert four.chiplet.ports == (Ports(4, 600e9), Ports(4, 75e9), Ports(4, 25.6e9))
    assert root.chiplet.ports == (Ports(10, 375e9),)
    areas = [685 * 2802.4 / 4902.4, 685 * 2776.8 / 4902.4, 814 * 3750 / 6000]
    assert [row.chiplet_area.value for row in made.rows] == pytest.approx(areas)
    assert made.area.value == pytest.approx(np.dot([15, 10, 2], areas))
    assert made.power.value == pytest.approx(3.75 / 685 * made.area.value + made.wire_power.value)
    assert {row.chiplet_area.status for row in made.rows} == {DERIVED}
    assert (made.chiplets.value, made.chiplets.status) == (27, DERIVED)
    assert (made.area.status, made.power.status) == (DERIVED, ASSUMED)
    # Links: 20 of 3 TB/s, 18 of 128 GB/s, and 5 of 1.5 instead of 12 TB/s.
    rest = hardware(Fred()).wire_power.value
    assert made.wire_power.value == pytest.approx(rest * (60 + 2.304 + 7.5) / (60 + 2.304 + 60))


def test_a_single_switch_and_a_rounded_sum_that_costs_no_chiplet() -> None:
    # 10 NPUs of 3 TB/s: 5 chiplets of 10 x 600 GB/s, which is what an L2 chiplet is.
    (row,) = hardware(Fred(arity=(10,), io_controllers=0)).rows
    assert made_of(row) == (1, 1, (10, 0, 0), 1, 5)
    assert row.chiplet == L2
    assert (row.chiplet_area.value, row.chiplet_area.status) == (814, PUBLISHED)
    # 29 NPUs below each of 25 switches: 25 x 11.04 TB/s is 46 x 6 TB/s, but not when added up per NPU in floats.
    lists: Any = {"arity": [29, 25], "bandwidths": ["3 TB/s", "11.04 TB/s"]}
    row = hardware(Fred(**lists)).rows[-1]
    assert row.bandwidth > 46 * 6e12
    assert row.chiplets.value == 46


@pytest.mark.parametrize("fields", [{"arity": (1,), "io_controllers": 0}, {"arity": (1, 1)}])
def test_a_switch_needs_two_ports(fields: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"^arity: .* \(accepted: at least 2 ports"):
        hardware(Fred(**fields))


@given(TREES)
def test_rows_are_the_switches_of_the_fabric(topology: Fred) -> None:
    rows, fabric = hardware(topology).rows, topology.build()
    owner = [fabric.node_name(int(node)) for node in fabric.sources]
    switches = Counter(name.split(".")[0] for name in set(owner) if name.startswith("L"))
    for level, count in switches.items():
        of_level = [row for row in rows if f"L{row.level}" == level]
        assert sum(row.switches for row in of_level) == count
        leaving = sum(rate for rate, name in zip(fabric.bandwidths, owner, strict=True) if name.startswith(f"{level}."))
        assert sum(row.switches * row.bandwidth for row in of_level) == pytest.approx(leaving)
        up = 0 if level == f"L{len(topology.arity)}" else of_level[0].down.count
        assert {row.up.count for row in of_level} == {up}
    # Every link, counted once, each way.
    assert 2 * sum(row.link_bandwidth for row in rows) == pytest.approx(float(fabric.bandwidths.sum()))


@given(TREES)
def test_chiplets_are_the_switch_and_keep_to_the_limits(topology: Fred) -> None:
    for row in hardware(topology).rows:
        chiplet = row.chiplet
        assert row.chiplets.value == row.planes * row.slices
        assert chiplet.size * row.planes == row.ports
        assert chiplet.size >= 2
        assert chiplet.bandwidth * row.chiplets.value == pytest.approx(row.bandwidth)
        assert chiplet.ports[0].bandwidth <= PORT_LIMIT * (1 + 1e-9)
        assert chiplet.bandwidth <= CHIPLET_LIMIT * (1 + 1e-9)
        # A plane has its part of the ports of every child, and of the controllers.
        children = topology.arity[row.level - 1]
        assert row.down.count // children % row.planes == 0
        assert row.controllers.count % row.planes == 0
        # No split into planes needs fewer chiplets.
        for planes in range(1, row.down.count // children + 1):
            if row.down.count // children % planes == 0 and row.ports // planes >= 2:
                widest = chiplet.ports[0].bandwidth * row.slices
                slices = max(widest / PORT_LIMIT, row.bandwidth / planes / CHIPLET_LIMIT, 1)
                assert row.chiplets.value <= planes * math.ceil(slices)
