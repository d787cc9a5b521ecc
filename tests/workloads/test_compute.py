from typing import Any

import pytest

from fredfw.errors import InputError
from fredfw.workloads import Npu


def test_roofline_takes_the_slower_of_compute_and_memory() -> None:
    assert (Npu().memory, Npu().memory_bandwidth) == (80e9, 3e12)  # FRED's
    npu = Npu(peak=1e14, memory_bandwidth=2e12, efficiency=0.5)
    assert npu.seconds(1e14, 0.0) == pytest.approx(2.0, rel=1e-15)
    assert npu.seconds(0.0, 4e12) == pytest.approx(2.0, rel=1e-15)
    assert npu.seconds(1e14, 6e12) == pytest.approx(3.0, rel=1e-15)


EXPANDED: dict[str, Any] = {"memory": 80e9, "memory_bandwidth": 2e12}
EXPANDED |= {"expanded_memory": 480e9, "expanded_memory_bandwidth": 5e11}


def test_a_footprint_in_two_memories_moves_at_their_hybrid_bandwidth() -> None:
    npu = Npu(peak=1e15, **EXPANDED)
    # 80 of 200 GB at 2 TB/s and 120 GB at 0.5 TB/s: 0.04 s and 0.24 s.
    holding = npu.holding(200e9)
    assert holding.memory_bandwidth == pytest.approx(200e9 / 0.28, rel=1e-15)
    assert holding.seconds(0.0, 400e9) == pytest.approx(0.56, rel=1e-15)
    assert holding.seconds(1e15, 400e9) == 1.0
    assert npu.expanded(200e9) == 120e9
    assert npu.capacity == 560e9
    assert npu.holding(1e15) == npu.holding(560e9)  # what no memory has room for is not moved
    equal = Npu(memory_bandwidth=2e12, expanded_memory=1e12, expanded_memory_bandwidth=2e12)
    assert equal.holding(5e11).memory_bandwidth == pytest.approx(2e12, rel=1e-15)


@pytest.mark.parametrize("footprint", [0.0, 79e9, 80e9])
def test_a_footprint_in_the_local_memory_is_not_slowed(footprint: float) -> None:
    npu = Npu(**EXPANDED)
    assert npu.holding(footprint) is npu
    assert npu.expanded(footprint) == 0.0
    assert Npu().holding(1e15) == Npu()
    assert Npu().capacity == Npu().memory


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({"expanded_memory": "480 GB"}, "expanded_memory_bandwidth"),
        ({"expanded_memory_bandwidth": "500 GB/s"}, "expanded_memory"),
        ({"expanded_memory": 0, "expanded_memory_bandwidth": "500 GB/s"}, "expanded_memory"),
        ({"expanded_memory": "480 GB", "expanded_memory_bandwidth": 0}, "expanded_memory_bandwidth"),
        ({"expanded_memory": -1, "expanded_memory_bandwidth": 1}, "expanded_memory"),
    ],
)
def test_half_an_expansion_is_refused(fields: dict[str, Any], key: str) -> None:
    with pytest.raises(InputError, match=f"^{key}: "):
        Npu(**fields)
