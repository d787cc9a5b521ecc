import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from attrs import evolve, frozen
from experiments import PEAK, SMALL, compare, hooked, refused
from small import joined, never

import fredfw
from fredfw import Admission, Fabric, FlowSet, Label, RunResult, System, TaskGraph, Topology, Work, Workload
from fredfw.errors import DeadlockError, InputError, PluginError, SimulationError, UnsupportedError
from fredfw.experiment.cell.runner import Runner, merged
from fredfw.experiment.results import Row, Spread
from fredfw.fabric import Decision

SIZE = 1e9


@frozen
class Rivals(Workload):
    """All-reduces of 1 GB between two ranks at the same time, with labels; says of itself what it is given."""

    name: ClassVar[str] = "rivals"
    named: tuple[str, ...] = ("mp", "dp")
    trains: Any = None
    remarks: Any = ()
    gaps: Any = ()

    def labels(self, system: System) -> dict[str, Label]:
        return {"mp": Label(0, "#D55E00"), "pp": Label(1), "dp": Label(2)}

    def mesh(self, system: System) -> fredfw.DeviceMesh:
        return fredfw.DeviceMesh({"dp": 2})

    def graph(self, system: System) -> TaskGraph:
        builder = fredfw.GraphBuilder(2)
        for label in self.named:
            builder.collective(label, fredfw.Pattern.ALL_REDUCE, [[0, 1]], SIZE, label=label)
        return builder.build()

    def work(self, system: System) -> Work | None:
        return Work(self.trains, model_flops=1e6) if isinstance(self.trains, int) else self.trains

    def notes(self, system: System) -> tuple[str, ...]:
        return self.remarks  # type: ignore[no-any-return]  # and that is what is tried

    def omissions(self, system: System) -> tuple[str, ...]:
        return self.gaps  # type: ignore[no-any-return]  # and that is what is tried


class Turns(Admission):
    def __init__(self) -> None:
        self.turns = 0

    def admit(self, flows: FlowSet, active: Sequence[FlowSet]) -> Decision:
        if len(flows.volumes) > 1:
            return fredfw.Split(tuple(np.arange(len(flows.volumes))[:, None]))
        self.turns += 1
        return fredfw.Start()

    def figures(self) -> Mapping[str, float]:
        return {"turns taken": self.turns}

    def notes(self) -> tuple[str, ...]:
        return ("flows took turns",)


@frozen
class Gated(Topology):
    """Two NPUs, a link of 1 GB/s in each direction, and an admission; finds out late that it cannot have more."""

    name: ClassVar[str] = "gated"
    closed: bool = False
    npus: int = 2

    def build(self) -> Fabric:
        if self.npus > 2:
            raise InputError(f"{self.npus} NPUs", key="npus", accepted="2")
        return joined([(0, 1), (1, 0)], 1e9, admission=never if self.closed else Turns)


FRAMEWORK = hooked(fredfw_workloads=lambda: [Rivals], fredfw_topologies=lambda: [Gated])


def mesh(**fields: Any) -> dict[str, Any]:
    return {"topology": {"name": "mesh2d", "rows": 2, "columns": 2, **fields}, "collectives": {"default": "ring"}}


def content(fabric: dict[str, Any], workload: Any, **changes: Any) -> dict[str, Any]:
    return {"fabrics": {"f": fabric}, "workloads": {"w": {"workload": workload}}, **changes}


def run(fabric: dict[str, Any], workload: Any, fidelity: str | None = None, **changes: Any) -> RunResult:
    return FRAMEWORK.run(FRAMEWORK.load_experiment(content(fabric, workload, **changes)), fidelity=fidelity)


def ends(result: RunResult) -> dict[str, float]:
    timeline = result.timeline
    return {timeline.graph.names[task]: float(end) for task, end in zip(timeline.task, timeline.end, strict=True)}


def test_results_hold_what_the_workload_and_the_fabric_say_bytes_and_energy() -> None:
    told = {"name": "rivals", "trains": 6, "remarks": ["one", "two"], "gaps": ["the gathers take no time here"]}
    result = run(mesh(), told, npu={"peak": "1 PFLOP/s"})
    assert result.work == Work(6, model_flops=1e6)
    assert result.throughput.samples_per_second == pytest.approx(6 / result.seconds, rel=1e-12)
    assert result.throughput.mfu == pytest.approx(1e6 / (2 * result.seconds * 1e15), rel=1e-12)
    assert result.throughput.npu_time == 2 * result.seconds
    assert result.notes == ("one", "two", "the gathers take no time here")
    assert result.omissions == ("the gathers take no time here",)
    fabric = evolve(FRAMEWORK.topology("mesh2d", rows=1, columns=2).build(), notes=("the file has no latencies",))
    assert FRAMEWORK.simulate_collective(fabric, "all-reduce", size=1.0, algorithm="ring").notes == fabric.notes
    result = run(mesh(), "microbenchmark")
    # Each of n links carries 2 (n - 1) / n of the size, at 0.063 pJ/bit.
    assert result.bytes_by_cause == pytest.approx({"collective": 6 * SIZE})
    assert result.link_bytes.sum() == pytest.approx(6 * SIZE)
    assert result.energy == pytest.approx(6 * SIZE * 8 * 0.063e-12, rel=1e-12)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"trains": "much"}, r"Rivals.work\(\) of 'rivals' returned 'much'; expected a fredfw.Work or None"),
        ({"remarks": "a note"}, r"Rivals.notes\(\) of 'rivals' returned 'a note'; expected a tuple of texts"),
        ({"gaps": [1]}, r"Rivals.omissions\(\) of 'rivals' returned \[1\]; expected a tuple of texts"),
    ],
)
def test_wrong_answers_about_work_name_the_workload(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(PluginError, match=message):
        run(mesh(), {"name": "rivals", **fields})


@pytest.mark.parametrize("fidelity", ["compressed", "exact"])
def test_a_ring_takes_its_alpha_beta_time(fidelity: str) -> None:
    result = run(mesh(), {"name": "microbenchmark", "count": 3}, fidelity)
    # The snake 0-1-3-2 is a ring of single links: 2 (n - 1) steps of 20 ns and size / n at 750 GB/s.
    assert result.seconds == pytest.approx(3 * 6 * (20e-9 + SIZE / 4 / 750e9), rel=1e-9)
    assert result.placement.tolist() == [0, 1, 3, 2]
    assert result.breakdown == pytest.approx({"compute": 0.0, "bubble": 0.0, "collective": result.seconds})
    assert result.algorithms == {"collective all-reduce x4": "ring"}
    assert (result.workload, result.fabric_name, result.fabric.name) == ("w", "f", "f")
    assert result.provenance["fidelity"] == fidelity
    assert result.notes == ()


SLOW = mesh(rows=1, link_bandwidth="1 GB/s", link_latency=0, io_controllers=False)


@pytest.mark.parametrize(
    ("sharing", "priorities", "expected"),
    [
        # Alone each takes 1 GB / (1 GB/s) between two ranks: half of it, twice.
        ("strict-links", ["mp", "dp"], {"mp": 1.0, "dp": 2.0}),
        ("strict-links", ["dp"], {"mp": 2.0, "dp": 1.0}),
        ("strict-links", [], {"mp": 2.0, "dp": 2.0}),
        ("max-min", ["mp", "dp"], {"mp": 2.0, "dp": 2.0}),
        # As the workload declares.
        ("strict-links", None, {"other": 4.0, "dp": 3.0, "pp": 2.0, "mp": 1.0}),
    ],
)
def test_classes_reach_the_network(sharing: str, priorities: list[str] | None, expected: dict[str, float]) -> None:
    given: dict[str, Any] = {} if priorities is None else {"priorities": priorities}
    result = run({**SLOW, "sharing": sharing}, {"name": "rivals", "named": list(expected)}, **given)
    assert ends(result) == pytest.approx(expected, rel=1e-9)


def test_a_fabric_brings_its_own_sharing_router_and_placement() -> None:
    own = {"sharing": "circuit-preempt", "router": "up-down", "placement": "linear"}
    given = {"sharing": "max-min", "router": "shortest-path", "placement": "snake"}
    fabric = {"topology": {"name": "fred", "arity": [2, 2]}, "collectives": {"default": "ring"}}
    for changes, expected in (({}, own), (given, given)):
        provenance = run({**fabric, **changes}, "microbenchmark").provenance
        assert {slot: provenance[slot]["name"] for slot in own} == expected


def test_provenance_is_json_without_paths_with_algorithms_and_their_options(tmp_path: Path) -> None:
    file = tmp_path / "one.toml"
    file.write_text('[fabrics]\nf.topology = "fred"\n[workloads]\nw.workload = "microbenchmark"\n')
    provenance = FRAMEWORK.run(file).provenance
    text = json.dumps(provenance, allow_nan=False)
    assert json.loads(text) == provenance
    for path in (tmp_path, Path(fredfw.__file__).parent):
        assert str(path) not in text + FRAMEWORK.compare(file).to_json()
    assert (provenance["topology"]["name"], provenance["topology"]["arity"]) == ("fred", [4, 5])
    assert (provenance["collectives"], provenance["selection"]) == ("auto", "fastest")
    assert {"fredfw", "fredfw-topology-fred", "fredfw-workload-microbenchmark"} <= set(provenance["versions"])
    assert "fredfw-topology-mesh2d" not in provenance["versions"]
    chosen = {"selection": "first", "all-reduce": [{"name": "ring", "chunks": 4}], "default": "direct"}
    provenance = run({**mesh(), "collectives": chosen}, "microbenchmark").provenance
    ring = {"name": "ring", "chunks": 4, "rotated": False}
    assert provenance["collectives"] == {"all-reduce": [ring], "default": [{"name": "direct"}]}
    assert provenance["selection"] == "first"


VGG = {"name": "cnn", "model": "vgg-16"}
STREAMING = {**SMALL, "execution": "streaming"}


def test_a_run_that_does_not_fit_is_refused_or_noted_and_expanded_memory_costs_its_traffic() -> None:
    parts = "weights 276.7 MB, gradients 276.7 MB, optimizer 1.107 GB"
    with refused("workloads.w.workload", parts, "a larger split, a smaller microbatch") as caught:
        run(mesh(), VGG, npu={"memory": "1 GB"})
    assert "an NPU has 1 GB" in caught.value.message
    note, peak = run(mesh(), STREAMING, npu={"memory": "1 kB"}).notes
    assert peak == PEAK
    assert "assumed to be stored outside" in note
    assert run(mesh(), STREAMING).notes == (PEAK,)
    fitting = {"peak": 1e25, "memory_bandwidth": "1 TB/s", "memory": "1 TB"}
    needs = sum(run(mesh(), VGG, npu=fitting).memory.values())
    npu = {**fitting, "memory": needs / 4, "expanded_memory": needs, "expanded_memory_bandwidth": "100 GB/s"}
    fast, slow = run(mesh(), VGG, npu=fitting), run(mesh(), VGG, npu=npu)
    # All compute is memory traffic: a quarter at 1 TB/s and the rest at 0.1 TB/s is 7.75 times as long.
    assert slow.breakdown["compute"] == pytest.approx(7.75 * fast.breakdown["compute"], rel=1e-9)
    note, _ = slow.notes
    assert "of expanded memory" in note
    assert "so computation moves bytes at 129 GB/s" in note
    assert slow.provenance["npu"]["expanded_memory"] == needs
    with pytest.raises(InputError, match="of expanded memory"):
        run(mesh(), VGG, npu={**npu, "expanded_memory": needs / 2})


CXL = {"name": "cxl", "scope": "npu", "bandwidth": "64 GB/s", "latency": "200 ns", "capacity": "512 GB"}
FULL = {**CXL, "capacity": "1 kB"}


def test_what_does_not_fit_is_moved_at_the_cost_of_the_next_tier_and_memory_not_needed_changes_nothing() -> None:
    plain = run(mesh(), VGG)
    npu = {"memory": sum(plain.memory.values()) - 1e9}  # of the optimizer state
    result = run({**mesh(), "memories": [CXL]}, VGG, npu=npu)
    assert result.breakdown["spill"] == pytest.approx(2 * (200e-9 + 1e9 / 64e9), rel=1e-9)
    assert result.seconds == pytest.approx(plain.seconds + result.breakdown["spill"], rel=1e-9)
    assert result.bytes_by_cause["spill"] == pytest.approx(4 * 2 * 1e9)
    note, _ = result.notes
    assert "optimizer 1 GB are in memory tier 'cxl'" in note
    assert "at no cost" not in note
    assert result.provenance["memories"][0]["capacity"] == 512e9
    plain, expanded = run(mesh(), VGG), {"expanded_memory": "480 GB", "expanded_memory_bandwidth": "100 GB/s"}
    for found in (run({**mesh(), "memories": [CXL]}, VGG), run(mesh(), VGG, npu=expanded)):
        assert (found.seconds, found.breakdown, found.notes) == (plain.seconds, plain.breakdown, plain.notes)
        assert found.bill == plain.bill


@pytest.mark.parametrize(
    ("memories", "workload", "key", "message"),
    [
        ({"name": "cxl"}, "microbenchmark", "fabrics.f.memories", "is not a list of tables"),
        ([CXL, CXL], "microbenchmark", "fabrics.f.memories[1].name", "the name of another tier"),
        ([{**CXL, "scope": "node", "npus": 3}], "cnn", "fabrics.f.memories[0].npus", "3 does not divide the 4 NPUs"),
        ([CXL], {**STREAMING, "memory_tier": "cxi"}, "workloads.w.workload.memory_tier", "no memory tier 'cxi'; did"),
        ([FULL], {**SMALL, "mp": 1}, "workloads.w.workload", "have no room for"),
        ([FULL], {**STREAMING, "memory_tier": "cxl"}, "workloads.w.workload", "tier 'cxl', which has room for 1 kB"),
    ],
)
def test_memories_that_cannot_be_are_refused(memories: Any, workload: Any, key: str, message: str) -> None:
    with refused(key, message):
        run({**mesh(), "memories": memories}, workload, npu={"memory": "1 kB"})


# --- What cannot run, and is known not to before anything does.

WRONG: list[tuple[dict[str, Any], Any, str, str]] = [
    (mesh(), {"name": "cnn", "dp": 5}, "workloads.w.workload", "DP(5) needs 5 NPUs, but fabric 'f' has 4"),
    (mesh(), {**SMALL, "mp": 8}, "workloads.w.workload.mp", "8 x 1 workers, but there are 4 NPUs (accepted: mp x pp"),
    (mesh(), {"name": "microbenchmark", "pattern": "point-to-point"}, "workloads.w.workload.ranks", "among 4 ranks"),
    (mesh(io_controllers=False), STREAMING, "workloads.w.workload.execution", "without I/O controllers"),
    *(
        ({**mesh(), "collectives": collectives}, workload, "fabrics.f.collectives", message)
        for collectives, workload, message in (
            ({"default": "in-network"}, "microbenchmark", "in-network: "),
            ({"broadcast": "ring"}, "microbenchmark", "can do all-reduce among 4 NPUs of 'f': none is given"),
            # Pipeline transfers are point-to-point.
            ({"default": "hierarchical"}, {**SMALL, "pp": 2}, "hierarchical: it does not do point-to-point"),
        )
    ),
    ({**mesh(), "router": "up-down"}, "microbenchmark", "fabrics.f.router", "(accepted: a tree of switches"),
    ({"topology": {"name": "gated", "npus": 3}}, "microbenchmark", "fabrics.f.topology.npus", "3 NPUs"),
]


@pytest.mark.parametrize(("fabric", "workload", "key", "message"), WRONG)
def test_check_and_run_refuse_the_same(fabric: dict[str, Any], workload: Any, key: str, message: str) -> None:
    experiment = FRAMEWORK.load_experiment(content(fabric, workload))
    runner = Runner(experiment, FRAMEWORK.plugins)
    with refused(key) as checked:
        runner.check(*experiment.cells[0])
    with refused(key) as ran:
        runner.run(*experiment.cells[0], "compressed")
    assert str(checked.value) == str(ran.value)
    assert message in str(ran.value)


def test_routers_without_trees_and_placements_that_refuse_axes_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def tree(*_: object) -> fredfw.Routes:
        raise UnsupportedError("no all-reduce tree")

    monkeypatch.setattr(fredfw.ShortestPathRouter, "tree", tree)
    # That there is no tree is known only when the all-reduce is sent.
    fabric = {"topology": "fred", "router": "shortest-path", "collectives": {"default": "in-network"}}
    with pytest.raises(UnsupportedError, match=r"fabrics\.f\.router: no all-reduce tree"):
        run(fabric, "microbenchmark")
    fabric = {"topology": "fred", "placement": {"name": "nested", "axes": ["dp", "xp"]}}
    with refused("fabrics.f.placement.axes[1]", "has no axis 'xp'"):
        run(fabric, SMALL)


GATED: dict[str, Any] = {"topology": "gated", "collectives": {"default": "ring"}}


def test_what_an_admission_has_to_tell_is_in_every_result_and_waits_for_ever_are_errors() -> None:
    # A ring between two: two steps with a flow of half the size in each direction, which take turns.
    result = run(GATED, "microbenchmark")
    (row,) = FRAMEWORK.compare(FRAMEWORK.load_experiment(content(GATED, "microbenchmark"))).rows
    fabric = FRAMEWORK.topology("gated").build()
    collective = FRAMEWORK.simulate_collective(fabric, "all-reduce", size=1e9, algorithm="ring")
    assert [result.seconds, row.seconds, collective.duration] == pytest.approx([4 * 0.5] * 3, rel=1e-12)
    for figures, notes in ((one.figures, one.notes) for one in (result, row, collective)):
        assert (json.dumps(figures), notes) == ('{"turns taken": 4.0}', ("flows took turns",))
    assert (result.statistics["splits"], result.statistics["waits"], result.statistics["decompositions"]) == (2, 0, 0)
    # A simulation of its own counts from the start.
    assert run(GATED, "microbenchmark").figures == result.figures
    assert run(mesh(), "microbenchmark").figures == {}
    with pytest.raises(DeadlockError, match="flows that cannot move: collective"):
        run({**GATED, "topology": {"name": "gated", "closed": True}}, "microbenchmark")
    fabric = FRAMEWORK.topology("gated", closed=True).build()
    with pytest.raises(SimulationError, match="flows that cannot move on"):
        FRAMEWORK.simulate_collective(fabric, "all-reduce", size=1e9, algorithm="ring")


def test_counters_add_up_and_runs_that_differ_by_rounding_alone_have_no_error() -> None:
    summed = merged([])
    assert set(summed.values()) == {0}
    one, other = (dict.fromkeys(summed, value) for value in (1, 2))
    assert merged([one, other]) == dict.fromkeys(summed, 3) | {"most_passes": 2}
    time = 1.2345e-3
    assert Spread.of([time, math.nextafter(time, 1.0), time]).standard_error == 0.0
    # Two runs: half of what is between them.
    assert Spread.of([1.0, 1.0 + 1e-9]).standard_error == pytest.approx(0.5e-9, rel=1e-6)


def test_blocks_that_ranks_could_overlap_have_a_note() -> None:
    # 50 times: rank 0 computes 1 ms, sends 1 ms, and rank 1 computes 1 ms.
    builder = fredfw.GraphBuilder(2)
    with builder.repeated(50):
        one = builder.compute("one", [0], seconds=1e-3)
        sent = builder.transfer("message", [[0, 1]], 1e6, label="pp", after=[one])
        builder.compute("other", [1], seconds=1e-3, after=[sent])
    graph = builder.build()
    fabric = FRAMEWORK.topology("switch", npus=2, link_bandwidth="1 GB/s", link_latency=0).build()
    slow, exact = (FRAMEWORK.simulate_graph(graph, fabric, fidelity=one) for one in ("compressed", "exact"))
    assert slow.seconds == pytest.approx(0.15)
    assert exact.seconds == pytest.approx(0.052)
    (note,) = slow.notes
    assert note.startswith("the 50 repetitions of the tasks 'one' to 'other' are simulated as one: no rank begins")
    assert exact.notes == ()


RING = {"topology": {"name": "switch", "npus": 4}}
VARIED = {"runs": 3, "seed": 4, "jitter": {"distribution": "lognormal", "deviation": 0.1}}


def varying(**fabric: Any) -> dict[str, Any]:
    return content({**RING, **fabric}, "cnn", variation=VARIED)


def row_of(tables: dict[str, Any], store: Path | None = None) -> Row:
    (row,) = compare(tables, store=store).rows
    return row


def test_rows_have_the_spread_of_their_runs_unless_their_fabric_varies_otherwise(tmp_path: Path) -> None:
    store = tmp_path / "store"
    row, again = row_of(varying(), store), row_of(varying(), store)
    assert row.spread is not None
    assert (row.spread.runs, row.spread.mean) == (3, row.seconds)
    (merged,) = FRAMEWORK.merge(varying(), [store]).rows
    assert merged.spread == again.spread == row.spread
    still = row_of(varying(variation={"runs": 1}))
    assert still.spread is None
    assert still.seconds == row_of(content(RING, "cnn")).seconds
