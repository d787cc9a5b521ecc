import pytest

from fredfw.workloads import Npu


def test_roofline_takes_the_slower_of_compute_and_memory() -> None:
    npu = Npu(peak=1e14, memory_bandwidth=2e12, efficiency=0.5)
    assert npu.seconds(1e14, 0.0) == pytest.approx(2.0, rel=1e-15)
    assert npu.seconds(0.0, 4e12) == pytest.approx(2.0, rel=1e-15)
    assert npu.seconds(1e14, 6e12) == pytest.approx(3.0, rel=1e-15)


def test_default_is_the_npu_of_the_fred_paper() -> None:
    npu = Npu()
    assert (npu.memory, npu.memory_bandwidth) == (80e9, 3e12)
