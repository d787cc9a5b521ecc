"""Plugins that answer wrongly, through the command line and through a backend: one message that names them, code 1."""

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import fails, fredfw, succeeds

from fredfw.embed import NetworkBackend
from fredfw.errors import PluginError
from fredfw.framework import Framework

PLUGIN = """
import sys
from typing import ClassVar
import numpy as np
from attrs import evolve, frozen
from fredfw import AdmissionPolicy, CollectiveAlgorithm, Costs, Exporter, Fabric, NodeKind, Pattern, Phase, Schedule
from fredfw import Topology, Transport, hookimpl, ring_schedule

def say(what, right=None):
    match what:
        case "exit":
            sys.exit(0)
        case "raise":
            raise IndexError("oh")
    return None if what == "none" else right

@frozen
class Doors(AdmissionPolicy):
    name: ClassVar[str] = "doors"
    says: str = "right"
    def begin(self, fabric):
        return say(self.says)

@frozen
class Net(Topology):
    name: ClassVar[str] = "net"
    build_says: str = "right"
    admission: str = "right"
    names: str = "right"
    def build(self):
        ring = np.arange(4)
        fabric = Fabric("net", np.full(4, NodeKind.NPU), ring, (ring + 1) % 4, 1e9, 0.0, 0.0)
        if self.admission != "right":
            fabric = fabric.with_defaults(admission=Doors(self.admission))
        if self.names != "right":
            fabric = evolve(fabric, node_names=lambda node: say(self.names))
        return say(self.build_says, fabric)

@frozen
class Algorithm(CollectiveAlgorithm):
    name: ClassVar[str] = "wrong"
    patterns: ClassVar[frozenset] = frozenset(Pattern)
    refuses: int | None = None
    says: str = "right"
    text: str = "right"
    sends: str = "all"
    def __str__(self):
        return say(self.text, "wrong")
    def refusal(self, request, view):
        return self.refuses
    def schedule(self, request, view):
        rank = np.arange(request.ranks)
        if self.sends == "to neighbours":
            phases = [Phase.of(rank, (rank + step) % request.ranks, 0, reduce=True) for step in (1, -1)]
            return Schedule(request.pattern, request.ranks, request.size, 1, phases)
        size = request.size / 4 if self.sends == "a quarter" else request.size
        return say(self.says, ring_schedule(request.pattern, size, rank[:, None]))

@frozen
class Bill(Transport):
    name: ClassVar[str] = "bill"
    def settled(self, fabric):
        return say("raise")
    def costs(self, call, fabric):
        return Costs(step=1e-6)

@frozen
class Paper(Exporter):
    name: ClassVar[str] = "paper"
    def export(self, result):
        return say("exit")

def registering(cls):
    return hookimpl(lambda: [cls])

fredfw_topologies, fredfw_collectives = map(registering, (Net, Algorithm))
fredfw_transports, fredfw_exporters = map(registering, (Bill, Paper))
"""
EXPERIMENT = """
fabrics.net.topology = "net"
workloads.one.workload = "microbenchmark"
"""
EXITS, RAISES = "fails: SystemExit: 0 (line ", "fails: IndexError: oh (line "


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "answers.py"
    file.write_text(PLUGIN)
    return file


def message(plugin: Path, *arguments: str) -> str:
    (line,) = fails("--plugin", str(plugin), *arguments, code=1).splitlines()
    start = f"fredfw: error: plugin 'answers.py' ({plugin}): "
    assert line.startswith(start)
    return line.removeprefix(start)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--set build_says=none", "Net.build() of 'net' returned None; expected a fredfw.Fabric"),
        ("--set build_says=exit", f"Net.build() of 'net' {EXITS}"),
        ("--set admission=none", "Doors.begin() of 'doors' returned None; expected a fredfw.Adm"),
        ("--algorithm wrong --option says=none", "Algorithm.schedule() of 'wrong' returned None; expected a fredfw."),
        ("--algorithm wrong --option text=raise", f"Algorithm.__str__() of 'wrong' {RAISES}"),
        ("--algorithm wrong --option refuses=3", "Algorithm.refusal() of 'wrong' returned 3; expected the reason"),
        ("--algorithm ring --sensitivity=10 --transport bill", f"Bill.settled() of 'bill' {RAISES}"),
    ],
)
def test_a_collective_names_the_plugin_at_fault(plugin: Path, options: str, expected: str) -> None:
    assert message(plugin, "collective", "all-reduce", "--topology", "net", *options.split()).startswith(expected)


@pytest.mark.parametrize("command", ["run", "compare"])
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--set fabrics.net.topology.build_says=exit --json out.json", f"Net.build() of 'net' {EXITS}"),
        ("--export paper out.txt", f"Paper.export() of 'paper' {EXITS}"),
    ],
)
def test_an_experiment_names_the_plugin_at_fault(plugin: Path, command: str, options: str, expected: str) -> None:
    Path("one.toml").write_text(EXPERIMENT)
    assert message(plugin, command, "one.toml", *options.split()).startswith(expected)
    assert not list(Path().glob("out.*"))


RING = """
plugins = ["answers.py"]
[fabrics.ring]
topology = { name = "torus", dimensions = [40], link_bandwidth = "100 GB/s", link_latency = "1 ms" }
collectives = { all-reduce = { name = "wrong", sends = "to neighbours" } }
[workloads]
reduce.workload = { name = "microbenchmark", pattern = "all-reduce", size = "1 GB" }
"""


def test_a_wrong_algorithm_is_never_silent(plugin: Path) -> None:
    torus = ("collective", "all-reduce", "--topology", "torus", "--size", "1GB", "--algorithm", "wrong")
    # It sends a quarter of what it should, and so takes the least time.
    for ranks in (8, 4096):
        assert message(plugin, *torus, "--set", f"dimensions=[{ranks}]", "--option", "sends=a quarter") == (
            f"algorithm 'wrong' does not do all-reduce among {ranks} NPUs: the chunks sum to 250000000.0 bytes, "
            "not to the 1000000000.0 of the request"
        )
    # Enough bytes to the wrong ranks show where a schedule is replayed, and else where time and bound are compared: 1
    # GB each way over links of 100 GB/s and 1 ms, and from a rank to the opposite one half of that and 20 ms.
    said = message(plugin, *torus, "--set", "dimensions=[8]", "--option", "sends=to neighbours")
    assert said.startswith("algorithm 'wrong' does not do all-reduce among 8 NPUs: phase 1, repetition 0: rank 0 adds")
    note = (
        "algorithm 'wrong' takes 11 ms for all-reduce of 1 GB among 40 NPUs, faster than any algorithm can be "
        "(25 ms): its schedule is wrong, or the bound is; check it with fredfw.check or the conformance kit"
    )
    Path("ring.toml").write_text(RING)
    for command in ("compare", "run"):
        assert note in " ".join(succeeds("--trust-plugins", command, "ring.toml").split())


def test_a_plugin_that_fails_costs_no_other_cell(plugin: Path) -> None:
    Path("two.toml").write_text(f'fabrics.other.topology = "mesh2d"{EXPERIMENT}')
    arguments = ["--plugin", str(plugin), "compare", "two.toml", "--json", "out.json"]
    result = fredfw(*arguments, "--set", "fabrics.net.topology.names=raise")
    assert result.exit_code == 3, result.output
    document = json.loads(Path("out.json").read_text())
    assert [row["fabric"] for row in document["rows"]] == ["other"]
    (failure,) = document["failures"]
    assert failure["fabric"] == "net"
    assert f"Net.build.<locals>.<lambda>() {RAISES}" in failure["reason"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"names": "none"}, "Net.build.<locals>.<lambda>() returned None; expected the name of node 0"),
        ({"admission": "exit"}, "Doors.begin() of 'doors' fails: SystemExit: 0"),
    ],
)
def test_a_backend_names_the_plugin_at_fault(plugin: Path, fields: dict[str, Any], expected: str) -> None:
    framework = Framework()
    framework.plugins.load_file(plugin)
    fabric = framework.topology("net", **fields).build()
    with pytest.raises(PluginError) as caught:
        NetworkBackend(fabric, plugins=framework.plugins).send("npu0", 2, 1.0)
    assert str(caught.value).startswith(f"plugin 'answers.py' ({plugin}): {expected}")
