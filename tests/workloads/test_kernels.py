"""Kernels, and the times that follow from their shapes."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import pytest
from attrs import evolve

from fredfw import Attention, Framework, Gemm, GraphBuilder, Kernels, Npu
from fredfw.errors import InputError
from fredfw.workloads import AttentionModel, KernelModel

PEAK, BANDWIDTH = 1e12, 1e18


def seconds(gemm: Gemm, **constants: Any) -> float:
    return KernelModel(**constants).gemm_seconds(gemm, PEAK, BANDWIDTH)


def test_what_kernels_compute_and_move() -> None:
    gemm = Gemm(m=2, n=3, k=5, batch=7)
    assert gemm.flops == 2 * 7 * 2 * 3 * 5
    assert gemm.moved == 2 * 7 * (2 * 5 + 5 * 3 + 2 * 3)
    assert Kernels((gemm, Gemm(1, 1, 1))).flops == gemm.flops + 2
    one = Attention(batch=2, heads=8, shared=2, queries=64, keys=64, width=16)
    assert one.flops == 4 * 2 * 8 * 64 * 64 * 16
    assert evolve(one, causal=True, passes=2.5).flops == 1.25 * one.flops
    assert one.moved == 2 * 2 * 16 * 2 * (8 * 64 + 2 * 64)


@pytest.mark.parametrize("bad", [{"m": -1.0}, {"k": float("nan")}, {"batch": float("inf")}])
def test_impossible_kernels(bad: dict[str, float]) -> None:
    with pytest.raises(InputError, match=f"Gemm has {next(iter(bad))}"):
        Gemm(**({"m": 1.0, "n": 1.0, "k": 1.0} | bad))
    with pytest.raises(InputError, match="Kernels has launches -1"):
        Kernels(launches=-1)


@pytest.mark.parametrize(
    ("m", "n", "batch", "rounds"),
    [
        (256, 128, 1, 1),  # 8 tiles of 64 x 64, which all fit into a round, not one large one
        (64, 64, 108, 1),
        (64, 64, 109, 2),
        (1, 1, 109, 2),  # tiles of one number each
    ],
)
def test_tiles_are_computed_in_whole_rounds(m: float, n: float, batch: float, rounds: int) -> None:
    expected = rounds * 108 * 2 * 64 * 64 * 64 / PEAK
    assert seconds(Gemm(m, n, 64, batch), multiprocessors=108) == pytest.approx(expected, rel=1e-12)


def test_no_shape_of_tiles_is_faster_than_the_one_taken() -> None:
    """Slowly: all shapes and splits, for products of many sizes."""
    shapes = (256, 128), (128, 256), (128, 128), (64, 128), (128, 64), (64, 64), (64, 256)
    for m, n, k in product((17, 128, 1000), (64, 333, 4096), (32, 512, 8192)):
        times = []
        for (rows, columns), parts in product(shapes, (1, 2, 4, 8, 16)):
            if parts == 1 or k / parts >= 64:
                rounds = math.ceil(math.ceil(m / rows) * math.ceil(n / columns) * parts / 132)
                busy = 2 * 132 * rounds * rows * columns * (k / parts + 200) / 0.8e12
                times.append(busy + (parts > 1) * 3e-6)
        model = {"multiprocessors": 132, "half_depth": 200, "efficiency": 0.8, "split": 3e-6, "kernel": 1e-6}
        assert seconds(Gemm(m, n, k), **model) == pytest.approx(min(times) + 1e-6, rel=1e-12)


def test_products_without_multiprocessors_have_no_tiles() -> None:
    assert seconds(Gemm(3, 5, 7)) == pytest.approx(210 / PEAK, rel=1e-12)
    assert seconds(Gemm(10, 1, 1), row=1.0) == pytest.approx(10.0)  # to quantise rows
    assert seconds(Gemm(128, 128, 0), kernel=1.0) == 0.0
    # A shallow matrix reaches less, and memory limits a thin one.
    for depth, share in ((256, 0.25), (768, 0.375)):
        gemm = Gemm(128, 128, depth)
        found = seconds(gemm, half_depth=256, efficiency=0.5)
        assert found == pytest.approx(gemm.flops / (share * PEAK), rel=1e-12)
    found = KernelModel(memory_efficiency=0.5).gemm_seconds(Gemm(1, 1000, 1000), 1e18, 1e9)
    assert found == pytest.approx(2 * (1000 + 1_000_000 + 1000) / 0.5e9, rel=1e-12)


def attention_seconds(one: Attention, multiprocessors: int = 0, **constants: Any) -> float:
    model = KernelModel(multiprocessors=multiprocessors, attention=AttentionModel(**constants))
    return model.attention_seconds(one, PEAK, BANDWIDTH)


def test_a_causal_mask_is_kept_by_blocks_of_128_queries() -> None:
    one = Attention(1, 1, 1, 512, 512, 32)
    assert attention_seconds(one) == pytest.approx(one.flops / PEAK, rel=1e-12)
    # Blocks see 128, 256, 384 and 512 keys: ten of sixteen.
    assert attention_seconds(evolve(one, causal=True)) == pytest.approx(one.flops * 10 / 16 / PEAK, rel=1e-12)
    assert attention_seconds(one, width=32.0) == pytest.approx(2 * one.flops / PEAK, rel=1e-12)
    unhidden = one.flops / PEAK + 0.5 * one.moved / BANDWIDTH
    assert attention_seconds(one, unhidden=0.5) == pytest.approx(unhidden, rel=1e-12)


def test_attention_of_few_takes_as_long_as_its_keys_or_its_only_block() -> None:
    # One token of each of 64 samples asks, and the bytes of its keys take longer than its products.
    one = Attention(64, 1, 1, 1, 2**20, 128)
    model = KernelModel(multiprocessors=64, attention=AttentionModel(unhidden=2.0, memory_efficiency=0.5))
    assert model.attention_seconds(one, 1e15, 1e12) == pytest.approx(one.moved / 0.5e12, rel=1e-12)
    one = Attention(1, 1, 1, 128, 1024, 32)
    assert attention_seconds(one, multiprocessors=100) == pytest.approx(100 * one.flops / PEAK, rel=1e-12)


def test_every_kernel_takes_its_time_and_the_host_launches_meanwhile() -> None:
    npu = Npu(peak=1e12, memory_bandwidth=1e9, compute="kernels", kernels=KernelModel(launch=1e-3))
    work = Kernels((Gemm(100, 100, 100),), moved=2e6)  # 60 us by its bytes (2 us by its FLOPs), and 2 ms
    assert npu.seconds(0, 0, work + Kernels(launches=2)) == pytest.approx(2.06e-3, rel=1e-12)
    assert npu.seconds(0, 0, work + Kernels(launches=3)) == pytest.approx(3e-3, rel=1e-12)
    slow = evolve(npu, kernels=KernelModel(kernel=1.0))
    assert slow.seconds(0, 0, Kernels((Gemm(1, 1, 1),), launches=5)) == pytest.approx(5.0)


def test_the_roofline_does_not_look_at_kernels() -> None:
    work = Kernels((Gemm(1, 1, 1),), launches=9)
    assert Npu().seconds(1e15, 1e9, work) == Npu().seconds(1e15, 1e9)
    by_kernel = Npu(compute="kernels", kernels=KernelModel(launch=1.0))
    assert by_kernel.seconds(1e15, 1e9) == Npu().seconds(1e15, 1e9)
    assert by_kernel.seconds(1e15, 1e9, work) == 9.0


def test_a_preset_has_its_kernels_unless_an_efficiency_is_given() -> None:
    npu = Npu.of("a100")
    assert (npu.compute, npu.kernels.multiprocessors, npu.peak) == ("kernels", 108, 312e12)
    assert Npu.of("a100", efficiency=0.5).compute == "roofline"
    assert evolve(Npu.of("h200").kernels, status="") == evolve(Npu.of("h100").kernels, status="")
    tables = {"fabrics": {"a": {"topology": "switch"}}, "workloads": {"w": {"workload": "microbenchmark"}}}
    own = Framework().outline({**tables, "npu": {"preset": "a100", "kernels": {"launch": "1 us"}}}).npu
    assert own == evolve(npu, kernels=evolve(npu.kernels, launch=1e-6))
    with pytest.raises(InputError, match="has no effect on kernels"):
        Npu.of("a100", efficiency=0.5, compute="kernels")


@pytest.mark.parametrize(
    ("preset", "gemm", "measured"),
    [
        # Rows that nothing was fitted to, of NVIDIA aiconfigurator 095f58a5: bfloat16.
        ("a100", Gemm(32, 2560, 1024), 8.028e-6),
        ("a100", Gemm(768, 8192, 768), 49.152e-6),
        ("a100", Gemm(8192, 5120, 7168), 2340.502e-6),
        ("h100", Gemm(17, 8192, 51200), 285.349e-6),
        ("h100", Gemm(513, 5120, 3072), 24.555e-6),
        ("h100", Gemm(16384, 51200, 1536), 3706.379e-6),
        ("b200", Gemm(49, 512, 6144), 7.618e-6),
        ("b200", Gemm(1024, 2560, 1536), 7.7e-6),
        ("b200", Gemm(16384, 10240, 4096), 993.276e-6),
    ],
)
def test_measured_products(preset: str, gemm: Gemm, measured: float) -> None:
    npu = Npu.of(preset)
    assert npu.kernels.gemm_seconds(gemm, npu.peak, npu.memory_bandwidth) == pytest.approx(measured, rel=0.25)


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
