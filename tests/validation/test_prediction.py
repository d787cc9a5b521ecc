from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from experiments import FRAMEWORK

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
from fredfw.validation.iterations import IterationPoint, Iterations
from fredfw.validation.points import CollectivePoint, System, find_system
from fredfw.validation.prediction import validate
from fredfw.validation.report import validation_report
from fredfw.validation.transports import Transports

GIB = 2.0**30
PLUGINS = FRAMEWORK.plugins


@pytest.fixture(scope="module")
def collectives() -> Collectives:
    return Collectives(PLUGINS, Transports(PLUGINS, "ideal"))


def point(pattern: str, nodes: int, ranks: int, *, system: str = "dgx-h100", size: float = GIB) -> CollectivePoint:
    return CollectivePoint(
        system=find_system(system, nodes),
        source="us",
        pattern=pattern,
        nodes=nodes,
        ranks=ranks,
        seconds=1.0,
        size=size,
        where="mine.csv: line 7",
    )


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
def test_large_buffers_take_as_long_as_their_bytes(
    collectives: Collectives, measured: CollectivePoint, seconds: float
) -> None:
    assert collectives.seconds(measured) == pytest.approx(seconds, rel=1e-3)


def test_rings_by_level_use_all_nics(collectives: Collectives) -> None:
    # What each NIC of 16 nodes carries; levels one after the other add what the NVLinks take.
    bytes_of_a_nic = 2 * 15 / 16 * 16 * GIB / 8
    seconds = collectives.seconds(point("all-reduce", 16, 128, system="dgx-a100", size=16 * GIB))
    assert 1.0 < seconds / (bytes_of_a_nic / 25e9) < 1.5


def test_a_transport_is_served_by_the_algorithms_of_its_library() -> None:
    nccl = Collectives(PLUGINS, Transports(PLUGINS, "nccl"))
    found = nccl._bench(point("all-reduce", 2, 16)).algorithms
    assert {one.name for one in found} == {"ring", "tree", "in-network", "hierarchical", "direct"}
    ideal = Collectives(PLUGINS, Transports(PLUGINS, "ideal"))
    found = ideal._bench(point("all-reduce", 2, 16)).algorithms
    assert {one.name for one in found} == {"ring", "hierarchical", "direct"}


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


def test_nodes_count_on_a_fabric_of_the_users(collectives: Collectives) -> None:
    two = {"name": "cluster", "preset": "dgx-h100", "nodes": 2}
    experiment = {"fabrics": {"mine": {"topology": two}}, "workloads": {"w": {"workload": "microbenchmark"}}}
    (fabric,) = FRAMEWORK.load_experiment(experiment).fabrics
    mine = System("mine", "", "cluster", "mine", fabric=fabric)
    inside, between = (evolve(point("all-reduce", nodes, 2), system=mine) for nodes in (1, 2))
    assert collectives.seconds(inside) == pytest.approx(GIB / 450e9, rel=1e-3)
    assert collectives.seconds(between) == pytest.approx(GIB / 50e9, rel=1e-3)


def test_presets_are_those_of_the_topology() -> None:
    assert {"dgx-a100", "mi300x", "tpu-v4"} <= set(presets(PLUGINS))
    assert presets(PluginManager()) == ()


@pytest.fixture(scope="module")
def points() -> list[IterationPoint]:
    """Two iterations of one node that take little time."""
    nodes = [one for one in sources.points() if isinstance(one, IterationPoint) and one.nodes == 1]
    return sorted(nodes, key=lambda one: one.passes)[:2]


def test_iterations_are_kept_in_a_store(
    tmp_path: Path, points: list[IterationPoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = []
    run = CellRunner.run

    def counted(self: CellRunner, spec: CellSpec, *share: Any) -> Outcome:
        ran.append(spec)
        return run(self, spec, *share)

    monkeypatch.setattr(CellRunner, "run", counted)
    plain = validate(points, Means(PLUGINS))
    assert len(ran) == 4  # by the transport and by ``ideal``
    told: list[tuple[float, int]] = []
    with Store.open(tmp_path / "iterations.cells") as store:
        first = validate(points, Means(PLUGINS, store, progress=lambda done, total, _: told.append((done, total))))
        assert len(ran) == 8
        again = validate(points, Means(PLUGINS, store))
    assert len(ran) == 8
    assert plain.to_json() == first.to_json() == again.to_json()
    # Each is simulated twice, and then compared.
    assert told == [(done, 6) for done in range(6)]


def test_estimates_are_close(points: list[IterationPoint]) -> None:
    found, simulated = validate(points, Means(PLUGINS), fidelity=ESTIMATE), validate(points, Means(PLUGINS))
    assert found.fidelity == ESTIMATE
    for one, other in zip(found.predictions, simulated.predictions, strict=True):
        # It leaves out what one communication does to another.
        assert 0.99 * other.seconds < one.seconds <= other.seconds * (1 + 1e-9)
    lines = [text_of(one.spans) for one in validation_report(found) if isinstance(one, Line)]
    assert "iterations are estimated by their longest path, not simulated" in lines


def test_a_transport_has_cells_of_its_own(points: list[IterationPoint]) -> None:
    found = validate(points[:1], Means(PLUGINS), transport={"name": "alpha-beta", "launch": "1 ms"})
    (one,) = found.predictions
    assert one.seconds > one.ideal


@pytest.mark.slow  # starts two processes
def test_other_processes_say_the_same(points: list[IterationPoint]) -> None:
    with workers(2, None, PLUGINS) as others:
        assert validate(points, Means(PLUGINS, workers=others)).to_json() == validate(points, Means(PLUGINS)).to_json()


def test_an_iteration_that_cannot_be_simulated(points: list[IterationPoint], monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: CellRunner, spec: CellSpec, *_share: Any) -> Outcome:
        return Failure(spec.workload, spec.fabric, "too large", infeasible=True)

    monkeypatch.setattr(CellRunner, "run", fails)
    failing = Iterations(Means(PLUGINS), Transports(PLUGINS, IdealTransport.name))
    with pytest.raises(SimulationError, match=r"\w+: line \d+ cannot be simulated: too large"):
        failing.seconds(points[0])
