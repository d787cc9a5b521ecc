"""Tables of kernels: what is read of them, and what an accelerator says of the same shapes."""

import json
from pathlib import Path

import pytest
from command_line import refused, succeeds

from fredfw import Attention, Gemm, Npu
from fredfw.errors import InputError, UnknownNameError
from fredfw.validation.kernels import KernelPoint, parse
from fredfw.validation.tables import Reading
from fredfw.workloads import npus
from fredfw.workloads.kernel_tables import recognised

H100 = Npu.of("h100")
SHAPES = [(16, 128, 64), (4096, 4096, 4096), (8192, 8192, 8192)]


def gemms(gpu: str = "h100_sxm", dtype: str = "bfloat16") -> str:
    """Return a table of products that takes as long as the model of an H100 says."""
    rates = H100.peak, H100.memory_bandwidth
    times = [H100.kernels.seconds(Gemm(*shape), *rates) * 1e6 for shape in SHAPES]
    rows = [f"{gpu},{dtype},{m},{n},{k},{time!r}" for (m, n, k), time in zip(SHAPES, times, strict=True)]
    return "\n".join(["gpu,dtype,m,n,k,time_us", *rows])


def points(text: str, system: str | None = None) -> list[KernelPoint]:
    assert recognised(text)
    return parse(text, "mine.csv", Reading(system=system))


@pytest.mark.parametrize("gpu", ["h100", "NVIDIA H100 80GB HBM3", "H100-SXM5"])
def test_products(gpu: str) -> None:
    found = points(gemms(gpu))
    assert [one.work for one in found] == [Gemm(*shape) for shape in SHAPES]
    assert {one.system.name for one in found} == {"h100"}
    assert [one.size_class for one in found] == ["to 1 GFLOP", "above 100 GFLOP", "above 100 GFLOP"]
    assert [one.fitted for one in found] == [True, False, True]


def test_attention_is_causal_unless_it_says_otherwise_and_what_cannot_be_used_is_named() -> None:
    header = "gpu,batch,sequence,heads,kv_heads,head_dim,time_us,causal"
    one, other = points(f"{header}\nb200_sxm,2,4096,32,8,128,100,\nb200_sxm,2,4096,32,8,128,100,false")
    assert one.work == Attention(2, 32, 8, 4096, 4096, 128, causal=True)
    assert other.work == Attention(2, 32, 8, 4096, 4096, 128)
    assert not recognised("system,nodes,ranks,collective,size_B,time_us\n")
    with pytest.raises(UnknownNameError, match=r"--system: no accelerator 'x100'"):
        points(gemms(), system="x100")
    for text, said in ((gemms("x100"), "gpu: no accelerator 'x100'"), (gemms(dtype="int4"), "dtype: 'int4' is not")):
        with pytest.raises(InputError, match=f"line 2, column {said}"):
            points(text)


def test_a_table_is_scored_by_what_the_accelerator_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, written = tmp_path / "mine.csv", tmp_path / "out.json"
    path.write_text(gemms(), encoding="utf-8")

    def validated(*arguments: str) -> list[dict[str, object]]:
        assert "H100    gemm" in succeeds("validate", "--data", str(path), "--json", str(written), *arguments)
        found: list[dict[str, object]] = json.loads(written.read_text(encoding="utf-8"))["points"]
        return found

    for one in validated("--pattern", "kernel"):
        assert one["predicted"] == pytest.approx(one["measured"])
        assert one["status"] == "predicted"
    # Without losses the largest is its operations at peak.
    assert validated("--pattern", "gemm")[-1]["ideal"] == pytest.approx(2 * 8192**3 / H100.peak)
    # Of a table that constants were fitted to, every other row was.
    digest = "0123456789abcdef"
    monkeypatch.setattr(npus, "tables", lambda: {digest})
    monkeypatch.setattr("fredfw.validation.tables.digest", lambda data: digest)
    assert [one["status"] for one in validated()] == ["calibrated", "predicted", "calibrated"]
    told = refused("validate", "--data", str(path), "--pattern", "attention")
    assert "there are no measured times of attention" in told


def test_every_table_of_an_accelerator_is_a_digest() -> None:
    assert len(npus.tables()) == 6
    assert all(len(one) == 16 and int(one, 16) for one in npus.tables())
