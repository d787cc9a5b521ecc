"""Tables of kernels of the user's own: constants are fitted to them in place of the accelerator's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fredfw import Attention, Files, Framework, Gemm, Npu
from fredfw.errors import InputError
from fredfw.plugin import configure
from fredfw.workloads import AttentionModel, KernelModel
from fredfw.workloads.kernel_tables import GEMM, parse

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
COUNTS = 1, 16, 100, 512, 4096, 16384


def products(factor: float = 1.0) -> str:
    """Return a table of products that take ``factor`` times as long as ``TRUE`` says."""
    shapes = [(m, n, k) for m in COUNTS for n in (256, 4096, 16384) for k in (64, 1024, 12288)]
    times = [factor * 1e6 * TRUE.gemm_seconds(Gemm(*shape), *RATES) for shape in shapes]
    rows = [f"bf16,{m},{n},{k},{time!r}" for (m, n, k), time in zip(shapes, times, strict=True)]
    return "\n".join(["dtype,m,n,k,time_us", *rows])


def attention(*, decode: bool) -> str:
    """Return a table of attention that takes as long as ``TRUE`` says, of all tokens, or of one."""
    shapes = [
        Attention(batch, 32, shared, 1 if one else keys, keys, width, causal=not one)
        for one in ((False, True) if decode else (False,))
        for batch in (1, 8, 64)
        for shared in (4, 32)
        for keys in (128, 1000, 4096, 16384)
        for width in (64, 128, 192)
    ]
    times = [1e6 * TRUE.attention_seconds(one, *RATES) for one in shapes]
    rows = [
        f"{one.batch},{one.queries},{one.keys},{one.heads},{one.shared},{one.width},{time!r}"
        for one, time in zip(shapes, times, strict=True)
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
        [npu]
        kernel_tables = ["mine.csv"]
        [fabrics.node.topology]
        name = "cluster"
        preset = "dgx-h100"
        nodes = 1
        [workloads.w.workload]
        name = "transformer"
        model = "gpt-3"
        layers = 2
        hidden = 1024
        heads = 16
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
    tables = {"fabrics": {"a": {"topology": "switch"}}, "workloads": {"w": {"workload": "microbenchmark"}}}
    given = {"peak": "989.4 TFLOP/s", "memory_bandwidth": "3.35 TB/s", "kernel_tables": [str(path)]}
    found = Framework().outline({**tables, "npu": given}).npu
    assert found.compute == "kernels"
    assert found.constants.efficiency == pytest.approx(TRUE.efficiency, rel=0.3)
    assert configure.unstructure(found)["kernel_tables"] == [str(path)]
    assert {one.kind for one in parse(products())} == {GEMM}
