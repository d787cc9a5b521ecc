"""Failures and defects, of models and of plugins: one line, an exit code, a traceback where it helps."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from command_line import TWO, fails, fredfw, succeeds


def test_a_failure_of_a_model_is_one_line_and_code_1() -> None:
    Path(TWO).write_text(Path(TWO).read_text().replace('"step"', '"failing"'))
    assert fails("compare", TWO, "--json", "out.json", code=1) == "fredfw: error: it went wrong\n"
    assert os.listdir() == [TWO]


def test_too_little_memory_is_one_line_and_code_1() -> None:
    unlimited = [word for limit in ("nodes", "links") for word in ("--limit", f"{limit}=10000000000000000")]
    npus = "npus=1000000000000000"
    told = fails(*unlimited, "collective", "all-reduce", "--topology", "switch", "--set", npus, code=1)
    assert told.startswith("fredfw: error: there is not enough memory: Unable to allocate")


def test_a_defect_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fredfw.experiment.matrix.comparison.speedup", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        fredfw("compare", TWO)


def test_a_defect_of_a_plugin_is_one_line_and_its_traceback_is_logged() -> None:
    Path(TWO).write_text(Path(TWO).read_text().replace('"step"', '{ name = "failing", defect = true }'))
    told = fails("compare", TWO, code=1)
    (line,) = told.splitlines()
    assert line.startswith("fredfw: error: plugin 'tiny' (")
    assert "of 'failing' fails: ZeroDivisionError" in line
    logged = fails("--log-level", "debug", "compare", TWO, code=1)
    assert "Traceback (most recent call last)" in logged
    assert logged.endswith(told)


def test_a_broken_plugin_is_blamed_for_an_unknown_command(broken: None) -> None:
    warning, error = fails("nonsense").splitlines()
    assert warning.startswith("fredfw: warning: plugin 'broken' (fredfw-test-broken 2.0, ")
    assert ") cannot be imported: ModuleNotFoundError: " in warning
    assert error.startswith("fredfw: error: no command 'nonsense'; plugin 'broken' (fredfw-test-broken 2.0, ")


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


@pytest.fixture
def faulty() -> str:
    """Write the plugin and the experiment; return how messages name the plugin."""
    Path("faulty.py").write_text(FAULTY)
    Path("faulty.toml").write_text(FAULTY_EXPERIMENT)
    return f"fredfw: error: plugin 'faulty.py' ({Path('faulty.py').resolve()}): "


COLLECTIVE = "--plugin", "faulty.py", "collective", "all-reduce", "--topology"


def test_plugins_that_return_nothing_are_named(faulty: str) -> None:
    for arguments in ((*COLLECTIVE, "nothing"), ("--trust-plugins", "run", "faulty.toml", "--fabric", "nothing")):
        told = fails(*arguments, code=1)
        assert told == f"{faulty}Nothing.build() of 'nothing' returned None; expected a fredfw.Fabric\n"
    told = fails(*COLLECTIVE, "torus", "--algorithm", "quarter", "--option", "nothing=true", code=1)
    assert told.endswith(": Quarter.schedule() of 'quarter' returned None; expected a fredfw.Schedule\n")


def test_a_wrong_algorithm_is_never_silent(faulty: str) -> None:
    torus = (*COLLECTIVE, "torus", "--size", "1GB")
    # It sends a quarter of what it should, and so takes the least time.
    for ranks in (8, 1024, 4096):
        assert fails(*torus, "--set", f"dimensions=[{ranks}]", "--algorithm", "quarter", code=1) == (
            f"{faulty}algorithm 'quarter' does not do all-reduce among {ranks} NPUs: the chunks sum to 250000000.0 "
            "bytes, not to the 1000000000.0 of the request\n"
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
    compared = succeeds("--plugin", "faulty.py", "compare", "faulty.toml", "--fabric", "ring", "--json", "-")
    assert [row["notes"] for row in json.loads(compared)["rows"]] == [[note]]
