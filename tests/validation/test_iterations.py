from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from experiments import FRAMEWORK

from fredfw import Npu
from fredfw.errors import InputError
from fredfw.experiment.run.cells import Means
from fredfw.fabric import IdealTransport
from fredfw.fidelities import ESTIMATE
from fredfw.validation import sources
from fredfw.validation.iterations import IterationPoint, Iterations, few, parse, recognised
from fredfw.validation.tables import Reading
from fredfw.validation.transports import Transports

PLUGINS = FRAMEWORK.plugins


@pytest.fixture(scope="module")
def points() -> list[IterationPoint]:
    return [one for one in sources.points(whole=True) if isinstance(one, IterationPoint)]


@pytest.fixture(scope="module")
def iterations() -> Iterations:
    # Exact, the largest has 600 million transfers.
    return Iterations(Means(PLUGINS), Transports(PLUGINS), fidelity="compressed")


def test_what_comes_with_the_product(points: list[IterationPoint]) -> None:
    assert Counter(one.size_class for one in points) == {
        "megatron, table 1": 10,
        "megatron, ZeRO-3 174.6B": 3,
        "megatron, ZeRO-3 529.6B": 3,
        "megatron, PTD-P 174.6B": 3,
        "megatron, PTD-P 529.6B": 3,
        "korthikanti, full recomputation": 4,
        "korthikanti, selective recomputation": 4,
        "vtrain-iterations, several nodes": 109,
        "vtrain-iterations, one node": 1440,
        "torchtitan, compiled": 2,
        "torchtitan, eager": 2,
    }
    for one in points:
        assert one.ranks <= 8 * one.nodes, one.where
        assert one.seconds > 0, one.where
        assert one.workload["global_batch"] % (one.workload["dp"] * one.workload["micro_batch"]) == 0, one.where


def test_times_of_table_2_are_its_days(points: list[IterationPoint]) -> None:
    # Narayanan et al. 2021, table 2: 84 days for 300 billion tokens on 384 GPUs.
    one = next(one for one in points if one.group == "PTD-P 174.6B" and one.ranks == 384)
    days = one.seconds * 300e9 / (one.workload["global_batch"] * one.workload["sequence"]) / 86400
    assert days == pytest.approx(84, rel=0.01)


def test_few_are_always_the_same_and_none_takes_long(points: list[IterationPoint]) -> None:
    nodes = [one for one in points if one.source == "vtrain-iterations"]
    assert few(nodes) == few(nodes)
    assert Counter(one.group for one in few(nodes)) == {"several nodes": 9, "one node": 30}
    assert max(one.passes for one in few(points)) <= 2000
    assert not any(one.passes > 2000 for one in sources.points() if isinstance(one, IterationPoint))


def test_what_the_npus_are_fitted_to(points: list[IterationPoint]) -> None:
    """Rows in which the host sets the time, and one of four on H100."""
    fitted = [one for one in points if one.fitted]
    assert Counter((one.size_class, one.ranks > 8) for one in fitted) == {
        ("vtrain-iterations, one node", False): 288,
        ("torchtitan, compiled", False): 1,
    }
    assert {(one.workload["hidden"], one.workload["micro_batch"]) for one in fitted[:-1]} == {(1024, 1)}


def test_eager_kernels_and_more_nodes_are_predicted(points: list[IterationPoint], iterations: Iterations) -> None:
    """pytorch/torchtitan b5bcd76: 5,762, 6,514 and 5,605 tokens/s and GPU, of two samples of 8,192 each."""
    held = [one for one in points if one.source == "torchtitan" and not one.fitted]
    assert [one.seconds for one in held] == pytest.approx([16384 / rate for rate in (5762, 6514, 5605)], rel=1e-4)
    for one in held:
        assert iterations.seconds(one) == pytest.approx(one.seconds, rel=0.02), one.where


def test_what_was_measured_did_fit(points: list[IterationPoint]) -> None:
    """By an estimate, 529.6 B parameters in shares of 640 GPUs with a microbatch of 4 take 85 GB of 80."""
    roughly = Iterations(Means(PLUGINS), Transports(PLUGINS, IdealTransport.name), fidelity=ESTIMATE)
    (largest,) = [one for one in points if one.group == "ZeRO-3 529.6B" and one.ranks == 640]
    assert roughly.seconds(largest) > 0


def test_tables_are_told_apart() -> None:
    header = (
        "set,system,nodes,layers,hidden,heads,sequence,vocabulary,mp,pp,dp,interleave,global_batch,micro_batch,recompute,"
        "sequence_parallel,zero_stage,seconds\n"
    )
    assert recognised(header)
    assert not recognised("system,nodes,ranks,collective,size_B,time_us\n")
    (one,) = parse(header + "mine,dgx-a100,1,4,64,4,32,100,2,2,2,1,16,4,full,true,0,0.5\n", "us")
    assert (one.system.name, one.ranks, one.passes, one.seconds) == ("a100-node", 8, 4, 0.5)
    assert one.workload["sequence_parallel"] is True
    assert one.facts()["set"] == "mine"


@pytest.mark.parametrize(
    ("group", "ranks", "seconds", "within"),
    [
        # Measured times, and the errors that docs/validation.md states.
        ("full recomputation", 8, 1.42, 0.05),
        ("selective recomputation", 8, 1.10, 0.05),
        pytest.param("PTD-P 174.6B", 384, 76.78, 0.05, marks=pytest.mark.slow),
    ],
)
def test_published_iterations(
    points: list[IterationPoint], iterations: Iterations, group: str, ranks: int, seconds: float, within: float
) -> None:
    one = next(one for one in points if (one.group, one.ranks) == (group, ranks))
    assert one.seconds == seconds
    iterations.check(one)
    assert iterations.seconds(one) == pytest.approx(seconds, rel=within)


def test_an_iteration_is_that_of_an_experiment(points: list[IterationPoint], iterations: Iterations) -> None:
    one = next(one for one in points if one.group == "one node" and one.workload["pp"] == one.workload["mp"] == 2)
    experiment = FRAMEWORK.load_experiment(
        {
            "npu": {"preset": "a100"},
            "fabrics": {
                "node": {
                    "topology": {"name": "cluster", "preset": "dgx-a100", "nodes": 1},
                    "placement": "megatron",
                    "transport": {"name": "nccl", "family": "a100"},
                    "collectives": {"default": ["ring", "direct"]},
                }
            },
            "workloads": {"w": {"workload": {"name": "transformer", **one.workload, "pp_transfer": "scatter-gather"}}},
        }
    )
    # Attention and MLP apart: the host launches the kernels of both ahead where they are one task.
    seconds = FRAMEWORK.run(experiment).seconds
    assert 0.95 * seconds < iterations.seconds(one) <= seconds * (1 + 1e-9)


def test_a_table_of_the_users(tmp_path: Path, iterations: Iterations) -> None:
    table = tmp_path / "vtrain-iterations"
    table.write_text("system,nodes,npu,model,mp,global_batch,seconds\np5,1,,llama-3-8b,8,8,1.5\np5,1,a100,,,,1\n")
    reading = Reading(presets=("p5",))
    one, other = sources.read(str(table), reading)
    assert isinstance(one, IterationPoint)
    assert isinstance(other, IterationPoint)
    assert one.workload == {"model": "llama-3-8b", "mp": 8, "global_batch": 8}
    assert (one.ranks, one.size_class, one.fitted) == (8, "vtrain-iterations", False)
    experiment = FRAMEWORK.load_experiment(iterations.spec(one).content)
    assert experiment.npu_of(experiment.fabrics[0], "h100") == Npu.of("h100", memory=1e15)
    iterations.check(one)
    with pytest.raises(InputError, match=r"vtrain-iterations: line 3: workloads.iteration.workload.\w+: is missing"):
        iterations.check(other)
