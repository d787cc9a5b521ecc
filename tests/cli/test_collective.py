from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from command_line import fredfw, succeeds, words

TINY = "--topology", "tiny"


def test_collective() -> None:
    sizes = ("-b", "1GB", "-e", "4GB", "-f", "2")
    text = succeeds("collective", "all-reduce", *TINY, "--set", "rate=2 GB/s", *sizes, "--json", "out.json")
    # An all-reduce of n = 2 has busbw = algbw (nccl-tests).
    for size, microseconds in (("1000000000", "500000.00"), ("2000000000", "1000000.00"), ("4000000000", "2000000.00")):
        assert [size, microseconds, "2.000", "2.000", "direct", "2"] in [line[:4] + line[-2:] for line in words(text)]
    assert ["#", "Avg", "bus", "bandwidth", ":", "2", "GB/s"] in words(text)
    document = json.loads(Path("out.json").read_text())
    assert [one["size"] for one in document["results"]] == [1e9, 2e9, 4e9]
    assert (document["average_busbw"], document["missing"]) == (pytest.approx(2e9), [])


@pytest.mark.parametrize(
    "arguments", [["--size", "1M", "--sizes", "1M:2M:x2"], ["--size", "1M", "-b", "8"], ["-f", "2", "-i", "1M"]]
)
def test_sizes_are_given_in_one_way(arguments: list[str]) -> None:
    result = fredfw("collective", "all-reduce", *TINY, *arguments)
    assert (result.exit_code, "exclude each other" in result.stderr) == (2, True)


def test_collective_as_data() -> None:
    arguments = ("collective", "broadcast", *TINY, "--group", "1,0", "--root", "1", "--size", "1GB")
    rows = list(csv.DictReader(succeeds(*arguments, "--csv", "-", "--json", "out.json").splitlines()))
    assert float(rows[0]["duration"]) == pytest.approx(1.0)
    document = json.loads(Path("out.json").read_text())
    assert document["provenance"]["group"] == [1, 0]
    assert document["provenance"]["topology"] == {"name": "tiny", "rate": 1e9}
    # Rank 1 is NPU 0, so the data goes from there to NPU 1.
    assert {link["name"] for link in document["results"][0]["links"]} == {"npu0->switch0", "switch0->npu1"}
