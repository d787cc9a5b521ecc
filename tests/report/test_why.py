"""What limits an iteration, as text and as JSON."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
from attrs import evolve
from command_line import succeeds
from showing import printed

from fredfw.experiment.results import CriticalPath, RunResult
from fredfw.experiment.why import critical_path
from fredfw.report.runs import headline, why_report

EXPERIMENT = """
[fabrics.f]
topology = { name = "multi-dimensional", dimensions = ["ring 4"], bandwidths = ["100 GB/s"], latencies = ["1 ms"] }
collectives = { default = "ring" }
[workloads.w]
workload = { name = "microbenchmark", size = "8 GB" }
"""


def test_nothing_is_said_that_was_not_asked_for(run: RunResult) -> None:
    assert why_report(run) == []


def test_the_first_line_says_what_limits_the_iteration(run: RunResult) -> None:
    path = critical_path(run)
    # 2 s forward, 1 s more of rank 1, then "grads 2" until 5 s; nobody knows which links it used.
    assert path.by_kind == {"compute": 3.0, "dp": 2.0}
    lines = printed(why_report(evolve(run, critical_path=path)), 200).splitlines()
    assert lines[1] == "limited by compute: 60.0 % of the critical path; then network 40.0 %"
    assert lines[2] == "the path goes through 3 tasks: compute 60.0 %, dp 40.0 %"
    assert any(line.startswith("grads 2 ") and " dp " in line for line in lines)
    tiers = [line for line in lines if line.startswith("switch -> npu")]
    # The link 2->1 at 50 B/s, and 2->0 at 100 B/s, over 5 s.
    assert [line.split()[-2:] for line in tiers] == [["40.0", "%"], ["30.0", "%"]]
    assert "... and 2 others, 60.0 %" in printed(why_report(evolve(run, critical_path=path), top=1), 200)


def test_an_iteration_without_time_has_no_limit() -> None:
    assert headline(CriticalPath(0.0, 0, (), {}, {}, {}, 0.0)) == "nothing limits this iteration: it takes no time"


def test_the_command_prints_and_writes_what_was_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "e.toml"
    file.write_text(EXPERIMENT)
    run = partial(succeeds, "run", str(file))
    document = json.loads(run("--json", "-", "--why"))
    assert sum(document["critical_path"]["by_limit"].values()) == pytest.approx(document["seconds"])
    assert "what_if" not in document
    assert [tier["name"] for tier in document["tiers"]] == ["npu -> npu"]
    assert not {"critical_path", "what_if"} & set(json.loads(run("--json", "-")))
    shown = run("--what-if", "3")
    assert "limited by bandwidth of npu - npu: " in shown
    assert "what if one parameter were 1 % or 3x better" in shown
    both = json.loads(run("--what-if", "--json", "-"))
    assert both["what_if"]["factor"] == 2
    parameters = {one["parameter"] for one in both["what_if"]["improvements"]}
    assert parameters == {"bandwidth of npu - npu", "latency of links", "compute"}
    assert "critical_path" in both
