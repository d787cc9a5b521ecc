"""What reports say of the errors of approximations, and that it is what was measured."""

import json
import re
import shlex
import sys
from pathlib import Path

import experiments
import pytest
from attrs import astuple, evolve
from command_line import succeeds
from showing import printed

sys.path.append(str(Path(__file__).parents[2]))

from benchmarks import accuracy as benchmark

from fredfw.experiment.results import CollectiveSweep, Comparison
from fredfw.report import accuracy
from fredfw.report.accuracy import ANY, COLLECTIVE, ITERATION, MICROBENCHMARK, Measured
from fredfw.report.comparison import comparison_report
from fredfw.report.tables import sweep_report

RECORDS = json.loads(benchmark.KEPT.read_text("utf-8"))
ROWS = [
    Measured("compressed", "torus", "all-reduce", 100, 0.001, 0.031, 0.24),
    Measured("compressed", "torus", "all-gather", 19, 0.001, 0.5, 0.5),
    Measured("compressed", "torus", COLLECTIVE, 119, 0.0, 0.04, -0.5),
    Measured("compressed", ANY, "all-gather", 300, 0.0, 0.00001, 12.345),
    Measured("compressed", ANY, COLLECTIVE, 600, 0.0, 0.1, -0.099),
    Measured("compressed", ANY, ITERATION, 400, 0.0, 0.2, 0.3),
    Measured("compressed", ANY, MICROBENCHMARK, 90, 0.0, 0.2, 0.4),
    Measured("estimate", ANY, ITERATION, 400, 0.0, 0.25, -0.6),
]


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> None:
    table = {(row.fidelity, row.fabric, row.what): row for row in ROWS}
    monkeypatch.setattr(accuracy, "table", lambda: table)


def test_the_table_is_what_was_measured() -> None:
    found = benchmark.measured(benchmark.errors(RECORDS))
    for row, written in zip(found, accuracy.table().values(), strict=True):
        assert astuple(written)[:4] == astuple(row)[:4]
        assert astuple(written)[4:] == pytest.approx(astuple(row)[4:], rel=1e-3)


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(10))
def test_cases_give_again_what_was_recorded(seed: int) -> None:
    *names, exact, compressed = benchmark.record(seed)[:4]
    *expected, exactly, approximately = RECORDS[seed][:4]
    assert names == expected
    assert (exact, compressed) == pytest.approx((exactly, approximately), rel=1e-6)


def test_the_page_has_the_worst_ten_and_they_can_be_run_again(tmp_path: Path) -> None:
    text = benchmark.PAGE.read_text("utf-8")
    assert len(text.split()) < 900
    worst = re.findall(r"^- (\d+): (\w+) (-?[\d,.]+) %, (.*)$", text, re.MULTILINE)
    assert len(worst) == 10
    seed, fidelity, error, command = next(one for one in worst if one[3].startswith("`fredfw"))
    seconds = []
    for one in ("exact", fidelity):
        words = shlex.split(command.strip("`"))[1:]
        written = tmp_path / f"{one}.json"
        output = succeeds(*words, "--json", str(written), "--fidelity", one)
        assert ("of exact in" in " ".join(output.split())) == (one != "exact")
        seconds.append(json.loads(written.read_text("utf-8"))["results"][0]["duration"])
    assert seconds == pytest.approx(RECORDS[int(seed)][2:4], rel=1e-6)
    assert accuracy.percent(seconds[1] / seconds[0] - 1) == error


@pytest.mark.usefixtures("rows")
def test_sentences_are_of_the_closest_rows_of_which_the_worst_three_come_first() -> None:
    torus, other, few = (
        ("compressed", "torus", "all-reduce"),
        ("compressed", "x", "point-to-point"),
        ("compressed", "torus", "all-gather"),  # of which there are few
    )
    said = [
        "compressed: on torus fabrics, within 4 % of exact in 114 of 119 random collectives, at worst -50 %",
        "compressed: on torus fabrics, within 3.1 % of exact in 95 of 100 random all-reduces, at worst 24 %",
        "compressed: on all fabrics, within 10 % of exact in 570 of 600 random collectives, at worst -9.9 %",
    ]
    exact = ("exact", "torus", "all-reduce")
    assert accuracy.sentences([torus, exact, few, torus, other]) == [f"{one} (docs/accuracy.md)" for one in said]
    found = accuracy.sentences([torus, other, few, ("compressed", "x", "all-gather"), ("estimate", "x", ITERATION)])
    assert [re.findall(r"within (\S+) .* worst (\S+) %", one) for one in found] == [
        [("0.01", "1,234")],
        [("25", "-60")],
        [("4", "-50")],
    ]


def test_what_is_equally_far_is_in_order_of_its_use() -> None:
    two = [(fidelity, "mesh2d", MICROBENCHMARK) for fidelity in ("compressed", "estimate")]
    for used in (two, two[::-1]):
        assert [one.split(":")[0] for one in accuracy.sentences(used)] == [fidelity for fidelity, *_ in used]


@pytest.mark.usefixtures("rows")
def test_comparisons_and_sweeps_say_it_below_their_tables(comparison: Comparison, sweep: CollectiveSweep) -> None:
    for fidelity in ("exact", "compressed"):
        rows = tuple(evolve(row, fidelity=fidelity) for row in comparison.rows)
        lines = printed(comparison_report(evolve(comparison, rows=rows)), 200).splitlines()
        said = [line for line in lines if "of exact" in line]
        assert said == accuracy.sentences([(fidelity, "?", ITERATION)])
    assert "of exact" not in printed(sweep_report(sweep), 200)
    results = tuple(evolve(one, fidelity="compressed") for one in sweep.results)
    known = evolve(sweep, results=results, provenance={"topology": {"name": "torus"}})
    expected = accuracy.sentences([("compressed", "torus", "all-reduce")])
    assert [line for line in printed(sweep_report(known), 200).splitlines() if "of exact" in line] == expected
    tables = {
        "fabrics": {"few": {"topology": {"name": "torus", "dimensions": [4]}}},
        "workloads": {"sums": {"workload": {"name": "microbenchmark", "size": "1 MB"}}},
    }
    found = experiments.compare(tables, fidelity="compressed")
    assert accuracy.of_comparison(found) == accuracy.sentences([("compressed", "torus", MICROBENCHMARK)])
