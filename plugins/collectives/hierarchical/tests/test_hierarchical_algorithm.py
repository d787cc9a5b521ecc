from typing import Any

import numpy as np
import pytest

import fredfw_collective_hierarchical
from fredfw import CollectiveRequest, Framework, GroupView, Level, Pattern, Schedule
from fredfw.errors import InputError
from fredfw.testing import CollectiveTests
from fredfw.testing.fabrics import filled
from fredfw_collective_hierarchical import Hierarchical

MESH = (Level(5, "line", 750e9), Level(4, "line", 750e9))  # FRED's baseline, ISCA 2025: along a row, along a column


def plan(pattern: Pattern, group: GroupView, size: float = 1.0, **options: Any) -> Schedule:
    return Hierarchical(**options).plan(CollectiveRequest(pattern, group.size, size), group)


def effective(name: str, fields: dict[str, Any], **options: Any) -> float:
    """Return 2 (n - 1) / n x size / time of an all-reduce without latencies, in GB/s."""
    fabric = Framework().topology(name, link_latency=0.0, **fields).build()
    result = Framework().simulate_collective(fabric, "all-reduce", size=1e9, algorithm="hierarchical", **options)
    return result.busbw / 1e9


@pytest.mark.parametrize("fidelity", ["compressed", "exact"])
def test_effective_bandwidth_of_the_mesh(fidelity: str) -> None:
    # Rows are busy for 0.4 + 1.2 s, columns for 1.5 - 1.2 s: alike at s = 11/24, of the data that goes rows first, and
    # 2 x 19/20 / 0.95 x 750 = 1500. Equal halves keep the rows busy for one size: 2 x 19/20 x 750 = 1425.
    for chunks in (2, 3):
        call = {"orders": "opposite", "chunks": chunks, "fidelity": fidelity}
        assert effective("mesh2d", {}, **call) == pytest.approx(1500, rel=1e-9)
        assert effective("mesh2d", {}, **call, shares="equal") == pytest.approx(1425, rel=1e-9)


@pytest.mark.parametrize("fidelity", ["compressed", "exact"])
@pytest.mark.parametrize("chunks", [1, 4, 16])
def test_effective_bandwidth_of_fred_a(chunks: int, fidelity: str) -> None:  # 1213, 1594 and 1730.6 GB/s
    # The slow level is busy for (2 x 4/5 / 4) / 375e9 per byte; before and after it one piece crosses the fast one.
    slow, fast = 2 * 4 / 5 / 4 / 375, 2 * 3 / 4 / 3000
    expected = 2 * 19 / 20 / (slow + fast / chunks)
    assert effective("fred", {"variant": "A"}, chunks=chunks, fidelity=fidelity) == pytest.approx(expected, rel=1e-9)


MIXED = (Level(4, "ring", 100.0), Level(8, "fully-connected", 100.0), Level(8, "switch", 100.0))


def test_all_orders_load_all_levels_alike() -> None:
    # Each NPU sends 200, 700 and 100 in all on its links of a level; no order alone keeps them equally busy.
    schedule = plan(Pattern.ALL_REDUCE, filled(*MIXED), orders="all", steps="by-kind")
    seconds = np.zeros((256, 3))
    for phase in schedule.phases:  # whose channels are the levels
        sent = phase.repeat * schedule.row_bytes(phase)
        np.add.at(seconds[:, phase.channel], phase.source, sent / MIXED[phase.channel].total_bandwidth)
    # That is the bound, 2 (n - 1) / n x size over the bandwidth of all levels.
    np.testing.assert_allclose(seconds, 2 * 255 / 256 / 1000, rtol=1e-9)


def test_what_levels_cannot_do_is_refused() -> None:
    def refusal(group: GroupView, **options: Any) -> str:
        return str(Hierarchical(**options).refusal(CollectiveRequest(Pattern.ALL_REDUCE, group.size, 16.0), group))

    switch, line = (filled(Level(6, kind, 1.0)) for kind in ("switch", "line"))
    assert "a power of two of positions, and goes along a switch level" in refusal(switch, steps="halving-doubling")
    assert "both ways, and goes along a line level of 6" in refusal(line, steps="bidirectional-ring")
    assert "the network does not combine and copy streams" in refusal(switch, steps="in-network")
    assert "6 levels, which is too many" in refusal(filled(*[Level(2, "line", 1.0)] * 6), orders="all")
    assert refusal(line, steps=("ring", "direct")) == "the group has 1 levels, and steps are given for 2"
    assert "not a full product" in refusal(GroupView(4))


def test_an_order_without_a_share_is_left_out() -> None:
    levels = Level(4, "ring", 1000.0), Level(4, "ring", 1.0)
    schedule = plan(Pattern.ALL_GATHER, filled(*levels), orders="opposite")
    assert len(schedule.phases) == 2
    assert all((schedule.row_bytes(phase) > 0).all() for phase in schedule.phases)
    assert len(plan(Pattern.ALL_GATHER, filled(levels[0]), orders="opposite").phases) == 1


def test_configurations_that_write_the_same_are_one() -> None:
    mesh, mixed = filled(*MESH), filled(*MIXED)
    assert Hierarchical(steps="by-kind").equivalent(mesh) == Hierarchical()
    assert Hierarchical(steps="by-kind", orders="all").equivalent(mesh) == Hierarchical(orders="opposite")
    assert Hierarchical(steps="by-kind").equivalent(mixed) == Hierarchical(steps="by-kind")
    one_level = filled(*MIXED[:1])
    bidirectional = Hierarchical(steps="bidirectional-ring")
    assert Hierarchical(steps="by-kind", chunks=4, orders="all").equivalent(one_level) == bidirectional
    refused = Hierarchical(steps=("ring", "direct"))
    assert refused.equivalent(one_level) is refused


def test_steps_may_differ_by_level() -> None:
    levels = Level(4, "ring", 1.0), Level(4, "switch", 1.0), Level(4, "switch", 1.0)
    for steps, along, count in (
        # Three steps round the ring, two on the switch, and the same back.
        (("ring", "halving-doubling"), levels[:2], 2 * (3 + 2)),
        (["ring", "ring"], levels[:2], 2 * (3 + 3)),
        (("direct", "by-kind"), levels[:2], 2 * (1 + 2)),
        (("direct", "ring"), levels, 2 * (1 + 3 + 3)),  # the last one is for all further levels
    ):
        assert plan(Pattern.ALL_REDUCE, filled(*along), steps=steps).steps == count


@pytest.mark.parametrize("steps", [("ring", "rong"), (), 3, ("ring", 3)])
def test_lists_of_steps_are_checked(steps: Any) -> None:
    with pytest.raises(InputError, match="is not known") as caught:
        Hierarchical(steps=steps)
    assert caught.value.key == "steps"
    assert "the last one for all further levels" in str(caught.value.accepted)


class TestHierarchical(CollectiveTests):
    plugin = fredfw_collective_hierarchical
    algorithms = (
        Hierarchical(),
        Hierarchical(orders="reverse", chunks=3),
        Hierarchical(orders="opposite", chunks=2),
        Hierarchical(orders="opposite", shares="equal"),
        Hierarchical(steps="by-kind"),
        Hierarchical(steps="in-network"),
        Hierarchical(steps="direct", orders="all", policy="smallest-first", release="drained"),
    )
