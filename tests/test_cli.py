from __future__ import annotations

import csv
import gzip
import html
import json
import os
import re
import shlex
import subprocess
import sys
from importlib.metadata import version
from io import StringIO
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from fredfw.cli import main, table
from fredfw.cli.plugins import KINDS
from fredfw.experiment.results import Comparison
from fredfw.plugin.manager import PluginInfo, PluginManager
from fredfw.report import layout, tables

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
    from fredfw.errors import InputError

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
def fredfw_exporters():
    return [Folder, Seconds]

@hookimpl
def fredfw_topologies():
    return [Tiny]

@hookimpl
def fredfw_workloads():
    return [Step, Failing]
'''
# An all-reduce of 1 GB between two: each sends half, then half, at 1 or 2 GB/s, so 1 s or 0.5 s after 1 s of compute.
EXPERIMENT = """
title = "Two speeds"
baseline = "slow"
[fabrics]
slow.topology = "tiny"
fast.topology = { name = "tiny", rate = "2 GB/s" }
[workloads]
net.workload = "step"
[[references]]
workload = "net"
fabric = "fast"
speedup = 1.25
source = "a paper"
"""


@pytest.fixture(autouse=True)
def plugin(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path_factory.mktemp("installed")
    (root / "fredfw_test_tiny.py").write_text(PLUGIN)
    info = root / "fredfw_test_tiny-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fredfw-test-tiny\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[fredfw]\ntiny = fredfw_test_tiny\n")
    monkeypatch.syspath_prepend(root)
    monkeypatch.delitem(sys.modules, "fredfw_test_tiny", raising=False)


@pytest.fixture
def experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two.toml").write_text(EXPERIMENT)
    return "two.toml"


def fredfw(*arguments: str) -> Result:
    result = CliRunner().invoke(main, arguments, prog_name="fredfw")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def succeeds(*arguments: str) -> str:
    result = fredfw(*arguments)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def results() -> list[str]:
    """What is in the folder, but stores of cells."""
    return sorted(name for name in os.listdir() if not name.endswith(".cells"))


def is_refused(*arguments: str) -> str:
    """Check that it ends with code 2, nothing on standard output and one line on standard error; return that line."""
    before = results()
    result = fredfw(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert results() == before
    (line,) = result.stderr.splitlines()
    assert line.startswith("fredfw: error: ")
    assert "(accepted: " in line
    return str(line.removeprefix("fredfw: error: "))


def words(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_version_and_help() -> None:
    assert version("fredfw") in succeeds("--version")
    assert "compare" in succeeds("--help")


def test_usage_errors() -> None:
    for arguments in (
        [],
        ["compare"],
        ["collective", "all-reduce"],
        ["compare", "x", "--fidelity", "high"],
    ):
        assert fredfw(*arguments).exit_code == 2


def test_compare(experiment: str) -> None:
    table = words(succeeds("compare", experiment))
    assert ["slow", "2.000", "1.000", "1.000", "1.000"] in table
    assert ["fast", "1.500", "1.333", "best", "1.25", "[1]", "1.000", "0.500"] in table


def test_compare_stepwise_says_how_far_apart_the_two_ways_are(experiment: str) -> None:
    assert "compressed to stepwise: 0 %" in succeeds("compare", experiment, "--fidelity", "stepwise")


def test_compare_writes_files(experiment: str) -> None:
    succeeds("compare", experiment, "--json", "out.json", "--csv", "out.csv", "--plot", "out.png")
    rows = json.loads(Path("out.json").read_text())["rows"]
    assert [row["speedup"] for row in rows] == pytest.approx([1, 4 / 3])
    assert [row["fabric"] for row in csv.DictReader(Path("out.csv").read_text().splitlines())] == ["slow", "fast"]
    assert Path("out.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(os.listdir()) == ["out.csv", "out.json", "out.png", "two.cells", "two.toml"]


def test_a_report_says_how_to_make_it_again(experiment: str) -> None:
    succeeds("--log-level", "error", "compare", experiment, "--set", "title=a 'b'", "--best=1", "--report", "out.html")
    page = html.unescape(Path("out.html").read_text())
    command = """fredfw --log-level=error compare two.toml '--set=title=a '"'"'b'"'"'' --report=out.html --best=1"""
    assert sorted(shlex.split(command)) == sorted(shlex.split(re.findall(r"<code>(fredfw .*)</code>", page)[0]))
    assert "the 1 best of 2 cells by time" in page
    succeeds(
        "run", experiment, "--fabric", "fast", "--no-progress", "--export", "json", "a.json", "--report", "out.html"
    )
    page = html.unescape(Path("out.html").read_text())
    command = "fredfw run two.toml --fabric=fast --report=out.html --export json a.json --no-progress"
    assert sorted(shlex.split(command)) == sorted(re.findall(r"<code>(fredfw .*)</code>", page)[0].split())
    assert "critical path" in page
    assert succeeds("merge", experiment, "two.cells", "--report", "-").startswith("<!DOCTYPE html>")


def test_a_dash_is_standard_output_in_place_of_the_table(experiment: str) -> None:
    assert json.loads(succeeds("compare", experiment, "--json", "-"))["title"] == "Two speeds"
    assert succeeds("compare", experiment, "--csv", "-", "--json", "out.json").startswith("workload,fabric,")


def test_run(experiment: str) -> None:
    arguments = ("run", experiment, "--fabric", "fast", "--trace", "trace.json", "--json", "run.json", "--top", "1")
    lines = words(succeeds(*arguments))
    assert ["exposed", "dp", "0.500", "33.3", "%"] in lines
    # 1 GB each way per NPU over up and down link: 4 GB in all.
    assert ["dp", "4", "GB", "100.0", "%"] in lines
    tier = ["npu", "->", "switch", "2", "2", "GB/s", "33.3", "%", "33.3", "%", "npu0->switch0", "dp", "1", "GB"]
    assert tier in lines
    assert ["dp", "all-reduce", "x2", "direct"] in lines
    assert json.loads(Path("run.json").read_text())["seconds"] == pytest.approx(1.5)
    spans = [one for one in json.loads(Path("trace.json").read_text())["traceEvents"] if one["ph"] == "X"]
    assert [(one["name"], one["pid"], one["dur"]) for one in spans] == [
        ("step", 0, 1e6),
        ("step", 1, 1e6),
        ("dp all-reduce: gradients", 0, 5e5),
        ("dp all-reduce: gradients", 1, 5e5),
        ("exposed dp", 0, 5e5),
        ("exposed dp", 1, 5e5),
    ]


# Between 1 and 4 GB/s, of 1 s and 9 s of computation: 2, 1.5, 1.25 s and 10, 9.5, 9.25 s.
SWEEP = """
title = "Many speeds"
baseline = "at {rate}"
[fabrics."at {rate}"]
topology = "tiny"
sweep = { rate = ["1 GB/s", "2 GB/s", "4 GB/s"] }
baseline = "at 2 GB/s"
[workloads."net {seconds}"]
workload = "step"
sweep = { seconds = [1, 9] }
[[savings]]
name = "faster"
of = "at {rate}"
over = "at 2 GB/s"
by = ["rate", "seconds"]
"""


@pytest.fixture
def sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sweep.toml").write_text(SWEEP)
    return "sweep.toml"


def test_a_sweep_is_compared(sweep: str) -> None:
    lines = words(succeeds("compare", sweep, "--map", "map.svg"))
    assert ["1", "4", "GB/s", "1.25", "1.200", "best", "1.00", "0.25"] in lines
    assert ["1", "GB/s", "-33.3%", "-5.3%"] in lines
    assert ["4", "GB/s", "16.7%", "2.6%"] in lines
    assert Path("map.svg").read_text().startswith("<?xml")


def test_rows_are_sorted_and_chosen(sweep: str) -> None:
    def cells(*options: str) -> list[list[str]]:
        return [line[:3] for line in words(succeeds("compare", sweep, *options)) if line[2:3] == ["GB/s"]]

    everything = [[seconds, rate, "GB/s"] for seconds in "19" for rate in "124"]
    assert cells()[:6] == everything
    assert cells("--sort", "time")[:6] == [[seconds, rate, "GB/s"] for seconds in "19" for rate in "421"]
    assert cells("--sort", "-rate")[:6] == [[seconds, rate, "GB/s"] for rate in "421" for seconds in "19"]
    assert cells("--best", "2")[:3] == [["1", "4", "GB/s"], ["1", "2", "GB/s"]]
    # The same bytes, so the same energy: only the fastest is not beaten.
    assert cells("--pareto", "time, energy") == [["1", "4", "GB/s"]]
    # Files have all cells, in the order of the experiment.
    found = json.loads(succeeds("compare", sweep, "--best", "2", "--csv", "out.csv", "--json", "-"))["rows"]
    assert [row["workload"] for row in found] == [f"net {seconds}" for seconds in (1, 9) for _ in range(3)]
    assert len(Path("out.csv").read_text().splitlines()) == 7


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--sort", "rates", "--sort: no metric and no swept field 'rates'; did you mean 'rate'?"),
        ("--pareto", "time,prize", "--pareto: no metric 'prize'"),
        ("--pareto", ",", "--pareto: no metric ''"),
    ],
)
def test_what_cannot_rank_is_refused_before_anything_runs(sweep: str, option: str, value: str, message: str) -> None:
    assert message in is_refused("compare", sweep, option, value, "--json", "out.json")
    assert not Path("out.json").exists()


def test_parts_of_a_matrix_are_compared_with_their_baselines(sweep: str) -> None:
    rows = json.loads(succeeds("compare", sweep, "--fabric", "at 4 GB/s", "--workload", "net 9", "--json", "-"))["rows"]
    assert [(row["workload"], row["fabric"], row["speedup"]) for row in rows] == [
        ("net 9", "at 2 GB/s", 1.0),
        ("net 9", "at 4 GB/s", pytest.approx(9.5 / 9.25)),
    ]
    rows = json.loads(succeeds("compare", sweep, "--workload", "net {seconds}", "--json", "-"))["rows"]
    assert len(rows) == 6
    line = is_refused("compare", sweep, "--fabric", "at 3 GB/s")
    assert line.startswith("sweep.toml: --fabric: no fabric 'at 3 GB/s'; did you mean 'at ")


def test_cells_are_listed_for_scripts(sweep: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FREDFW_DISABLE_PLUGINS", "tiny")
    lines = [line.split("\t") for line in succeeds("cells", sweep).splitlines()]
    assert lines == [[f"net {s}", f"at {rate} GB/s"] for s in (1, 9) for rate in (1, 2, 4)]


def test_cells_run_on_their_own_are_merged(sweep: str, monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = ("--json", "{}.json", "--csv", "{}.csv", "--plot", "{}.svg", "--map", "{}.pdf")
    printed = succeeds("compare", sweep, *(one.format("compared") for one in outputs))
    for number, line in enumerate(succeeds("cells", sweep).splitlines()):
        workload, fabric = line.split("\t")
        succeeds("run", sweep, "--workload", workload, "--fabric", fabric, "--store", "all")
        if number:
            succeeds("run", sweep, "--workload", workload, "--fabric", fabric, "--store", "rest")
    monkeypatch.setenv("FREDFW_DISABLE_PLUGINS", "tiny")
    listed = [line.split("\t")[2] for line in succeeds("cells", sweep, "--store", "rest").splitlines()]
    assert listed == ["missing", *["done"] * 5]
    assert succeeds("merge", sweep, "all", *(one.format("merged") for one in outputs)) == printed
    for ending in ("json", "csv", "svg", "pdf"):
        assert Path(f"merged.{ending}").read_bytes() == Path(f"compared.{ending}").read_bytes()
    line = is_refused("merge", sweep, "rest", "--json", "out.json")
    assert line.startswith("sweep.toml: there is no result for 1")
    assert is_refused("merge", sweep, "all", "--json", "all").startswith("--json: 'all' is also the input")


def test_a_map_that_cannot_be_drawn_is_refused_before_anything_runs(sweep: str) -> None:
    # A workload that fails where it is run.
    Path(sweep).write_text(SWEEP.replace('"step"', '"failing"'))
    assert fredfw("compare", sweep, "--map", "map.png").exit_code == 1
    Path(sweep).write_text(SWEEP.replace('"step"', '"failing"').replace('by = ["rate", "seconds"]', ""))
    assert is_refused("compare", sweep, "--map", "map.png").startswith("--map: there is no saving by two fields")
    assert is_refused("compare", sweep, "--map", "map.jpg").startswith("map.jpg: --map: unknown picture format")


def test_collective() -> None:
    text = succeeds("collective", "all-reduce", "--topology", "tiny", "--set", "rate=2 GB/s", "--sizes", "1GB:4GB:x2")
    # An all-reduce of n = 2 has busbw = algbw (nccl-tests).
    for size, microseconds in (("1000000000", "500000.00"), ("2000000000", "1000000.00"), ("4000000000", "2000000.00")):
        assert [size, microseconds, "2.000", "2.000", "direct", "2"] in [line[:4] + line[-2:] for line in words(text)]


def test_collective_prints_the_average_bus_bandwidth(experiment: str) -> None:
    del experiment  # only its directory is needed
    sizes = ("-b", "1G", "-e", "4G", "-f", "2")
    text = succeeds("collective", "all-reduce", "--topology", "tiny", *sizes, "--json", "out.json.gz")
    # An all-reduce of n = 2 has busbw = algbw, here half of the link's 1 GB/s x 2 directions.
    assert ["#", "Avg", "bus", "bandwidth", ":", "1", "GB/s"] in words(text)
    document = json.loads(gzip.decompress(Path("out.json.gz").read_bytes()))
    assert [one["size"] for one in document["results"]] == [2**30, 2**31, 2**32]
    assert document["average_busbw"] == pytest.approx(1e9)
    assert document["missing"] == []


@pytest.mark.parametrize(
    "arguments", [["--size", "1M", "--sizes", "1M:2M:x2"], ["--size", "1M", "-b", "8"], ["-f", "2", "-i", "1M"]]
)
def test_sizes_are_given_in_one_way(arguments: list[str]) -> None:
    result = fredfw("collective", "all-reduce", "--topology", "tiny", *arguments)
    assert (result.exit_code, "exclude each other" in result.stderr) == (2, True)


def test_values_of_the_experiment_are_replaced(experiment: str) -> None:
    rate = ("--set", "fabrics.slow.topology.rate=4 GB/s")
    table = words(succeeds("compare", experiment, *rate, "--set", "title=Another"))
    assert ["Another"] in table
    # 1 s of computation, then 1 GB at 4 GB/s and at 2.
    assert any(line[:3] == ["slow", "1.250", "1.000"] for line in table)
    assert any(line[:3] == ["fast", "1.500", "0.833"] for line in table)
    scaled = ("--set", "workloads.net.compute_scale=2", "--set", "npu.peak=1978.8 TFLOP/s")
    keep = ("--store", "cells")
    succeeds("run", experiment, "--fabric", "slow", *rate, *scaled, "--json", "slow.json.gz", *keep)
    cell = json.loads(gzip.decompress(Path("slow.json.gz").read_bytes()))
    # Twice the roofline's time at twice the peak.
    assert cell["seconds"] == pytest.approx(1.25)
    assert cell["provenance"]["written"]["fabric"] == {"topology": {"name": "tiny", "rate": "4 GB/s"}}
    succeeds("run", experiment, "--fabric", "fast", *rate, *scaled, *keep)
    refused = fredfw("merge", experiment, "cells")
    assert (refused.exit_code, "there is no result for 2 of 2 cells" in refused.stderr) == (2, True)
    assert any(line[:2] == ["slow", "1.250"] for line in words(succeeds("merge", experiment, "cells", *rate, *scaled)))
    sweep = ("--set", 'fabrics.fast.sweep={rate=["1 GB/s"]}')
    assert fredfw("cells", experiment, *sweep).exit_code == 2


@pytest.mark.parametrize("command", ["run", "compare", "cells", "calibrate", "merge"])
@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        (
            "fabrics.slwo.topology.rate=1",
            "two.toml: --set fabrics.slwo.topology.rate: there is no fabric 'slwo'",
        ),
        ("npu.peek=1", "two.toml: --set npu.peek: unknown key; did you mean 'peak'?"),
        (
            "fabrics.slow.rate=1 GB/s",
            "two.toml: --set fabrics.slow.rate: unknown key; did you mean fabrics.slow.topology.rate?",
        ),
        ("fidelity=high", "two.toml: --set fidelity: 'high' is not known"),
        ("npu", "--set: 'npu' is not an assignment"),
    ],
)
def test_bad_values_name_the_option(experiment: str, command: str, assignment: str, message: str) -> None:
    cell = ["store"] if command == "merge" else []
    assert is_refused(command, experiment, *cell, "--set", assignment).startswith(message)


def test_bad_fields_name_the_option(experiment: str) -> None:
    line = is_refused("compare", experiment, "--set", "fabrics.slow.topology.rate=1 GB")
    assert line.startswith("two.toml: --set fabrics.slow.topology.rate: '1 GB' has the unit 'GB', not B/s")
    line = is_refused("compare", experiment, "--set", "fabrics.slow.topology.name=slwo")
    assert line.startswith(
        "two.toml: --set fabrics.slow.topology: no topology 'slwo'. If a file defines it, use fredfw --plugin "
    )


def test_cells_are_kept_beside_the_experiment(experiment: str) -> None:
    first = succeeds("compare", experiment, "--json", "first.json")
    store = Path(experiment).with_suffix(".cells")
    assert store.exists()
    # What is there is not run again.
    assert succeeds("compare", experiment, "--json", "second.json") == first
    assert Path("second.json").read_bytes() == Path("first.json").read_bytes()
    before = store.read_bytes()
    succeeds("compare", experiment, "--set", "npu.efficiency=0.5", "--no-store")
    succeeds("compare", experiment, "--set", "npu.efficiency=0.5", "--store", "other")
    assert store.read_bytes() == before
    line = is_refused("compare", experiment, "--json", str(store))
    assert "is also the input" in line
    both = fredfw("compare", experiment, "--store", "other", "--no-store")
    assert (both.exit_code, "exclude each other" in both.stderr) == (2, True)


def test_the_exit_code_says_that_cells_have_no_result(experiment: str) -> None:
    Path(experiment).write_text(
        Path(experiment).read_text() + "[workloads.wide]\nworkload = { name = 'cnn', dp = 64 }\n"
    )
    result = fredfw("compare", experiment, "--json", "out.json")
    assert result.exit_code == 3
    assert result.stderr.splitlines()[-1] == "fredfw: 2 of 4 cells have no result"
    failures = json.loads(Path("out.json").read_text())["failures"]
    assert [(one["workload"], one["fabric"], one["infeasible"]) for one in failures] == [
        ("wide", "slow", True),
        ("wide", "fast", True),
    ]
    # The store has them too, and says the same.
    again = fredfw("compare", experiment, "--json", "again.json")
    assert (again.exit_code, again.stdout) == (3, result.stdout)
    assert Path("again.json").read_bytes() == Path("out.json").read_bytes()
    listed = [line.split("\t")[2] for line in succeeds("cells", experiment, "--store", "two.cells").splitlines()]
    assert listed == ["done", "done", "infeasible", "infeasible"]
    assert is_refused("compare", experiment, "--no-store", "--strict").startswith("two.toml: workloads.wide.workload: ")


def test_collective_as_data(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    arguments = ("collective", "broadcast", "--topology", "tiny", "--group", "1,0", "--root", "1", "--size", "1GB")
    rows = list(csv.DictReader(succeeds(*arguments, "--csv", "-", "--json", str(out)).splitlines()))
    assert float(rows[0]["duration"]) == pytest.approx(1.0)
    document = json.loads(out.read_text())
    assert document["provenance"]["group"] == [1, 0]
    assert document["provenance"]["topology"] == {"name": "tiny", "rate": 1e9}
    # Rank 1 is NPU 0, so the data goes from there to NPU 1.
    assert {link["name"] for link in document["results"][0]["links"]} == {"npu0->switch0", "switch0->npu1"}


def test_calibrate(experiment: str) -> None:
    # With c seconds of computation (c + 1) / (c + 0.5) is 1.25 where c = 1.5, so the factor to the roofline's 1 s is
    # 1.5; it is never below 1.
    for target, solutions in ((1.25, [1.5]), (0.5, [])):
        text = f'{EXPERIMENT}[workloads.net.calibration]\nfabric = "fast"\nspeedup = {target}\n'
        Path(experiment).write_text(text)
        printed = succeeds("calibrate", experiment, "--json", "fit.json")
        (fit,) = json.loads(Path("fit.json").read_text())["calibrations"]
        assert fit["solutions"] == pytest.approx(solutions, rel=1e-6)
        found = "one" if solutions else "none"
        assert ["net", "fast", str(target), found] in [line[:4] for line in words(printed)]
        assert ("[workloads.net]\ncompute_scale = 1.5" in printed) == bool(solutions)


def test_plugins_list() -> None:
    rows = words(succeeds("plugins", "list"))
    assert ["topology", "tiny", "Two", "NPUs", "below", "one", "switch."] in rows
    assert ["workload", "step", "Compute,", "then", "reduce", "1", "GB", "of", "gradients."] in rows
    assert ["command", "speed", "Tell", "the", "speed", "of", "the", "tiny", "network."] in rows
    # In a pipe nothing is cut.
    assert "..." not in succeeds("plugins", "list")


def test_plugins_list_long() -> None:
    rows = [line[:4] for line in words(succeeds("plugins", "list", "--long"))]
    assert ["topology", "tiny", "fredfw-test-tiny", "1.0"] in rows
    assert ["placement", "linear", "fredfw", version("fredfw")] in rows


def test_plugins_list_of_one_kind() -> None:
    rows = words(succeeds("plugins", "list", "--kind", "sharing-policy"))[2:]
    assert [row[2] for row in rows] == [
        *("circuit-preempt", "dcqcn", "hpcc", "max-min", "pfc", "strict-links", "timely", "weighted-max-min"),
    ]
    manager = PluginManager.discover()
    assert [kind.replace("-", " ") for kind in KINDS] == [*(one.kind for one in manager.registries), "command"]


def test_plugins_list_as_data() -> None:
    document = json.loads(succeeds("plugins", "list", "--kind", "topology", "--json", "-"))
    assert document["format"] == "fredfw.plugins"
    (tiny,) = (one for one in document["plugins"] if one["name"] == "tiny")
    assert (tiny["kind"], tiny["distribution"], tiny["version"]) == ("topology", "fredfw-test-tiny", "1.0")
    assert tiny["description"] == "Two NPUs below one switch."


@pytest.mark.parametrize("width", [40, 60, 80])
def test_plugins_list_fits_the_terminal(width: int) -> None:
    infos = [
        PluginInfo("topology", "tiny", None, None, None, "Two NPUs below one switch."),
        PluginInfo("router", "long", None, None, None, "A description of more than a line " * 5),
    ]
    console = Console(file=StringIO(), width=width, color_system=None)
    layout.show(console, tables.plugins_report(infos, width=width))
    assert isinstance(console.file, StringIO)
    lines = console.file.getvalue().splitlines()
    assert len(lines) == 4
    assert width - 5 < max(map(len, lines)) <= width
    assert lines[-1].rstrip().endswith("...")


def test_plugins_show() -> None:
    text = succeeds("plugins", "show", "tiny")
    assert "Two NPUs below one switch." in text
    assert ["rate", "float", "B/s", "1", "GB/s", "of", "each", "link"] in words(text)
    assert "did you mean 'tiny'?" in is_refused("plugins", "show", "tny")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("baseline", "base", "two.toml: base: unknown key; did you mean 'baseline'?"),
        ('rate = "2 GB/s"', 'rate = "2 GB"', "two.toml: fabrics.fast.topology.rate: '2 GB' has the unit 'GB', not B/s"),
        ('rate = "2 GB/s"', "rate = nan", "two.toml: fabrics.fast.topology.rate: nan is not finite"),
        ('slow.topology = "tiny"', 'slow.topology = "tny"', "two.toml: fabrics.slow.topology: no topology 'tny'"),
        ("title", "[", "two.toml: is not TOML"),
    ],
)
def test_bad_experiments(experiment: str, old: str, new: str, message: str) -> None:
    Path(experiment).write_text(EXPERIMENT.replace(old, new, 1))
    assert is_refused("compare", experiment, "--json", "out.json").startswith(message)


def test_unreadable_experiments(experiment: str) -> None:
    del experiment  # only its directory is needed
    Path("latin.toml").write_bytes(b'title = "\xe4"')
    for file in ("missing.toml", ".", "latin.toml"):
        assert is_refused("run", file).startswith(f"{file}: cannot be read")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--topology", "tiny", "--size", "-1GB"], "--size: "),
        (["--topology", "tiny", "--sizes", "1GB"], "--sizes: "),
        (["--topology", "tiny", "--group", "0,0"], "--group: NPU 0 is named twice"),
        (["--topology", "tiny", "--group", "0-2"], "--group: there is no NPU 2"),
        (["--topology", "tiny", "--root", "2"], "root: "),
        (["--topology", "tiny", "--set", "rate=1 GB"], "--set.rate: "),
        (["--topology", "tiny", "--set", "speed=1"], "--set.speed: unknown key"),
        (["--topology", "tiny", "--option", "chunks=1"], "--option: options are given"),
        (["--topology", "tiny", "--algorithm", "dirct"], "--algorithm: no collective 'dirct'; did you mean 'direct'?"),
        (["--topology", "tiny", "--algorithm", "direct", "--option", "chunks=1"], "--option.chunks: unknown key"),
        (["--topology", "tny"], "--topology: no topology 'tny'; did you mean 'tiny'?"),
    ],
)
def test_bad_collectives(experiment: str, arguments: list[str], message: str) -> None:
    del experiment  # only its empty directory is needed
    assert is_refused("collective", "all-reduce", *arguments, "--json", "out.json").startswith(message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--json", "missing/out.json"], "missing/out.json: --json: cannot be written"),
        (["--json", "."], ".: --json: is a directory"),
        (["--json", "two.toml"], "--json: 'two.toml' is also the input"),
        (["--json", "two.toml/"], "--json: 'two.toml/' is also the input"),
        (["--json", "new/"], "new/: --json: names a directory"),
        (["--json", "new/."], "new/.: --json: names a directory"),
        (["--json", "out", "--csv", "./out"], "--csv: './out' is also the path of --json"),
        (["--json", "-", "--csv", "-"], "--csv: '-' is also the path of --json"),
        (["--plot", "out.jpg"], "out.jpg: --plot: unknown picture format"),
    ],
)
def test_bad_outputs_are_refused_before_anything_runs(experiment: str, arguments: list[str], message: str) -> None:
    # The experiment is bad too, but nobody has looked at it yet.
    Path(experiment).write_text("[")
    assert is_refused("compare", experiment, *arguments).startswith(message)


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "fredfw_test_broken-2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fredfw-test-broken\nVersion: 2.0\n")
    (info / "entry_points.txt").write_text("[fredfw]\nbroken = fredfw_test_missing_module\n")
    monkeypatch.syspath_prepend(tmp_path)


def test_a_broken_plugin_is_one_line(broken: None) -> None:
    result = fredfw("plugins", "list")
    assert result.exit_code == 0
    (line,) = result.stderr.splitlines()
    assert line.startswith("fredfw: warning: plugin 'broken' (fredfw-test-broken 2.0, ")
    assert ") cannot be imported: ModuleNotFoundError: " in line


def test_a_failure_of_a_model_is_one_line_and_code_1(experiment: str) -> None:
    Path(experiment).write_text(EXPERIMENT.replace('"step"', '"failing"'))
    result = fredfw("compare", experiment, "--json", "out.json")
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", "fredfw: error: it went wrong\n")
    assert os.listdir() == [experiment]


def test_too_little_memory_is_one_line_and_code_1() -> None:
    unlimited = [word for limit in ("nodes", "links") for word in ("--limit", f"{limit}=10000000000000000")]
    npus = "npus=1000000000000000"
    result = fredfw(*unlimited, "collective", "all-reduce", "--topology", "switch", "--set", npus)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("fredfw: error: there is not enough memory: Unable to allocate")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="has no device that is always full")
def test_an_output_file_on_a_full_disk_is_code_2(experiment: str) -> None:
    line = is_refused("compare", experiment, "--json", "/dev/full")
    assert line.startswith("/dev/full: cannot be written: No space left on device")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="has no device that is always full")
@pytest.mark.parametrize("arguments", [["compare", "two.toml"], ["compare", "two.toml", "--json", "-"], ["chat"]])
def test_a_full_disk_is_one_line_and_code_1(experiment: str, arguments: list[str]) -> None:
    del experiment  # is in the current directory
    command = [sys.executable, "-c", "from fredfw.cli import main; main(prog_name='fredfw')", *arguments]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, env=environment(), stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    message = "fredfw: error: standard output cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, message)


@pytest.mark.parametrize("arguments", [["compare", "two.toml", "--json", "-"], ["speed", "--json", "-"]])
def test_a_closed_standard_output_is_one_line_and_code_2(experiment: str, arguments: list[str]) -> None:
    del experiment  # is in the current directory
    code = "from fredfw.cli import main; main(prog_name='fredfw')"
    command = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, env=environment(), stderr=subprocess.PIPE, text=True, check=False)
    message = "fredfw: error: --json: standard output is closed (accepted: a path, or a standard output that is open)\n"
    assert (done.returncode, done.stderr) == (2, message)


def test_each_file_that_was_written_is_named_on_standard_error(experiment: str) -> None:
    result = fredfw("compare", experiment, "--json", "-", "--csv", "out.csv", "--plot", "\x1b[31m.svg")
    assert (result.exit_code, json.loads(result.stdout)["format"]) == (0, "fredfw.comparison")
    assert result.stderr == "wrote out.csv\nwrote \\x1b[31m.svg\n"
    assert fredfw("compare", experiment, "--json", "-").stderr == ""


def test_a_number_without_a_unit_is_refused_on_the_line(experiment: str) -> None:
    line = is_refused("collective", "all-reduce", "--topology", "tiny", "--set", "rate=450")
    assert line == "--set.rate: 450 has no unit (accepted: a number with its unit, such as 450GB/s or 450Gbps)"
    numbers = {
        "fabrics.slow.topology.rate=450": "fabrics.slow.topology.rate: 450 has no unit",
        'fabrics.slow.topology={ name = "tiny", rate = 2e9 }': "fabrics.slow.topology.rate: 2000000000.0 has no unit",
        "npu.peak=1": "npu.peak: 1 has no unit",
    }
    for assignment, message in numbers.items():
        for command in (["compare"], ["run", "--fabric", "slow"], ["calibrate"]):
            assert is_refused(command[0], experiment, *command[1:], "--set", assignment).startswith(f"--set {message}")
    # A file may have numbers in SI units.
    Path("si.toml").write_text(Path(experiment).read_text() + "\n[npu]\npeak = 1e15\n")
    succeeds("compare", "si.toml")


def test_outputs_are_all_written_or_none(experiment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("out.json").write_text("old")

    def becomes_a_folder(self: Comparison) -> str:
        Path("out.csv").mkdir()
        return "new"

    monkeypatch.setattr(Comparison, "to_json", becomes_a_folder)
    result = fredfw("compare", experiment, "--json", "out.json", "--csv", "out.csv")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("fredfw: error: out.csv: cannot be written: ")
    assert Path("out.json").read_text() == "old"
    assert results() == ["out.csv", "out.json", "two.toml"]


def test_a_defect_keeps_its_traceback(experiment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fredfw.experiment.comparison.speedup", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        fredfw("compare", experiment)


def test_a_defect_of_a_plugin_is_one_line_and_its_traceback_is_logged(experiment: str) -> None:
    Path(experiment).write_text(EXPERIMENT.replace('"step"', '{ name = "failing", defect = true }'))
    result = fredfw("compare", experiment)
    assert (result.exit_code, result.stdout) == (1, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("fredfw: error: plugin 'tiny' (")
    assert "of 'failing' fails: ZeroDivisionError" in line
    logged = fredfw("--log-level", "debug", "compare", experiment).stderr
    assert "Traceback (most recent call last)" in logged
    assert logged.endswith(result.stderr)


def test_logs_go_to_standard_error(experiment: str) -> None:
    result = fredfw("--log-level", "info", "--log-format", "json", "compare", experiment, "--json", "-")
    json.loads(result.stdout)
    entry = json.loads(result.stderr.splitlines()[-1])
    assert (entry["event"], entry["level"], entry["cells"]) == ("compared", "info", 2)
    assert fredfw("compare", experiment).stderr == ""


def test_hook_calls_are_traced_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FREDFW_TRACE_HOOKS", "1")
    result = fredfw("plugins", "list")
    assert "fredfw_topologies" in result.stderr
    monkeypatch.delenv("FREDFW_TRACE_HOOKS")
    assert fredfw("plugins", "list").stdout == result.stdout


# --- commands of plugins


def test_a_plugins_command_runs_like_one_of_the_core() -> None:
    assert ["any", "2e+09"] in words(succeeds("speed", "--rate", "2 GB/s"))
    assert succeeds("speed", "--json", "-") == "1000000000.0"
    assert "Tell the speed of the tiny network." in succeeds("speed", "--help")
    entry = fredfw("--log-level", "debug", "--log-format", "json", "speed")
    assert entry.exit_code == 0


def test_errors_of_a_plugins_command_are_reported_like_those_of_the_core(experiment: str) -> None:
    del experiment  # only its empty directory is needed
    assert is_refused("speed", "--rate", "1 GB").startswith("rate: '1 GB' has the unit 'GB'")
    assert is_refused("speed", "--json", "missing/out.json").startswith("missing/out.json: --json: cannot be written")
    result = fredfw("speed", "--fail")
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", "fredfw: error: it went wrong\n")


def test_a_plugins_command_runs_on_its_own() -> None:
    command = PluginManager.discover().commands.get("speed")
    assert "1e+09" in CliRunner().invoke(command, catch_exceptions=False).stdout


def test_help_lists_the_commands_of_plugins_apart() -> None:
    core, plugins = succeeds("--help").split("Commands of plugins:\n")
    assert [line.split()[0] for line in core.split("Commands:\n")[1].split("\n") if line] == [
        "calibrate",
        "cells",
        "collective",
        "compare",
        "merge",
        "new",
        "plugins",
        "run",
        "study",
        "trace",
        "validate",
    ]
    assert ["speed", "Tell", "the", "speed", "of", "the", "tiny", "network.", "[fredfw-test-tiny]"] in words(plugins)
    assert "chat" not in plugins
    # Without arguments the same is printed, as a mistake.
    assert (fredfw().exit_code, "Commands of plugins" in fredfw().output) == (2, True)


def test_commands_of_the_core_start_without_plugins() -> None:
    for arguments in (["compare", "--help"], ["plugins", "show", "--help"], ["--version"]):
        succeeds(*arguments)
        assert "fredfw_test_tiny" not in sys.modules
    assert fredfw("compare").exit_code == 2
    assert "fredfw_test_tiny" not in sys.modules


def test_an_unknown_command_is_refused_with_the_nearest(experiment: str) -> None:
    del experiment  # only its empty directory is needed
    for wrong, right in (("compar", "compare"), ("speeed", "speed")):
        line = is_refused(wrong)
        assert line.startswith(f"no command '{wrong}'; did you mean '{right}'? (accepted: calibrate, ")


def test_plugins_are_discovered_once(broken: None) -> None:
    assert len(fredfw("speed").stderr.splitlines()) == 1


def test_a_broken_plugin_is_blamed_for_an_unknown_command(broken: None) -> None:
    result = fredfw("nonsense")
    assert result.exit_code == 2
    warning, error = result.stderr.splitlines()
    assert warning.startswith("fredfw: warning: plugin 'broken'")
    assert error.startswith("fredfw: error: no command 'nonsense'; plugin 'broken' (fredfw-test-broken 2.0, ")


def test_plugins_list_and_show_know_commands() -> None:
    rows = [line[:4] for line in words(succeeds("plugins", "list", "--long"))]
    assert ["command", "speed", "fredfw-test-tiny", "1.0"] in rows
    assert ["command", "compare", "fredfw", version("fredfw")] in rows
    assert succeeds("plugins", "show", "speed").startswith("Usage: fredfw speed [OPTIONS]")


def test_a_name_of_the_core_stays_with_the_core(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(COMMAND.format(name="compare"))
    assert "Run every workload" in succeeds("--plugin", str(file), "compare", "--help")
    result = fredfw("--plugin", str(file), "nonsense")
    assert result.exit_code == 1
    assert "plugin 'core'" in result.stderr
    assert "plugin 'mine.py'" in result.stderr
    assert "'compare'" in result.stderr
    # Help is what helps to find that out.
    helped = fredfw("--plugin", str(file), "--help")
    assert (helped.exit_code, helped.stderr) == (0, result.stderr.replace("error", "warning"))
    assert "calibrate" in helped.stdout


# --- plugins that are not installed

COMMAND = """
import click
from fredfw.plugin import hookimpl

@hookimpl
def fredfw_commands():
    return [click.Command("{name}", callback=lambda: click.echo("hello"))]
"""


def test_a_file_is_a_plugin_for_one_call(tmp_path: Path) -> None:
    network = tmp_path / "network.py"
    network.write_text(PLUGIN.replace('"tiny"', '"mine"').split("@hookimpl")[0] + FILE_HOOK)
    command = tmp_path / "command.py"
    command.write_text(COMMAND.format(name="greet"))
    files = ("--plugin", str(network), "--plugin", str(command))
    assert succeeds(*files, "greet") == "hello\n"
    assert "1000000.00" in succeeds(*files, "collective", "broadcast", "--topology", "mine", "--size", "1GB")
    assert ["greet", "[--plugin]"] in words(succeeds(*files, "--help"))
    assert fredfw("greet").exit_code == 2


FILE_HOOK = """
@hookimpl
def fredfw_topologies():
    return [Tiny]
"""


def test_files_that_are_no_plugins(experiment: str, tmp_path: Path) -> None:
    del experiment  # only its empty directory is needed
    assert is_refused("--plugin", "absent.py", "plugins", "list").startswith("absent.py: --plugin: does not exist")
    (tmp_path / "bad.py").write_text("1 / 0")
    result = fredfw("--plugin", "bad.py", "plugins", "list")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"fredfw: error: plugin 'bad.py' ({tmp_path}")
    assert "bad.py) cannot be imported: ZeroDivisionError" in result.stderr


FAULTY = """
from typing import ClassVar
import numpy as np
from attrs import frozen
from fredfw import CollectiveAlgorithm, Pattern, Phase, Schedule, Topology, hookimpl, ring_schedule

@frozen
class Nothing(Topology):
    name: ClassVar[str] = "nothing"
    def build(self):
        return None

@frozen
class Quarter(CollectiveAlgorithm):
    name: ClassVar[str] = "quarter"
    patterns: ClassVar[frozenset[Pattern]] = frozenset({Pattern.ALL_REDUCE})
    nothing: bool = False
    def schedule(self, request, view):
        rank = np.arange(request.ranks)[:, None]
        return None if self.nothing else ring_schedule(request.pattern, request.size / 4, rank)

@frozen
class Near(CollectiveAlgorithm):
    name: ClassVar[str] = "near"
    patterns: ClassVar[frozenset[Pattern]] = frozenset({Pattern.ALL_REDUCE})
    def schedule(self, request, view):
        rank = np.arange(request.ranks)
        phases = [Phase.of(rank, (rank + step) % request.ranks, 0, reduce=True) for step in (1, -1)]
        return Schedule(request.pattern, request.ranks, request.size, 1, phases)

@hookimpl
def fredfw_topologies():
    return [Nothing]

@hookimpl
def fredfw_collectives():
    return [Quarter, Near]
"""
FAULTY_EXPERIMENT = """
plugins = ["faulty.py"]
[fabrics.ring]
topology = { name = "torus", dimensions = [40], link_bandwidth = "100 GB/s", link_latency = "1 ms" }
collectives = { all-reduce = "near" }
[fabrics.nothing]
topology = "nothing"
[workloads.reduce]
workload = { name = "microbenchmark", pattern = "all-reduce", size = "1 GB" }
"""
HOOK = """
from fredfw import hookimpl

@hookimpl
def fredfw_exporters():
    return []

"""
TRUSTED_NOWHERE = """
plugins = ["sub/evil.py"]
fabrics.one.topology = "tiny"
workloads.one.workload = "step"
"""


@pytest.mark.parametrize("command", ["compare", "run", "calibrate"])
def test_plugin_files_of_an_experiment_run_only_if_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sub").mkdir()
    Path("sub/evil.py").write_text(f"{HOOK}open('executed', 'w').close()")
    Path("evil.toml").write_text(TRUSTED_NOWHERE)
    assert is_refused(command, "evil.toml") == (
        "evil.toml: plugins[0]: the plugin file 'sub/evil.py' is not trusted: its code would run "
        "(accepted: fredfw --trust-plugins, fredfw --plugin sub/evil.py, or in Python Framework(trust_plugins=True))"
    )
    assert succeeds("cells", "evil.toml") == "one\tone\n"
    assert not Path("executed").exists()
    if command != "calibrate":  # there is nothing to fit
        for option in (["--trust-plugins"], ["--plugin", "sub/evil.py"]):
            succeeds(*option, command, "evil.toml")
            Path("executed").unlink()


@pytest.mark.parametrize(
    ("option", "arguments", "what"),
    [
        ("--plugin", ["compare", "evil.toml", "--csv"], "--csv"),
        ("--plugin", ["run", "evil.toml", "--trace"], "--trace"),
        ("--plugin", ["collective", "all-reduce", "--topology", "tiny", "--csv"], "--csv"),
        ("--plugin", ["speed", "--json"], "--json"),  # a command of a plugin
        ("--trust-plugins", ["compare", "evil.toml", "--json"], "--json"),
        ("--trust-plugins", ["run", "evil.toml", "--json"], "--json"),
        ("--trust-plugins", ["calibrate", "evil.toml", "--json"], "--json"),
    ],
)
def test_no_output_replaces_a_plugin_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, arguments: list[str], what: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sub").mkdir()
    Path("sub/evil.py").write_text(HOOK)
    Path("link.py").symlink_to("sub/evil.py")
    Path("evil.toml").write_text(TRUSTED_NOWHERE)
    given = [option, "sub/evil.py"] if option == "--plugin" else [option]
    for path in ("sub/evil.py", "./sub/../link.py"):
        assert is_refused(*given, *arguments, path).startswith(f"{what}: {path!r} is also the input")
        assert Path("sub/evil.py").read_text() == HOOK


def test_nothing_from_an_experiment_controls_the_terminal(experiment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    escape = "\x1b]0;owned\x07\x9b31m\u202e"
    hostile = EXPERIMENT.replace('"a paper"', json.dumps(escape))
    Path(experiment).write_text(hostile)
    # Whether standard output is a terminal or not; colours are the console's own.
    for environment in ({}, {"FORCE_COLOR": "1", "TERM": "xterm-256color"}):
        for key, value in environment.items():
            monkeypatch.setenv(key, value)
        printed = succeeds("compare", experiment)
        assert "\x1b]" not in printed
        assert not set("\x07\x9b\u202e") & set(printed)
        assert "\\x1b]0;owned" in printed
    assert json.loads(succeeds("compare", experiment, "--json", "-"))["rows"][1]["reference_source"] == escape
    name = "two\x1b[31m.toml"
    Path(name).write_text(hostile.replace("title", "tittle"))
    for arguments in (["compare", name], ["--log-level", "info", "compare", "absent\x9b.toml"]):
        result = fredfw(*arguments)
        assert (result.exit_code, result.stdout) == (2, "")
        assert not {"\x1b", "\x9b"} & set(result.stderr)
    Path(name).write_text(hostile)
    result = fredfw("--log-level", "info", "compare", name)
    assert "file=two\\x1b[31m.toml" in result.stderr


NO_FABRIC = "Nothing.build() of 'nothing' returned None; expected a fredfw.Fabric\n"


def test_plugins_that_return_nothing_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("faulty.py").write_text(FAULTY)
    Path("faulty.toml").write_text(FAULTY_EXPERIMENT)
    collective = ("--plugin", "faulty.py", "collective", "all-reduce", "--topology")
    for arguments in ((*collective, "nothing"), ("--trust-plugins", "run", "faulty.toml", "--fabric", "nothing")):
        result = fredfw(*arguments)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == f"fredfw: error: plugin 'faulty.py' ({tmp_path / 'faulty.py'}): {NO_FABRIC}"
    result = fredfw(*collective, "torus", "--algorithm", "quarter", "--option", "nothing=true")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.endswith(": Quarter.schedule() of 'quarter' returned None; expected a fredfw.Schedule\n")


def test_a_wrong_algorithm_is_never_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("faulty.py").write_text(FAULTY)
    Path("faulty.toml").write_text(FAULTY_EXPERIMENT)
    torus = ("--plugin", "faulty.py", "collective", "all-reduce", "--topology", "torus", "--size", "1GB")
    # It sends a quarter of what it should, and so takes the least time.
    for ranks in (8, 1024, 4096):
        result = fredfw(*torus, "--set", f"dimensions=[{ranks}]", "--algorithm", "quarter")
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == (
            f"fredfw: error: plugin 'faulty.py' ({tmp_path / 'faulty.py'}): algorithm 'quarter' does not do all-reduce "
            f"among {ranks} NPUs: the chunks sum to 250000000.0 bytes, not to the 1000000000.0 of the request\n"
        )
    # Enough bytes to the wrong ranks show where a schedule is replayed, and else where time and bound are compared: 1
    # GB each way over links of 100 GB/s and 1 ms, and from a rank to the opposite one half of that and 20 ms.
    result = fredfw(*torus, "--set", "dimensions=[8]", "--algorithm", "near")
    assert "algorithm 'near' does not do all-reduce among 8 NPUs: phase 1, repetition 0: rank 0 adds" in result.stderr
    note = (
        "algorithm 'near' takes 11 ms for all-reduce of 1 GB among 40 NPUs, faster than any algorithm can be "
        "(25 ms): its schedule is wrong, or the bound is; check it with fredfw.check or the conformance kit"
    )
    fields = ("dimensions=[40]", "link_bandwidth=100 GB/s", "link_latency=1 ms")
    ring = ("--algorithm", "near", *(f"--set={one}" for one in fields))
    assert f"note: {note}" in " ".join(succeeds(*torus, *ring).split())
    assert f"note: {note}" in " ".join(succeeds("--trust-plugins", "run", "faulty.toml", "--fabric", "ring").split())
    assert note in " ".join(succeeds("--plugin", "faulty.py", "compare", "faulty.toml", "--fabric", "ring").split())
    assert json.loads(succeeds(*torus, *ring, "--json", "-"))["results"][0]["notes"] == [note]
    (row,) = json.loads(succeeds("--plugin", "faulty.py", "compare", "faulty.toml", "--fabric", "ring", "--json", "-"))[
        "rows"
    ]
    assert row["notes"] == [note]


def test_switching_off_what_is_not_installed_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FREDFW_DISABLE_PLUGINS", "tinny")
    result = fredfw("speed")
    assert result.exit_code == 0
    (line,) = result.stderr.splitlines()
    assert line.startswith("fredfw: warning: no plugin 'tinny' is installed")
    assert line.endswith("; did you mean 'tiny'?")


def test_a_ragged_table_is_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        table("Ragged", ["a", "b"], [(1, 2), (3,)])


def environment() -> dict[str, str]:
    """Return an environment in which another process finds the modules that this one does, and buffers its output."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONUNBUFFERED": ""}


@pytest.mark.parametrize(
    "arguments",
    [
        ["compare", "two.toml"],
        *(
            pytest.param(arguments, marks=pytest.mark.slow)
            for arguments in (["compare", "two.toml", "--json", "-"], ["speed"], ["chat"], ["--help"])
        ),
    ],
)
def test_a_reader_that_goes_away_is_no_error(experiment: str, arguments: list[str]) -> None:
    del experiment  # is in the current directory
    command = [sys.executable, "-c", "from fredfw.cli import main; main(prog_name='fredfw')", *arguments]
    process = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    with process.stderr:
        assert process.stderr.read() == ""
    process.wait()


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom fredfw.cli import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print(sorted({'rich', 'matplotlib', 'structlog', 'networkx', 'cattrs', 'quantiphy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_results_go_through_exporter_plugins(experiment: str, tmp_path: Path) -> None:
    succeeds("compare", experiment, "--export", "seconds", "all.txt", "--json", "all.json")
    assert (tmp_path / "all.txt").read_text() == "2.0 1.5"
    assert (tmp_path / "all.json").exists()
    succeeds("run", experiment, "--fabric", "fast", "--export", "seconds", "one.txt")
    assert (tmp_path / "one.txt").read_text() == "1.5"
    result = fredfw("compare", experiment, "--export", "second", "x.txt")
    assert result.exit_code == 2
    assert "did you mean 'seconds'" in result.stderr


def test_short_options_are_exporters(experiment: str, tmp_path: Path) -> None:
    succeeds("compare", experiment, "--export", "json", "a.json", "--json", "b.json", "--export", "csv", "a.csv")
    succeeds("run", experiment, "--fabric", "fast", "--export", "trace", "c.json", "--trace", "d.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    assert (tmp_path / "a.csv").read_text().startswith("workload,")
    assert (tmp_path / "c.json").read_bytes() == (tmp_path / "d.json").read_bytes()


RING = ("collective", "all-reduce", "--topology", "switch", "--set", "npus=4", "--algorithm", "ring")


def test_an_exporter_may_fill_a_directory(experiment: str, tmp_path: Path) -> None:
    succeeds(*RING, "--size", "1MB", "--export", '{name = "folder", ending = "md"}', "out")
    assert {path.name: path.read_text() for path in (tmp_path / "out").iterdir()} == {f"{n}.md": "6" for n in range(4)}
    again = fredfw(*RING, "--size", "1MB", "--export", "folder", "out")
    assert again.exit_code == 2
    assert "out: --export folder out: exists, and is not an empty directory" in again.stderr
    (tmp_path / "new").mkdir()
    succeeds(*RING, "--size", "1MB", "--export", "folder", "new")
    assert len(list((tmp_path / "new").iterdir())) == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*RING, "--size", "1MB", "--export", "folder", "-"), "several files cannot go to standard output"),
        ((*RING, "--size", "1MB", "--export", "folder", "no/new"), "cannot be made: No such file or directory"),
        (
            (*RING, "--sizes", "1MB:2MB:x2", "--export", "folder", "x"),
            "has no form for a sweep (accepted: a collective)",
        ),
        (
            (*RING, "--size", "1MB", "--export", "seconds", "x"),
            "for a collective (accepted: a run or comparison)",
        ),
        (("compare", "{}", "--export", "folder", "x"), "exporter 'folder' has no form for a comparison"),
        (
            ("compare", "{}", "--export", "trace", "x"),
            "no form for a comparison (accepted: a run)",
        ),
        (("run", "{}", "--export", '{ name = "seconds", a = 1 }', "x"), "--export.a: unknown key"),
    ],
)
def test_exports_that_cannot_be(experiment: str, tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    given = (one.replace("{}", experiment) if one == "{}" else one for one in arguments)
    result = fredfw(*given)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert not any((tmp_path / name).exists() for name in ("x", "new", "no"))


def test_a_file_outside_of_its_directory_is_not_written(experiment: str, tmp_path: Path) -> None:
    options = ("--size", "1MB", "--export", '{ name = "folder", ending = "../x" }', "out")
    result = fredfw(*RING, *options)
    assert result.exit_code == 1
    assert "names a file '../x'; expected the name of a file, without a directory" in result.stderr
    assert not (tmp_path / "out").exists()
