"""A plugin that is installed, and an experiment with it."""

import os
import sys
from pathlib import Path

import pytest
from command_line import TWO

# A distribution of its own, found as every other: two NPUs below a switch, and a workload of one step.
PLUGIN = '''
import numpy as np
from attrs import frozen
from typing import ClassVar
from fredfw.collectives import Pattern
from fredfw.errors import SimulationError
from fredfw.fabric import Fabric, NodeKind, Topology
from fredfw.plugin import hookimpl
from fredfw.plugin.exporter import Exporter
from fredfw.units import bandwidth, duration
from fredfw.workloads import GraphBuilder, DeviceMesh, Workload

@frozen
class Tiny(Topology):
    """Two NPUs below one switch."""
    name: ClassVar[str] = "tiny"
    rate: float = bandwidth("1 GB/s", help="of each link")
    def build(self):
        kinds = [NodeKind.NPU, NodeKind.NPU, NodeKind.SWITCH]
        return Fabric("tiny", np.array(kinds), [0, 1, 2, 2], [2, 2, 0, 1], self.rate, 0.0, 1e-12)

@frozen
class Step(Workload):
    """Compute, then reduce 1 GB of gradients."""
    name: ClassVar[str] = "step"
    seconds: float = duration("1 s", help="of computation")
    def mesh(self, system):
        return DeviceMesh({"dp": 2})
    def graph(self, system):
        builder = GraphBuilder(2)
        step = builder.compute("step", [0, 1], flops=self.seconds * 989.4e12)  # at the NPU's default peak
        builder.collective("gradients", Pattern.ALL_REDUCE, [[0, 1]], 1e9, label="dp", after=[step])
        return builder.build()

@frozen
class Failing(Step):
    """Fails as a model does, or as a defect does."""
    name: ClassVar[str] = "failing"
    defect: bool = False
    def graph(self, system):
        raise ZeroDivisionError if self.defect else SimulationError("it went wrong")

@frozen
class Seconds(Exporter):
    """The seconds, and nothing else."""
    name: ClassVar[str] = "seconds"
    def export(self, result):
        rows = getattr(result, "rows", [result])
        return " ".join(str(row.seconds) for row in rows)

@frozen
class Folder(Exporter):
    """A file for each rank of a collective, with its steps."""
    name: ClassVar[str] = "folder"
    takes: ClassVar[tuple[str, ...]] = ("collective",)
    directory: ClassVar[bool] = True
    ending: str = "txt"
    def export(self, result):
        if self.ending == "../x":
            return {"../x": ""}
        steps = str(result.schedule.steps)
        return {f"{rank}.{self.ending}": steps for rank in range(result.ranks)}

@hookimpl
def fredfw_commands():
    import click
    from fredfw.cli import Outputs, open_framework, table

    @click.command()
    @click.option("--rate", default="1 GB/s")
    @click.option("--fail", is_flag=True)
    @click.option("--json", "path")
    @click.pass_context
    def speed(ctx, rate, fail, path):
        """Tell the speed of the tiny network."""
        outputs = Outputs({"--json": path})
        framework = open_framework(ctx)
        assert framework.plugins is open_framework(ctx).plugins
        fabric = framework.topology("tiny", rate=rate).build()
        if fail:
            raise SimulationError("it went wrong")
        outputs.write({"--json": lambda: str(fabric.bandwidths[0])})
        outputs.show(lambda: table("Speed", ["link", "B/s"], [("any", fabric.bandwidths[0])]))

    @click.command(hidden=True)
    def chat():
        print("bla")

    return [speed, chat]

@hookimpl
def fredfw_exporters(): return [Folder, Seconds]
@hookimpl
def fredfw_topologies(): return [Tiny]
@hookimpl
def fredfw_workloads(): return [Step, Failing]
'''
# An all-reduce of 1 GB between two: each sends half, then half, at 1 or 2 GB/s, so 1 s or 0.5 s after 1 s of compute.
EXPERIMENT = """
title = "Two speeds"
baseline = "slow"
references = [{ workload = "net", fabric = "fast", speedup = 1.25, source = "a paper" }]
[fabrics]
slow.topology = "tiny"
slow.collectives.default = "direct"
fast.topology = { name = "tiny", rate = "2 GB/s" }
fast.collectives.default = "direct"
[workloads]
net.workload = "step"
"""


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("installed")
    (root / "fredfw_test_tiny.py").write_text(PLUGIN)
    os.utime(root / "fredfw_test_tiny.py", (0, 0))  # nobody knows what is imported of a file that has just changed
    _describe(root, "tiny", "1.0", "fredfw_test_tiny")
    return root


def _describe(root: Path, name: str, version: str, module: str) -> None:
    info = root / f"fredfw_test_{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: fredfw-test-{name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(f"[fredfw]\n{name} = {module}\n")


@pytest.fixture(autouse=True)
def plugin(installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install the plugin, and go to a folder with the experiment."""
    monkeypatch.syspath_prepend(installed)
    monkeypatch.delitem(sys.modules, "fredfw_test_tiny", raising=False)
    monkeypatch.chdir(tmp_path)
    Path(TWO).write_text(EXPERIMENT)
    return installed / "fredfw_test_tiny.py"


@pytest.fixture
def broken(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path_factory.mktemp("broken")
    _describe(root, "broken", "2.0", "fredfw_test_missing_module")
    monkeypatch.syspath_prepend(root)
