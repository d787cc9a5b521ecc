from __future__ import annotations

import math

import numpy as np
import pytest
from fredfw import CollectiveRequest, Fabric, Framework, GroupView, Pattern, Schedule, check
from fredfw.errors import UnsupportedError
from fredfw.testing import CollectiveTests

import fredfw_collective_scatter_allgather
from fredfw_collective_scatter_allgather import ScatterAllGather

SIZE, BANDWIDTH, ALPHA = 1e6, 1e9, 3e-6


class TestScatterAllGather(CollectiveTests):
    plugin = fredfw_collective_scatter_allgather
    algorithms = (ScatterAllGather(),)


def plan(pattern: Pattern, n: int, root: int = 0) -> Schedule:
    return ScatterAllGather().plan(CollectiveRequest(pattern, n, SIZE, root), GroupView(n))


def star(n: int) -> Fabric:
    """NPUs around one switch; alpha is the latency of both links of a path."""
    npu, hub = np.arange(n), np.full(n, n)
    ends = np.concatenate([npu, hub]), np.concatenate([hub, npu])
    return Fabric("star", np.append(np.zeros(n), 1), *ends, BANDWIDTH, ALPHA / 2, 0.0)


@pytest.mark.parametrize("n", range(2, 14))
@pytest.mark.parametrize("pattern", [Pattern.BROADCAST, Pattern.REDUCE])
def test_every_root_is_served(pattern: Pattern, n: int) -> None:
    for root in range(n):
        check(plan(pattern, n, root), CollectiveRequest(pattern, n, SIZE, root))


@pytest.mark.parametrize("fidelity", ["compressed", "exact"])
@pytest.mark.parametrize("n", [2, 3, 5, 8, 13, 32])
@pytest.mark.parametrize("pattern", ["broadcast", "reduce"])
def test_time_on_a_switch(pattern: str, n: int, fidelity: str) -> None:
    # Thakur et al., section 4.2: 2 (n - 1) / n S / B, and n - 1 + ceil(log2 n) steps.
    result = Framework().simulate_collective(
        star(n), pattern, size=SIZE, algorithm="scatter-allgather", root=n - 1, fidelity=fidelity
    )
    steps = n - 1 + math.ceil(math.log2(n))
    assert result.steps == steps
    moved = 2 * (n - 1) / n * SIZE / BANDWIDTH  # what the root sends or receives
    if fidelity == "compressed" or n & (n - 1) == 0:
        assert result.duration == pytest.approx(moved + steps * ALPHA, rel=1e-9)
    else:  # in a tree that is not full, ranks that get their blocks early do not wait for the others
        assert moved + ALPHA < result.duration < moved + steps * ALPHA
    assert result.bound.seconds >= SIZE / BANDWIDTH


@pytest.mark.parametrize("n", [3, 8, 11])
@pytest.mark.parametrize("pattern", [Pattern.BROADCAST, Pattern.REDUCE])
def test_no_rank_sends_or_receives_more_than_twice_the_size(pattern: Pattern, n: int) -> None:
    schedule = plan(pattern, n, root=1)
    sent, received = np.zeros((2, n))
    for phase in schedule.phases:
        for repetition in range(phase.repeat):
            amount = schedule.row_bytes(phase, repetition)
            np.add.at(sent, phase.source, amount)
            np.add.at(received, phase.destination, amount)
    most = 2 * (n - 1) / n * SIZE
    busy = sent if pattern is Pattern.BROADCAST else received
    assert busy[1] == pytest.approx(most, rel=1e-12)
    assert max(sent.max(), received.max()) <= most * (1 + 1e-12)


def test_a_thousand_ranks_are_eleven_phases() -> None:
    assert [phase.repeat for phase in plan(Pattern.BROADCAST, 1000).phases] == [1] * 10 + [999]


def test_it_refuses_other_patterns() -> None:
    with pytest.raises(UnsupportedError, match="it does not do all-reduce, only broadcast, reduce"):
        plan(Pattern.ALL_REDUCE, 4)
