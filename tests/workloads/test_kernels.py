"""Kernels, the times that follow from their shapes, and tables of measured ones."""

import math
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from fredfw import Attention, Files, Framework, Gemm, GraphBuilder, Kernels, Npu
from fredfw.errors import InputError
from fredfw.plugin import configure
from fredfw.workloads import AttentionModel, KernelModel
from fredfw.workloads.kernel_tables import GEMM, parse

PEAK, BANDWIDTH = 1e12, 1e18
TABLES = {"fabrics": {"a": {"topology": "switch"}}, "workloads": {"w": {"workload": "microbenchmark"}}}


def seconds(gemm: Gemm, **constants: Any) -> float:
    return KernelModel(**constants).seconds(gemm, PEAK, BANDWIDTH)


def test_what_kernels_compute_and_move_and_tasks_that_share_equal_ones() -> None:
    gemm = Gemm(m=2, n=3, k=5, batch=7)
    assert gemm.flops == 2 * 7 * 2 * 3 * 5
    assert gemm.moved == 2 * 7 * (2 * 5 + 5 * 3 + 2 * 3)
    assert Kernels((gemm, Gemm(1, 1, 1))).flops == gemm.flops + 2
    one = Attention(batch=2, heads=8, shared=2, queries=64, keys=64, width=16)
    assert one.flops == 4 * 2 * 8 * 64 * 64 * 16
    assert evolve(one, causal=True, passes=2.5).flops == 1.25 * one.flops
    assert one.moved == 2 * 2 * 16 * 2 * (8 * 64 + 2 * 64)
    builder = GraphBuilder(2)
    with builder.repeated(3):
        builder.compute("a", [0, 1], kernels=Kernels(moved=1.0))
    builder.compute("c", [0], kernels=Kernels(moved=1.0))
    graph = builder.build()
    assert graph.kernel_tables == (Kernels(moved=1.0),)
    assert graph.expanded().kernels.tolist() == [0] * 4


@pytest.mark.parametrize("bad", [{"m": -1.0}, {"k": float("nan")}, {"batch": float("inf")}])
def test_impossible_kernels(bad: dict[str, float]) -> None:
    with pytest.raises(InputError, match=f"Gemm has {next(iter(bad))}"):
        Gemm(**({"m": 1.0, "n": 1.0, "k": 1.0} | bad))
    with pytest.raises(InputError, match="Kernels has launches -1"):
        Kernels(launches=-1)


def test_no_shape_of_tiles_is_faster_than_the_one_taken() -> None:
    """Slowly: all shapes and splits, for products of many sizes."""
    shapes = (256, 128), (128, 256), (128, 128), (64, 128), (128, 64), (64, 64), (64, 256)
    for m, n, k, batch in product((1, 17, 1000), (1, 64, 333, 4096), (32, 512, 8192), (1, 133)):
        times = []
        for (rows, columns), parts in product(shapes, (1, 2, 4, 8, 16)):
            if parts == 1 or k / parts >= 64:
                rounds = math.ceil(math.ceil(m / rows) * math.ceil(n / columns) * batch * parts / 132)
                busy = 2 * 132 * rounds * rows * columns * (k / parts + 200) / 0.8e12
                times.append(busy + (parts > 1) * 3e-6)
        model = {"multiprocessors": 132, "half_depth": 200, "efficiency": 0.8, "split": 3e-6, "kernel": 1e-6}
        assert seconds(Gemm(m, n, k, batch), **model) == pytest.approx(min(times) + 1e-6, rel=1e-12)


def test_products_without_multiprocessors_have_no_tiles() -> None:
    assert seconds(Gemm(3, 5, 7)) == pytest.approx(210 / PEAK, rel=1e-12)
    assert seconds(Gemm(10, 1, 1), row=1.0) == pytest.approx(10.0)  # to quantise rows
    assert seconds(Gemm(128, 128, 0), kernel=1.0) == 0.0
    # A shallow matrix reaches less, and memory limits a thin one.
    for depth, share in ((256, 0.25), (768, 0.375)):
        gemm = Gemm(128, 128, depth)
        found = seconds(gemm, half_depth=256, efficiency=0.5)
        assert found == pytest.approx(gemm.flops / (share * PEAK), rel=1e-12)
    found = KernelModel(memory_efficiency=0.5).seconds(Gemm(1, 1000, 1000), 1e18, 1e9)
    assert found == pytest.approx(2 * (1000 + 1_000_000 + 1000) / 0.5e9, rel=1e-12)


def attention_seconds(one: Attention, multiprocessors: int = 0, **constants: Any) -> float:
    model = KernelModel(multiprocessors=multiprocessors, attention=AttentionModel(**constants))
    return model.seconds(one, PEAK, BANDWIDTH)


def test_attention_takes_its_blocks_its_keys_or_its_only_block() -> None:
    one = Attention(1, 1, 1, 512, 512, 32)
    assert attention_seconds(one) == pytest.approx(one.flops / PEAK, rel=1e-12)
    # Blocks see 128, 256, 384 and 512 keys: ten of sixteen.
    assert attention_seconds(evolve(one, causal=True)) == pytest.approx(one.flops * 10 / 16 / PEAK, rel=1e-12)
    assert attention_seconds(one, width=32.0) == pytest.approx(2 * one.flops / PEAK, rel=1e-12)
    unhidden = one.flops / PEAK + 0.5 * one.moved / BANDWIDTH
    assert attention_seconds(one, unhidden=0.5) == pytest.approx(unhidden, rel=1e-12)
    # One token of each of 64 samples asks, and the bytes of its keys take longer than its products.
    one = Attention(64, 1, 1, 1, 2**20, 128)
    model = KernelModel(multiprocessors=64, attention=AttentionModel(unhidden=2.0, memory_efficiency=0.5))
    assert model.seconds(one, 1e15, 1e12) == pytest.approx(one.moved / 0.5e12, rel=1e-12)
    one = Attention(1, 1, 1, 128, 1024, 32)
    assert attention_seconds(one, multiprocessors=100) == pytest.approx(100 * one.flops / PEAK, rel=1e-12)


def test_every_kernel_takes_its_time_unless_an_efficiency_is_given() -> None:
    npu = Npu(peak=1e12, memory_bandwidth=1e9, compute="kernels", kernels=KernelModel(launch=1e-3))
    work = Kernels((Gemm(100, 100, 100),), moved=2e6)  # 60 us by its bytes (2 us by its FLOPs), and 2 ms
    assert npu.seconds(0, 0, work + Kernels(launches=2)) == pytest.approx(2.06e-3, rel=1e-12)
    assert npu.seconds(0, 0, work + Kernels(launches=3)) == pytest.approx(3e-3, rel=1e-12)
    slow = evolve(npu, kernels=KernelModel(kernel=1.0))
    assert slow.seconds(0, 0, Kernels((Gemm(1, 1, 1),), launches=5)) == pytest.approx(5.0)
    # The roofline does not look at kernels.
    work = Kernels((Gemm(1, 1, 1),), launches=9)
    assert Npu().seconds(1e15, 1e9, work) == Npu().seconds(1e15, 1e9)
    by_kernel = Npu(compute="kernels", kernels=KernelModel(launch=1.0))
    assert by_kernel.seconds(1e15, 1e9) == Npu().seconds(1e15, 1e9)
    assert by_kernel.seconds(1e15, 1e9, work) == 9.0
    npu = Npu.of("a100")
    assert (npu.compute, npu.kernels.multiprocessors, npu.peak) == ("kernels", 108, 312e12)
    assert Npu.of("a100", efficiency=0.5).compute == "roofline"
    assert evolve(Npu.of("h200").kernels, status="") == evolve(Npu.of("h100").kernels, status="")
    own = Framework().outline({**TABLES, "npu": {"preset": "a100", "kernels": {"launch": "1 us"}}}).npu
    assert own == evolve(npu, kernels=evolve(npu.kernels, launch=1e-6))
    with pytest.raises(InputError, match="has no effect on kernels"):
        Npu.of("a100", efficiency=0.5, compute="kernels")


@pytest.mark.parametrize(
    ("preset", "gemm", "measured"),
    [
        # Rows that nothing was fitted to, of NVIDIA aiconfigurator 095f58a5: bfloat16.
        ("a100", Gemm(768, 8192, 768), 49.152e-6),
        ("a100", Gemm(8192, 5120, 7168), 2340.502e-6),
        ("h100", Gemm(17, 8192, 51200), 285.349e-6),
        ("b200", Gemm(49, 512, 6144), 7.618e-6),
    ],
)
def test_measured_products(preset: str, gemm: Gemm, measured: float) -> None:
    npu = Npu.of(preset)
    assert npu.kernels.seconds(gemm, npu.peak, npu.memory_bandwidth) == pytest.approx(measured, rel=0.25)


TRUE = KernelModel(
    multiprocessors=132,
    efficiency=0.7,
    half_depth=150.0,
    memory_efficiency=0.6,
    kernel=4e-6,
    split=3e-6,
    attention=AttentionModel(efficiency=0.6, width=30.0, unhidden=3.0, memory_efficiency=0.5, kernel=2e-5),
)
H100 = Npu.of("h100")
RATES = H100.peak, H100.memory_bandwidth


def products(factor: float = 1.0) -> str:
    """Return a table of products that take ``factor`` times as long as ``TRUE`` says."""
    rows = [
        f"bf16,{m},{n},{k},{factor * 1e6 * TRUE.seconds(Gemm(m, n, k), *RATES)!r}"
        for m, n, k in product((1, 16, 100, 512, 4096, 16384), (256, 4096, 16384), (64, 1024, 12288))
    ]
    return "\n".join(["dtype,m,n,k,time_us", *rows])


def attention(*, decode: bool) -> str:
    """Return a table of attention that takes as long as ``TRUE`` says, of all tokens, or of one."""
    shapes = [
        Attention(batch, 32, shared, 1 if one else keys, keys, width, causal=not one)
        for one, batch, shared, keys, width in product(
            (False, True)[: 1 + decode], (1, 8, 64), (4, 32), (128, 1000, 4096, 16384), (64, 128, 192)
        )
    ]
    rows = [
        f"{one.batch},{one.queries},{one.keys},{one.heads},{one.shared},{one.width},{1e6 * TRUE.seconds(one, *RATES)!r}"
        for one in shapes
    ]
    return "\n".join(["batch,queries,sequence,heads,kv_heads,head_dim,time_us", *rows])


def npu(tmp_path: Path, *tables: str, **fields: Any) -> Npu:
    paths = [tmp_path / f"{number}.csv" for number in range(len(tables))]
    for path, text in zip(paths, tables, strict=True):
        path.write_text(text, encoding="utf-8")
    return Npu.of("h100", kernel_tables=Files.at(paths), **fields)


def test_a_fit_finds_the_constants_that_times_were_made_with(tmp_path: Path) -> None:
    found = npu(tmp_path, products(), attention(decode=True)).constants
    for name in ("efficiency", "half_depth", "memory_efficiency", "kernel", "split"):
        assert getattr(found, name) == pytest.approx(getattr(TRUE, name), rel=0.02), name
    for name in ("efficiency", "width", "unhidden", "memory_efficiency", "kernel"):
        assert getattr(found.attention, name) == pytest.approx(getattr(TRUE.attention, name), rel=0.05), name
    assert found.status == "calibrated on 0.csv, 1.csv, held out products 0 % and attention 0 % off"
    # What was not measured stays: launches, what long training keeps, and attention that memory bounds.
    own = H100.kernels
    assert (found.launch, found.sustained, found.row) == (own.launch, own.sustained, 0.0)
    found = npu(tmp_path, attention(decode=False)).constants
    assert found.attention.memory_efficiency == own.attention.memory_efficiency
    assert found.efficiency == own.efficiency


def test_one_token_asks_all_keys_without_a_mask() -> None:
    one, other = parse("batch,queries,sequence,heads,kv_heads,head_dim,time_us\n8,1,4096,32,8,128,9\n8,,64,32,8,128,9")
    assert one.work == Attention(8, 32, 8, 1, 4096, 128)
    assert other.work == Attention(8, 32, 8, 64, 64, 128, causal=True)
    assert (one.kind, one.fitted, other.fitted) == ("attention", True, False)


def test_an_experiment_names_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths are relative to the experiment; other times are another result, which no store takes for the first."""
    text = """
        npu.kernel_tables = ["mine.csv"]
        fabrics.node.topology = { name = "cluster", preset = "dgx-h100", nodes = 1 }
        workloads.w.workload = { name = "transformer", model = "gpt-3", layers = 2, hidden = 1024, heads = 16 }
    """
    table, file, framework = tmp_path / "mine.csv", tmp_path / "one.toml", Framework()
    file.write_text(text, encoding="utf-8")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)

    def compared(factor: float) -> tuple[float, Any]:
        table.write_text(products(factor), encoding="utf-8")
        found = framework.compare(framework.load_experiment(file), store=tmp_path / "store")
        (cell,) = found.rows
        return cell.seconds, cell

    seconds, cell = compared(1.0)
    assert "kernels: calibrated on mine.csv, held out products 0 % off (npu.kernel_tables)" in cell.notes
    alone = framework.run(framework.load_experiment(file))
    assert alone.seconds == seconds
    assert alone.provenance["npu"]["kernel_tables"] == ["mine.csv"]
    assert [one["path"] for one in alone.provenance["files"]] == [["mine.csv"]]
    assert compared(2.0)[0] > 1.5 * seconds
    assert compared(1.0)[0] == seconds


@pytest.mark.parametrize(
    ("tables", "fields", "message"),
    [
        (["m,n,k,time_us\n1,2,3,4"], {}, r"kernel_tables: 1 row of products in bf16 in .*0.csv \(accepted: 20 or more"),
        (["dtype,m,n,k,time_us\nfp8,1,2,3,4"], {}, r"kernel_tables: 0 rows of products in bf16"),
        (["gpu,m,n,k,time_us\na,1,2,3,4\nb,1,2,3,4"], {}, r"kernel_tables: rows are of a, b"),
        (["a,b\n1,2"], {}, r"0.csv: is not a table of kernels \(accepted: CSV with the columns time_us and m, n, k or"),
        (["m,n,k,time_us\n1,2,3,long"], {}, r"0.csv: line 2, column time_us: 'long' cannot be used"),
        ([products()], {"efficiency": 0.5}, r"kernel_tables: have no effect on a roofline"),
    ],
)
def test_mistakes(tmp_path: Path, tables: list[str], fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        npu(tmp_path, *tables, **fields)


def test_without_a_preset_they_are_all_that_is_known(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(products(), encoding="utf-8")
    given = {"peak": "989.4 TFLOP/s", "memory_bandwidth": "3.35 TB/s", "kernel_tables": [str(path)]}
    found = Framework().outline({**TABLES, "npu": given}).npu
    assert found.compute == "kernels"
    assert found.constants.efficiency == pytest.approx(TRUE.efficiency, rel=0.3)
    assert configure.unstructure(found)["kernel_tables"] == [str(path)]
    assert {one.kind for one in parse(products())} == {GEMM}
