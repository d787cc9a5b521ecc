from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from fredfw.errors import InputError
from fredfw_workload_chakra import reading
from fredfw_workload_chakra.trace import Collective, NodeType


def test_the_form_of_the_feeder() -> None:
    copy = {
        "Id": 216,
        "Name": "copy",
        "NodeType": 4,
        "ctrlDeps": [3],
        "data_deps": [],
        "runtime": 318,
        "is_cpu_op": True,
    }
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
