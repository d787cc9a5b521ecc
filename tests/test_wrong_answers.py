"""Plugins that answer wrongly, through the command line and through a backend: one message that names them, code 1."""

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import fails, fredfw, succeeds

from fredfw.collectives import CollectiveRequest, Pattern
from fredfw.embed import NetworkBackend
from fredfw.errors import PluginError
from fredfw.framework import Framework
from fredfw.plugin.manager import PluginManager

PLUGIN = """
import sys
from typing import ClassVar
import numpy as np
from attrs import evolve, frozen
import fredfw
from fredfw import AdmissionPolicy, CollectiveAlgorithm, Exporter, Fabric, NodeKind, DeviceMesh, Pattern, Placement
from fredfw import Phase, Router, Routes, Schedule, SharingPolicy, Topology, Transport, Workload, ring_schedule

def say(what, *right):
    match what:
        case "exit":
            sys.exit(0)
        case "raise":
            raise IndexError("oh")
        case "right":
            return right[0]
    return None

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
    sharing: str = "max-min"
    def build(self):
        ring = np.arange(4)
        fabric = Fabric("net", np.full(4, NodeKind.NPU), ring, (ring + 1) % 4, 1e9, 0.0, 0.0)
        if self.sharing == "greedy":
            fabric = fabric.with_defaults(sharing=Greedy())
        if self.admission != "right":
            fabric = fabric.with_defaults(admission=Doors(self.admission))
        if self.names != "right":
            fabric = evolve(fabric, node_names=lambda node: say(self.names))
        return say(self.build_says, fabric)

@frozen
class Way(Router):
    name: ClassVar[str] = "way"
    says: str = "right"
    def route(self, fabric, sources, destinations):
        return say(self.says)
    def tree(self, fabric, sources, destinations, operation):
        return say(self.says)

@frozen
class Algorithm(CollectiveAlgorithm):
    name: ClassVar[str] = "wrong"
    patterns: ClassVar[frozenset] = frozenset(Pattern)
    refuses: str = "right"
    says: str = "right"
    text: str = "right"
    sends: str = "all"
    def __str__(self):
        return say(self.text, "wrong")
    def refusal(self, request, view):
        return say(self.refuses, None) if self.refuses != "number" else 3
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
    says: str = "raise"
    def settled(self, fabric):
        return say(self.says)
    def costs(self, call, fabric):
        return fredfw.Costs(step=1e-6)

@frozen
class Greedy(SharingPolicy):
    name: ClassVar[str] = "greedy"
    def rates(self, incidence, capacities, fabric):
        return np.full(len(incidence), 1e10)

@frozen
class Away(Placement):
    name: ClassVar[str] = "away"
    says: str = "none"
    def order(self, fabric, mesh):
        return say(self.says)

@frozen
class Work(Workload):
    name: ClassVar[str] = "work"
    at: str = "mesh"
    says: str = "none"
    def mesh(self, system):
        return say(self.says) if self.at == "mesh" else DeviceMesh({"dp": 4})
    def graph(self, system):
        return say(self.says)
    def memory(self, system):
        return say(self.says) if self.at == "memory" else fredfw.MemoryUse()

@frozen
class Paper(Exporter):
    name: ClassVar[str] = "paper"
    def export(self, result):
        return say("exit")

def registering(cls):
    return fredfw.hookimpl(lambda: [cls])

fredfw_topologies, fredfw_routers, fredfw_collectives = map(registering, (Net, Way, Algorithm))
fredfw_sharing_policies, fredfw_transports, fredfw_placements = map(registering, (Greedy, Bill, Away))
fredfw_workloads, fredfw_exporters = map(registering, (Work, Paper))
"""
EXPERIMENT = """
[fabrics.net]
topology = "net"
{fabric}
[workloads.one]
workload = {{ name = {workload} }}
"""
REDUCE = '"microbenchmark", pattern = "all-reduce", size = "1 GB"'
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
        ("--set sharing=greedy --algorithm ring", "Greedy.rates() of 'greedy' gives the flows"),
        ("--algorithm wrong --option says=none", "Algorithm.schedule() of 'wrong' returned None; expected a fredfw."),
        ("--algorithm wrong --option text=raise", f"Algorithm.__str__() of 'wrong' {RAISES}"),
        ("--algorithm wrong --option refuses=number", "Algorithm.refusal() of 'wrong' returned 3; expected the reaso"),
        ("--algorithm ring --sensitivity=10 --transport bill", f"Bill.settled() of 'bill' {RAISES}"),
    ],
)
def test_a_collective_names_the_plugin_at_fault(plugin: Path, options: str, expected: str) -> None:
    assert message(plugin, "collective", "all-reduce", "--topology", "net", *options.split()).startswith(expected)


@pytest.mark.parametrize(
    ("fabric", "workload", "options", "expected"),
    [
        ('router = { name = "way", says = "none" }', REDUCE, "", "Way.route() of 'way' returned None; expected"),
        ('placement = { name = "away", says = "none" }', REDUCE, "", "Away.order() of 'away' returned None; expected"),
        ('sharing = "greedy"', REDUCE, "", "Greedy.rates() of 'greedy' gives the flows on link npu0->npu1 "),
        ("", '"work", at = "mesh"', "", "Work.mesh() of 'work' returned None; expected"),
        ("", '"work", at = "memory", says = "exit"', "", f"Work.memory() of 'work' {EXITS}"),
        ("", '"work", at = "graph", says = "raise"', "", f"Work.graph() of 'work' {RAISES}"),
        ("", REDUCE, "--export paper out.txt", f"Paper.export() of 'paper' {EXITS}"),
    ],
)
def test_an_experiment_names_who_fails(plugin: Path, fabric: str, workload: str, options: str, expected: str) -> None:
    Path("one.toml").write_text(EXPERIMENT.format(fabric=fabric, workload=workload))
    for command in ("run", "compare"):
        arguments = options.split() or ["--json", "out.json"]
        assert message(plugin, command, "one.toml", *arguments).startswith(expected)
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
    for ranks in (8, 1024, 4096):
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
    fields = ("dimensions=[40]", "link_bandwidth=100 GB/s", "link_latency=1 ms")
    ring = ("--plugin", "answers.py", *torus, "--option", "sends=to neighbours", *(f"--set={one}" for one in fields))
    Path("ring.toml").write_text(RING)
    for command, results in ((ring, "results"), (("--trust-plugins", "compare", "ring.toml"), "rows")):
        assert note in " ".join(succeeds(*command).split())
        assert [one["notes"] for one in json.loads(succeeds(*command, "--json", "-"))[results]] == [[note]]
    assert f"note: {note}" in " ".join(succeeds("--trust-plugins", "run", "ring.toml").split())


def test_a_plugin_that_fails_costs_no_other_cell(plugin: Path) -> None:
    Path("two.toml").write_text(EXPERIMENT.format(fabric='[fabrics.other]\ntopology = "mesh2d"', workload=REDUCE))
    arguments = ["--plugin", str(plugin), "compare", "two.toml", "--json", "out.json"]
    result = fredfw(*arguments, "--set", "fabrics.net.topology.names=raise")
    assert result.exit_code == 3, result.output
    document = json.loads(Path("out.json").read_text())
    assert [row["fabric"] for row in document["rows"]] == ["other"]
    (failure,) = document["failures"]
    assert failure["fabric"] == "net"
    assert f"Net.build.<locals>.<lambda>() {RAISES}" in failure["reason"]


def test_a_backend_names_the_plugin_at_fault(plugin: Path) -> None:
    plugins = PluginManager.discover()
    plugins.load_file(plugin)
    framework = Framework(plugins)

    def fails(expected: str, fabric: dict[str, Any], **options: Any) -> None:
        def use() -> None:
            backend = NetworkBackend(framework.topology("net", **fabric).build(), plugins=plugins, **options)
            backend.send("npu0", 2, 1.0)
            backend.collective(CollectiveRequest(Pattern.ALL_REDUCE, 4, 1e9), algorithm="wrong")
            backend.run_until_idle()

        with pytest.raises(PluginError) as caught:
            use()
        assert str(caught.value).startswith(f"plugin 'answers.py' ({plugin}): {expected}")

    fails("Greedy.rates() of 'greedy' gives the flows on link", {"sharing": "greedy"})
    fails("Net.build.<locals>.<lambda>() returned None; expected the name of node 0", {"names": "none"})
    fails("Doors.begin() of 'doors' fails: SystemExit: 0", {"admission": "exit"})
    router = plugins.routers.get("way")
    fails("Way.route() of 'way' fails: IndexError: oh (line ", {}, router=router("raise"))  # type: ignore[call-arg]
