from itertools import permutations

import numpy as np
import pytest
from small import star

from fredfw.collectives import Pattern, Phase, Schedule
from fredfw.fabric import Fabric, FlowSet
from fredfw.simulation import Lowering
from fredfw.simulation.lowering import ScheduleFlows
from fredfw.typing import IntArray


def hub(npus: int) -> Fabric:
    return star(npus, latency=1.0, able=True)


def schedule(phase: Phase, chunk_bytes: float | list[float] = 10.0, chunks: int = 4) -> Schedule:
    size = chunk_bytes if isinstance(chunk_bytes, float) else np.array(chunk_bytes)
    return Schedule(Pattern.BROADCAST, 4, size, chunks, (phase,))


def lowered(lowering: Lowering, schedule: Schedule, groups: IntArray, *, unicasts: bool = False) -> FlowSet:
    """Return the flows of the only phase of a schedule, of all its repetitions."""
    return ScheduleFlows(lowering, schedule, groups).of(0, -1, np.arange(len(groups)), unicasts=unicasts)


def test_flows_are_made_once_and_scaled_by_bytes_and_flows_apart_too() -> None:
    lowering, groups = Lowering(hub(4)), np.arange(4)[None, :]
    phase = Phase.of([0, 1], [1, 0], [0, 1])
    small, large = (lowered(lowering, schedule(phase, size), groups) for size in (1.0, 2.0))
    assert small.routes is large.routes
    assert (large.volumes == 2 * small.volumes).all()
    whole = lowered(lowering, schedule(Phase.of([0, 1, 2], [1, 2, 3], [0, 1, 2])), groups)
    apart = lowering.each(whole, np.array([0, 2]))
    assert (apart.activities, apart.activity.tolist()) == (2, [0, 1])
    assert apart.routes.links.tolist() == whole.routes.select(np.array([0, 2])).links.tolist()
    assert lowering.each(whole, np.array([0, 2])) is apart
    assert lowering.each(whole, np.array([0])) is not apart


def sent(phase: Phase, group: list[int], volume: float = 12.0) -> dict[tuple[int, int], tuple[float, float]]:
    """Bytes and latency of the unicasts of ``phase`` on a star of six, by source and destination."""
    flows = lowered(Lowering(hub(6)), schedule(phase, volume), np.array([group]), unicasts=True)
    assert (np.diff(flows.routes.offsets) == 2).all()
    up, down = flows.routes.links.reshape(-1, 2).T
    pairs = list(zip(up.tolist(), (down - 6).tolist(), strict=True))
    assert len(set(pairs)) == len(pairs)
    return dict(zip(pairs, zip(flows.volumes.tolist(), flows.routes.latencies.tolist(), strict=True), strict=True))


def of_all(bytes_: float, latency: float, *pairs: tuple[int, int]) -> dict[tuple[int, int], tuple[float, float]]:
    return dict.fromkeys(pairs, (bytes_, latency))


@pytest.mark.parametrize(
    ("source", "destination", "reduce", "expected"),
    [
        pytest.param([0, 1, 2], [1, 1, 1], True, of_all(12.0, 2.0, (3, 4), (5, 4)), id="reduction"),
        pytest.param([0, 0], [1, 2], False, of_all(12.0, 2.0, (3, 4), (3, 5)), id="multicast"),
        pytest.param(  # a direct exchange in two steps
            [0, 1, 2], [1, 2, 0], True, of_all(2 * 12.0 / 3, 2 * 2.0, *permutations((3, 4, 5), 2)), id="all-reduce"
        ),
        pytest.param(
            [0, 1, 2, 0], [1, 2, 1, 2], True, of_all(12.0, 2.0, (3, 4), (3, 5), (4, 5), (5, 4)), id="reduction to some"
        ),
    ],
)
def test_a_stream_by_unicasts(
    source: list[int], destination: list[int], reduce: bool, expected: dict[tuple[int, int], tuple[float, float]]
) -> None:
    phase = Phase.of(source, destination, 0, reduce=reduce, stream=[0] * len(source))
    assert sent(phase, [3, 4, 5]) == expected


def test_unicasts_of_a_phase_stay_beside_those_of_its_streams() -> None:
    # Two chunks from 3 to 1; a multicast of one.
    phase = Phase.of([3, 0, 0, 3], [1, 1, 2, 1], [1, 0, 0, 2], stream=[-1, 7, 7, -1])
    assert sent(phase, [0, 1, 2, 3]) == {(3, 1): (24.0, 2.0), (0, 1): (12.0, 2.0), (0, 2): (12.0, 2.0)}
