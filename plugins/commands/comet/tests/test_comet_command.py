"""Files, the workflow and the command."""

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import fails, succeeds

from fredfw import Framework, Npu, System
from fredfw_command_comet.problem import Problem

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


def found(tmp_path: Path, text: str = SMALL) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(succeeds("comet", written(tmp_path, text), "--json", "-"))
    return document


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return found(tmp_path_factory.mktemp("comet"))


def cases(document: dict[str, Any]) -> dict[str, Any]:
    """Return the splits on the first cluster by their names."""
    return {one["name"]: one for one in document["cases"] if one["cluster"] == "cluster"}


def test_memory_follows_from_the_zero_stage(small: dict[str, Any]) -> None:
    # Stage 2: weights 2 P / MP; gradients 2 P and Adam's state 12 P, over all 16 NPUs (Rajbhandari et al. 2020). The
    # gradients of the largest layer, which are those of the embeddings of words and positions, are whole at first.
    own = cases(small)
    weights = own["MP1-DP16"]["memory"]["weights"]
    for mp in (1, 2, 4, 16):
        memory = own[f"MP{mp}-DP{16 // mp}"]["memory"]
        assert memory["weights"] == pytest.approx(weights / mp)
        layer = 2 * (32000 + 512) * 1024 / mp if mp < 16 else 0
        assert memory["gradients"] == pytest.approx(weights / 16 + layer, rel=1e-3)
        assert memory["optimizer"] == pytest.approx(6 * weights / 16)


def test_what_fits_is_told_apart_and_expanded_memory_moves_at_the_hybrid_bandwidth(small: dict[str, Any]) -> None:
    own = cases(small)
    fits = {name: one["fits"] for name, one in own.items()}
    assert fits == {"MP1-DP16": "no", "MP2-DP8": "expanded", "MP4-DP4": "local", "MP16-DP1": "local"}
    assert own["MP1-DP16"]["expanded"] == []
    local, one = own["MP4-DP4"], own["MP2-DP8"]
    assert local["expanded"] == [{"bandwidth": bandwidth, **local["local"]} for bandwidth in (50e9, 200e9)]
    assert one["local"] is None
    slow, fast = one["expanded"]
    for time in slow, fast:
        outside = one["total"] - 300e6
        assert time["memory_bandwidth"] == pytest.approx(one["total"] / (300e6 / 1e12 + outside / time["bandwidth"]))
        assert sum(time["breakdown"].values()) == pytest.approx(time["seconds"])
    assert slow["seconds"] > fast["seconds"]


def test_cells_are_those_of_an_experiment(small: dict[str, Any], tmp_path: Path) -> None:
    framework, problem = Framework(), Problem(written(tmp_path))
    experiment = framework.load_experiment(problem.tables([200e9]))
    assert experiment.fabrics[0].npu == Npu(
        peak=1e14, memory=3e8, memory_bandwidth=1e12, expanded_memory=1.5e8, expanded_memory_bandwidth=2e11
    )
    result = framework.run(experiment, workload="2", fabric="cluster + 200 GB/s")
    assert result.seconds == cases(small)["MP2-DP8"]["expanded"][1]["seconds"]


def test_the_best_splits_and_ratios_follow_from_the_cells(small: dict[str, Any]) -> None:
    own, (base, wide) = cases(small), small["best"]
    times = [one["local"]["seconds"] for one in own.values() if one["local"]]
    fastest = min(one["expanded"][1]["seconds"] for one in own.values() if one["expanded"])
    assert (base["cluster"], wide["cluster"]) == ("cluster", "twice the network")
    assert own[base["local"]]["local"]["seconds"] == min(times)
    assert base["expanded"][1]["gain"] == min(times) / fastest
    ratios = small["ratios"]
    assert ratios["splits"] == max(times) / min(times)
    assert ratios["expansion"] == max(one["gain"] for best in small["best"] for one in best["expanded"])
    assert ratios["clusters"] > 1


def test_a_cluster_may_have_no_split_and_a_split_that_divides_nothing_is_named(tmp_path: Path) -> None:
    document = found(tmp_path, SMALL.replace("[1, 2, 4, 16]", "[2]"))
    base, ratios = document["best"][0], document["ratios"]
    assert [base["local"], base["expanded"][1]["gain"], ratios["splits"], ratios["expansion"]] == [None] * 4
    assert ratios["clusters"] is not None
    broken, whole = found(tmp_path, SMALL.replace("[1, 2, 4, 16]", "[3, 4]"))["cases"][:2]
    assert "divide" in broken["reason"]
    assert (broken["memory"], broken["expanded"], broken["name"]) == ({}, [], "MP3")
    assert whole["local"] is not None


def test_the_command_prints_all_of_it(tmp_path: Path, small: dict[str, Any]) -> None:
    printed = succeeds("comet", written(tmp_path), "--store", str(tmp_path / "x.cells"))
    for text in ("memory per NPU", "MP2-DP8", "expanded", "moves at", "gain", "Beside nobody", "assumed: all of it"):
        assert text in printed
    assert (small["format"], small["version"]) == ("fredfw-comet", 1)


@pytest.mark.parametrize(
    ("old", "new", "key", "text"),
    [
        ('"150 MB"', "0", "expansion.memory", "too small"),
        ('bandwidth = ["200 GB/s", "50 GB/s"]', "", "expansion.bandwidth", "is missing"),
        ('"200 GB/s", "50 GB/s"', "0", "expansion.bandwidth", "too small"),
        ('name = "transformer"', 'name = "transformer"\nmodel = "gpt-4"', "workload.model", "gpt-4"),
        ('name = "transformer"', 'name = "transfomer"', "workload", "did you mean 'transformer'"),
        ("peak =", "peek =", "cluster.npu.peek", "did you mean 'peak'"),
        ("npu = {", "npu = { expanded_memory = 1,", "cluster.npu.expanded_memory", "another place"),
        ('[clusters."twice the network"]', "[clusters.cluster]", "clusters.cluster", "name of the first"),
        ("topology.bandwidths", "topology.bandwidth", "clusters.twice the network.topology.bandwidth", "did you mean"),
        ("clusters = 2.0", "clusters = 0", "published.clusters", "not a ratio"),
        ("[published]", "[publisht]", "publisht", "did you mean 'published'"),
        ('assumed = ["all of it"]', "assumed = 1", "assumed", "list of texts"),
        ('title = "small"', "title = 1", "title", "not text"),
        ('"300 MB"', '"300 kB"', "expansion.memory", "no split fits, even with 150 MB of expanded memory"),
        ("[1, 2, 4, 16]", "[3]", "sweep", "no split can be used"),
        ("[sweep]", "[clusters.other]", "sweep", "is missing"),
    ],
)
def test_bad_input_names_file_key_and_value(tmp_path: Path, old: str, new: str, key: str, text: str) -> None:
    assert old in SMALL
    path = written(tmp_path, SMALL.replace(old, new, 1))
    message = fails("comet", path)
    assert message.startswith(f"fredfw: error: {path}: {key}")
    assert text in message


def test_the_case_of_1024_npus_fits_as_its_page_says() -> None:
    problem = Problem(str(Path(__file__).parents[4] / "experiments" / "comet.toml"))
    experiment = Framework().load_experiment(problem.tables([None]), fabrics=["cluster"])
    column, system = experiment.fabric("cluster"), System(1024)
    workloads = [one.workload for one in experiment.workloads]
    total = {one.mesh(system).size("mp"): one.memory(system).total for one in workloads}
    # 2 P / MP + 14 P / N bytes, P of about 1.008e12, and the inputs of 128 layers for one sample: 13.4 GB.
    for mp, needs in total.items():
        assert needs == pytest.approx(1.008e12 * (2 / mp + 14 / 1024) + 128 * 2048 * 25600 * 2, rel=0.03)
    capacity = experiment.npu_of(column).memory
    assert [mp for mp, needs in total.items() if needs <= capacity] == [64, 128, 256, 512, 1024]
    assert [mp for mp, needs in total.items() if capacity < needs <= capacity + problem.memory] == [4, 8, 16, 32]
