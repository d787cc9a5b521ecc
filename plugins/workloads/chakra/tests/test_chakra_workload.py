import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fredfw_workload_chakra
from fredfw import File, Files, Framework, Npu, System, TaskGraph, TaskKind
from fredfw.errors import InputError, UnknownNameError
from fredfw.fabric import MemoryTier
from fredfw.testing import WorkloadTests
from fredfw_workload_chakra import Chakra, et
from fredfw_workload_chakra.trace import Collective, Node, NodeType, Value

Ranks = Mapping[int, Sequence[Node]]
Load = Callable[..., Chakra]
HERE = Path(__file__).parent


class TestChakra(WorkloadTests):
    plugin = fredfw_workload_chakra
    workloads = tuple(
        Chakra(traces=Files.at(HERE / "step.*.json"), comm_groups=File.at(HERE / "comm_groups.json"), mode=mode)
        for mode in ("replay", "roofline")
    )


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def load(ranks: Ranks, groups: Mapping[str, Sequence[int]] | None = None, **fields: Any) -> Chakra:
        for rank, nodes in ranks.items():
            (tmp_path / f"t.{rank}.et").write_bytes(et.write(nodes))
        if groups is not None:
            (tmp_path / "groups.json").write_text(json.dumps(groups), encoding="utf-8")
            fields["comm_groups"] = tmp_path / "groups.json"
        return Chakra(traces=tmp_path / "t.*.et", **fields)  # type: ignore[arg-type]  # its converter makes Files

    return load


def comp(number: int, *before: int, micros: int = 0, **attributes: Value) -> Node:
    return Node(number, f"comp {number}", NodeType.COMP, before, micros=micros, attributes=attributes)


def call(number: int, kind: Collective, size: int, *before: int, **attributes: Value) -> Node:
    given = {"comm_type": int(kind), "comm_size": size, **attributes}
    return Node(number, f"call {number}", NodeType.COMM_COLL, before, attributes=given)


def message(kind: str, number: int, source: int, destination: int, *before: int, size: int = 8, tag: int = 0) -> Node:
    attributes = {"comm_src": source, "comm_dst": destination, "comm_tag": tag, "comm_size": size}
    ways = {"send": NodeType.COMM_SEND, "receive": NodeType.COMM_RECV}
    return Node(number, f"{kind} {number}", ways[kind], before, attributes=attributes)


send, receive = partial(message, "send"), partial(message, "receive")


def graph(workload: Chakra) -> TaskGraph:
    return workload.graph(System(npus=64))


def members(found: TaskGraph, task: int) -> list[list[int]]:
    return found.tables[found.members[task]].tolist()  # type: ignore[no-any-return]  # whole numbers


def edges(found: TaskGraph) -> dict[str, set[str]]:
    return {name: {found.names[one] for one in found.after(task)} for task, name in enumerate(found.names)}


def test_a_ring_of_messages_takes_the_time_of_its_formula(load: Load) -> None:
    """Three steps of a ring: each rank sends what it received in the step before, after 7 us of computation."""
    ranks, size = 4, 131_072
    traces: dict[int, list[Node]] = {rank: [] for rank in range(ranks)}
    for rank, step in product(range(ranks), range(3)):
        before, given = [3 * step - 1] * (step > 0), {"size": size, "tag": step}
        traces[rank] += (
            send(3 * step, rank, (rank + 1) % ranks, *before, **given),
            receive(3 * step + 1, (rank - 1) % ranks, rank, 3 * step, **given),
            comp(3 * step + 2, 3 * step + 1, micros=7),
        )
    framework = Framework()
    ring = framework.topology("torus", dimensions=[ranks], link_bandwidth=50 * 2**30, link_latency="500 ns").build()
    expected = 3 * (size / (50 * 2**30) + 500e-9 + 7e-6)
    for fidelity in ("compressed", "exact"):
        result = framework.simulate_graph(graph(load(traces)), ring, fidelity=fidelity)
        assert result.seconds == pytest.approx(expected, rel=1e-12)


# comm_size is the share of a rank; a barrier has no bytes.
FACTORS = {Collective.ALL_GATHER: 2, Collective.GATHER: 2, Collective.BARRIER: 0}


@pytest.mark.parametrize("kind", Collective)
def test_sizes_are_those_of_the_larger_buffer(kind: Collective, load: Load) -> None:
    found = graph(load({rank: [call(0, kind, 100)] for rank in range(2)}))
    pattern = kind.name.removesuffix("_BLOCK").lower().replace("_", "-")
    assert str(found.patterns[0]) == ("all-reduce" if kind is Collective.BARRIER else pattern)
    assert found.bytes.tolist() == [100 * FACTORS.get(kind, 1)]


def test_replay_takes_microseconds_and_roofline_flops_and_bytes(load: Load) -> None:
    nodes = [
        comp(0, micros=7, num_ops=10**12, tensor_size=10**6, is_cpu_op=0),
        comp(1, micros=9, num_ops=10**12, tensor_size=10**6, is_cpu_op=1),
        comp(2, micros=5, num_ops=10**12, tensor_size=0),
        comp(3, micros=6),
        comp(4, fredfw_seconds=2.5e-9),
    ]
    workload = load({0: nodes})
    found = graph(workload)
    assert found.seconds.tolist() == pytest.approx([7e-6, 9e-6, 5e-6, 6e-6, 2.5e-9])
    assert workload.notes(System(npus=1)) == ()
    workload = load({0: nodes}, mode="roofline")
    found = graph(workload)
    assert found.seconds.tolist() == pytest.approx([np.nan, 9e-6, 0.0, 6e-6, 2.5e-9], nan_ok=True)
    assert found.flops.tolist() == [1e12, 1e12, 1e12, 0, 0]
    # As ASTRA-sim has it: FLOPs over the lesser of peak and bandwidth x intensity.
    npu = Npu(peak=1e14, memory_bandwidth=1e12)
    assert npu.seconds(found.flops[0], found.bytes[0]) == pytest.approx(1e12 / min(1e14, 1e12 * 1e12 / 1e6))
    note = "2 computations take the duration in the traces: num_ops or tensor_size is not there"
    assert workload.notes(System(npus=1)) == (note,)


CPU = {"is_cpu_op": True}
NOT_SIMULATED = [
    Node(0, "c10d::allreduce_", NodeType.COMM_COLL, attributes=CPU),
    Node(1, "c10d::send", NodeType.COMM_SEND, attributes=CPU),
    Node(2, "nothing", NodeType.INVALID, micros=5),
    Node(3, "aten::mm", NodeType.COMP, attributes=CPU),
]
REDUCES, ALONE = call(0, Collective.ALL_REDUCE, 8), call(0, Collective.ALL_REDUCE, 8, pg_name="1")
THREE = {rank: [REDUCES] for rank in range(3)}


@pytest.mark.parametrize(
    ("ranks", "npus", "notes"),
    [
        ({0: [comp(0, num_ops=5, tensor_size=5)]}, 1, "all computations take 0 s in the traces; mode ="),
        (THREE, 4, "traces of 3 ranks on 4 NPUs; ASTRA-sim needs a file for each"),
        (THREE, 3, ""),
        ({0: [REDUCES, comp(2)]}, 2, "traces of 1 rank on 2 NPUs; ASTRA-sim/1 collective is among one rank, and costs"),
        ({0: [ALONE, call(1, Collective.ALL_REDUCE, 8, pg_name="1")], 1: [comp(0)]}, 2, "2 collectives are among one "),
        ({0: NOT_SIMULATED}, 1, "1 node of type INVALID takes no time/2 messages and collectives of the CPU are not s"),
    ],
)
def test_notes_say_what_is_not_there(ranks: Ranks, npus: int, notes: str, load: Load) -> None:
    found = load(ranks, {"1": [0]}).notes(System(npus=npus))
    for one, note in zip(found, notes.split("/") if notes else (), strict=True):
        assert one.startswith(note)


def test_nodes_wait_for_data_and_control_which_may_be_passed_over_and_dangling_ones_are_counted(load: Load) -> None:
    traces = {0: [comp(1), comp(2), Node(9, "last", NodeType.COMP, data=[1, 77], control=[2, 78, 79])]}
    for control, before, count in ((True, {"comp 1", "comp 2"}, "3"), (False, {"comp 1"}, "1")):
        workload = load(traces, control_dependencies=control)
        assert edges(graph(workload))["last"] == before
        (note,) = workload.notes(System(npus=1))
        assert note.startswith(f"{count} dependenc")


def test_a_cycle_of_control_dependencies_says_what_runs(load: Load) -> None:
    long = "f" * 10**5
    traces = {0: [Node(1, long, NodeType.COMP, control=[2]), Node(2, "last", NodeType.COMP, data=[1])]}
    with pytest.raises(InputError, match="wait for each other in a cycle of 2") as caught:
        graph(load(traces))
    accepted = "control_dependencies = false, as the data dependencies alone have no cycle, or "
    assert str(caught.value.accepted).startswith(accepted)
    assert f"{'f' * 57}...'" in str(caught.value)
    assert len(str(caught.value)) < 1000
    assert len(graph(load(traces, control_dependencies=False))) == 2
    # A cycle of data dependencies does not blame control.
    with pytest.raises(InputError, match="wait for each other in a cycle of 2") as caught:
        graph(load({0: [comp(1, 2), comp(2, 1), Node(3, "last", NodeType.COMP, control=[1])]}))
    assert "control_dependencies" not in str(caught.value)


def test_ids_need_no_order_and_the_lowest_ready_one_comes_first(load: Load) -> None:
    # Rank 1 numbers its collectives the other way round; what each waits for decides which is which.
    first = [call(5, Collective.ALL_REDUCE, 1), call(3, Collective.ALL_REDUCE, 2, 5)]
    second = [call(2, Collective.ALL_REDUCE, 1), call(4, Collective.ALL_REDUCE, 2, 2)]
    assert graph(load({0: first, 1: second})).bytes.tolist() == [1, 2]
    found = graph(load({0: [comp(7), comp(1, 7), comp(3)], 1: [comp(0)]}))
    assert list(found.names)[:3] == ["comp 3", "comp 7", "comp 1"]


def test_communicators_are_those_of_the_file_or_all(load: Load) -> None:
    # ASTRA-sim reads the whole number that a name begins with.
    others = [call(1, Collective.ALL_REDUCE, 2, 0), call(2, Collective.ALL_REDUCE, 3, 1, pg_name="")]
    others.append(call(3, Collective.ALL_REDUCE, 4, 2, pg_name="0"))
    names = enumerate(("5", "5.0", "6", "6"))
    traces = {rank: [call(0, Collective.ALL_REDUCE, 1, pg_name=name), *others] for rank, name in names}
    found = graph(load(traces, {"5": [1, 0], "6": [2, 3]}))
    tables = {found.bytes[task]: found.tables[found.members[task]].tolist() for task in range(len(found))}
    assert found.bytes.tolist().count(1) == 2
    assert {size: tables[size] for size in (2, 3, 4)} == {size: [[0, 1, 2, 3]] for size in (2, 3, 4)}
    assert [[1, 0]] in [found.tables[one].tolist() for one in found.members]
    # One that is called 0 is that of the file.
    traces = {rank: [call(0, Collective.ALL_REDUCE, 1, pg_name=str(rank // 2))] for rank in range(4)}
    found = graph(load(traces, {"0": [0, 1], "1": [2, 3]}))
    assert sorted(found.tables[one].tolist() for one in found.members) == [[[0, 1]], [[2, 3]]]


def test_a_root_is_the_first_rank_or_the_one_that_is_named(load: Load) -> None:
    def nodes(**root: Value) -> list[Node]:
        return [call(0, Collective.BROADCAST, 1), call(1, Collective.BROADCAST, 1, 0, **root)]

    found = graph(load({rank: nodes(fredfw_root=2) for rank in range(3)}))
    assert found.roots.tolist() == [0, 2]
    with pytest.raises(InputError, match=r"root: .*does not have its root 3"):
        graph(load({rank: nodes(fredfw_root=3) for rank in range(3)}))
    with pytest.raises(InputError, match=r"has fredfw_root 1\.5 \(accepted: a whole number"):
        graph(load({rank: nodes(fredfw_root=1.5) for rank in range(3)}))


def test_process_groups_of_pytorch_are_read_from_the_trace(load: Load) -> None:
    listed = json.dumps([{"pg_name": "7", "ranks": [0, 1]}, {"pg_name": "8", "ranks": []}])
    for text in (listed, f"['{listed}']"):
        nodes = [
            Node(0, "## process_group:init ##", NodeType.METADATA, inputs=text),
            call(1, Collective.ALL_REDUCE, 1, 0, pg_name="7"),
            call(2, Collective.ALL_REDUCE, 2, 1, pg_name="8"),
        ]
        found = graph(load({0: nodes, 1: nodes, 2: [nodes[0], nodes[2]._replace(data=[0])]}))
        tables = [found.tables[one].tolist() for one in found.members[found.kinds == TaskKind.COLLECTIVE]]
        assert tables == [[[0, 1]], [[0, 1, 2]]]


def test_collectives_run_along_the_dimensions_that_they_use(load: Load) -> None:
    used: Sequence[tuple[bool, ...]] = [(True, False, True, True), (False, True, True, True), (True, True, True, True)]
    nodes = [call(one, Collective.ALL_REDUCE, one, involved_dim=dims) for one, dims in enumerate(used, start=1)]
    found = graph(load(dict.fromkeys(range(6), nodes), dimensions=(2, 3)))
    groups = [(found.bytes[task], row) for task in range(len(found)) for row in members(found, task)]
    inner, outer = [[0, 1], [2, 3], [4, 5]], [[0, 2, 4], [1, 3, 5]]
    assert sorted(groups) == [*((1, row) for row in inner), *((2, row) for row in outer), (3, [0, 1, 2, 3, 4, 5])]
    with pytest.raises(InputError, match=r"node 1 \(call 1\): runs over some dimensions of the network"):
        graph(load(dict.fromkeys(range(6), nodes)))
    with pytest.raises(InputError, match=r"dimensions: \[2, 2\] are not the dimensions of 6 ranks"):
        graph(load(dict.fromkeys(range(6), nodes), dimensions=(2, 2)))


def test_remote_memory_is_the_last_tier_of_the_fabric(load: Load) -> None:
    nodes = [
        Node(0, "load", NodeType.MEM_LOAD, attributes={"tensor_size": 10**6}),
        comp(1, 0, micros=5),
        Node(2, "store", NodeType.MEM_STORE, (1,), attributes={"tensor_size": 10**5}),
    ]
    workload = load(dict.fromkeys(range(2), nodes))
    tiers = tuple(MemoryTier(name=name, bandwidth=1e9) for name in ("cxl", "pool"))
    found = workload.graph(System(npus=2, memories=tiers))
    assert found.memory_names == ("pool",)
    tasks = Counter(zip(found.kinds.tolist(), found.bytes.tolist(), found.memories.tolist(), strict=True))
    assert tasks == {(TaskKind.COMPUTE, 0, -1): 2, (TaskKind.LOAD, 1e6, 0): 2, (TaskKind.STORE, 1e5, 0): 2}
    assert load({0: nodes}, remote_memory="cxl").graph(System(npus=1, memories=tiers)).memory_names == ("cxl",)
    for fields, system in (({}, System(npus=1)), ({"remote_memory": "cxi"}, System(npus=1, memories=tiers))):
        with pytest.raises(UnknownNameError, match=r"^remote_memory: .*has no memory tier"):
            load({0: nodes}, **fields).graph(system)


# --- bad input


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([Node(0, "f" * 10**5, 8)], f"node 0 ({'f' * 57}...): is of type 8 (accepted: 0 (INVALID), "),
        ([comp(0), comp(0)], "node 0 (comp 0): has the id of another node"),
        ([Node(0, "n", NodeType.COMM_COLL)], "node 0 (n): has no comm_type"),
        ([Node(0, "n", NodeType.COMM_COLL, attributes={"comm_type": 0})], "node 0 (n): has no comm_size"),
        ([call(0, Collective.ALL_REDUCE, 1, comm_type=12)], "node 0 (call 0): has comm_type 12"),
        ([call(0, Collective.ALL_REDUCE, 1, pg_name="3")], "node 0 (call 0): names the communicator '3', which is not"),
        ([call(0, Collective.ALL_REDUCE, 1, pg_name="1")], "node 0 (call 0): is of rank 0, which is not in its comm"),
        ([call(0, Collective.ALL_REDUCE, 1, pg_name="2")], "communicator '2', which has rank 9"),
        ([send(0, 0, 1)._replace(attributes={"comm_dst": 0.5, "comm_size": 1})], "node 0 (send 0): has comm_dst 0.5"),
        ([send(0, 1, 0)], "node 0 (send 0): has comm_src 1 in the trace of rank 0"),
        (
            [send(5, 0, 7)],
            "node 5 (send 5): has comm_dst 7, and there is no file of rank 7 (accepted: 0, the ranks that",
        ),
        ([receive(5, 7, 0)], "node 5 (receive 5): has comm_src 7, and there is no file of rank 7"),
        ([Node(0, "n", NodeType.COMM_SEND, attributes={"comm_size": 8})], "node 0 (n): has no comm_dst"),
    ],
)
def test_impossible_nodes_are_named(nodes: Sequence[Node], message: str, load: Load) -> None:
    workload = load({0: nodes}, {"1": [1], "2": [0, 9]})
    with pytest.raises(InputError) as caught:
        graph(workload)
    assert message in str(caught.value)
    assert str(workload.traces.files[0].path) in str(caught.value)


@pytest.mark.parametrize(
    ("ranks", "message"),
    [
        ({0: [comp(0, 1), comp(1, 2), comp(2, 1)]}, "'comp 1'"),
        ({0: [send(0, 0, 1)], 1: [comp(0)]}, "'send 0' of rank 0"),
        ({0: [comp(0)], 1: [receive(0, 0, 1)]}, "'receive 0' of rank 1"),
        ({0: [call(0, Collective.ALL_REDUCE, 1)], 1: [comp(0)]}, "'call 0'"),
        ({0: [call(0, Collective.ALL_REDUCE, 1)], 1: [call(0, Collective.ALL_REDUCE, 2)]}, "'call 0'"),
    ],
)
def test_nodes_that_do_not_fit_together_are_named(ranks: Ranks, message: str, load: Load) -> None:
    with pytest.raises(InputError, match=message):
        graph(load(ranks))


def test_missing_and_unknown_ranks_and_damaged_files_are_named(load: Load, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="traces: there is no file for rank 1, 2, and one for rank 3"):
        graph(load({0: [comp(0)], 3: [comp(0)]}))
    (tmp_path / "t.03.et").write_bytes(et.write([comp(0)]))
    with pytest.raises(InputError, match=r"is of rank 3, and so is "):
        graph(load({}))
    (tmp_path / "t.x.et").write_bytes(b"")
    with pytest.raises(InputError, match=r"traces: has no rank in its name"):
        graph(Chakra(traces=Files.at(tmp_path / "t.x.et")))
    path = tmp_path / "t.0.et"
    path.write_bytes(et.write([comp(0)])[:-1])
    with pytest.raises(InputError, match=r"t\.0\.et: is no Chakra trace, or is damaged, at offset 8: a message of"):
        graph(Chakra(traces=Files.at(path)))


def test_impossible_communicators_are_named(load: Load, tmp_path: Path) -> None:
    groups = {text: f"1: {text[6:-1]} is not a group" for text in ('{"1": [0, 0]}', "{\"1\": ['tbd']}", '{"1": []}')}
    for text, message in {"[1]": "is not a table", "{": "is not JSON", **groups}.items():
        (tmp_path / "groups.json").write_text(text.replace("'", '"'), encoding="utf-8")
        with pytest.raises(InputError, match=re.escape(message)):
            graph(load({0: [comp(0)]}, comm_groups=tmp_path / "groups.json"))


# --- what files hold


def test_info_says_what_files_hold(load: Load) -> None:
    nodes = [
        comp(0, micros=3, num_ops=10, tensor_size=20),
        comp(1, 0, 99, micros=4, is_cpu_op=True),
        call(2, Collective.ALL_GATHER, 7, 1, pg_name="1"),
        call(3, Collective.ALL_GATHER, 9, 2, pg_name="1"),
        call(4, Collective.BARRIER, 0, 3),
        send(5, 1, 0, 4),
        Node(6, "c10d::broadcast_", NodeType.COMM_COLL, attributes={"is_cpu_op": True}),
    ]
    (found,) = load({1: nodes}, {"1": [0, 1]}).info()  # ranks may be missing
    assert (found.rank, found.dependencies, found.dangling) == (1, 6, 1)
    assert found.nodes == {"COMP": 2, "COMM_SEND": 1, "COMM_COLL": 4}
    assert found.seconds["COMP"] == pytest.approx(7e-6)
    assert (found.flops, found.bytes) == (10, 20)
    assert [(one.operation, one.communicator, one.count, one.bytes, one.least, one.most) for one in found.calls] == [
        ("all-gather", "1", 2, 16, 7, 9),
        ("barrier", "all", 1, 0, 0, 0),
        ("send", "", 1, 8, 8, 8),
        ("collective without comm_type", "all", 1, 0, 0, 0),
    ]
    assert found.communicators == {"1": (0, 1)}
    assert found.facts["operations of the CPU"] == 2
    assert found.facts["version"] == "0.0.4"


def test_files_are_recognised() -> None:
    assert all(Chakra.recognises(name, b"") for name in ("a.0.et", "a.0.et.gz", "a.0.eg"))
    for head in (
        b'{\n "workload_graph": [',
        b'{"nodes": [{"node_type": "comp_node"',
        b'{"version": "0.0.4"}{"id": "1", "type": "COMP_NODE"',
        b'{"schema": "1.0.1", "nodes": [{"id": 2, "ctrl_deps": 1',  # to be refused by name
    ):
        assert Chakra.recognises("a.json", head)
    assert not any(Chakra.recognises("a.json", head) for head in (b'{"traceEvents": [{"name": "COMP_NODE"', b"[1, 2]"))
    assert not Chakra.recognises("a.csv", b"1,2")
