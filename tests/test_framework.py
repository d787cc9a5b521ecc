import re
from typing import Any

import numpy as np
import pytest
from experiments import hooked, refused

from fredfw import Fabric, Framework, GraphBuilder, NodeKind, Npu, Pattern, RunResult, TaskGraph
from fredfw.embed import NetworkBackend
from fredfw.errors import InputError, SimulationError, UnknownNameError, UnsupportedError
from fredfw.fabric import IdealTransport

CONTENT: dict[str, Any] = {
    "fabrics": {
        "mesh": {"topology": {"name": "mesh2d", "rows": 2, "columns": 2}, "collectives": {"default": "ring"}},
        "fred": {"topology": {"name": "fred", "arity": [2, 2]}, "collectives": {"default": "ring"}},
    },
    "workloads": {"net": {"workload": "microbenchmark"}, "other": {"workload": "microbenchmark"}},
}


@pytest.fixture
def framework() -> Framework:
    return Framework()


@pytest.fixture
def fabric(framework: Framework) -> Fabric:
    return framework.topology("mesh2d", rows=2, columns=2).build()


def test_hooks_around_a_run_and_a_comparison_are_called_once_and_per_cell_and_for_errors() -> None:
    heard: list[tuple[str, object]] = []
    refusal = SimulationError("not to my liking")

    def after(result: RunResult) -> None:
        heard.append(("after", (result.workload, result.fabric_name)))
        if (result.fabric_name, result.provenance["fidelity"]) == ("mesh", "exact"):
            raise refusal

    framework = hooked(
        fredfw_before_run=lambda experiment: heard.append(("before", experiment)),
        fredfw_after_run=after,
        fredfw_on_run_error=lambda error: heard.append(("error", error)),
    )
    experiment = framework.load_experiment(CONTENT)
    with pytest.raises(InputError):
        framework.run(experiment, workload="nte", fabric="fred")
    Framework().compare(experiment)
    assert heard == []
    framework.run(experiment, workload="net", fabric="fred")
    assert heard == [("before", experiment), ("after", ("net", "fred"))]
    heard.clear()
    framework.compare(experiment, fidelity="compressed")
    cells = [("net", "mesh"), ("other", "mesh"), ("net", "fred"), ("other", "fred")]
    assert heard == [("before", experiment), *(("after", cell) for cell in cells)]
    heard.clear()
    with pytest.raises(SimulationError, match="not to my liking"):
        framework.compare(experiment, fidelity="exact")
    assert heard == [("before", experiment), ("after", ("net", "mesh")), ("error", refusal)]


def test_only_the_sections_named_are_configured(framework: Framework) -> None:
    broken = {**CONTENT, "fabrics": {**CONTENT["fabrics"], "bad": {"topology": "nothing"}}}
    experiment = framework.load_experiment(broken, fabrics=["fred"], workloads=["net"])
    assert [(one.name, two.name) for one, two in experiment.cells] == [("net", "fred")]
    whole = framework.load_experiment(CONTENT)
    assert framework.run(experiment).seconds == framework.run(whole, workload="net", fabric="fred").seconds
    with pytest.raises(UnknownNameError, match="no topology 'nothing'"):
        framework.load_experiment(broken)
    experiment = framework.load_experiment(broken, fabrics=["fred"], baselines=True)
    assert [row.fabric for row in framework.compare(experiment).rows] == ["mesh", "fred"] * 2


@pytest.mark.parametrize(
    ("arguments", "key", "message"),
    [
        ({}, "workload", "there are 2 workloads"),
        ({"workload": "net"}, "fabric", "there are 2 fabrics"),
        ({"workload": "nett", "fabric": "mesh"}, "workload", "no workload 'nett'; did you mean 'net'?"),
        ({"workload": "net", "fabric": "mash"}, "fabric", "no fabric 'mash'; did you mean 'mesh'?"),
        ({"workload": "net", "fabric": "mesh", "fidelity": "exakt"}, "fidelity", "did you mean 'exact'?"),
    ],
)
def test_bad_cells(framework: Framework, arguments: dict[str, Any], key: str, message: str) -> None:
    with refused(key, message):
        framework.run(framework.load_experiment(CONTENT), **arguments)
    with refused("fidelity", "'high' is not known"):
        framework.compare(framework.load_experiment(CONTENT), fidelity="high")


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        *(({"pattern": one}, "pattern") for one in ("all-reduc", 3)),
        ({"pattern": "point-to-point"}, "ranks"),
        *(({"size": one}, "size") for one in (0, -1.0, "1 GB/s", float("inf"), True)),
        *(({"group": one}, "group") for one in ([], "01", [0, 0], [0, 4], [-1, 0], [False, True], [[0, 1]], 5, {0, 1})),
        *(({"pattern": "broadcast", "root": one}, "root") for one in (True, 1.0, 4, -1)),
        ({"fidelity": "high"}, "fidelity"),
        *(({"algorithm": one}, "algorithm") for one in ("in-network", {"name": "ring", "chunks": 2}, None)),
        ({"chunks": 2}, "algorithm"),
        ({"algorithm": "ring", "chunks": 0}, "chunks"),
        ({"algorithm": "ring", "chunk": 1}, "chunk"),
    ],
)
def test_bad_collectives(framework: Framework, fabric: Fabric, arguments: dict[str, Any], key: str) -> None:
    with refused(key):
        framework.simulate_collective(fabric, **{"pattern": "all-reduce", "size": 1e6, **arguments})


def test_an_algorithm_that_cannot_is_told_unless_the_fabric_is_in_pieces(framework: Framework, fabric: Fabric) -> None:
    with refused("algorithm", "it does not do broadcast", error=UnsupportedError) as caught:
        framework.simulate_collective(fabric, "broadcast", size=1e6, algorithm="hierarchical")
    able = set(str(caught.value.accepted).split(", "))
    assert {"direct", "ring"} <= able
    # The mesh does not copy streams for its NPUs, so in-network cannot either.
    assert not {"hierarchical", "in-network"} & able
    pieces = Fabric("islands", [NodeKind.NPU] * 4, [0, 1, 2, 3], [1, 0, 3, 2], 1e9, 0.0, 0.0)
    for algorithm in ("auto", "ring"):
        with pytest.raises(UnsupportedError, match=r"^fabric 'islands' has no path from npu"):
            framework.simulate_collective(pieces, "all-reduce", size=1e6, algorithm=algorithm)


def test_a_group_is_a_sequence_in_rank_order_and_one_takes_no_time(framework: Framework, fabric: Fabric) -> None:
    def seconds(group: Any) -> float:
        return framework.simulate_collective(fabric, "all-reduce", size=1e9, group=group, algorithm="ring").duration

    assert seconds([0, 1]) == seconds((0, 1)) == seconds(range(2)) == seconds(np.array([0, 1]))
    # Around the mesh 0-1-3-2 every ring hop is one link, of 0.063 pJ/bit; in NPU order some are two and share links.
    assert seconds([0, 1, 3, 2]) < seconds([0, 1, 2, 3])
    ring = framework.simulate_collective(fabric, "all-reduce", size=1e9, group=[0, 1, 3, 2], algorithm="ring")
    assert ring.energy == pytest.approx(6 * 1e9 * 8 * 0.063e-12, rel=1e-12)
    for algorithm in ("auto", "ring", "direct"):
        result = framework.simulate_collective(fabric, "all-reduce", size=1e6, group=[2], algorithm=algorithm)
        assert (result.duration, result.algbw, result.busbw, result.steps) == (0.0, 0.0, 0.0, 0)
        assert (result.bound.seconds, result.bound_ratio) == (0.0, 1.0)
        assert not result.link_bytes.any()


def test_a_sweep_is_what_its_sizes_are_and_a_run_tells_its_progress(framework: Framework, fabric: Fabric) -> None:
    sizes = [1e3, 1e9]
    together = [framework.simulate_collective(fabric, "all-reduce", size=one).duration for one in sizes]
    alone = [Framework().simulate_collective(fabric, "all-reduce", size=one).duration for one in sizes]
    assert together == alone
    steps: list[tuple[float, int, str]] = []
    experiment = framework.load_experiment(CONTENT)
    framework.run(experiment, workload="net", fabric="mesh", progress=lambda *step: steps.append(step))
    shares = [step[0] for step in steps]
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    assert shares == sorted(set(shares))
    assert {step[1:] for step in steps} == {(1, "net on mesh")}


def test_another_fabric_or_algorithm_is_not_mistaken_for_the_latest(framework: Framework, fabric: Fabric) -> None:
    fast = framework.topology("mesh2d", rows=2, columns=2, link_bandwidth="7.5 TB/s").build()

    def seconds(where: Fabric, **options: Any) -> float:
        return framework.simulate_collective(where, "broadcast", size=1e9, algorithm="ring", **options).duration

    first = seconds(fabric)
    assert seconds(fast) < first < seconds(fabric, chunks=1)
    assert seconds(fabric) == first


def graph_of(ranks: int) -> TaskGraph:
    builder = GraphBuilder(ranks)
    work = builder.compute("work", range(ranks), flops=3e12)
    builder.collective("reduce", Pattern.ALL_REDUCE, [range(ranks)], 4e6, label="dp", after=[work])
    return builder.build()


def test_fidelities_of_an_earlier_release_work_in_calls_and_warn() -> None:
    framework = Framework()
    fabric = framework.topology("torus", dimensions=[4]).build()
    meeting = fabric.with_defaults(transport=IdealTransport(rendezvous=True))
    builder = GraphBuilder(4)
    late = builder.compute("late", [1], seconds=1.0)
    builder.transfer("sent", [[0, 1]], 4e6, label="pp", after=[late])
    graph = builder.build()
    for name, on in (("per-rank", fabric), ("per-rank-rendezvous", meeting)):
        with pytest.warns(DeprecationWarning, match=f"fidelity '{name}' is now 'exact'"):
            old = framework.simulate_graph(graph, fabric, fidelity=name)
        now = framework.simulate_graph(graph, on, fidelity="exact")
        assert (old.timeline.end.tolist(), old.notes) == (now.timeline.end.tolist(), now.notes)
        with pytest.warns(DeprecationWarning, match=name):
            NetworkBackend(fabric, fidelity=name)
    assert now.timeline.start.max() == 1.0  # of the transfer, which waits for its receiver


def test_simulate_graph(framework: Framework, fabric: Fabric) -> None:
    heard: list[float] = []
    result = framework.simulate_graph(graph_of(4), fabric, npu=Npu(peak=1e15), progress=heard.append)
    alone = framework.simulate_collective(fabric, "all-reduce", size=4e6)
    assert result.seconds == pytest.approx(3e-3 + alone.duration, rel=1e-12)
    assert result.breakdown == pytest.approx({"compute": 3e-3, "bubble": 0.0, "dp": alone.duration})
    assert result.algorithms == {"dp all-reduce x4": alone.algorithm}
    assert result.bytes_by_cause == {"dp": pytest.approx(alone.link_bytes.sum())}
    np.testing.assert_allclose(result.link_bytes, alone.link_bytes)
    assert heard == [0.5]
    assert result.placement.tolist() == [0, 1, 2, 3]
    assert result.timeline.graph.names == ("work", "reduce")
    chosen: dict[str, Any] = {"placement": [3, 1], "collectives": {"default": "direct"}, "priorities": ("dp",)}
    result = framework.simulate_graph(graph_of(2), fabric, attribution=False, fidelity="exact", **chosen)
    assert result.breakdown == {}
    assert result.algorithms == {"dp all-reduce x2": "direct"}
    direct = framework.simulate_collective(fabric, "all-reduce", size=4e6, group=[3, 1], algorithm="direct")
    np.testing.assert_allclose(result.link_bytes, direct.link_bytes)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"graph": None}, "graph: None is not a task graph"),
        ({"graph": graph_of(5)}, "graph: a graph of 5 ranks, and '2x2 mesh' has 4 NPUs .accepted: at most 4 ranks"),
        ({"fabric": 3}, "fabric: 3 is not a fabric"),
        ({"placement": [0, 1]}, "placement: 2 NPUs for 4 ranks .accepted: 4"),
        ({"placement": [0, 1, 2, 9]}, "placement: '2x2 mesh' has no NPU 9"),
        ({"priorities": ["dpp"]}, r"priorities.0.: the graph has no label 'dpp'; did you mean 'dp'. .accepted: dp"),
        ({"priorities": 1}, "priorities: 1 is not a list of labels .accepted: a list of dp"),
        ({"priorities": "dp"}, "priorities: 'dp' is not a list of labels"),
        ({"placement": 1}, "placement: 1 is not a placement .accepted: different NPUs from 0 to 3"),
        ({"npu": 1}, "npu: 1 is refused .accepted: a fredfw.Npu"),
        ({"variation": 1}, "variation: 1 is refused .accepted: a fredfw.Variation"),
        ({"events": 1}, "events: 1 is refused .accepted: a list of fredfw.simulation.LinkEvent"),
        ({"events": [1]}, r"events: .1. is refused"),
        ({"collectives": "ring"}, "collectives: 'ring' is not a choice of algorithms"),
        ({"collectives": {"all-gather": "ring"}}, "collectives: no algorithm can do all-reduce among 4 NPUs"),
    ],
)
def test_a_graph_that_cannot_be(framework: Framework, fabric: Fabric, given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=f"^{message}"):
        framework.simulate_graph(**{"graph": graph_of(4), "fabric": fabric, **given})


@pytest.mark.parametrize("name", [1, None, []])
def test_names_of_topologies_and_paths_of_experiments_are_texts(framework: Framework, name: Any) -> None:
    start = f"^{re.escape(repr(name))}"
    with pytest.raises(UnknownNameError, match=f"{start} is not the name of a topology .accepted: .*mesh2d"):
        framework.topology(name)
    with pytest.raises(InputError, match=f"{start}: is not a path .accepted: the path of a file"):
        framework.load_experiment(name)


def test_simulate_collective(framework: Framework) -> None:
    ring = framework.topology("torus", dimensions=[2], link_bandwidth="100 GB/s", link_latency=0).build()
    result = framework.simulate_collective(ring, "all-reduce", size="1 GB", algorithm="ring")
    # Two steps of half the buffer at 100 GB/s; busbw = algbw x 2 (n - 1) / n (nccl-tests), which is 1 for n = 2. The
    # bound on two NPUs is S each way; nobody needs more than two such steps of half the buffer.
    found = result.duration, result.bound.seconds, result.algbw, result.busbw, result.bound_ratio
    assert found == pytest.approx((0.01, 0.01, 100e9, 100e9, 1.0), rel=1e-12)
    assert result.link_bytes.tolist() == pytest.approx([1e9, 1e9])
    assert result.link_utilization.tolist() == pytest.approx([1.0, 1.0])
    assert result.statistics["flows"] == result.statistics["batches"] * 2
