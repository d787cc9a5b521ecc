import json
import struct
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from attrs import asdict
from hypothesis import given, strategies as st

from fredfw.errors import InputError
from fredfw_workload_chakra import et, reading, wire
from fredfw_workload_chakra.trace import Collective, Node, NodeType, Trace, Value
from fredfw_workload_chakra.wire import DamagedError

HEAD = wire.framing(wire.block(1, b"0.0.4"))
SLOTS: Mapping[str, tuple[bytes, float]] = {
    "double": (wire.tag(3, 1) + struct.pack("<d", 2.5), 2.5),
    "float": (wire.tag(5, 5) + struct.pack("<f", 2.5), 2.5),
    "int32": (wire.number(7, -3), -3),
    "int64": (wire.number(9, -(2**40)), -(2**40)),
    "uint32": (wire.number(11, 2**32 - 1), 2**32 - 1),
    "uint64": (wire.number(13, 2**63), 2**63),
    "sint32": (wire.number(15, 5), -3),
    "sint64": (wire.number(17, 6), 3),
    "fixed32": (wire.tag(19, 5) + struct.pack("<I", 2**32 - 1), 2**32 - 1),
    "fixed64": (wire.tag(21, 1) + struct.pack("<Q", 2**40), 2**40),
    "sfixed32": (wire.tag(23, 5) + struct.pack("<i", -7), -7),
    "sfixed64": (wire.tag(25, 1) + struct.pack("<q", -7), -7),
    "bool": (wire.number(27, 1), 1),
}


def file(*nodes: bytes) -> bytes:
    return HEAD + b"".join(map(wire.framing, nodes))


def attribute(name: str, value: bytes) -> bytes:
    return wire.block(10, wire.block(1, name.encode()) + value)


def content(trace: Trace) -> dict[str, object]:
    """Return what is in ``trace``, with groups by their names, which may be numbered in any order."""
    groups = [trace.group_names[one] if one >= 0 else None for one in trace.groups]
    return asdict(trace) | {"groups": groups, "group_names": sorted(trace.group_names)}


def assert_same(found: Trace, expected: Trace) -> None:
    np.testing.assert_equal(content(found), content(expected))


_ids = st.lists(st.integers(0, 2**63 - 1), unique=True, max_size=12)
_sizes = st.integers(0, 2**53)
_attributes: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {},
    optional={
        "is_cpu_op": st.booleans(),
        "num_ops": _sizes,
        "tensor_size": _sizes,
        "comm_type": st.integers(0, 9),
        "comm_size": _sizes,
        "comm_src": st.integers(0, 2**31 - 1),
        "comm_tag": st.integers(-5, 2**31 - 1),
        "pg_name": st.text(max_size=5),
        "involved_dim": st.sampled_from([(True, False), (False, True, True)]),
        "fredfw_seconds": st.floats(0, 1e3),
        "something_else": st.text(max_size=5),
    },
)


@st.composite
def nodes(draw: st.DrawFn) -> list[Node]:
    return [
        Node(
            id=one,
            name=draw(st.text(max_size=20)),
            type=draw(st.sampled_from(list(NodeType))),
            data=draw(st.lists(st.integers(0, 2**63 - 1), max_size=4)),
            control=draw(st.lists(st.integers(0, 2**63 - 1), max_size=4)),
            micros=draw(st.integers(0, 2**40)),
            attributes=draw(_attributes),
            inputs=draw(st.text(max_size=5)),
        )
        for one in draw(_ids)
    ]


@given(nodes())
def test_what_is_written_is_read(given: list[Node]) -> None:
    metadata: dict[str, Value] = {"schema": "fredfw", "pid": 7}
    expected = Trace.of(given, {"version": et.VERSION, **metadata})
    assert_same(et.read(et.write(given, metadata)), expected)


def test_many_nodes_are_read_in_pieces_and_endless_fields_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(et, "_PIECE", 3)
    given = [
        Node(one, f"n{one}", NodeType.COMM_COLL, [one - 1], attributes={"pg_name": str(one % 4), "comm_type": 0})
        for one in range(1, 12)
    ]
    given[7] = given[7]._replace(attributes={"involved_dim": (True, False)})
    assert_same(et.read(et.write(given)), Trace.of(given, {"version": et.VERSION}))
    monkeypatch.setattr(wire, "_MOST_FIELDS", 5)
    with pytest.raises(DamagedError, match="a message of more than 5 fields"):
        et.read(file(wire.number(5, 1) * 6))


@pytest.mark.parametrize("slot", SLOTS)
def test_a_number_may_be_in_any_slot(slot: str) -> None:
    value, expected = SLOTS[slot]
    content = file(wire.number(1, 4) + attribute("comm_size", value))
    assert et.read(content).numbers["comm_size"].tolist() == [expected]
    assert et.slots(content) == {f"comm_size:{slot}": 1}


def test_attributes_and_fields_may_be_unknown_and_lists_packed_or_not() -> None:
    content = file(
        attribute("inputs", b"") + attribute("comm_size", wire.block(2, b"bytes") + wire.number(9, 3)),
        attribute("comm_size", b"") + attribute("comm_sizes", wire.number(9, 4)),
        attribute("tensor_size", wire.block(29, b"text")) + wire.block(10, wire.number(9, 4)),
    )
    trace = et.read(content)
    np.testing.assert_equal(trace.numbers["comm_size"].tolist(), [3, np.nan, np.nan])
    assert np.isnan(trace.numbers["tensor_size"]).all()
    assert et.slots(content)["inputs:none"] == 1
    content = file(
        wire.number(5, 300) + wire.numbers(5, [1, 2**40]) + wire.number(4, 7) + wire.number(99, 1) + wire.number(6, 1)
    )
    trace = et.read(content)
    assert sorted(trace.dependencies[~trace.control].tolist()) == [1, 300, 2**40]
    assert trace.dependencies[trace.control].tolist() == [7]


@pytest.mark.parametrize(
    ("content", "offset", "reason"),
    [
        (b"", 0, "the file is empty"),
        (HEAD[:-2], 0, "a message of 7 bytes begins here, and the file has 5 more"),
        (HEAD + b"\x80", 8, "a length has no end"),
        (HEAD + b"\x02\x09\x01", 9, "a field is longer than its message"),
        (HEAD + b"\x02\x12\x09", 9, "a field is longer than its message"),
        (HEAD + b"\x02\x0b\x09", 9, "a field is of no known type"),
        (HEAD + b"\x02\x08\x80", 10, "a number is longer than its message"),
        (HEAD + b"\x0d\x08" + b"\xff" * 12, 10, "a number has no end"),
        (HEAD + b"\x03\x2a\x01\x80", 11, "a list ends inside a number"),
        (b"\x11\x08\x00\x12\x09COMP_NODE\x18\x038\x05", 0, "it begins with a node, as files of the schema before"),
    ],
)
def test_damage_is_found_with_its_offset(content: bytes, offset: int, reason: str) -> None:
    with pytest.raises(DamagedError) as caught:
        et.read(content)
    assert (caught.value.offset, reason in caught.value.reason) == (offset, True), caught.value.reason


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    with suppress(DamagedError):
        et.read(HEAD + content)


def test_equal_values_of_other_types_have_slots_of_their_own() -> None:
    values: tuple[Value, ...] = (0, False, 0.0, 1, True, 1.0)
    written = [et.write([Node(0, "", NodeType.COMP, (), (), 0, {"a": value})], {}) for value in values]
    assert len(set(written)) == len(values)


def test_the_form_of_the_feeder() -> None:
    copy = {"Id": 216, "Name": "copy", "NodeType": 4, "ctrlDeps": [3], "data_deps": [], "runtime": 318}
    copy["is_cpu_op"] = True
    every = {"Id": 217, "Name": "all", "NodeType": 7, "data_deps": [216], "comm_type": 0, "comm_size": 64}
    trace = reading.parsed(json.dumps({"workload_graph": [copy, every], "workload_name": "w", "ngpus": 8}))
    assert trace.ids.tolist() == [216, 217]
    assert trace.types.tolist() == [NodeType.COMP, NodeType.COMM_COLL]
    assert trace.micros.tolist() == [318, 0]
    assert (trace.dependencies.tolist(), trace.control.tolist()) == ([3, 216], [True, False])
    assert trace.on_cpu.tolist() == [True, False]
    assert trace.numbers["comm_size"][1] == 64
    assert trace.metadata == {"workload_name": "w", "ngpus": 8}


def test_the_form_of_protocol_buffers_is_objects_one_after_the_other() -> None:
    attributes = [
        {"name": "comm_size", "int64Val": "131072"},
        {"name": "is_cpu_op", "boolVal": False},
        {"name": "involved_dim", "boolList": {"values": [True, False]}},
        {"name": "pg_name", "stringVal": "5"},
        {"name": "fredfw_seconds", "doubleVal": 7.5e-6},
    ]
    send = {"id": "1", "name": "send", "type": "COMM_SEND_NODE", "ctrlDeps": ["0"], "dataDeps": ["5"]}
    objects: list[dict[str, Any]] = [
        {"version": "0.0.4", "attr": [{"name": "schema", "stringVal": "s"}]},
        {"name": "first", "type": "METADATA_NODE", "inputs": {"values": '[{"pg_name": "1", "ranks": [0, 1]}]'}},
        {**send, "durationMicros": "7", "attr": attributes},
    ]
    trace = reading.parsed("\n".join(json.dumps(one, indent=1) for one in objects))
    assert trace.metadata == {"schema": "s", "version": "0.0.4"}
    assert trace.ids.tolist() == [0, 1]
    assert trace.types.tolist() == [NodeType.METADATA, NodeType.COMM_SEND]
    assert trace.dependencies.tolist() == [5, 0]
    assert trace.inputs == ('[{"pg_name": "1", "ranks": [0, 1]}]',)
    assert trace.numbers["comm_size"][1] == 131072
    assert trace.seconds[1] == 7.5e-6
    assert trace.dimensions == {1: (True, False)}
    assert trace.group_names == ("5",)


def test_the_form_of_stage() -> None:
    product = {"id": 1, "name": "mm", "node_type": "comp_node", "num_ops": 10, "tensor_size": 20, "data_deps": []}
    reduced = {"id": 2, "name": "ar", "node_type": "COMM_COLL_NODE", "data_deps": [1], "comm_type": "ALL_REDUCE"}
    trace = reading.parsed(json.dumps({"nodes": [product, {**reduced, "comm_size": 4, "comm_group": "3"}]}))
    assert trace.types.tolist() == [NodeType.COMP, NodeType.COMM_COLL]
    assert trace.numbers["num_ops"][0] == 10
    assert trace.numbers["comm_type"][1] == Collective.ALL_REDUCE
    assert np.isnan(trace.numbers["comm_type"][0])
    assert [trace.groups[0], trace.group_names[trace.groups[1]]] == [-1, "3"]


def node(**changed: Any) -> str:
    return json.dumps({"workload_graph": [{"Id": 1, "NodeType": 4, **changed}]})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"workload_graph": [', "is not JSON at offset 20: Expecting value"),
        ('{"nodes": []} []', "has list at offset 14, not an object"),
        ('{"workload_graph": 7}', "workload_graph: is not a list"),
        ('{"workload_graph": [7]}', "workload_graph[0]: 7 is not a node"),
        (node(Id=None), "workload_graph[0].Id: is missing"),
        (node(Id=1.5), "workload_graph[0].Id: 1.5 is not a whole number"),
        (node(runtime="tbd"), "workload_graph[0].runtime: 'tbd' is not a number"),
        (node(data_deps=[0, "x"]), "workload_graph[0].data_deps[1]: 'x' is not a number"),
        (node(comm_type="SUM"), "workload_graph[0].comm_type: 'SUM' is not known"),
        ('{"nodes": [{"id": 1, "node_type": "node"}]}', "nodes[0].node_type: 'node' is not known"),
        ('{"version": "0.0.4"} {"attr": [7]}', "object 0.attr[0]: 7 is not an attribute"),
        ('{"schema": "1.0.1", "nodes": [{"id": 2, "ctrl_deps": 1, "attrs": []}]}', "is a host trace of PyTorch"),
        ('{"traceEvents": []}', "is a trace of PyTorch's profiler, which the workload kineto reads"),
    ],
)
def test_other_json_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        reading.parsed(text)
    assert str(caught.value).startswith(message)
    assert caught.value.accepted
