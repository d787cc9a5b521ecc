"""Files, the workflow and the command."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from experiments import refused

from fredfw import Framework, Npu, System
from fredfw.cli import main
from fredfw.errors import InputError
from fredfw_command_comet.problem import Problem
from fredfw_command_comet.workflow import Case, Findings, explore

SMALL = """
title = "small"
assumed = ["all of it"]
[workload]
name = "transformer"
layers = 8
hidden = 1024
heads = 16
sequence = 512
vocabulary = 32000
global_batch = 16
microbatches = 1
zero_stage = 2
overlap_dp = true
recompute = "full"
sequence_parallel = true
[sweep]
mp = [1, 2, 4, 16]
[expansion]
memory = "150 MB"
bandwidth = ["200 GB/s", "50 GB/s"]
[cluster.topology]
name = "multi-dimensional"
dimensions = ["switch 4", "switch 4"]
bandwidths = ["100 GB/s", "10 GB/s"]
latencies = "500 ns"
[cluster]
npu = { peak = "100 TFLOP/s", memory = "300 MB", memory_bandwidth = "1 TB/s" }
collectives = { default = "hierarchical" }
[clusters."twice the network"]
topology.bandwidths = ["200 GB/s", "20 GB/s"]
[published]
clusters = 2.0
source = "nobody"
"""


def written(tmp_path: Path, text: str = SMALL) -> str:
    file = tmp_path / "x.toml"
    file.write_text(text, encoding="utf-8")
    return str(file)


def found(tmp_path: Path, text: str = SMALL) -> Findings:
    return explore(Problem(written(tmp_path, text)), Framework())


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    return found(tmp_path_factory.mktemp("comet"))


def case(findings: Findings, name: str, cluster: str = "cluster") -> Case:
    (one,) = (one for one in findings.cases if (one.name, one.cluster) == (name, cluster))
    return one


def test_memory_follows_from_the_zero_stage(small: Findings) -> None:
    # Stage 2: weights 2 P / MP; gradients 2 P and Adam's state 12 P, over all 16 NPUs (Rajbhandari et al. 2020). The
    # gradients of the largest layer, which are those of the embeddings of words and positions, are whole at first.
    weights = case(small, "MP1-DP16").memory["weights"]
    for mp in (1, 2, 4, 16):
        memory = case(small, f"MP{mp}-DP{16 // mp}").memory
        assert memory["weights"] == pytest.approx(weights / mp)
        layer = 2 * (32000 + 512) * 1024 / mp if mp < 16 else 0
        assert memory["gradients"] == pytest.approx(weights / 16 + layer, rel=1e-3)
        assert memory["optimizer"] == pytest.approx(6 * weights / 16)


def test_what_fits_is_told_apart_and_expanded_memory_moves_at_the_hybrid_bandwidth(small: Findings) -> None:
    fits = {one.name: one.fits for one in small.cases if one.cluster == "cluster"}
    assert fits == {"MP1-DP16": "no", "MP2-DP8": "expanded", "MP4-DP4": "local", "MP16-DP1": "local"}
    assert not case(small, "MP1-DP16").expanded
    assert case(small, "MP2-DP8").local is None
    local = case(small, "MP4-DP4")
    assert local.expanded == {50e9: local.local, 200e9: local.local}
    one = case(small, "MP2-DP8")
    for bandwidth, time in one.expanded.items():
        outside = one.total - 300e6
        assert time.memory_bandwidth == pytest.approx(one.total / (300e6 / 1e12 + outside / bandwidth))
        assert sum(time.breakdown.values()) == pytest.approx(time.seconds)
    assert one.expanded[50e9].seconds > one.expanded[200e9].seconds


def test_cells_are_those_of_an_experiment(small: Findings, tmp_path: Path) -> None:
    framework, problem = Framework(), Problem(written(tmp_path))
    experiment = framework.load_experiment(problem.tables([200e9]))
    assert experiment.fabrics[0].npu == Npu(
        peak=1e14, memory=3e8, memory_bandwidth=1e12, expanded_memory=1.5e8, expanded_memory_bandwidth=2e11
    )
    result = framework.run(experiment, workload="2", fabric="cluster + 200 GB/s")
    assert result.seconds == case(small, "MP2-DP8").expanded[200e9].seconds


def test_the_best_splits_and_ratios_follow_from_the_cells(small: Findings) -> None:
    base, wide = small.best
    times = [one.local.seconds for one in small.cases if one.cluster == "cluster" and one.local is not None]
    assert base.local is not None
    assert base.local.local is not None
    assert base.local.local.seconds == min(times)
    assert small.splits == max(times) / min(times)
    fastest = min(one.expanded[200e9].seconds for one in small.cases if one.cluster == "cluster" and one.expanded)
    assert base.gain(200e9) == min(times) / fastest
    assert base.gain(1.0) is None
    assert wide.cluster == "twice the network"
    assert small.gain is not None
    assert small.gain[0] == max(one.gain(b) or 0 for one in small.best for b in (50e9, 200e9))
    assert small.clusters is not None
    assert small.clusters > 1


def test_a_cluster_may_have_no_split_and_a_split_that_divides_nothing_is_named(tmp_path: Path) -> None:
    small = found(tmp_path, SMALL.replace("[1, 2, 4, 16]", "[2]"))
    (base, _) = small.best
    assert [base.local, base.gain(200e9), small.splits, small.gain] == [None] * 4
    assert small.clusters is not None
    small = found(tmp_path, SMALL.replace("[1, 2, 4, 16]", "[3, 4]"))
    broken = small.cases[0]
    assert "divide" in broken.reason
    assert (broken.memory, broken.expanded, broken.name) == ({}, {}, "MP3")
    assert case(small, "MP4-DP4").local is not None


def test_the_command_prints_all_of_it_and_writes_it(tmp_path: Path) -> None:
    out = tmp_path / "x.json"
    arguments = ["comet", written(tmp_path), "--store", str(tmp_path / "x.cells"), "--json", str(out)]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    for text in ("memory per NPU", "MP2-DP8", "expanded", "moves at", "gain", "Beside nobody", "assumed: all of it"):
        assert text in result.output
    document = json.loads(out.read_text("utf-8"))
    assert (document["format"], document["version"]) == ("fredfw-comet", 1)
    assert [one["fits"] for one in document["cases"][:2]] == ["no", "expanded"]
    assert document["ratios"]["splits"] > 1
    assert document["best"][0]["local"] == "MP4-DP4"


@pytest.mark.parametrize(
    ("old", "new", "key", "text"),
    [
        ('"150 MB"', "0", "expansion.memory", "too small"),
        ('bandwidth = ["200 GB/s", "50 GB/s"]', "", "expansion.bandwidth", "is missing"),
        ('"200 GB/s", "50 GB/s"', "0", "expansion.bandwidth", "too small"),
        ('"200 GB/s", "50 GB/s"', '"5 GB"', "expansion.bandwidth", "5 GB"),
        ('name = "transformer"', 'name = "transformer"\nmodel = "gpt-4"', "workload.model", "gpt-4"),
        ('name = "transformer"', 'name = "transfomer"', "workload", "did you mean 'transformer'"),
        ("peak =", "peek =", "cluster.npu.peek", "did you mean 'peak'"),
        ("npu = {", "npu = { expanded_memory = 1,", "cluster.npu.expanded_memory", "another place"),
        ('[clusters."twice the network"]', "[clusters.cluster]", "clusters.cluster", "name of the first"),
        (
            '"twice the network"]\ntopology.bandwidths',
            '"x"]\ntopology.bandwidth',
            "clusters.x.topology.bandwidth",
            "did you mean",
        ),
        ("clusters = 2.0", "clusters = 0", "published.clusters", "not a ratio"),
        ("[published]", "[publisht]", "publisht", "did you mean 'published'"),
        ('assumed = ["all of it"]', "assumed = 1", "assumed", "list of texts"),
        ('title = "small"', "title = 1", "title", "not text"),
        ('"300 MB"', '"300 kB"', "expansion.memory", "no split fits, even with 150 MB of expanded memory"),
        ("[1, 2, 4, 16]", "[3]", "sweep", "no split can be used"),
    ],
)
def test_bad_input_names_file_key_and_value(tmp_path: Path, old: str, new: str, key: str, text: str) -> None:
    assert old in SMALL
    with pytest.raises(InputError) as caught:
        found(tmp_path, SMALL.replace(old, new, 1))
    assert caught.value.file == str(tmp_path / "x.toml")
    assert text in str(caught.value)
    assert (caught.value.key or "").startswith(key)


@pytest.mark.parametrize(("table", "key"), [("[workload]", "workload"), ("[sweep]", "sweep"), ("[cluster]", "cluster")])
def test_a_missing_table_is_named(tmp_path: Path, table: str, key: str) -> None:
    text = SMALL.replace(table[:-1], f"[clusters.other_{key}")
    with refused(key, "is missing", file=str(tmp_path / "x.toml")):
        found(tmp_path, text)


def test_the_case_of_1024_npus_fits_as_its_page_says() -> None:
    path = Path(__file__).parents[4] / "experiments" / "comet.toml"
    problem = Problem(str(path))
    experiment = Framework().load_experiment(problem.tables([None]), fabrics=["cluster"])
    column = experiment.fabric("cluster")
    total = {
        one.workload.mesh(System(1024)).size("mp"): one.workload.memory(System(1024)).total
        for one in experiment.workloads
    }
    # 2 P / MP + 14 P / N bytes, P of about 1.008e12, and the inputs of 128 layers for one sample: 13.4 GB.
    for mp, needs in total.items():
        assert needs == pytest.approx(1.008e12 * (2 / mp + 14 / 1024) + 128 * 2048 * 25600 * 2, rel=0.03)
    capacity = experiment.npu_of(column).memory
    assert [mp for mp, needs in total.items() if needs <= capacity] == [64, 128, 256, 512, 1024]
    assert [mp for mp, needs in total.items() if capacity < needs <= capacity + problem.memory] == [4, 8, 16, 32]
