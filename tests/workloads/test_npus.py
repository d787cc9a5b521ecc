"""Accelerators by name: the table, what it becomes, and the page that lists it."""

import re
from pathlib import Path
from typing import Any

import pytest
from experiments import compare, run

from fredfw import Framework, Gemm, Kernels, Npu
from fredfw.errors import InputError
from fredfw.experiment.file.spec import AnyOutline
from fredfw.plugin import configure
from fredfw.workloads import KernelModel
from fredfw.workloads.npus import PRECISIONS, table

PAGE = Path(__file__).parents[2] / "docs" / "experiments.md"

TABLES: dict[str, Any] = {"fabrics": {"a": {"topology": "mesh2d"}}, "workloads": {"w": {"workload": "microbenchmark"}}}
TRANSFORMER = {"name": "transformer", "model": "gpt-3", "layers": 2, "hidden": 1024, "heads": 16}


def outline(**npu: Any) -> AnyOutline:
    return Framework().outline({**TABLES, "npu": npu})


def test_an_h100_experiments_that_name_one_and_mistakes() -> None:
    npu = Npu.of("h100")
    assert (npu.peak, npu.memory, npu.memory_bandwidth, npu.efficiency) == (989.4e12, 80e9, 3.35e12, 1.0)
    assert Npu.of("h100", "fp8").peak == 1978.9e12
    gaudi = outline(preset="gaudi3", precision="fp8", efficiency=0.5, memory="64 GB").npu
    assert gaudi == Npu.of("gaudi3", "fp8", efficiency=0.5, memory=64e9)
    assert outline().npu == Npu()
    statuses = [npu.kernels.status for npu in (Npu.of("a100"), Npu.of("h100"), Npu.of("h100", "fp8"), Npu.of("h200"))]
    assert statuses[:2] == ["calibrated on a100", "calibrated on h100, sustained extrapolated"]
    assert statuses[2:] == ["calibrated on h100", "extrapolated from h100"]
    with pytest.raises(InputError, match="precision: 'h100' has no rate for 'memory'"):
        Npu.of("h100", "memory")
    fabrics = {"f": {"topology": "mesh2d", "npu": {"preset": "h10"}}}
    with pytest.raises(InputError, match=re.escape("fabrics.f.npu.preset: no NPU 'h10'; did you mean 'h100'")):
        Framework().outline({**TABLES, "fabrics": fabrics})


@pytest.mark.parametrize("name", sorted(table()))
def test_every_preset_is_complete(name: str) -> None:
    entry = table()[name]
    assert entry["source"]
    npu = Npu.of(name)
    assert 1e14 < npu.peak < 1e16
    assert 1e10 < npu.memory < 1e12
    assert 1e12 < npu.memory_bandwidth < 1e13
    if "fp8" in entry:
        assert 1 <= Npu.of(name, "fp8").peak / npu.peak <= 2.001


def test_the_page_lists_the_table() -> None:
    rows = re.findall(r"^\| ([\w-]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", PAGE.read_text("utf-8"), re.M)
    listed = {name: [one.strip() for one in cells] for name, *cells in rows if name in table()}
    assert list(listed) == list(table())
    for name, cells in listed.items():
        entry = table()[name]
        doubts = {key for one in entry.get("uncertain", []) for key in one.partition(":")[0].split(", ")}
        for key, cell in zip((*PRECISIONS, "memory", "memory_bandwidth"), cells, strict=True):
            number = entry.get(key, "-").removesuffix(" TFLOP/s").removesuffix(" TB/s")
            assert cell == (rf"{number} (\*)" if key in doubts else number), (name, key)


@pytest.mark.parametrize(
    ("npu", "message", "accepted"),
    [
        ({"preset": "h10"}, "preset: no NPU 'h10'; did you mean 'h100'", "tpu-v5p"),
        ({"preset": 3}, "preset: 3 is not text", "text"),
        ({"preset": "h100", "precision": "fp4"}, "precision: 'fp4' is not known", "bf16, fp8"),
        ({"preset": "a100", "precision": "fp8"}, "precision: 'a100' has no rate for 'fp8'", "bf16"),
        ({"preset": "h100", "presicion": "fp8"}, "presicion: unknown key; did you mean 'precision'", "preset"),
        ({"preset": "h100", "memory": 0}, "memory: 0.0 is too small", "more than 0"),
        ({"precision": "fp8"}, "precision: there is no preset whose rate it chooses", "with npu.preset"),
    ],
)
def test_mistakes(npu: dict[str, Any], message: str, accepted: str) -> None:
    with pytest.raises(InputError, match=rf"npu\.{re.escape(message)}") as caught:
        run({**TABLES, "npu": npu})
    assert accepted in (caught.value.accepted or "")


def test_a_preset_of_a_machine_brings_its_accelerator() -> None:
    fabric = {"topology": {"name": "cluster", "preset": "dgx-h200", "nodes": 1}}
    # What is given beside changes it; a preset or a peak takes its place.
    for npu, own, expected, note in (
        ({}, {}, Npu.of("h200"), "kernels: extrapolated from h100 (npu.kernels)"),
        ({"memory": "100 GB"}, {}, Npu.of("h200", memory=100e9), ""),
        ({"memory": "90 GB"}, {"npu": {"precision": "fp8"}}, Npu.of("h200", "fp8"), ""),
        ({"preset": "a100"}, {}, Npu.of("a100"), ""),
        ({"peak": "1 PFLOP/s"}, {}, Npu(peak=1e15), "computations run at the whole peak of 1 PFLOP/s: npu.effici"),
        ({"peak": "1 PFLOP/s", "efficiency": 0.5}, {}, Npu(peak=1e15, efficiency=0.5), ""),
    ):
        result = run({"npu": npu, "fabrics": {"f": fabric | own}, "workloads": {"w": {"workload": TRANSFORMER}}})
        assert result.provenance["npu"] == configure.unstructure(expected)
        assert note in "\n".join(result.notes)
        assert ("whole peak" in note) == ("whole peak" in "\n".join(result.notes))


def test_a_fabric_may_have_npus_of_its_own() -> None:
    switch = {"name": "switch", "npus": 4}
    npus = {"slow": {"preset": "a100"}, "lazy": {"preset": "h100", "efficiency": 0.5}}
    fabrics = {"own": {"topology": switch}, **{name: {"topology": switch, "npu": npu} for name, npu in npus.items()}}
    workloads = {"w": {"workload": {**TRANSFORMER, "dp": 4}}}
    tables = {"fabrics": fabrics, "workloads": workloads, "npu": {"preset": "h100"}, "baseline": "own"}
    rows = {row.fabric: row for row in compare(tables).rows}
    compute = {name: row.breakdown["compute"] for name, row in rows.items()}
    # Half of the roofline is more than small kernels reach.
    assert compute["lazy"] < compute["own"] < compute["slow"]
    assert run(tables, fabric="slow").provenance["npu"]["peak"] == Npu.of("a100").peak
    assert any("other NPUs than the baseline's compute" in note for note in rows["slow"].notes)
    assert not any("other NPUs" in note for note in rows["own"].notes)


EXPANDED: dict[str, Any] = {"memory": 80e9, "memory_bandwidth": 2e12}
EXPANDED |= {"expanded_memory": 480e9, "expanded_memory_bandwidth": 5e11}


def test_the_slower_of_compute_and_memory_counts_two_memories_are_a_hybrid_and_long_training_is_slower() -> None:
    npu = Npu(peak=1e15, **EXPANDED)
    # 80 of 200 GB at 2 TB/s and 120 GB at 0.5 TB/s: 0.04 s and 0.24 s.
    holding = npu.holding(200e9)
    assert holding.memory_bandwidth == pytest.approx(200e9 / 0.28, rel=1e-15)
    assert holding.seconds(0.0, 400e9) == pytest.approx(0.56, rel=1e-15)
    assert holding.seconds(1e15, 400e9) == 1.0
    assert (npu.expanded(200e9), npu.capacity) == (120e9, 560e9)
    assert npu.holding(1e15) == npu.holding(560e9)  # what no memory has room for is not moved
    equal = Npu(memory_bandwidth=2e12, expanded_memory=1e12, expanded_memory_bandwidth=2e12)
    assert equal.holding(5e11).memory_bandwidth == pytest.approx(2e12, rel=1e-15)
    assert (Npu().memory, Npu().memory_bandwidth) == (80e9, 3e12)  # FRED's
    npu = Npu(peak=1e14, memory_bandwidth=2e12, efficiency=0.5)
    assert npu.seconds(1e14, 0.0) == pytest.approx(2.0, rel=1e-15)
    assert npu.seconds(0.0, 4e12) == pytest.approx(2.0, rel=1e-15)
    assert npu.seconds(1e14, 6e12) == pytest.approx(3.0, rel=1e-15)
    models = KernelModel(sustained=1.0), KernelModel(sustained=0.5)
    once, kept = (Npu(peak=1e15, memory_bandwidth=1e12, compute="kernels", kernels=one) for one in models)
    # 2 x 10^12 FLOP take 2 ms, at half of the clock 4; 1 GB takes 1 ms at any clock.
    product, copied = Kernels((Gemm(1e4, 1e4, 1e4),)), Kernels(moved=1e9)
    assert [npu.seconds(0, 0, product) for npu in (once, kept)] == pytest.approx([2e-3, 4e-3], rel=1e-12)
    assert [npu.seconds(0, 0, copied) for npu in (once, kept)] == pytest.approx([1e-3, 1e-3], rel=1e-12)


def test_a_footprint_in_the_local_memory_is_not_slowed() -> None:
    npu = Npu(**EXPANDED)
    assert npu.holding(0.0) is npu.holding(80e9) is npu
    assert npu.expanded(0.0) == npu.expanded(80e9) == 0.0
    assert Npu().holding(1e15) == Npu()
    assert Npu().capacity == Npu().memory


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({"expanded_memory": "480 GB"}, "expanded_memory_bandwidth"),
        ({"expanded_memory_bandwidth": "500 GB/s"}, "expanded_memory"),
        ({"expanded_memory": 0, "expanded_memory_bandwidth": "500 GB/s"}, "expanded_memory"),
        ({"expanded_memory": "480 GB", "expanded_memory_bandwidth": 0}, "expanded_memory_bandwidth"),
    ],
)
def test_half_an_expansion_is_refused(fields: dict[str, Any], key: str) -> None:
    with pytest.raises(InputError, match=f"^{key}: "):
        Npu(**fields)
