import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from command_line import TWO, refused, succeeds, words

from fredfw.cli.parsing import nccl_sizes, parse_assignments, parse_size, parse_sizes, parse_values
from fredfw.errors import InputError
from fredfw.numbers import parse_numbers


def test_assignments_values_sizes_of_nccl_tests_and_groups() -> None:
    assert parse_assignments(["rows=4", " name = a=b "], "--set") == {"rows": "4", "name": "a=b"}
    texts = ["npu.efficiency=0.5", ' fabrics."a = b".topology.dimensions = 4,4 ', "npu.peak=400 TFLOP/s", "title=x=y"]
    assert parse_values(texts) == {
        "npu.efficiency": 0.5,
        'fabrics."a = b".topology.dimensions': [4, 4],
        "npu.peak": "400 TFLOP/s",
        "title": "x=y",
    }
    # Its defaults: -b 32M, -e 32M, -i 1M.
    assert nccl_sizes("8", "8G", "2", None) == [8 * 2**power for power in range(31)]
    assert nccl_sizes("30M", None, None, None) == [30 * 2**20, 31 * 2**20, 32 * 2**20]
    assert nccl_sizes("1K", "4K", None, "1K") == [1024, 2048, 3072, 4096]
    assert nccl_sizes(None, None, "2", None) == [2**25]
    assert parse_group("8-9, 0-2 ,5", 10) == [8, 9, 0, 1, 2, 5]


# nccl-tests' parsesize: a number, or one with K, M or G in either case, which are powers of 1024.
@pytest.mark.parametrize("number", ["8", "1.5", ".5", "9e9", "1E1", "5e-1"])
@pytest.mark.parametrize(
    ("suffix", "factor"),
    [("", 1), ("K", 2**10), ("k", 2**10), ("M", 2**20), (" g", 2**30), ("kB", 1e3), ("KB", 1e3), (" MiB", 2**20)],
)
def test_sizes_of_nccl_tests_and_with_units(number: str, suffix: str, factor: float) -> None:
    assert parse_size(number + suffix, "--size") == float(number) * factor


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("8:8G:x32", [8, 256, 8192, 2**18, 2**23, 2**28, 2**33]),
        ("1MB:1GB:x4", [1e6, 4e6, 16e6, 64e6, 256e6]),
        ("1MB:9MB:+2MB", [1e6, 3e6, 5e6, 7e6, 9e6]),
        ("5 B:5 B:x2", [5]),
        ("1B:1.331B:x1.1", [1, 1.1, 1.21, 1.331]),
    ],
)
def test_sweeps(text: str, sizes: list[float]) -> None:
    assert parse_sizes(text) == pytest.approx(sizes, rel=1e-12)


parse_group = partial(parse_numbers, what="NPU", key="--group")


fields = partial(parse_assignments, option="--set")
size = partial(parse_size, key="--size")
group_of_ten = partial(parse_group, count=10)


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        *((fields, [text], f"--set: '{text}' is not an assignment") for text in ("rows", "=4")),
        (fields, ["rows=4", "rows=5"], "--set: 'rows' is given twice"),
        *((size, text, f"--size: '{text}' is not a size") for text in ("0 B", "0", "-1GB", "-1", "-1G")),
        *((size, text, f"--size: '{text}' is not finite") for text in ("nan", "nan B", "inf B")),
        (size, "1e101", "--size: 1e+101 is too large"),
        (size, "1 GB/s", "--size: '1 GB/s' has the unit 'GB/s'"),
        (size, "much", "--size: 'much' is not a quantity"),
        (parse_values, ["title"], "--set: 'title' is not an assignment ("),
        (parse_values, ["=1"], "--set: '' is not a path of keys ("),
        (parse_values, ["two rows=1"], "--set: 'two rows' is not a path of keys ("),
        (parse_values, ["a.b=1", 'a."b"=2'], "--set: a.b is given twice ("),
        *((parse_sizes, text, f"--sizes: '{text}' is not a sweep") for text in ("1MB", "1MB:2MB", "1MB:2MB:2")),
        *((parse_sizes, f"1MB:2MB:x{text}", f"--sizes: '{text}' is not a factor") for text in ("1", "nan", "inf", "")),
        *((parse_sizes, text, "--sizes: the first size, ") for text in ("2MB:1MB:x2", "1MB:2:x2")),
        (parse_sizes, "1MB:2MB:+0B", "--sizes: '0B' is not a size"),
        *((parse_sizes, text, "--sizes: from 1") for text in ("1MB:2MB:+1", "1B:1GB:+1B")),
        *((parse_sizes, text, "--sizes: ") for text in ("1:1e308:x10", "1e300:1.7e308:x2", "1:2:x1e-320")),
        (group_of_ten, "0-3,2", "--group: NPU 2 is named twice"),
        (group_of_ten, "8-1000000000000", "--group: there is no NPU 10 (accepted: different NPUs from 0 to 9, such as"),
        (group_of_ten, "4-2", "--group: '4-2' goes down"),
        *((group_of_ten, text, f"--group: '{text}' is neither an NPU nor a range") for text in ("", "-1", "a")),
    ],
)
def test_what_is_refused(parse: Callable[[Any], object], text: object, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(text)
    assert str(caught.value).startswith(message)
    assert caught.value.accepted


def test_values_of_the_experiment_are_replaced() -> None:
    rate = ("--set", "fabrics.slow.topology.rate=4 GB/s")
    table = words(succeeds("compare", TWO, *rate, "--set", "title=Another"))
    assert ["Another"] in table
    # 1 s of computation, then 1 GB at 4 GB/s and at 2.
    assert any(line[:3] == ["slow", "1.250", "1.000"] for line in table)
    assert any(line[:3] == ["fast", "1.500", "0.833"] for line in table)
    # Twice the roofline's time at twice the peak.
    scaled = ("--set", "workloads.net.compute_scale=2", "--set", "npu.peak=1978.8 TFLOP/s")
    for fabric in ("slow", "fast"):
        cell = json.loads(succeeds("run", TWO, "--fabric", fabric, *rate, *scaled, "--json", "-", "--store", "cells"))
        assert cell["seconds"] == pytest.approx({"slow": 1.25, "fast": 1.5}[fabric])
        written = {"slow": "4 GB/s", "fast": "2 GB/s"}[fabric]
        assert cell["provenance"]["written"]["fabric"]["topology"] == {"name": "tiny", "rate": written}
    assert "there is no result for 2 of 2 cells" in refused("merge", TWO, "cells")
    assert any(line[:2] == ["slow", "1.250"] for line in words(succeeds("merge", TWO, "cells", *rate, *scaled)))
    refused("cells", TWO, "--set", 'fabrics.fast.sweep={rate=["1 GB/s"]}')


IN_FILE = f"{TWO}: --set"


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("fabrics.slwo.topology.rate=1", f"{IN_FILE} fabrics.slwo.topology.rate: there is no fabric 'slwo'"),
        ("npu.peek=1", f"{IN_FILE} npu.peek: unknown key; did you mean 'peak'?"),
        ("fabrics.slow.rate=1 GB/s", f"{IN_FILE} fabrics.slow.rate: unknown key; did you mean fabrics.slow.topology."),
        ("fabrics.slow.topology.rate=1 GB", f"{IN_FILE} fabrics.slow.topology.rate: '1 GB' has the unit 'GB', not B/s"),
        (
            "fabrics.slow.topology.name=slwo",
            f"{IN_FILE} fabrics.slow.topology: no topology 'slwo'. If a file defines i",
        ),
        # A number without a unit, though a file may have those of SI units.
        ("fabrics.slow.topology.rate=450", "--set fabrics.slow.topology.rate: 450 has no unit"),
        ('fabrics.slow.topology={ name = "tiny", rate = 2e9 }', "--set fabrics.slow.topology.rate: 2000000000.0 has"),
        ('workloads.net.workload={ name = "step", seconds = 3 }', "--set workloads.net.workload.seconds: 3 has no"),
        ("npu.peak=1", "--set npu.peak: 1 has no unit"),
    ],
)
def test_bad_values_name_the_option(assignment: str, message: str) -> None:
    Path(TWO).write_text(Path(TWO).read_text() + "\n[npu]\npeak = 1e15\n")
    succeeds("compare", TWO)
    for command in (("compare", TWO), ("run", TWO, "--fabric", "slow")):
        assert refused(*command, "--set", assignment).startswith(message)


def test_other_commands_name_the_option_too() -> None:
    for command in (("cells", TWO), ("merge", TWO, "store"), ("calibrate", TWO)):
        assert refused(*command, "--set", "fidelity=high").startswith(f"{IN_FILE} fidelity: 'high' is not known")
    assert refused("calibrate", TWO, "--set", "npu.peak=1").startswith("--set npu.peak: 1 has no unit")
    line = refused("collective", "all-reduce", "--topology", "tiny", "--set", "rate=450")
    assert line == "--set.rate: 450 has no unit (accepted: a number with its unit, such as 450GB/s or 450Gbps)"
