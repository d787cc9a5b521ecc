"""Kernels, and the times that follow from their shapes."""

from __future__ import annotations

from typing import Any

import pytest

from fredfw import Framework, Gemm, GraphBuilder, Kernels, Npu
from fredfw.errors import InputError

PLAIN: dict[str, Any] = {"peak": 1e12, "memory_bandwidth": 1e18, "compute": "kernels"}


def test_what_a_gemm_computes_and_moves() -> None:
    gemm = Gemm(m=2, n=3, k=5, batch=7)
    assert gemm.flops == 2 * 7 * 2 * 3 * 5
    assert gemm.moved == 2 * 7 * (2 * 5 + 5 * 3 + 2 * 3)
    assert Kernels((gemm, Gemm(1, 1, 1))).flops == gemm.flops + 2


@pytest.mark.parametrize("bad", [{"m": -1.0}, {"k": float("nan")}, {"batch": float("inf")}])
def test_an_impossible_gemm(bad: dict[str, float]) -> None:
    with pytest.raises(InputError, match=f"Gemm has {next(iter(bad))}"):
        Gemm(**({"m": 1.0, "n": 1.0, "k": 1.0} | bad))


def test_impossible_kernels() -> None:
    with pytest.raises(InputError, match="Kernels has launches -1"):
        Kernels(launches=-1)


@pytest.mark.parametrize(
    ("m", "n", "batch", "rounds"),
    [
        (128, 128, 1, 1),  # 1 tile
        (1024, 1024, 1, 1),  # 64 tiles
        (1024, 1793, 1, 2),  # 8 x 15 = 120 tiles
        (1, 1, 109, 2),  # 109 tiles of one number each
        (2048, 4608, 1, 6),  # 16 x 36 = 576 tiles
    ],
)
def test_tiles_are_computed_in_whole_rounds(m: float, n: float, batch: float, rounds: int) -> None:
    npu = Npu(multiprocessors=108, tile=128, **PLAIN)
    assert npu.gemm_seconds(Gemm(m, n, 64, batch)) == pytest.approx(rounds * 108 * 2 * 128 * 128 * 64 / 1e12, rel=1e-12)


@pytest.mark.parametrize(
    ("key", "value"),
    [("multiprocessors", 8), ("tile", 64), ("half_depth", 16.0), ("memory_efficiency", 0.5), ("launch", "1 us")],
)
def test_what_only_kernels_read_is_refused_with_a_roofline(key: str, value: Any) -> None:
    with pytest.raises(InputError, match="has no effect on a roofline") as caught:
        Npu(**{key: value})
    assert (caught.value.key, caught.value.accepted) == (key, "compute = kernels")


def test_without_multiprocessors_there_are_no_tiles() -> None:
    assert Npu(**PLAIN).gemm_seconds(Gemm(3, 5, 7)) == pytest.approx(210 / 1e12, rel=1e-12)


def test_a_shallow_matrix_reaches_less() -> None:
    npu = Npu(half_depth=256, efficiency=0.5, **PLAIN)
    for depth, share in ((256, 0.25), (768, 0.375)):
        gemm = Gemm(128, 128, depth)
        assert npu.gemm_seconds(gemm) == pytest.approx(gemm.flops / (share * 1e12), rel=1e-12)
    assert npu.gemm_seconds(Gemm(128, 128, 0)) == 0.0


def test_memory_limits_a_thin_matrix() -> None:
    npu = Npu(peak=1e18, memory_bandwidth=1e9, memory_efficiency=0.5, compute="kernels")
    assert npu.gemm_seconds(Gemm(1, 1000, 1000)) == pytest.approx(2 * (1000 + 1_000_000 + 1000) / 0.5e9, rel=1e-12)


def test_the_host_launches_while_kernels_run() -> None:
    npu = Npu(peak=1e12, memory_bandwidth=1e9, launch=1e-3, compute="kernels")
    work = Kernels((Gemm(100, 100, 100),), moved=2e6)  # 60 us by its bytes (2 us by its FLOPs), and 2 ms
    assert npu.seconds(0, 0, work + Kernels(launches=2)) == pytest.approx(2.06e-3, rel=1e-12)
    assert npu.seconds(0, 0, work + Kernels(launches=3)) == pytest.approx(3e-3, rel=1e-12)


def test_the_roofline_does_not_look_at_kernels() -> None:
    work = Kernels((Gemm(1, 1, 1),), launches=9)
    assert Npu().seconds(1e15, 1e9, work) == Npu().seconds(1e15, 1e9)
    by_kernel = Npu(compute="kernels", launch=1.0)
    assert by_kernel.seconds(1e15, 1e9) == Npu().seconds(1e15, 1e9)
    assert by_kernel.seconds(1e15, 1e9, work) == 9.0


def test_an_a100_by_its_kernels() -> None:
    npu = Npu.of("a100", compute="kernels")
    assert (npu.multiprocessors, npu.tile, npu.peak) == (108, 128, 312e12)
    assert Npu.of("a100") == Npu(peak=312e12, memory_bandwidth=2.039e12, memory=80e9)
    assert Npu.of("a100", compute="kernels", launch="1 us").launch == 1e-6
    tables = {"fabrics": {"a": {"topology": "switch"}}, "workloads": {"w": {"workload": "microbenchmark"}}}
    assert Framework().outline({**tables, "npu": {"preset": "a100", "compute": "kernels"}}).npu == npu


def test_an_accelerator_without_values() -> None:
    with pytest.raises(InputError, match="'gaudi3' has no values for 'kernels'") as raised:
        Npu.of("gaudi3", compute="kernels")
    assert raised.value.key == "compute"
    assert "a100" in str(raised.value.accepted)


def test_tasks_share_equal_kernels() -> None:
    builder = GraphBuilder(2)
    with builder.repeated(3):
        builder.compute("a", [0, 1], kernels=Kernels(moved=1.0))
        builder.compute("b", [0, 1], flops=1.0)
    builder.compute("c", [0], kernels=Kernels(moved=1.0))
    graph = builder.build()
    assert graph.kernels.tolist() == [0, -1, 0]
    assert graph.kernel_tables == (Kernels(moved=1.0),)
    assert graph.expanded().kernels.tolist() == [0, -1] * 3 + [0]
