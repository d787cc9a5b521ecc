"""What long runs tell while they run, and what an interrupt leaves."""

import gzip
import io
import json
import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from command_line import HEEDING, environment, fredfw, process

from fredfw.cli.output import progress_bar

EXPERIMENT = """
title = "Two fabrics"
fabrics.mesh = { topology = { name = "mesh2d", rows = 2, columns = 2 }, collectives = { default = "ring" } }
fabrics.switch = { topology = { name = "switch", npus = 4 }, collectives = { default = "ring" } }
workloads.small.workload = { name = "microbenchmark", size = "1 MB" }
workloads.large.workload = { name = "microbenchmark", size = "1 GB" }
"""
# Interrupts this process as Ctrl-C does: after one cell, or before a collective of more than 1 MB.
STOP = """
import os
import signal
from fredfw import hookimpl
from fredfw.collectives.direct import DirectAlgorithm

class Stop(DirectAlgorithm):
    '''Direct, but interrupts.'''
    name = "stop"
    def schedule(self, request, view):
        if request.size > 1e6:
            os.kill(os.getpid(), signal.SIGINT)
        return super().schedule(request, view)

@hookimpl
def fredfw_collectives():
    return [Stop]

@hookimpl
def fredfw_after_run(result):
    if (result.workload, result.fabric_name) == ("small", "switch"):
        os.kill(os.getpid(), signal.SIGINT)
"""
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture(autouse=True)
def folder(plugin: Path) -> None:
    Path("two.toml").write_text(EXPERIMENT)
    Path("stop.py").write_text(STOP)


def test_an_interrupted_comparison_leaves_the_cells_that_are_done() -> None:
    outputs = ("--json", "out.json.gz", "--csv", "out.csv", "--plot", "out.png")
    done = fredfw("--plugin", "stop.py", "compare", "two.toml", *outputs)
    assert done.exit_code == 130
    written, last = done.stderr.split("fredfw: ")
    assert written == "wrote out.json.gz\nwrote out.csv\n"
    assert last == "interrupted: 3 of 4 cells done; not written: --plot\n"
    assert "interrupted: 3 of 4 cells" in done.stdout.splitlines()
    fabrics = [line.split()[0] for line in done.stdout.splitlines() if line.startswith(("mesh ", "switch "))]
    assert fabrics == ["mesh", "switch", "mesh"]
    assert [line.split(",")[:2] for line in Path("out.csv").read_text().splitlines()[1:]] == [
        ["small", "mesh"],
        ["small", "switch"],
        ["large", "mesh"],
    ]
    document = json.loads(gzip.decompress(Path("out.json.gz").read_bytes()))
    assert document["missing"] == [{"workload": "large", "fabric": "switch"}]
    assert len(document["rows"]) == 3


def test_an_interrupted_collective_leaves_the_sizes_that_are_done_and_nothing_done_is_one_line() -> None:
    sweep = ("--topology", "switch", "--set", "npus=4", "--algorithm", "stop", "--sizes", "1kB:1GB:x1000")
    done = fredfw("--plugin", "stop.py", "collective", "all-reduce", *sweep, "--json", "out.json")
    assert done.exit_code == 130
    assert done.stderr == "wrote out.json\nfredfw: interrupted: 2 of 3 sizes done\n"
    assert [line.split()[0] for line in done.stdout.splitlines() if " stop " in line] == ["1000", "1000000"]
    document = json.loads(Path("out.json").read_text())
    assert [one["size"] for one in document["results"]] == [1e3, 1e6]
    assert document["missing"] == [1e9]
    run = ("run", "two.toml", "--workload", "small", "--fabric", "switch", "--json", "none.json")
    done = fredfw("--plugin", "stop.py", *run)
    assert (done.exit_code, done.stderr) == (130, "fredfw: interrupted\n")
    assert not Path("none.json").exists()


def test_an_interrupt_during_import_is_one_line() -> None:
    start = f"""{HEEDING}
import os, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "fredfw.cli.output":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
"""
    command = process("--version", start=start)
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "fredfw: interrupted\n")


def test_progress_is_shown_on_a_terminal() -> None:
    reader, writer = pty.openpty()
    command = process("compare", "two.toml", "--workload", "small", start=HEEDING)
    text = b""
    with subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL, stderr=writer, close_fds=True):
        os.close(writer)
        with suppress(OSError):  # how Linux tells that nobody writes any more
            while True:
                text += os.read(reader, 65536)
    os.close(reader)
    # What runs is drawn only if the cells take long enough.
    assert re.search(r"\d+% 0:00:\d\d left ", ESCAPES.sub("", text.decode())), text


def test_no_progress_switches_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress_bar(False) as step:
        assert step is None
    assert terminal.getvalue() == ""
    with progress_bar(True) as step:
        assert step is not None
        step(0.5, 1, "small on mesh")
    shown = terminal.getvalue()
    assert ("50%" in shown, "small on mesh" in shown, " of 1)" in shown) == (True, True, False)


def events(*arguments: str) -> list[dict[str, object]]:
    result = fredfw("--log-level", "info", "--log-format", "json", *arguments)
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stderr.splitlines()]


def test_the_log_of_a_comparison_and_of_a_collective_is_a_story() -> None:
    story = events("compare", "two.toml", "--workload", "small")
    assert [(one["event"], one.get("fabric")) for one in story] == [
        ("experiment read", None),
        ("fabric built", "mesh"),
        ("fabric built", "switch"),
        ("cell begins", "mesh"),
        ("cell ended", "mesh"),
        ("cell begins", "switch"),
        ("cell ended", "switch"),
        ("compared", None),
    ]
    read, built, _, begins, ended, *_ = story
    assert (read["file"], read["fabrics"], read["workloads"]) == ("two.toml", 2, 1)
    assert isinstance(read["plugins"], dict)
    assert {"fredfw-topology-mesh2d", "fredfw-topology-switch", "fredfw-collective-ring"} <= set(read["plugins"])
    # 4 NPUs and an I/O controller at each of 8 outer edge slots; a link each way for 4 edges and 8 controllers.
    assert (built["npus"], built["links"], built["router"], built["sharing"]) == (4, 24, "xy", "max-min")
    assert (begins["workload"], begins["fidelity"], begins["ranks"]) == ("small", "exact", 4)
    assert ended["algorithms"] == {"collective all-reduce x4": "ring"}
    assert {"took", "iteration", "events"} <= set(ended)
    story = events("collective", "all-reduce", "--topology", "switch", "--sizes", "1M:4M:x2")
    assert [one["event"] for one in story] == ["fabric built", *["collective ended"] * 3, "simulated"]
    assert [one["size"] for one in story[1:4]] == [2**20, 2**21, 2**22]
