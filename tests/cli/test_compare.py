"""Cells and comparisons of them: run, compare, merge, cells, calibrate, export-program."""

import csv
import html
import json
import os
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from command_line import TWO, fails, fredfw, refused, succeeds, words

from fredfw import Framework


def test_compare_prints_a_table_writes_files_and_says_why_cells_are_compressed() -> None:
    table = words(succeeds("compare", TWO, "--json", "out.json", "--csv", "out.csv", "--plot", "out.png"))
    assert ["slow", "2.000", "1.000", "1.000", "1.000"] in table
    assert ["fast", "1.500", "1.333", "best", "1.25", "[1]", "1.000", "0.500"] in table
    rows = json.loads(Path("out.json").read_text())["rows"]
    assert [row["speedup"] for row in rows] == pytest.approx([1, 4 / 3])
    assert [row["fabric"] for row in csv.DictReader(Path("out.csv").read_text().splitlines())] == ["slow", "fast"]
    assert Path("out.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(os.listdir()) == ["out.csv", "out.json", "out.png", "two.cells", "two.toml"]
    assert "fidelity: exact" in succeeds("compare", TWO)
    text = " ".join(succeeds("compare", TWO, "--exact-limit", "1").split())
    assert "transfers, and --exact-limit is 1: compressed; --fidelity exact would take about" in text
    assert "--exact-limit is 1" not in succeeds("compare", TWO, "--exact-limit", "1", "--fidelity", "compressed")


def test_a_report_says_how_to_make_it_again() -> None:
    succeeds("--log-level", "error", "compare", TWO, "--set", "title=a 'b'", "--best=1", "--report", "out.html")
    page = html.unescape(Path("out.html").read_text())
    command = """fredfw --log-level=error compare two.toml '--set=title=a '"'"'b'"'"'' --report=out.html --best=1"""
    assert sorted(shlex.split(command)) == sorted(shlex.split(re.findall(r"<code>(fredfw .*)</code>", page)[0]))
    assert "the 1 best of 2 cells by time" in page
    succeeds("run", TWO, "--fabric", "fast", "--no-progress", "--export", "json", "a.json", "--report", "out.html")
    page = html.unescape(Path("out.html").read_text())
    command = "fredfw run two.toml --fabric=fast --report=out.html --export json a.json --no-progress"
    assert sorted(shlex.split(command)) == sorted(re.findall(r"<code>(fredfw .*)</code>", page)[0].split())
    assert "critical path" in page
    assert succeeds("merge", TWO, "two.cells", "--report", "-").startswith("<!DOCTYPE html>")


# Between 1 and 4 GB/s, of 1 s and 9 s of computation: 2, 1.5, 1.25 s and 10, 9.5, 9.25 s.
SWEEP = """
title = "Many speeds"
baseline = "at {rate}"
[fabrics."at {rate}"]
topology = "tiny"
collectives.default = "direct"
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
def sweep(plugin: Path) -> str:
    Path("sweep.toml").write_text(SWEEP)
    return "sweep.toml"


def test_rows_are_sorted_and_chosen_and_parts_of_a_matrix_compared_with_their_baselines(sweep: str) -> None:
    def cells(*options: str) -> list[list[str]]:
        return [line[:3] for line in words(succeeds("compare", sweep, *options)) if line[2:3] == ["GB/s"]]

    everything = [[seconds, rate, "GB/s"] for seconds in "19" for rate in "124"]
    assert cells()[:6] == everything
    assert cells("--sort", "time")[:6] == [[seconds, rate, "GB/s"] for seconds in "19" for rate in "421"]
    assert cells("--sort", "-rate")[:6] == [[seconds, rate, "GB/s"] for rate in "421" for seconds in "19"]
    assert cells("--best", "2")[:3] == [["1", "4", "GB/s"], ["1", "2", "GB/s"]]
    # The same bytes, so the same energy: only the fastest is not beaten.
    assert cells("--pareto", "time, energy") == [["1", "4", "GB/s"]]
    # What speed-ups refer to is said, though its row is not among them.
    text = " ".join(succeeds("compare", sweep, "--pareto", "time").split())
    assert "Iteration time on at 4 GB/s, speed-up over at 2 GB/s, and where" in text
    # Files have all cells, in the order of the experiment.
    found = json.loads(succeeds("compare", sweep, "--best", "2", "--csv", "out.csv", "--json", "-"))["rows"]
    assert [row["workload"] for row in found] == [f"net {seconds}" for seconds in (1, 9) for _ in range(3)]
    assert len(Path("out.csv").read_text().splitlines()) == 7
    rows = json.loads(succeeds("compare", sweep, "--fabric", "at 4 GB/s", "--workload", "net 9", "--json", "-"))["rows"]
    assert [(row["workload"], row["fabric"], row["speedup"]) for row in rows] == [
        ("net 9", "at 2 GB/s", 1.0),
        ("net 9", "at 4 GB/s", pytest.approx(9.5 / 9.25)),
    ]
    rows = json.loads(succeeds("compare", sweep, "--workload", "net {seconds}", "--json", "-"))["rows"]
    assert len(rows) == 6
    line = refused("compare", sweep, "--fabric", "at 3 GB/s")
    assert line.startswith("sweep.toml: --fabric: no fabric 'at 3 GB/s'; did you mean 'at ")


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--sort", "rates", "--sort: no metric and no swept field 'rates'; did you mean 'rate'?"),
        ("--pareto", "time,prize", "--pareto: no metric 'prize'"),
        ("--pareto", ",", "--pareto: no metric ''"),
    ],
)
def test_what_cannot_rank_is_refused_before_anything_runs(sweep: str, option: str, value: str, message: str) -> None:
    assert message in refused("compare", sweep, option, value, "--json", "out.json")
    assert not Path("out.json").exists()


def test_cells_run_on_their_own_are_merged(sweep: str, monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = ("--json", "{}.json", "--csv", "{}.csv", "--map", "{}.svg")
    printed = succeeds("compare", sweep, *(one.format("compared") for one in outputs))
    for number, line in enumerate(succeeds("cells", sweep).splitlines()):
        workload, fabric = line.split("\t")
        store = "rest" if number else "first"
        succeeds("run", sweep, "--workload", workload, "--fabric", fabric, "--store", store)
    monkeypatch.setenv("FREDFW_DISABLE_PLUGINS", "tiny")
    listed = [line.split("\t")[2] for line in succeeds("cells", sweep, "--store", "rest").splitlines()]
    assert listed == ["missing", *["done"] * 5]
    assert succeeds("merge", sweep, "rest", "first", *(one.format("merged") for one in outputs)) == printed
    for ending in ("json", "csv", "svg"):
        assert Path(f"merged.{ending}").read_bytes() == Path(f"compared.{ending}").read_bytes()
    line = refused("merge", sweep, "rest", "--json", "out.json")
    assert line.startswith("sweep.toml: there is no result for 1")
    assert refused("merge", sweep, "rest", "--json", "rest").startswith("--json: 'rest' is also the input")


def test_a_map_that_cannot_be_drawn_is_refused_before_anything_runs(sweep: str) -> None:
    # A workload that fails where it is run.
    Path(sweep).write_text(SWEEP.replace('"step"', '"failing"'))
    assert fredfw("compare", sweep, "--map", "map.png").exit_code == 1
    Path(sweep).write_text(SWEEP.replace('"step"', '"failing"').replace('by = ["rate", "seconds"]', ""))
    assert refused("compare", sweep, "--map", "map.png").startswith("--map: there is no saving by two fields")
    assert refused("compare", sweep, "--map", "map.jpg").startswith("map.jpg: --map: unknown format")
    assert refused("compare", sweep, "--export", "{ name = csv }", "a").startswith("--export: '{ name = csv }' is not")
    assert refused("compare", ".").startswith(".: cannot be read: ")


def test_cells_are_kept_beside_the_experiment() -> None:
    first = succeeds("compare", TWO, "--json", "first.json")
    # What is there is not run again.
    second = succeeds("compare", TWO, "--json", "second.json")
    assert second == f"{first}from the store: 2 of 2 cells\n"
    assert Path("second.json").read_bytes() == Path("first.json").read_bytes()
    store = Path(TWO).with_suffix(".cells")
    before = store.read_bytes()
    succeeds("compare", TWO, "--set", "npu.efficiency=0.5", "--no-store")
    succeeds("compare", TWO, "--set", "npu.efficiency=0.5", "--store", "other")
    assert store.read_bytes() == before
    assert "is also the input" in refused("compare", TWO, "--json", str(store))
    assert "exclude each other" in fails("compare", TWO, "--store", "other", "--no-store")


def test_the_exit_code_says_that_cells_have_no_result() -> None:
    Path(TWO).write_text(Path(TWO).read_text() + "[workloads.wide]\nworkload = { name = 'cnn', dp = 64 }\n")
    result = fredfw("compare", TWO, "--json", "out.json")
    assert result.exit_code == 3
    assert result.stderr.splitlines()[-1] == "fredfw: no result for 2 of 4 cells"
    failures = json.loads(Path("out.json").read_text())["failures"]
    found = [(one["workload"], one["fabric"], one["infeasible"]) for one in failures]
    assert found == [("wide", "slow", True), ("wide", "fast", True)]
    # The store has them too, and says the same.
    again = fredfw("compare", TWO, "--json", "again.json")
    assert (again.exit_code, again.stdout) == (3, f"{result.stdout}from the store: 4 of 4 cells\n")
    assert Path("again.json").read_bytes() == Path("out.json").read_bytes()
    listed = [line.split("\t")[2] for line in succeeds("cells", TWO, "--store", "two.cells").splitlines()]
    assert listed == ["done", "done", "infeasible", "infeasible"]
    assert refused("compare", TWO, "--no-store", "--strict").startswith("two.toml: workloads.wide.workload: ")


def test_run() -> None:
    arguments = ("run", TWO, "--fabric", "fast", "--trace", "trace.json", "--json", "run.json", "--top", "1")
    lines = words(succeeds(*arguments))
    assert ["exposed", "dp", "0.500", "33.3", "%"] in lines
    # 1 GB each way per NPU over up and down link: 4 GB in all.
    assert ["dp", "4", "GB", "100.0", "%"] in lines
    assert json.loads(Path("run.json").read_text())["seconds"] == pytest.approx(1.5)
    spans = [one for one in json.loads(Path("trace.json").read_text())["traceEvents"] if one["ph"] == "X"]
    named = {"step": 1e6, "dp all-reduce: gradients": 5e5, "exposed dp": 5e5}
    found = [(one["name"], one["pid"], one["dur"]) for one in spans]
    assert found == [(name, npu, duration) for name, duration in named.items() for npu in (0, 1)]


def test_calibrate() -> None:
    written = Path(TWO).read_text()
    # With c seconds of computation (c + 1) / (c + 0.5) is 1.25 where c = 1.5, so the factor to the roofline's 1 s is
    # 1.5; it is never below 1.
    for target, solutions in ((1.25, [1.5]), (0.5, [])):
        Path(TWO).write_text(f'{written}[workloads.net.calibration]\nfabric = "fast"\nspeedup = {target}\n')
        printed = succeeds("calibrate", TWO, "--json", "fit.json")
        (fit,) = json.loads(Path("fit.json").read_text())["calibrations"]
        assert fit["solutions"] == pytest.approx(solutions, rel=1e-6)
        assert ["net", "fast", str(target), "one" if solutions else "none"] in [line[:4] for line in words(printed)]
        assert ("[workloads.net]\ncompute_scale = 1.5" in printed) == bool(solutions)


EXPORT = "export-program", TWO, "--fabric", "fast", "-o"


@pytest.mark.parametrize(
    ("options", "arguments"),
    [((), {}), (("--routes",), {"routes": True}), (("--fidelity", "exact"), {"fidelity": "exact"})],
)
def test_a_program_is_that_of_the_library(options: tuple[str, ...], arguments: dict[str, Any]) -> None:
    assert succeeds(*EXPORT, "fast.fredfw", *options) == ""
    assert Path("fast.fredfw").read_bytes() == Framework().export_program(TWO, fabric="fast", **arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("x", "--set", 'fabrics.fast.sharing={name = "dctcp", delay = "1 us"}'),
            "fabrics.fast.sharing: 'dctcp' gives",
        ),
        (("x", "--set", "fabrics.fast.transport=alpha-beta", "--routes"), "fabrics.fast.transport: 'alpha-beta' is as"),
        ((TWO,), "--output: 'two.toml' is also the input"),
    ],
)
def test_what_cannot_be_a_program_is_refused(arguments: tuple[str, ...], message: str) -> None:
    assert message in refused(*EXPORT, *arguments)
