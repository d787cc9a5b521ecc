from __future__ import annotations

import io
import re

import pytest
from attrs import evolve
from rich.console import Console, RenderableType

from fredfw import Work
from fredfw.experiment.results import CollectiveResult, Comparison, RunResult, Saving, Throughput
from fredfw.fabric import Fabric
from fredfw.report import tables


def printed(report: list[RenderableType], width: int = 100) -> str:
    file = io.StringIO()
    tables.show(Console(file=file, width=width, markup=False, highlight=False), report)
    return file.getvalue()


@pytest.mark.parametrize("width", [20, 100])
def test_every_number_is_printed_whole_at_any_width(comparison: Comparison, width: int) -> None:
    lines = printed(tables.comparison_report(comparison), width).splitlines()
    rows = [line.split() for line in lines if re.match(r"(mesh|C|D)\b", line)]
    assert rows == [
        ["mesh", "20.00", "1.000", "predicted", "10.00", "-", "-", "10.00", "-"],
        ["C", "16.00", "1.250", "1.25", "[1]", "calibrated", "10.00", "-", "-", "6.00", "-"],
        ["D", "(a)", "8.00", "2.500", "2.50", "[1]", "predicted", "5.00", "1.00", "-", "2.00", "-"],
        ["mesh", "20.00", "1.000", "simulated", "10.00", "-", "5.00", "-", "5.00"],
        ["C", "16.00", "1.250", "1.25", "[1]", "simulated", "10.00", "-", "1.00", "-", "5.00"],
    ]


def test_comparison_says_what_its_numbers_are(comparison: Comparison) -> None:
    text = printed(tables.comparison_report(comparison))
    for line in (
        "Two on [three]",
        "net  (times in ms; compute time is 0.5 of the roofline's)",
        "[1] a paper, table 1",
        "(a) kept outside",
        "largest difference of an iteration time, compressed to stepwise: 0.25 %",
    ):
        assert line in text.splitlines()
    for status in ("simulated", "calibrated", "predicted"):
        assert f"{status}: " in text
    assert max(map(len, text.splitlines())) <= 100


def test_a_note_of_all_fabrics_stands_at_the_workload(comparison: Comparison) -> None:
    rows = tuple(evolve(row, notes=("shared",), fidelity="stepwise") for row in comparison.rows)
    text = printed(tables.comparison_report(evolve(comparison, rows=rows, fidelity_difference=None)))
    assert "net (a)  (times" in text
    assert "mesh (a)" not in text
    assert "simulated step by step: all cells" in text
    assert "largest difference" not in text


def test_baselines_that_differ_are_named_in_every_row(comparison: Comparison) -> None:
    text = printed(tables.comparison_report(comparison))
    assert "speed-up over mesh, and" in text
    rows = tuple(evolve(row, baseline="C" if row.fabric == "D" else "mesh") for row in comparison.rows)
    text = printed(tables.comparison_report(evolve(comparison, rows=rows)))
    assert "speed-up, and" in text
    lines = [line.split() for line in text.splitlines()]
    assert ["D", "(a)", "8.00", "2.500", "C", "2.50", "[1]", "predicted", "5.00", "1.00", "-", "2.00", "-"] in lines


def test_how_many_npus_are_in_use_is_said_where_fabrics_differ(comparison: Comparison) -> None:
    assert "NPUs" not in printed(tables.comparison_report(comparison)).replace("NPUs in use", "")
    first, *others = comparison.rows
    text = printed(tables.comparison_report(evolve(comparison, rows=(evolve(first, npus=64), *others))))
    lines = [line.split() for line in text.splitlines()]
    assert ["fabric", "NPUs", "time"] in [line[:3] for line in lines]
    assert [first.fabric, "64"] in [line[:2] for line in lines]


def test_short_times_beside_long_ones_keep_their_digits(comparison: Comparison) -> None:
    (first, second, *_) = comparison.rows
    rows = (evolve(first, seconds=1.5), evolve(second, seconds=0.00234))
    lines = [line.split()[:2] for line in printed(tables.comparison_report(evolve(comparison, rows=rows))).splitlines()]
    assert ["mesh", "1.50000"] in lines
    assert ["C", "0.00234"] in lines


def test_savings_are_a_table_and_grids(comparison: Comparison, savings: tuple[Saving, ...]) -> None:
    text = printed(tables.comparison_report(evolve(comparison, savings=savings)))
    rows = [re.split(r"\s{2,}", line.strip()) for line in text.splitlines()]
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
        assert row in rows
    assert "reference: what the source gives, which need not be a publication" in text


def test_hundreds_of_rows_have_footnotes_that_can_be_read(comparison: Comparison) -> None:
    rows = tuple(
        evolve(comparison.rows[0], fabric=f"mesh {number}", notes=(f"note {number}",), fidelity="stepwise")
        for number in range(100)
    )
    mixed = (*rows, comparison.rows[0])
    text = printed(tables.comparison_report(evolve(comparison, rows=mixed)), width=1000)
    lines = text.splitlines()
    assert "(t) note 19" in lines
    assert "... and 80 other notes, which --json and --csv write" in lines
    assert lines[-2].startswith("simulated step by step: net on mesh 0, net on mesh 1, ")
    assert lines[-2].endswith("net on mesh 11, ... (100 in all)")


def test_statuses_look_different_on_a_terminal(comparison: Comparison) -> None:
    file = io.StringIO()
    console = Console(file=file, width=120, force_terminal=True, color_system="standard", markup=False)
    tables.show(console, tables.comparison_report(comparison))
    words = ("simulated", "calibrated", "predicted")
    looks = {tuple(re.findall(rf"(\x1b\[[0-9;]*m)?{word}", file.getvalue())[:1]) for word in words}
    assert len(looks) == 3


def test_run_report(run: RunResult) -> None:
    text = printed(tables.run_report(run, top=2))
    rows = [re.split(r"\s{2,}", line.strip()) for line in text.splitlines()]
    for row in (
        ["compute", "2.500", "50.0 %"],
        ["bubble", "0.500", "10.0 %"],
        ["exposed dp", "2.000", "40.0 %"],
        ["iteration", "5.000", "100.0 %"],
        ["switch0->npu1", "100 B", "50 B/s", "40.0 %"],
        ["npu0->switch0", "150 B", "100 B/s", "30.0 %"],
        ["dp", "400 B", "100.0 %"],
        ["communication energy: 400 mJ per iteration"],
        ["memory per NPU: 8 GB (weights 8 GB)"],
        ["dp all-reduce x2", "ring"],
        ["wavelengths", "64"],
        ["note: a note"],
    ):
        assert row in rows
    assert "switch0->npu0" not in text


def test_collectives_in_the_terms_of_nccl_tests(pair: Fabric, collectives: list[CollectiveResult]) -> None:
    text = printed(tables.collectives_report(collectives, pair))
    rows = [line.split() for line in text.splitlines()]
    assert ["1000000", "2.000", "500.00", "500.00", "0.8000", "2.500", "injection", "ring", "2"] in rows
    assert ["1000000000", "1000.000", "1000.00", "1000.00", "400.0000", "2.500", "injection", "ring", "2"] in rows
    assert "all-reduce on pair, 2 of 2 NPUs" in text
    assert "auto, 1 GB: ring 1 ms, tree 2 ms" in text
    # 500 and 1000 GB/s.
    assert "# Avg bus bandwidth    : 750 GB/s" in text
    assert "wavelengths  longest arc (m)" in text
    assert ["1000000", "2", "-"] in rows
    assert ["1000000000", "3", "3.33333e+08"] in rows
    assert text.splitlines().count("note: split") == 1


def test_nothing_is_said_of_figures_where_there_are_none(
    pair: Fabric, run: RunResult, collectives: list[CollectiveResult]
) -> None:
    assert "figures" not in printed(tables.run_report(evolve(run, figures={})))
    plain = [evolve(result, figures={}, notes=()) for result in collectives]
    assert printed(tables.collectives_report(plain, pair)).count("size (B)") == 1


@pytest.mark.parametrize(
    ("value", "shown"), [(0.0, "0.000"), (0.02, "0.02000"), (1.5, "1.500"), (999.5, "999.5"), (12345.0, "12345")]
)
def test_four_digits(value: float, shown: str) -> None:
    assert f"{value:.{tables._decimals(value)}f}" == shown


def trained(comparison: Comparison, works: list[Work | None], scale: float = 1.0) -> str:
    rows = tuple(
        evolve(
            row,
            work=work,
            throughput=Throughput.of(work, row.seconds, npus=row.npus, peak=1e3, compute_scale=scale),
        )
        for row, work in zip(comparison.rows, works, strict=True)
    )
    return printed(tables.comparison_report(evolve(comparison, rows=rows)))


def header(text: str) -> list[str]:
    return next(line for line in text.splitlines() if line.startswith("fabric")).replace("MFU %", "MFU%").split()


def test_nothing_is_said_of_training_where_there_is_none(comparison: Comparison) -> None:
    text = printed(tables.comparison_report(comparison))
    assert not {"samples", "samples/s", "tokens/s", "MFU%"} & set(header(text))
    assert "MFU" not in text


def test_samples_per_second_and_mfu_have_columns(comparison: Comparison) -> None:
    text = trained(comparison, [Work(8, tokens=800, model_flops=100)] * 3 + [None] * 2)
    assert header(text)[:5] == ["fabric", "time", "speed-up", "samples/s", "MFU%"]
    rows = [line.split()[:5] for line in text.splitlines() if re.match(r"(mesh|C)\b", line)]
    # 8 samples in 20 ms; 100 FLOP on 20 NPUs of 1 kFLOP/s, which can do 400 in that time.
    assert rows[0] == ["mesh", "20.00", "1.000", "400.0", "25.0"]
    assert rows[2] == ["mesh", "20.00", "1.000", "-", "-"]
    assert "compute_scale is below 1" not in text


def test_other_amounts_and_lengths_of_samples_have_columns_too(comparison: Comparison) -> None:
    text = trained(comparison, [Work(1024, tokens=2048), *[Work(8, tokens=8)] * 4])
    assert header(text)[:6] == ["fabric", "time", "speed-up", "samples", "samples/s", "tokens/s"]
    first = next(line.split() for line in text.splitlines() if line.startswith("mesh"))
    assert first[3:6] == ["1,024", "51,200", "102,400"]


def test_no_mfu_where_computation_is_faster_than_the_peak(comparison: Comparison) -> None:
    text = trained(comparison, [Work(8, model_flops=1e9)] * 5, scale=0.5)
    assert "MFU%" not in header(text)
    assert "no MFU where compute_scale is below 1: computation is then faster than the NPU's peak allows" in text


def test_run_report_says_what_is_trained(run: RunResult) -> None:
    work = Work(8, tokens=16_000, model_flops=5e3)
    rates = Throughput.of(work, run.seconds, npus=2, peak=1e3, compute_scale=1.0)
    text = printed(tables.run_report(evolve(run, work=work, throughput=rates)))
    assert "it trains 8 samples: 1.600 samples/s, 3,200 tokens/s, 50.0 % MFU, 10.00 NPU-seconds" in text
    assert "it trains" not in printed(tables.run_report(run))
