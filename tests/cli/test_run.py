from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import TWO, succeeds, words


def test_run() -> None:
    arguments = ("run", TWO, "--fabric", "fast", "--trace", "trace.json", "--json", "run.json", "--top", "1")
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
