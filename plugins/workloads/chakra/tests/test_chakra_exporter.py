import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from attrs import frozen

import fredfw_workload_chakra
from fredfw import DeviceMesh, Framework, GraphBuilder, Pattern, PluginManager, RunResult, hookimpl
from fredfw.errors import InputError, UnsupportedError
from fredfw.fabric import IdealTransport
from fredfw.testing import ExporterTests
from fredfw.workloads import System, TaskGraph, Workload
from fredfw_workload_chakra import Chakra, ChakraExporter, et
from fredfw_workload_chakra.trace import Collective, NodeType, Trace

Build = Callable[[GraphBuilder], None]
RING = {"name": "torus", "dimensions": [8], "link_bandwidth": "50 GB/s", "link_latency": "500 ns"}
MIB = 1 << 20


@frozen
class Given(Workload):
    """Tasks that a test adds."""

    name: ClassVar[str] = "given"
    build: ClassVar[Build]

    def mesh(self, system: System) -> DeviceMesh:
        return DeviceMesh({"rank": 8})

    def graph(self, system: System) -> TaskGraph:
        builder = GraphBuilder(8)
        type(self).build(builder)
        return builder.build()


class Plugin:
    @hookimpl
    def fredfw_workloads(self) -> list[type[Workload]]:
        return [Given]


plugins = PluginManager.discover()
plugins.register(Plugin(), "given")
framework = Framework(plugins)


class TestChakraExporter(ExporterTests):
    plugin = fredfw_workload_chakra
    exporters = (ChakraExporter(), ChakraExporter(prefix="step", compress=True))


def run(workload: Mapping[str, Any], *, fidelity: str = "exact", **fabric: Any) -> RunResult:
    fabric = {"topology": RING, "collectives": {"default": "direct"}, **fabric}
    content = {"fabrics": {"ring": fabric}, "workloads": {"given": {"workload": workload}}}
    return framework.run(framework.load_experiment(content), fidelity=fidelity)


def run_of(build: Build, *, fidelity: str = "exact", **fabric: Any) -> RunResult:
    Given.build = staticmethod(build)
    return run({"name": "given"}, fidelity=fidelity, **fabric)


def save(files: Mapping[str, str | bytes], folder: Path) -> None:
    for name, content in files.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def trace(files: Mapping[str, str | bytes], rank: int) -> Trace:
    return et.read(files[f"trace.{rank}.et"])  # type: ignore[arg-type]  # bytes


def back(
    result: RunResult, folder: Path, *, fidelity: str = "exact", exporter: Mapping[str, Any] = {}, **fabric: Any
) -> RunResult:
    """Return the run of what is exported."""
    save(ChakraExporter(**exporter).export(result), folder)
    table = {"name": "chakra", "traces": str(folder / "*.et*"), "comm_groups": str(folder / "comm_groups.json")}
    return run(table, fidelity=fidelity, **fabric)


def same_again(result: RunResult, folder: Path, **given: Any) -> RunResult:
    """Return the run of what is exported, which takes as long and sends as much over each link."""
    again = back(result, folder, **given)
    assert again.seconds == pytest.approx(result.seconds, rel=1e-9)
    assert np.allclose(again.link_bytes, result.link_bytes, rtol=1e-9)
    return again


EVERYBODY = np.arange(8)
PAIRS = EVERYBODY.reshape(4, 2)


def collectives(builder: GraphBuilder) -> None:
    before = builder.compute("first", EVERYBODY, seconds=1.25e-6)
    for pattern in Pattern:
        if pattern is not Pattern.POINT_TO_POINT:
            before = builder.collective(str(pattern), pattern, PAIRS, MIB, label="pairs", after=[before])
    reversed_groups = EVERYBODY[::-1].reshape(2, 4)
    builder.collective("fours", Pattern.ALL_GATHER, reversed_groups, MIB, label="fours", after=[before])
    builder.collective("all", Pattern.ALL_REDUCE, EVERYBODY[None], MIB, label="all", after=[before])


def rooted(builder: GraphBuilder) -> None:
    groups = EVERYBODY.reshape(2, 4)
    first = builder.collective("a", Pattern.BROADCAST, groups, MIB, label="a", root=2)
    builder.collective("b", Pattern.REDUCE, groups, MIB, label="a", root=3, after=[first])


def pipeline(builder: GraphBuilder) -> None:
    """Two microbatches through four stages of two ranks."""
    before: dict[int, list[int]] = {stage: [] for stage in range(4)}
    for batch in range(2):
        for stage in range(4):
            done = builder.compute(f"{batch} {stage}", PAIRS[stage], flops=3e9, bytes=1e6, after=before[stage])
            before[stage] = [done]
            if stage < 3:
                ends = np.stack([PAIRS[stage], PAIRS[stage + 1]], axis=1)
                before[stage + 1].append(builder.transfer(f"{batch} to", ends, MIB, label="pp", after=[done]))


def messages(builder: GraphBuilder) -> None:
    sends = [builder.send(f"send {rank}", rank, (rank + 1) % 8, MIB, label="p2p") for rank in range(8)]
    received = [builder.receive(f"receive {rank}", sends[rank - 1]) for rank in range(8)]
    builder.compute("last", EVERYBODY, seconds=3e-6, after=received)
    builder.collective("one to one", Pattern.POINT_TO_POINT, PAIRS[::2], MIB, label="pairs")


def repeated(builder: GraphBuilder) -> None:
    with builder.repeated(3):
        layer = builder.compute("layer", EVERYBODY, seconds=2e-6)
        builder.collective("gradients", Pattern.ALL_REDUCE, PAIRS, MIB, label="dp", after=[layer])


def nothing(builder: GraphBuilder) -> None:
    before = builder.compute("late", [3], seconds=5e-6)
    for pattern in (Pattern.ALL_TO_ALL, Pattern.ALL_GATHER, Pattern.BROADCAST):
        before = builder.collective(str(pattern), pattern, EVERYBODY[None], 0, label="wall", after=[before])
    builder.collective("rooted", Pattern.REDUCE, PAIRS, 0, label="wall", root=1, after=[before])


def test_collectives_of_no_bytes_stay_what_they_are(tmp_path: Path) -> None:
    again = same_again(run_of(nothing), tmp_path)
    found = [str(one) for one in again.timeline.graph.patterns if one is not None]
    assert found == ["all-to-all", "all-gather", "broadcast", *["reduce"] * 4]
    written = et.read((tmp_path / "trace.3.et").read_bytes())
    assert written.numbers["comm_type"][1:].tolist() == [int(Collective.BARRIER)] * 4


@pytest.mark.parametrize("build", [collectives, rooted, pipeline, messages, repeated])
def test_what_is_exported_and_read_takes_the_same_time(build: Build, tmp_path: Path) -> None:
    same_again(run_of(build), tmp_path)


@pytest.mark.parametrize("placement", ["linear", "snake", "megatron"])
def test_placements_by_number_give_the_same_time_again(placement: str, tmp_path: Path) -> None:
    mesh = {"name": "mesh2d", "rows": 2, "columns": 4}
    gpt = {"name": "transformer", "layers": 4, "hidden": 1024, "sequence": 512, "heads": 16, "vocabulary": 32000}
    gpt |= {"mp": 2, "dp": 2, "pp": 2, "global_batch": 8, "microbatches": 2}
    result = run(gpt, topology=mesh, placement=placement)
    exporter = {"prefix": "gpt", "compress": True}
    again = back(result, tmp_path, exporter=exporter, topology=mesh, placement=placement)
    # Chakra has no axes, by which megatron goes.
    assert (again.seconds == pytest.approx(result.seconds, rel=1e-6)) is (placement != "megatron")


def test_nodes_are_as_astra_sim_reads_them() -> None:
    files = ChakraExporter().export(run_of(collectives))
    assert sorted(files) == sorted(["comm_groups.json", *(f"trace.{rank}.et" for rank in range(8))])
    groups = json.loads(files["comm_groups.json"])
    # ASTRA-sim takes group 0 for all ranks; all ranks need no group at all.
    assert groups == {"1": [0, 1], "2": [2, 3], "3": [4, 5], "4": [6, 7], "5": [7, 6, 5, 4], "6": [3, 2, 1, 0]}
    content, found = files["trace.2.et"], trace(files, 2)
    assert isinstance(content, bytes)
    computed = {"num_ops:int64": 1, "tensor_size:uint64": 1, "fredfw_seconds:double": 1}
    sent = {"comm_type:int64": 10, "comm_size:int64": 10, "pg_name:string": 9}
    assert et.slots(content) == {"is_cpu_op:bool": 11, **computed, **sent}
    assert found.ids.tolist() == list(range(11))
    assert (found.micros[0], found.seconds[0]) == (1, 1.25e-6)
    sizes = dict(zip(found.names, found.numbers["comm_size"].tolist(), strict=True))
    expected = {"all-gather": MIB / 2, "fours": MIB / 4, "reduce-scatter": MIB}
    assert {name: sizes[name] for name in expected} == expected


def test_messages_have_tags_of_their_own_and_a_transfer_to_several_is_a_broadcast_with_its_time() -> None:
    found = trace(ChakraExporter().export(run_of(pipeline)), 2)
    for kind, source, destination in ((NodeType.COMM_SEND, 2, 4), (NodeType.COMM_RECV, 0, 2)):
        names = ("comm_tag", "comm_src", "comm_dst")
        values = [found.numbers[name][found.types == kind].tolist() for name in names]
        assert values == [[0, 1], [source] * 2, [destination] * 2]

    def build(builder: GraphBuilder) -> None:
        builder.transfer("spread", [[3, 4, 5]], MIB, label="pp")

    result = run_of(build)
    files = ChakraExporter().export(result)
    assert json.loads(files["comm_groups.json"]) == {"1": [3, 4, 5]}
    found = trace(files, 4)
    assert found.numbers["comm_type"].tolist() == [5]
    assert found.micros.tolist() == [round(result.seconds * 1e6)]


def awaited(builder: GraphBuilder) -> None:
    """A message whose receiver communicates before and after it."""
    busy = builder.collective("busy", Pattern.ALL_REDUCE, [[1, 2]], 8 * MIB, label="busy")
    arrives = builder.transfer("transfer", [[0, 1]], MIB, label="pp", after=[busy])
    builder.collective("next", Pattern.ALL_REDUCE, [[1, 3]], MIB, label="next", after=[arrives])


@pytest.mark.parametrize("rendezvous", [False, True])
def test_the_receiver_of_a_transfer_waits_as_in_the_run(rendezvous: bool, tmp_path: Path) -> None:
    given: dict[str, Any] = {"transport": {"name": "ideal", "rendezvous": rendezvous}}
    same_again(run_of(awaited, **given), tmp_path, **given)


def test_the_receiver_of_a_transfer_of_a_graph_waits_for_what_is_before_it(tmp_path: Path) -> None:
    builder = GraphBuilder(2)
    computed = builder.compute("computed", [1], seconds=2e-3)
    builder.transfer("transfer", [[0, 1]], 1e6, label="pp", after=[computed])
    save(ChakraExporter().export(builder.build()), tmp_path)
    found = Chakra(traces=tmp_path / "*.et").graph(System(npus=2))  # type: ignore[arg-type]  # its converter
    fabric = framework.topology("switch", npus=2, link_bandwidth="1 GB/s", link_latency=0).build()
    # 1 MB at 1 GB/s take 1 ms, after the receiver's 2 ms.
    fabric = fabric.with_defaults(transport=IdealTransport(rendezvous=True))
    seconds = framework.simulate_graph(found, fabric, fidelity="exact").seconds
    assert seconds == pytest.approx(3e-3, rel=1e-9)


@pytest.mark.parametrize("algorithm", ["ring", "forest"])
def test_collectives_keep_their_root_and_the_order_of_their_ranks(algorithm: str, tmp_path: Path) -> None:
    def build(builder: GraphBuilder) -> None:
        first = builder.collective("a", Pattern.BROADCAST, EVERYBODY[None], 8 * MIB, label="rooted", root=3)
        builder.collective("b", Pattern.REDUCE, EVERYBODY[None], 8 * MIB, label="rooted", root=5, after=[first])

    given: dict[str, Any] = {"collectives": {"default": algorithm}}
    again = same_again(run_of(build, **given), tmp_path, **given)
    assert json.loads((tmp_path / "comm_groups.json").read_text()) == {}
    assert again.timeline.graph.roots.tolist() == [3, 5]


def test_what_chakra_cannot_say_is_refused_with_the_task() -> None:
    uneven, images = GraphBuilder(2), GraphBuilder(2)
    uneven.all_to_all_v("uneven", [[0, 1]], [[[0, 1e6], [2e6, 0]]], label="ep")
    images.load("images", [0], [[0, 1]], MIB, label="load")
    what = "'uneven' is an all-to-all of different sizes", "'images' is a stream of an I/O controller"
    for builder, said in zip((uneven, images), what, strict=True):
        with pytest.raises(UnsupportedError, match=f"task {said}, which Chakra cannot"):
            ChakraExporter().export(builder.build())


@pytest.mark.parametrize("prefix", ["", "a/b", "..\\x", "*"])
def test_a_prefix_is_the_beginning_of_a_name(prefix: str) -> None:
    with pytest.raises(InputError, match="prefix: "):
        ChakraExporter(prefix=prefix)
