from __future__ import annotations

import numpy as np
import pytest

from fredfw import Fabric, NodeKind, Pattern, Phase, Schedule, ring_schedule
from fredfw.simulation.bounds import LowerBounds
from fredfw.simulation.floors import Floors

RING = Fabric(
    name="ring",
    kinds=[NodeKind.NPU] * 4,
    sources=[0, 1, 2, 3, 1, 2, 3, 0],
    destinations=[1, 2, 3, 0, 0, 1, 2, 3],
    bandwidths=1e9,
    latencies=1e-3,
    energies=0.0,
)
MEMBERS = np.arange(4)[None, :]


@pytest.fixture
def floors() -> Floors:
    return Floors(RING, RING.router, LowerBounds(RING))


def test_a_ring_takes_its_bytes_and_its_steps(floors: Floors) -> None:
    # Six steps of 1 GB over a link of 1 GB/s and 1 ms.
    schedule = ring_schedule(Pattern.ALL_REDUCE, 4e9, np.arange(4)[:, None])
    floor = floors.routed([schedule], [MEMBERS])
    assert floor.seconds == pytest.approx(6 * 1.001)
    assert floor.crowd == 1
    # Without routes, the two links of an NPU count: half of that.
    assert floors.unrouted([schedule], [MEMBERS]) == pytest.approx(6 * 0.501)


def test_phases_that_wait_or_share_a_channel_add_up(floors: Floors) -> None:
    def steps(**how: object) -> float:
        first = Phase.of(0, 1, 0)
        second = Phase.of(2, 3, 0, **how)  # type: ignore[arg-type]  # one of two keywords
        schedule = Schedule(Pattern.BROADCAST, 4, 1e9, 1, (first, second))
        return floors.routed([schedule], [MEMBERS]).seconds

    assert steps() == pytest.approx(1.001)
    assert steps(after=(0,)) == pytest.approx(2.002)


def test_bytes_of_all_groups_share_a_link(floors: Floors) -> None:
    # Two groups that do the same at the same place.
    schedule = ring_schedule(Pattern.ALL_REDUCE, 4e9, np.arange(4)[:, None])
    assert floors.routed([schedule], [np.repeat(MEMBERS, 2, axis=0)]).seconds == pytest.approx(12.0)
    assert floors.routed([schedule, schedule], [MEMBERS, MEMBERS]).seconds == pytest.approx(12.0)


def test_an_empty_schedule_takes_nothing(floors: Floors) -> None:
    empty = Schedule(Pattern.ALL_REDUCE, 1, 1e9, 1, ())
    assert floors.unrouted([empty], [MEMBERS[:, :1]]) == 0.0
    assert floors.routed([empty], [MEMBERS[:, :1]]).seconds == 0.0
