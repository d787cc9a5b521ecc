"""Values of an experiment that options replace, and experiments that cannot be read."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from command_line import TWO, refused, succeeds, words


def test_values_of_the_experiment_are_replaced() -> None:
    rate = ("--set", "fabrics.slow.topology.rate=4 GB/s")
    table = words(succeeds("compare", TWO, *rate, "--set", "title=Another"))
    assert ["Another"] in table
    # 1 s of computation, then 1 GB at 4 GB/s and at 2.
    assert any(line[:3] == ["slow", "1.250", "1.000"] for line in table)
    assert any(line[:3] == ["fast", "1.500", "0.833"] for line in table)
    scaled = ("--set", "workloads.net.compute_scale=2", "--set", "npu.peak=1978.8 TFLOP/s")
    keep = ("--store", "cells")
    succeeds("run", TWO, "--fabric", "slow", *rate, *scaled, "--json", "slow.json.gz", *keep)
    cell = json.loads(gzip.decompress(Path("slow.json.gz").read_bytes()))
    # Twice the roofline's time at twice the peak.
    assert cell["seconds"] == pytest.approx(1.25)
    assert cell["provenance"]["written"]["fabric"] == {"topology": {"name": "tiny", "rate": "4 GB/s"}}
    succeeds("run", TWO, "--fabric", "fast", *rate, *scaled, *keep)
    assert "there is no result for 2 of 2 cells" in refused("merge", TWO, "cells")
    assert any(line[:2] == ["slow", "1.250"] for line in words(succeeds("merge", TWO, "cells", *rate, *scaled)))
    refused("cells", TWO, "--set", 'fabrics.fast.sweep={rate=["1 GB/s"]}')


@pytest.mark.parametrize("command", ["run", "compare", "cells", "calibrate", "merge"])
@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("fabrics.slwo.topology.rate=1", "--set fabrics.slwo.topology.rate: there is no fabric 'slwo'"),
        ("npu.peek=1", "--set npu.peek: unknown key; did you mean 'peak'?"),
        ("fabrics.slow.rate=1 GB/s", "--set fabrics.slow.rate: unknown key; did you mean fabrics.slow.topology.rate?"),
        ("fidelity=high", "--set fidelity: 'high' is not known"),
        ("npu", "--set: 'npu' is not an assignment"),
    ],
)
def test_bad_values_name_the_option(command: str, assignment: str, message: str) -> None:
    cell = ["store"] if command == "merge" else []
    file = "" if assignment == "npu" else "two.toml: "
    assert refused(command, TWO, *cell, "--set", assignment).startswith(f"{file}{message}")


def test_bad_fields_name_the_option() -> None:
    line = refused("compare", TWO, "--set", "fabrics.slow.topology.rate=1 GB")
    assert line.startswith("two.toml: --set fabrics.slow.topology.rate: '1 GB' has the unit 'GB', not B/s")
    line = refused("compare", TWO, "--set", "fabrics.slow.topology.name=slwo")
    message = "no topology 'slwo'. If a file defines it, use fredfw --plugin "
    assert line.startswith(f"two.toml: --set fabrics.slow.topology: {message}")


def test_a_number_without_a_unit_is_refused_on_the_line() -> None:
    line = refused("collective", "all-reduce", "--topology", "tiny", "--set", "rate=450")
    assert line == "--set.rate: 450 has no unit (accepted: a number with its unit, such as 450GB/s or 450Gbps)"
    numbers = {
        "fabrics.slow.topology.rate=450": "fabrics.slow.topology.rate: 450 has no unit",
        'fabrics.slow.topology={ name = "tiny", rate = 2e9 }': "fabrics.slow.topology.rate: 2000000000.0 has no unit",
        "npu.peak=1": "npu.peak: 1 has no unit",
    }
    for assignment, message in numbers.items():
        for command in (["compare"], ["run", "--fabric", "slow"], ["calibrate"]):
            assert refused(command[0], TWO, *command[1:], "--set", assignment).startswith(f"--set {message}")
    # A file may have numbers in SI units.
    Path("si.toml").write_text(Path(TWO).read_text() + "\n[npu]\npeak = 1e15\n")
    succeeds("compare", "si.toml")


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
def test_bad_experiments(old: str, new: str, message: str) -> None:
    Path(TWO).write_text(Path(TWO).read_text().replace(old, new, 1))
    assert refused("compare", TWO, "--json", "out.json").startswith(message)


def test_unreadable_experiments() -> None:
    Path("latin.toml").write_bytes(b'title = "\xe4"')
    for file in ("missing.toml", ".", "latin.toml"):
        assert refused("run", file).startswith(f"{file}: cannot be read")
