import re
from itertools import product
from typing import Any

import pytest
from attrs import evolve
from command_line import words
from showing import cells, of, on, printed, starts

from fredfw import Work
from fredfw.experiment.results import Comparison, Failure, Row, Saving, Spread, Status, Throughput
from fredfw.report import layout
from fredfw.report.cells import best_cells
from fredfw.report.comparison import comparison_report
from fredfw.report.ranking import Ranking


def shown(comparison: Comparison, ranking: Ranking | None = None, **changes: Any) -> str:
    return printed(comparison_report(evolve(comparison, **changes), ranking or Ranking()))


def changed(comparison: Comparison, **changes: Any) -> tuple[Row, ...]:
    return tuple(evolve(row, **changes) for row in comparison.rows)


@pytest.mark.parametrize("width", [40, 60, 100])
def test_every_number_is_printed_whole_at_any_width(comparison: Comparison, width: int) -> None:
    rows = [
        "mesh 20.00 1.000 predicted 10.00 - - 10.00 -",
        "C 16.00 1.250 1.25 [1] calibrated 10.00 - - 6.00 -",
        "D (a) 8.00 2.500 best 2.50 [1] predicted 5.00 1.00 - 2.00 -",
        "mesh 20.00 1.000 simulated 10.00 - 5.00 - 5.00",
        "C 16.00 1.250 best 1.25 [1] simulated 10.00 - 1.00 - 5.00",
    ]
    piped = printed(comparison_report(comparison), width)  # where tables are as wide as they need to be
    assert [" ".join(line) for line in words(piped) if line[:1] in (["mesh"], ["C"], ["D"])] == rows
    narrow = printed(comparison_report(comparison), width, terminal=True)
    assert max(map(len, narrow.splitlines())) <= width
    assert set(" ".join(rows).split()) <= set(narrow.split())


def test_columns_and_notes_stand_where_they_differ(comparison: Comparison) -> None:
    plain = changed(comparison, status=Status.SIMULATED, reference_speedup=None, reference_source=None)[:3]
    text = shown(comparison, rows=plain)
    assert ["fabric", "time", "speed-up", "compute", "bubble", "dp"] in words(text)
    assert not re.search("published|status|simulated:", text)
    waiting = "bubble: time spent waiting for others to compute: another stage, the fullest experts, a slower NPU"
    assert waiting in text.splitlines()
    without = tuple(evolve(row, breakdown={"compute": row.seconds, "dp": 0.0}) for row in plain)
    assert not re.search("dp|bubble", shown(comparison, rows=without))
    text = shown(comparison, rows=changed(comparison, notes=("shared",)), approximated="")
    assert "net (a)  (times" in text
    assert "mesh (a)" not in text
    assert "many transfers" not in text
    first, *others = comparison.rows
    for npus, columns in ((20, ["fabric", "time"]), (64, ["fabric", "NPUs"])):
        lines = words(shown(comparison, rows=(evolve(first, npus=npus), *others)))
        assert columns in starts(lines, 2)
    assert ["mesh", "64"] in starts(lines, 2)


def test_rows_of_several_runs_have_their_percentiles(comparison: Comparison) -> None:
    first, *others = comparison.rows[:3]
    several = evolve(first, seconds=0.004, spread=Spread(3, 0.004, 0.003, 0.006, 0.0, (0.003, 0.003, 0.006)))
    text = shown(comparison, rows=(several, *others))
    assert ["fabric", "time", "P50", "P99", "speed-up"] in starts(words(text), 5)
    assert [row[:4] for row in rows_of(text)[:2]] == [["mesh", "4.00", "3.00", "6.00"], ["C", "16.00", "-", "-"]]
    assert "P50, P99: of the runs of a row" in text
    assert "P50" not in shown(comparison)


def _swept(comparison: Comparison, *fabrics: str) -> Comparison:
    first = evolve(comparison.rows[0], status=Status.SIMULATED)
    rows = []
    for mp, pp, fabric in product((1, 2), (1, 2), fabrics):
        row = on(of(first, "mp{mp} pp{pp}", mp=mp, pp=pp), fabric)
        baseline = "mp1 pp1" if len(fabrics) == 1 else row.workload
        rows.append(evolve(row, seconds=0.08 / (mp * pp), speedup=float(mp * pp), baseline_workload=baseline))
    return evolve(comparison, rows=tuple(rows), approximated="")


def test_a_sweep_is_one_table_of_swept_values_over_its_first_row_or_beside_fabrics(comparison: Comparison) -> None:
    swept = _swept(comparison, "mesh")
    lines = words(shown(swept))
    assert [line[:6] for line in lines if line[:2] == ["mp", "pp"]] == [["mp", "pp", "time", "vs", "mp=1", "pp=1"]]
    assert [line[:4] for line in lines if len(line) > 4 and line[0].isdigit()] == [
        ["1", "1", "80.00", "1.000"],
        ["1", "2", "40.00", "2.000"],
        ["2", "1", "40.00", "2.000"],
        ["2", "2", "20.00", "4.000"],
    ]
    assert any("mesh," in line for line in lines)  # said once, above the table
    # The best row trains the most in a second: each doubling halves the time, and the work shrinks to a third.
    text = shown(swept, rows=trained(swept, [Work(9), Work(3), Work(3), Work(1)]))
    assert [line[:2] for line in words(text) if "best" in line] == [["1", "1"]]
    assert "best: the most samples/s in a table" in text
    lines = words(shown(_swept(comparison, "mesh", "C")))
    assert [line[:5] for line in lines if line[:2] == ["mp", "pp"]] == [["mp", "pp", "fabric", "time", "speed-up"]]
    assert [line[:3] for line in lines if len(line) > 4 and line[0].isdigit()] == [
        [mp, pp, fabric] for mp in "12" for pp in "12" for fabric in ("mesh", "C")
    ]


def test_baselines_that_differ_are_named_in_every_row(comparison: Comparison) -> None:
    swept = _swept(comparison, "mesh")
    rows = tuple(evolve(row, baseline_workload=f"mp1 pp{row.workload_settings['pp']}") for row in swept.rows)
    assert ["2", "2", "20.00", "4.000", "mp1", "pp2"] in starts(words(shown(swept, rows=rows)), 6)
    assert "speed-up over mesh, and" in shown(comparison)
    rows = tuple(evolve(row, baseline="C" if row.fabric == "D" else "mesh") for row in comparison.rows)
    text = shown(comparison, rows=rows)
    assert "speed-up, and" in text
    assert "D (a) 8.00 2.500 best C 2.50 [1] predicted 5.00 1.00 - 2.00 -" in map(" ".join, words(text))


@pytest.mark.parametrize(("coloured", "width"), [(False, 100), (True, 60)])
def test_a_pipe_has_plain_ascii_and_a_terminal_has_colour(
    comparison: Comparison,
    coloured: bool,
    width: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    for name, value in (("FORCE_COLOR", "1"), ("COLUMNS", "60")) if coloured else ():
        monkeypatch.setenv(name, value)
    layout.show(layout.make_console(), comparison_report(comparison))
    text = capsys.readouterr().out
    assert text.isascii()
    assert ("\x1b[" in text) == coloured
    assert ("\x1b[1;32m" in text) == coloured  # the best row
    statuses = ("simulated", "calibrated", "predicted")
    looks = {tuple(re.findall(rf"(\x1b\[[0-9;]*m)?{status}", text)[:1]) for status in statuses}
    assert (len(looks) == 3) == coloured
    plain = re.sub(r"\x1b\[[\d;]*m", "", text)
    assert max(map(len, plain.splitlines())) <= width


def test_a_comparison_says_what_numbers_and_savings_are(comparison: Comparison, savings: tuple[Saving, ...]) -> None:
    first, *rows = changed(comparison, fidelity="exact")
    text = shown(comparison, rows=(evolve(first, fidelity="compressed"), *rows))
    assert {
        "Two on [three]",
        "net  (times in ms; compute time is 0.5 of the roofline's)",
        "[1] a paper, table 1",
        "(a) kept outside",
        "net on mesh has many transfers",
        "fidelity: compressed, exact",
        "best: the shortest time for the same workload",
    } <= set(text.splitlines())
    assert all(f"{status}: " in text for status in ("simulated", "calibrated", "predicted"))
    assert max(map(len, text.splitlines())) <= 100
    text = shown(comparison, savings=savings)
    for row in (
        ["time saved", "at", "mean", "reference", "lowest", "highest", "pairs"],
        ["all", "36.8%", "40.0% [2]", "26.8%", "37.8%", "3"],
        ["each (exposed dp)", "rate 40 Gbps", "50.0%", "40.0%", "51.0%", "3"],
        ["rate 4 Tbps", "-7.9%", "-10.0% [2]", "-17.9%", "-6.9%", "3"],
        ["rate 40 Gbps to 4 Tbps", "20.0% [3]"],
        ["rate none", "70.0% [3]"],
        ["map", "(nodes down, rate across)"],
        ["nodes", "40 Gbps", "400 Gbps", "4 Tbps"],
        ["2", "-50.0%", "25.0% / 30.0% [2]", "87.5%"],
        ["64", "-", "-100.0%", "50.0%"],
        ["reference: 90.0% [3]"],
        ["[2] another paper"],
        ["[3] a claim"],
    ):
        assert row in cells(text)
    assert "reference: what the source gives, which need not be a publication" in text


@pytest.mark.parametrize(
    ("times", "expected"),
    [((1.5, 0.00234), ("1500.00", "2.34", "ms")), ((0.0175, 364e-9), ("17500.000", "0.364", "us"))],
)
def test_short_times_beside_long_ones_keep_their_digits(
    times: tuple[float, float], expected: tuple[str, str, str], comparison: Comparison
) -> None:
    rows = tuple(evolve(row, seconds=seconds) for row, seconds in zip(comparison.rows[:2], times, strict=True))
    text = shown(comparison, rows=rows)
    first, second, unit = expected
    assert f"net  (times in {unit};" in text
    assert ["mesh", first] in starts(words(text), 2)
    assert ["C", second] in starts(words(text), 2)


def test_hundreds_of_rows_have_footnotes_that_can_be_read(comparison: Comparison) -> None:
    first = comparison.rows[0]
    rows = [evolve(first, fabric=f"mesh {number}", notes=(f"note {number}",)) for number in range(100)]
    lines = printed(comparison_report(evolve(comparison, rows=(*rows, first))), width=1000).splitlines()
    assert "(t) note 19" in lines
    assert "... and 80 other notes, which --json and --csv write" in lines


def trained(comparison: Comparison, works: list[Work | None], scale: float = 1.0) -> tuple[Row, ...]:
    """Return the rows with what they train, on NPUs of 1 kFLOP/s."""
    rows = []
    for row, work in zip(comparison.rows, works, strict=True):
        rates = Throughput.of(work, row.seconds, npus=row.npus, peak=1e3, compute_scale=scale)
        rows.append(evolve(row, work=work, throughput=rates))
    return tuple(rows)


def header(text: str) -> list[str]:
    return next(line for line in text.splitlines() if line.startswith("fabric")).replace("MFU %", "MFU%").split()


def rows_of(text: str) -> list[list[str]]:
    return [line for line in words(text) if line[:1] in (["mesh"], ["C"])]


def test_what_is_trained_has_columns_where_rows_say_it(comparison: Comparison) -> None:
    text = shown(comparison)
    assert not {"samples", "samples/s", "tokens/s"} & set(header(text))
    assert "MFU" not in text
    works = [Work(8, tokens=800, model_flops=100)] * 3 + [None] * 2
    text = shown(comparison, rows=trained(comparison, works))
    assert header(text)[:5] == ["fabric", "time", "speed-up", "samples/s", "MFU%"]
    # 8 samples in 20 ms; 100 FLOP on 20 NPUs of 1 kFLOP/s, which can do 400 in that time.
    first, _, third, *_ = rows_of(text)
    assert first[:5] == ["mesh", "20.00", "1.000", "400.0", "25.0"]
    assert third[:5] == ["mesh", "20.00", "1.000", "-", "-"]
    assert "compute_scale is below 1" not in text
    text = shown(comparison, rows=trained(comparison, [Work(1024, tokens=2048), *[Work(8, tokens=8)] * 4]))
    assert header(text)[:6] == ["fabric", "time", "speed-up", "samples", "samples/s", "tokens/s"]
    # It takes the longest time, and trains the most tokens in a second.
    assert rows_of(text)[0][3:7] == ["best", "1,024", "51,200", "102,400"]
    assert "best: the most samples/s in a table, or the most tokens/s in a table" in text
    text = shown(comparison, rows=trained(comparison, [Work(8, model_flops=1e9)] * 5, scale=0.5))
    assert "MFU%" not in header(text)
    assert "MFU is omitted where compute_scale is below 1: computation may then exceed the NPU's peak" in text
    one, *others = _swept(comparison, "mesh").rows
    swept = evolve(comparison, rows=(evolve(one, npus=4), *others))
    rows = trained(swept, [Work(8, tokens=800, model_flops=100)] * 4)
    found = words(printed(comparison_report(evolve(swept, rows=rows)), 200))
    assert ["samples/s", "tokens/s", "MFU", "%", "NPU-seconds"] in [line[-7:-2] for line in found]
    # 8 samples of 100 tokens in 80 ms, on 4 NPUs.
    assert ["100.0", "10,000", "31.2", "0.3200"] in [line[-6:-2] for line in found]


def test_how_the_batch_is_divided_has_columns_where_it_differs_and_is_not_swept(comparison: Comparison) -> None:
    same: list[Work | None] = [Work(8, replicas=2, microbatches=4)] * 5
    assert not {"replicas", "microbatches"} & set(header(shown(comparison, rows=trained(comparison, same))))
    works = [Work(8, replicas=4, microbatches=2), *same[1:]]
    text = shown(comparison, rows=trained(comparison, works))
    assert header(text)[:6] == ["fabric", "time", "speed-up", "replicas", "microbatches", "samples/s"]
    assert [row[3:5] for row in rows_of(text)[:2]] == [["4", "2"], ["2", "4"]]
    rows = tuple(
        evolve(of(comparison.rows[0], "dp{dp}", dp=count), work=Work(8, replicas=count, microbatches=count))
        for count in (1, 2)
    )
    (columns,) = (line for line in words(shown(comparison, rows=rows)) if line[:1] == ["dp"])
    assert ("microbatches" in columns, "replicas" in columns) == (True, False)


def test_a_row_that_leaves_something_out_is_not_the_best(comparison: Comparison) -> None:
    swept = _swept(comparison, "mesh")
    rows = (*swept.rows[:-1], evolve(swept.rows[-1], notes=("no gathers",), omissions=("no gathers",)))
    assert best_cells(comparison.rows) == {("net", "D"), ("other", "C")}
    less = [evolve(row, omissions=("no gathers",)) if row.fabric == "D" else row for row in comparison.rows]
    assert best_cells(less) == {("net", "C"), ("other", "C")}
    assert not best_cells(changed(comparison, seconds=0.02))
    assert "leave something out" not in shown(swept)
    lines = shown(swept, rows=rows).splitlines()
    assert "rows with (a) leave something out, so none of them is marked best" in lines
    assert "(a) no gathers" in lines


def test_a_sweep_of_fabrics_is_one_table_across_workloads(comparison: Comparison) -> None:
    rows: list[Row] = []
    for net in "AB":
        row = of(evolve(comparison.rows[0], status=Status.SIMULATED), net)
        rows += [*(on(row, "ring {rate}", rate=rate) for rate in ("1 GB/s", "10 GB/s")), on(row, "tree")]
    text = shown(comparison, rows=tuple(rows), approximated="")
    assert [row[:3] for row in cells(text) if len(row) > 3 and row[0] in ("workload", "A", "B")] == [
        ["workload", "fabric", "rate"],
        *([net, *names] for net in "AB" for names in (["ring", "1 GB/s"], ["ring", "10 GB/s"], ["tree", "-"])),
    ]
    assert text.count("times in") == 1


def test_a_cell_without_a_result_is_a_row_with_its_reason(comparison: Comparison) -> None:
    long = "needs 120 GB of memory per NPU (weights 60 GB, optimizer 60 GB), but an NPU has 80 GB"
    swept = _swept(comparison, "mesh")

    def failure(pp: int, reason: str, infeasible: bool, place: int, **told: str) -> Failure:
        about: dict[str, Any] = {"workload_template": "mp{mp} pp{pp}", "workload_settings": {"mp": 4, "pp": pp}, **told}
        return Failure(f"mp4 pp{pp}", "mesh", reason, infeasible, fabric_template="mesh", place=place, **about)

    told = {"key": "npu.memory", "accepted": "160 GB or more"}
    failures = failure(1, long, True, 1), failure(2, "broke", False, 4), failure(4, "is too small", True, 4, **told)
    text = shown(swept, failures=failures)
    rows = [row for row in cells(text) if row[0].isdigit()]
    assert ["".join(row[:2]) for row in rows] == ["11", "41", "12", "21", "22", "42", "44"]
    assert rows[1][2:] == ["-", "infeasible: needs 120 GB of memory per NPU (weights 60 GB, optimizer ... (a)"]
    assert rows[-2][2:] == ["-", "failed: broke"]
    assert rows[-1][2:] == ["-", "infeasible: is too small (b)"]
    assert f"(a) infeasible: {long}" in text.replace("\n", "")
    assert "(b) infeasible: npu.memory: is too small (accepted: 160 GB or more)" in text.replace("\n", "")
    # Without a result of their baseline the others have no speed-up.
    known = changed(comparison, speedup=None, notes=(), reference_speedup=None)[:2]
    lines = words(shown(comparison, rows=known, failures=(Failure("net", "base", "does not fit", True),)))
    assert ["C", "16.00", "best", "calibrated", "10.00", "6.00"] in lines
    assert ["base", "-", "infeasible", "infeasible:", "does", "not", "fit"] in lines


def test_a_ranking_is_one_table_with_its_metrics(comparison: Comparison) -> None:
    costs = (1e6, 2e6, 5e6, 9, 1)
    rows = tuple(evolve(row, cost=cost, notes=()) for row, cost in zip(comparison.rows, costs, strict=True))
    text = shown(comparison, Ranking(sort="-cost", best=3, pareto=("cost", "time")), rows=rows)
    assert ["workload", "fabric", "time", "speed-up", "cost"] in starts(words(text), 5)
    found = [line for line in words(text) if line[:1] in (["net"], ["other"])]
    assert [[*line[:2], "5,000,000" in line] for line in found[:2]] == [["net", "D", True], ["other", "C", False]]
    assert "2 of 5 cells: no other one beats them in cost and time" in text
