"""Files that other programs wrote, with what they hold; they are no part of the checkout, and may be beside it."""

import gzip
import json
import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fredfw import File, Files, Framework, Npu, System, TaskKind
from fredfw_workload_chakra import Chakra, et
from fredfw_workload_chakra.trace import Node, NodeType, Value

_PLACES = (parent / "shared" / "samples" / "chakra" for parent in Path(__file__).resolve().parents)
SAMPLES = next((one for one in _PLACES if (one / "expected.json").is_file()), Path("samples"))
EXPECTED: dict[str, dict[str, Any]] = (
    json.loads((SAMPLES / "expected.json").read_text(encoding="utf-8")) if SAMPLES.is_dir() else {}
)
STAGE = ("stage_gpt_tp2_dp2_pp2", "stage_gpt_fsdp4", "stage_gpt_pp4_mb2")
pytestmark = pytest.mark.skipif(not EXPECTED, reason="there are no samples beside the checkout")


def content(name: str) -> bytes:
    found = (SAMPLES / name).read_bytes()
    return gzip.decompress(found) if found[:2] == b"\x1f\x8b" else found


def test_files_hold_what_is_expected() -> None:
    for name, expected in EXPECTED.items():
        (found,) = Chakra(traces=Files.at(SAMPLES / name)).info()
        assert found.nodes == expected["types"], name
        assert found.dangling == expected["dangling"], name
        assert found.facts["data dependencies"] == expected["data"], name
        assert found.facts["control dependencies"] == expected["ctrl"], name
        assert found.facts.get("operations of the CPU", 0) == expected["cpu_ops"], name
        assert sum(found.seconds.values()) == pytest.approx(expected["duration_us"] * 1e-6), name
        calls, sizes = Counter[str](), Counter[str]()
        for one in found.calls:
            operation = {"send": "COMM_SEND", "receive": "COMM_RECV", "collective without comm_type": "?None"}.get(
                one.operation, one.operation.upper().replace("-", "_")
            )
            sizes[operation] += int(one.bytes)
            if not operation.startswith("COMM_"):
                calls[operation] += one.count
        assert calls == expected["colls"], name
        assert sizes == expected["bytes"], name
        slots = et.slots(content(name))
        assert slots == {
            slot.replace(":f28", ":field 28").replace(":f30", ":field 30").replace(":fNone", ":none"): count
            for slot, count in expected["attrs"].items()
        }, name


@pytest.mark.slow
def test_the_library_of_mlcommons_reads_the_same() -> None:
    definitions = pytest.importorskip("chakra.schema.protobuf.et_def_pb2")
    for name in EXPECTED:
        trace = et.read(content(name))
        nodes = list(_messages(content(name), definitions))[1:]
        assert trace.ids.tolist() == [one.id for one in nodes], name
        assert list(trace.names) == [one.name for one in nodes], name
        assert trace.types.tolist() == [one.type for one in nodes], name
        assert trace.micros.tolist() == [one.duration_micros for one in nodes], name
        for index, (one, begin) in enumerate(zip(nodes, trace.dependency_offsets, strict=False)):
            stop = trace.dependency_offsets[index + 1]
            assert trace.dependencies[begin:stop].tolist() == [*one.data_deps, *one.ctrl_deps], name
            values = {attr.name: getattr(attr, attr.WhichOneof("value") or "name") for attr in one.attr}
            for key, column in trace.numbers.items():
                value = values.get(key)
                assert math.isnan(column[index]) if value is None else column[index] == value, (name, key)
            group = trace.groups[index]
            assert values.get("pg_name") == (trace.group_names[group] if group >= 0 else None), name


@pytest.mark.slow
def test_the_library_of_mlcommons_reads_what_is_written() -> None:
    definitions = pytest.importorskip("chakra.schema.protobuf.et_def_pb2")
    numbers: dict[str, Value] = {"is_cpu_op": False, "num_ops": 2**40, "tensor_size": 2**50, "comm_dst": 7}
    values: dict[str, Value] = {**numbers, "pg_name": "1", "x": 0.5}
    node = Node(3, "n", NodeType.COMM_COLL, [1, 300], [2], 5, {**values, "involved_dim": (True, False)})
    metadata, found = _messages(et.write([node], {"schema": "fredfw"}), definitions)
    assert (metadata.version, metadata.attr[0].string_val) == ("0.0.4", "fredfw")
    assert (found.id, found.name, found.type, found.duration_micros) == (3, "n", NodeType.COMM_COLL, 5)
    assert (list(found.data_deps), list(found.ctrl_deps)) == ([1, 300], [2])
    slots = {attr.name: attr.WhichOneof("value") for attr in found.attr}
    types = ("bool_val", "int64_val", "uint64_val", "int32_val", "string_val", "double_val", "bool_list")
    assert slots == dict(zip((*values, "involved_dim"), types, strict=True))
    assert {attr.name: getattr(attr, slots[attr.name]) for attr in found.attr[:-1]} == values
    assert list(found.attr[-1].bool_list.values) == [True, False]


def _messages(data: bytes, definitions: Any) -> Iterator[Any]:
    kind, at = definitions.GlobalMetadata, 0
    while at < len(data):
        size = shift = 0
        while True:
            byte = data[at]
            at += 1
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        yield kind.FromString(data[at : at + size])
        kind, at = definitions.Node, at + size


@pytest.mark.parametrize("name", STAGE)
def test_traces_of_stage_run_with_the_roofline_of_an_npu(name: str) -> None:
    traces, (groups,) = SAMPLES / name / "*.et", (SAMPLES / name).glob("*.json")
    workload = Chakra(traces=Files.at(traces), comm_groups=File.at(groups), mode="roofline")
    graph, files = workload.graph(System(npus=8)), workload.info()
    assert graph.flops.sum() == pytest.approx(sum(one.flops for one in files), rel=1e-12)
    computes = graph.kinds == TaskKind.COMPUTE
    assert graph.bytes[computes].sum() == pytest.approx(sum(one.bytes for one in files), rel=1e-12)
    framework = Framework()
    for topology in ("mesh2d", "fat-tree", "fred"):
        fabric = framework.topology(topology).build()
        result = framework.simulate_graph(graph, fabric, npu=Npu.of("h100"), collectives={"default": "direct"})
        assert result.seconds > 0
