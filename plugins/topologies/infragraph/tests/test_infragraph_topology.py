import copy
import functools
import json
import operator
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from fabrics import gigabytes

import fredfw_topology_infragraph
from fredfw import Fabric, File, Framework, Level
from fredfw.errors import InputError
from fredfw.testing import TopologyTests
from fredfw_topology_infragraph import InfraGraph

CLUSTER = yaml.safe_load((Path(__file__).parent / "cluster.yaml").read_text())
NVLINK = {"bandwidths": {"nvlink": "450 GB/s"}, "latencies": {"nvlink": "25 ns"}}


def read(folder: Path, content: Any, **fields: Any) -> Fabric:
    file = folder / "cluster.yaml"
    file.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return InfraGraph(File.at(file), **fields).build()


def refused(folder: Path, content: Any, key: str | None, message: str, **fields: Any) -> None:
    with pytest.raises(InputError) as caught:
        read(folder, content, **fields)
    assert (caught.value.key, message in str(caught.value)) == (key, True), caught.value
    assert caught.value.accepted


def changed(change: Callable[[Any], Any]) -> Any:
    content = copy.deepcopy(CLUSTER)
    change(content)
    return content


def test_devices_become_nodes_and_edges_links(tmp_path: Path) -> None:
    fabric = read(tmp_path, CLUSTER, **NVLINK)
    assert fabric.name == "two servers"
    npus = [fabric.node_name(node) for node in fabric.npus]
    assert npus == [f"server.{server}.xpu.{npu}" for server in range(2) for npu in range(4)]
    found = gigabytes(fabric, 2)
    assert len(found) == 2 * 4 * 3
    assert found["server.1.xpu.2->server.1.nvsw.0"] == 450
    assert found["server.1.xpu.2->server.1.nic.2"] == 64
    assert found["server.1.nic.2->leaf.0.asic.0"] == 50
    assert sorted(set(fabric.latencies.tolist())) == [0, 25e-9, 500e-9]
    assert len(set(fabric.servers[fabric.npus].tolist())) == 2
    assert fabric.levels == (
        Level(4, "switch", 450e9, 50e-9, name="instance"),
        Level(2, "switch", 50e9, 1e-6, name="network"),
    )
    assert fabric.coordinates is not None
    np.testing.assert_array_equal(fabric.coordinates[3:6], [[3, 0], [0, 1], [1, 1]])
    assert [note.partition("cluster.yaml")[2] for note in fabric.notes] == [
        " has no bandwidth for nvlink: that of the fields is used",
        " has no latency for pcie: 0 s",
    ]


def test_messages_between_servers_take_their_own_cards_and_json_is_read_too(tmp_path: Path) -> None:
    fabric = read(tmp_path, CLUSTER, **NVLINK)
    result = Framework().simulate_collective(fabric, "broadcast", size=1e6, group=[0, 4], algorithm="direct")
    assert result.duration == pytest.approx(1e6 / 50e9 + 1e-6, rel=1e-12)
    assert gigabytes(read(tmp_path, json.dumps(CLUSTER), **NVLINK)) == gigabytes(fabric)


CARD = """
name: card
components: [{ name: port, choice: port, count: 2 }, { name: bus, choice: custom, custom: { type: edge }, count: 1 }]
links: [{ name: inner, physical: { bandwidth: { gigabytes_per_second: 64 } } }]
edges: [{ ep1: { component: port }, ep2: { component: "bus[0]" }, scheme: many2many, link: inner }]
"""


def test_a_device_may_hold_devices(tmp_path: Path) -> None:
    def nested(content: Any) -> None:
        content["devices"].append(yaml.safe_load(CARD))
        server = content["devices"][0]
        server["components"][2] = {"name": "card", "choice": "device", "count": 4}
        server["edges"][1]["ep2"] = {"component": "card.bus"}
        content["edges"][0]["ep1"]["component"] = "card[0:4].port[-1]"

    found = gigabytes(read(tmp_path, changed(nested), **NVLINK), 2)
    assert found["server.1.card.3.port.1->leaf.0.asic.0"] == 50
    assert found["server.0.card.2.port.0->server.0.card.2.bus.0"] == 64
    assert found["server.0.xpu.1->server.0.card.1.bus.0"] == 64


def test_a_ring_and_slices(tmp_path: Path) -> None:
    def ring(content: Any) -> None:
        edge = content["devices"][0]["edges"][0]
        edge.update(ep1={"component": "xpu[:2]"}, ep2={"component": "xpu[2:]"}, scheme="ring")

    fabric = read(tmp_path, changed(ring), **NVLINK)
    pairs = [(f"server.{n}.xpu.{one}", f"server.{n}.xpu.{(one + 1) % 4}") for n in range(2) for one in range(4)]
    assert [name for name in gigabytes(fabric, 2) if ".nic." not in name] == ["->".join(pair) for pair in pairs]


def test_one_bandwidth_for_what_is_left_and_instances_that_differ_have_no_levels(tmp_path: Path) -> None:
    fabric = read(tmp_path, CLUSTER, bandwidth="100 GB/s", bandwidths={"pcie": "32 GB/s"})
    assert gigabytes(fabric, 2)["server.0.xpu.0->server.0.nvsw.0"] == 100
    assert gigabytes(fabric, 2)["server.0.xpu.0->server.0.nic.0"] == 32

    def uneven(content: Any) -> None:
        content["devices"].append({"name": "one", "components": [{"name": "xpu", "choice": "xpu", "count": 1}]})
        content["instances"].append({"name": "one", "device": "one", "count": 1})
        ends = {"ep1": {"instance": "one", "component": "xpu"}, "ep2": {"instance": "leaf[0]", "component": "asic[0]"}}
        content["edges"].append({**ends, "scheme": "one2one", "link": "ethernet"})

    fabric = read(tmp_path, changed(uneven), **NVLINK)
    assert len(fabric.npus) == 9
    assert not fabric.levels


ALIASES = ["x0: &x0 [1, 1]", *(f"x{n}: &x{n} [*x{n - 1}, *x{n - 1}]" for n in range(1, 40))]
ITSELF = {"name": "server", "choice": "device", "count": 1}
COMPONENT, RATE = "devices[0].edges[0].ep1.component", "devices[0].links[1].physical.bandwidth"


@pytest.mark.parametrize(
    ("path", "value", "key", "message"),
    [
        ("devices", 3, "devices", "is not a list"),
        ("devices[1].name", "server", "devices[1].name", "'server' is there twice"),
        ("devices[0].name", 3, "devices[0].name", "3 is not text"),
        ("devices[0].colour", 3, "devices[0].colour", "unknown key"),
        ("devices[0].components[0].choice", "gpu", "devices[0].components[0].choice", "'gpu' is not known"),
        ("devices[0].components[0].choice", "device", "devices[0].components", "there is no device 'xpu'"),
        ("devices[0].components[0]", ITSELF, "devices[0].components", "a device is a part of itself: server > server"),
        ("devices[0].components[0].count", 0, "devices[0].components[0].count", "0 is refused"),
        ("devices[0].edges[0].scheme", "star", "devices[0].edges[0].scheme", "'star' is not known"),
        ("devices[0].edges[0].link", "nvl", "devices[0].edges[0].link", "there is no link 'nvl'"),
        (COMPONENT, "xpu[4]", COMPONENT, "[4] is none of 4"),
        (COMPONENT, "xpu[x]", COMPONENT, "[x] is none of 4"),
        (COMPONENT, "xpu[0", COMPONENT, "'xpu[0' is not a name with a slice"),
        (COMPONENT, "xpu.port", COMPONENT, "'xpu' has no parts"),
        (f"{RATE}.gigabytes_per_second", "tbd", f"{RATE}.gigabytes_per_second", "'tbd' is refused"),
        (f"{RATE}.terabits", 1, f"{RATE}.terabits", "unknown key"),
        (RATE, {"gigatransfers_per_second": 32}, None, "link 'pcie' has no bandwidth in bits or bytes per second"),
        ("edges[0].ep1.instance", "host", "edges[0].ep1.instance", "there is no instance 'host'"),
        ("edges[0]", {}, "edges[0].ep1", "is missing"),
        ("instances[0].device", "x", "instances[0].device", "there is no device 'x'"),
        ("instances[0].count", 10**11, None, "nodes"),
        ("instances", [], "edges[0].ep1.instance", "there is no instance 'server'"),
    ],
)
def test_bad_values(path: str, value: Any, key: str | None, message: str, tmp_path: Path) -> None:
    content: Any = copy.deepcopy(CLUSTER)
    *way, last = (int(step) if step.isdigit() else step for step in re.findall(r"\w+", path))
    functools.reduce(operator.getitem, way, content)[last] = value
    refused(tmp_path, content, key, message, **NVLINK)


@pytest.mark.parametrize(
    ("content", "fields", "key", "message"),
    [
        (CLUSTER, {}, None, "link 'nvlink' has no bandwidth"),
        (CLUSTER, {"bandwidths": {"nvlnk": 1}}, "bandwidths.nvlnk", "did you mean 'nvlink'?"),
        (CLUSTER, {"bandwidths": {"nvlink": 0}}, "bandwidths.nvlink", "0 is too small"),
        (CLUSTER, {"latencies": 3}, "latencies", "3 is not a table"),
        (CLUSTER | {"instances": [], "edges": []}, {}, None, "there is no xpu"),
        ("[]", {}, None, "is not a mapping"),
        ("devices: [", {}, None, "line 1, column"),
        ('{"devices": ', {}, None, "line 1, column 13"),
        ("a: !!python/object/apply:os.system [true]", {}, None, "could not determine a constructor"),
        ("devices: &a [*a]", {}, "devices[0]", "is not a table"),
        # Aliases do not fill the message.
        ("\n".join(ALIASES), {}, "x0", "unknown key"),
    ],
)
def test_bad_input(content: Any, fields: dict[str, Any], key: str | None, message: str, tmp_path: Path) -> None:
    refused(tmp_path, content, key, message, **fields)


class TestInfraGraph(TopologyTests):
    plugin = fredfw_topology_infragraph
    topologies = (InfraGraph(File.at(Path(__file__).parent / "cluster.yaml"), bandwidth=450e9),)
