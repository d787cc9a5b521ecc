from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from experiments import FRAMEWORK, run

from fredfw import Npu
from fredfw.errors import InputError, SimulationError
from fredfw.experiment.cell.bench import Bench
from fredfw.experiment.results import Failure
from fredfw.experiment.run.cells import CellRunner, CellSpec, Means, Outcome, workers
from fredfw.experiment.store import Store
from fredfw.fabric import IdealTransport
from fredfw.fidelities import ESTIMATE
from fredfw.plugin.manager import PluginManager
from fredfw.report.shown import Line, text_of
from fredfw.validation import sources
from fredfw.validation.collectives import Collectives, presets
from fredfw.validation.iterations import IterationPoint, Iterations, few, parse, recognised
from fredfw.validation.points import CollectivePoint, System, find_system
from fredfw.validation.prediction import validate
from fredfw.validation.report import validation_report
from fredfw.validation.tables import Reading
from fredfw.validation.transports import Transports

GIB = 2.0**30
PLUGINS = FRAMEWORK.plugins


@pytest.fixture(scope="module")
def collectives() -> Collectives:
    return Collectives(PLUGINS, Transports(PLUGINS, "ideal"))


def point(pattern: str, nodes: int, ranks: int, *, system: str = "dgx-h100", size: float = GIB) -> CollectivePoint:
    facts: dict[str, Any] = {"system": find_system(system, nodes), "pattern": pattern, "nodes": nodes, "ranks": ranks}
    return CollectivePoint(**facts, source="us", seconds=1.0, size=size, where="mine.csv: line 7")


@pytest.mark.parametrize(
    ("measured", "seconds"),
    [
        # The bytes that each NPU sends and receives at the rate of its NVLinks; latencies are below 0.1 %.
        (point("all-reduce", 1, 8), 2 * 7 / 8 * GIB / 450e9),
        (point("all-reduce", 1, 8, system="dgx-a100"), 2 * 7 / 8 * GIB / 300e9),
        (point("all-gather", 1, 4), 3 / 4 * GIB / 450e9),
        (point("reduce-scatter", 1, 2), 1 / 2 * GIB / 450e9),
        (point("all-to-all", 1, 8), 7 / 8 * GIB / 450e9),
        (point("sendrecv", 1, 4), GIB / 450e9),
        # One NPU in each node has one NIC of 400 Gb/s.
        (point("all-reduce", 10, 10), 2 * 9 / 10 * GIB / 50e9),
        (point("all-to-all", 10, 10), 9 / 10 * GIB / 50e9),
        # Between nodes, which is slower than inside of them.
        (point("sendrecv", 10, 80), GIB / 50e9),
    ],
)
def test_large_buffers_take_their_bytes(collectives: Collectives, measured: CollectivePoint, seconds: float) -> None:
    assert collectives.seconds(measured) == pytest.approx(seconds, rel=1e-3)


def test_rings_by_level_use_all_nics_and_nodes_count(collectives: Collectives) -> None:
    # What each NIC of 16 nodes carries; levels one after the other add what the NVLinks take.
    bytes_of_a_nic = 2 * 15 / 16 * 16 * GIB / 8
    seconds = collectives.seconds(point("all-reduce", 16, 128, system="dgx-a100", size=16 * GIB))
    assert 1.0 < seconds / (bytes_of_a_nic / 25e9) < 1.5
    two = {"name": "cluster", "preset": "dgx-h100", "nodes": 2}
    experiment = {"fabrics": {"mine": {"topology": two}}, "workloads": {"w": {"workload": "microbenchmark"}}}
    (fabric,) = FRAMEWORK.load_experiment(experiment).fabrics
    mine = System("mine", "", "cluster", "mine", fabric=fabric)
    inside, between = (evolve(point("all-reduce", nodes, 2), system=mine) for nodes in (1, 2))
    assert collectives.seconds(inside) == pytest.approx(GIB / 450e9, rel=1e-3)
    assert collectives.seconds(between) == pytest.approx(GIB / 50e9, rel=1e-3)


def test_a_transport_is_served_by_the_algorithms_of_its_library_on_presets_of_the_topology() -> None:
    always = {"ring", "hierarchical", "direct"}
    for transport, names in (("nccl", always | {"tree", "in-network"}), ("ideal", always)):
        bench = Collectives(PLUGINS, Transports(PLUGINS, transport))._bench(point("all-reduce", 2, 16))
        assert {one.name for one in bench.algorithms} == names
    assert {"dgx-a100", "mi300x", "tpu-v4"} <= set(presets(PLUGINS))
    assert presets(PluginManager()) == ()


def test_each_different_collective_is_simulated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    collectives = Collectives(PLUGINS, Transports(PLUGINS, "ideal"))
    one = point("all-reduce", 1, 8)
    expected = collectives.seconds(one)
    monkeypatch.setattr(Bench, "collective", None)
    assert collectives.seconds(evolve(one, seconds=2.0, source="others")) == expected


def test_what_cannot_be_predicted_is_refused(monkeypatch: pytest.MonkeyPatch, collectives: Collectives) -> None:
    monkeypatch.setattr(Collectives, "seconds", None)
    with pytest.raises(InputError, match=r"mine.csv: line 7: 16 ranks on 1 node of dgx-h100 .*at most 8 on each"):
        validate([point("all-reduce", 1, 8), point("all-reduce", 1, 16)], Means(PLUGINS))
    with pytest.raises(InputError, match="there are no measured times"):
        validate([], Means(PLUGINS))
    wrong = evolve(point("all-reduce", 1, 8), system=System("x", "x", "node", "x"))
    with pytest.raises(InputError, match=r"mine.csv: line 7: .*'x' is not known"):
        collectives.check(wrong)


@pytest.fixture(scope="module")
def two() -> list[IterationPoint]:
    """Two iterations of one node that take little time."""
    nodes = [one for one in sources.points() if isinstance(one, IterationPoint) and one.nodes == 1]
    return sorted(nodes, key=lambda one: one.passes)[:2]


def test_iterations_are_stored(tmp_path: Path, two: list[IterationPoint], monkeypatch: pytest.MonkeyPatch) -> None:
    ran, run_cell = [], CellRunner.run

    def counted(self: CellRunner, spec: CellSpec, *share: Any) -> Outcome:
        ran.append(spec)
        return run_cell(self, spec, *share)

    monkeypatch.setattr(CellRunner, "run", counted)
    plain = validate(two, Means(PLUGINS))
    assert len(ran) == 4  # by the transport and by ``ideal``
    told: list[tuple[float, int]] = []
    with Store.open(tmp_path / "iterations.cells") as store:
        first = validate(two, Means(PLUGINS, store, progress=lambda done, total, _: told.append((done, total))))
        assert len(ran) == 8
        again = validate(two, Means(PLUGINS, store))
    assert len(ran) == 8
    assert plain.to_json() == first.to_json() == again.to_json()
    # Each is simulated twice, and then compared.
    assert told == [(done, 6) for done in range(6)]


def test_estimates_are_close_and_a_transport_has_cells_of_its_own(two: list[IterationPoint]) -> None:
    found, simulated = validate(two, Means(PLUGINS), fidelity=ESTIMATE), validate(two, Means(PLUGINS))
    assert found.fidelity == ESTIMATE
    for one, other in zip(found.predictions, simulated.predictions, strict=True):
        # It leaves out what one communication does to another.
        assert 0.99 * other.seconds < one.seconds <= other.seconds * (1 + 1e-9)
    lines = [text_of(one.spans) for one in validation_report(found) if isinstance(one, Line)]
    assert "iterations are estimated by their longest path, not simulated" in lines
    found = validate(two[:1], Means(PLUGINS), transport={"name": "alpha-beta", "launch": "1 ms"})
    (one,) = found.predictions
    assert one.seconds > one.ideal


@pytest.mark.slow  # starts two processes
def test_other_processes_say_the_same(two: list[IterationPoint]) -> None:
    with workers(2, None, PLUGINS) as others:
        assert validate(two, Means(PLUGINS, workers=others)).to_json() == validate(two, Means(PLUGINS)).to_json()


def test_an_iteration_that_cannot_be_simulated(two: list[IterationPoint], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CellRunner, "run", lambda *_: Failure("iteration", "node", "too large", infeasible=True))
    failing = Iterations(Means(PLUGINS), Transports(PLUGINS, IdealTransport.name))
    with pytest.raises(SimulationError, match=r"\w+: line \d+ cannot be simulated: too large"):
        failing.seconds(two[0])


# --- Iterations of training.


@pytest.fixture(scope="module")
def points() -> list[IterationPoint]:
    return [one for one in sources.points(whole=True) if isinstance(one, IterationPoint)]


@pytest.fixture(scope="module")
def iterations() -> Iterations:
    # Exact, the largest has 600 million transfers.
    return Iterations(Means(PLUGINS), Transports(PLUGINS), fidelity="compressed")


def test_what_comes_with_the_product_and_what_npus_are_fitted_to(points: list[IterationPoint]) -> None:
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
    # Narayanan et al. 2021, table 2: 84 days for 300 billion tokens on 384 GPUs.
    one = next(one for one in points if one.group == "PTD-P 174.6B" and one.ranks == 384)
    days = one.seconds * 300e9 / (one.workload["global_batch"] * one.workload["sequence"]) / 86400
    assert days == pytest.approx(84, rel=0.01)
    # Rows in which the host sets the time, and one of four on H100.
    fitted = [one for one in points if one.fitted]
    assert Counter((one.size_class, one.ranks > 8) for one in fitted) == {
        ("vtrain-iterations, one node", False): 288,
        ("torchtitan, compiled", False): 1,
    }
    assert {(one.workload["hidden"], one.workload["micro_batch"]) for one in fitted[:-1]} == {(1024, 1)}


def test_few_are_always_the_same_and_what_was_measured_did_fit(points: list[IterationPoint]) -> None:
    nodes = [one for one in points if one.source == "vtrain-iterations"]
    assert few(nodes) == few(nodes)
    assert Counter(one.group for one in few(nodes)) == {"several nodes": 9, "one node": 30}
    assert max(one.passes for one in few(points)) <= 2000
    assert not any(one.passes > 2000 for one in sources.points() if isinstance(one, IterationPoint))
    # By an estimate, 529.6 B parameters in shares of 640 GPUs with a microbatch of 4 take 85 GB of 80.
    roughly = Iterations(Means(PLUGINS), Transports(PLUGINS, IdealTransport.name), fidelity=ESTIMATE)
    (largest,) = [one for one in points if one.group == "ZeRO-3 529.6B" and one.ranks == 640]
    assert roughly.seconds(largest) > 0


def test_eager_kernels_and_more_nodes_are_predicted(points: list[IterationPoint], iterations: Iterations) -> None:
    """pytorch/torchtitan b5bcd76: 5,762, 6,514 and 5,605 tokens/s and GPU, of two samples of 8,192 each."""
    held = [one for one in points if one.source == "torchtitan" and not one.fitted]
    assert [one.seconds for one in held] == pytest.approx([16384 / rate for rate in (5762, 6514, 5605)], rel=1e-4)
    for one in held:
        assert iterations.seconds(one) == pytest.approx(one.seconds, rel=0.02), one.where


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
    ("group", "ranks", "seconds"),
    [
        # Measured times, within 5 % as docs/validation.md states.
        ("full recomputation", 8, 1.42),
        ("selective recomputation", 8, 1.10),
        pytest.param("PTD-P 174.6B", 384, 76.78, marks=pytest.mark.slow),
    ],
)
def test_published_iterations(
    points: list[IterationPoint], iterations: Iterations, group: str, ranks: int, seconds: float
) -> None:
    one = next(one for one in points if (one.group, one.ranks) == (group, ranks))
    assert one.seconds == seconds
    assert iterations.seconds(one) == pytest.approx(seconds, rel=0.05)


def test_an_iteration_is_that_of_an_experiment(points: list[IterationPoint], iterations: Iterations) -> None:
    one = next(one for one in points if one.group == "one node" and one.workload["pp"] == one.workload["mp"] == 2)
    node = {
        "topology": {"name": "cluster", "preset": "dgx-a100", "nodes": 1},
        "placement": "megatron",
        "transport": {"name": "nccl", "family": "a100"},
        "collectives": {"default": ["ring", "direct"]},
    }
    workload = {"name": "transformer", **one.workload, "pp_transfer": "scatter-gather"}
    # Attention and MLP apart: the host launches the kernels of both ahead where they are one task.
    tables = {"npu": {"preset": "a100"}, "fabrics": {"n": node}, "workloads": {"w": {"workload": workload}}}
    seconds = run(tables).seconds
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
