import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from attrs import evolve
from command_line import succeeds, words
from showing import cells, printed

from fredfw import Work
from fredfw.experiment.results import CollectiveSweep, CriticalPath, RunResult, Throughput
from fredfw.experiment.study.results import Objective, RungCount, RungError, StudyResult
from fredfw.experiment.why import critical_path, tier_shares
from fredfw.report import numbers, runs, tables
from fredfw.report.runs import headline, why_report
from fredfw.report.shown import Table
from fredfw.report.studies import study_report, study_to_csv


def parts(table: Table, width: int) -> list[list[str]]:
    """Return the words of each line on a terminal, but those of rules."""
    text = printed([table], width, terminal=True)
    return words("\n".join(line for line in text.splitlines() if not line.startswith("-")))


def test_a_table_that_is_too_wide_is_split_and_parts_leave_out_empty_rows() -> None:
    table = Table(("name", "first", "second", "third"), [("a", "12345678", "23456789", "34567890")])
    first, second = [["name", "first", "second"], ["a", "12345678", "23456789"]], [["name", "third"], ["a", "34567890"]]
    assert parts(table, 24) == [*first, [], *second]
    assert len(printed([table], 100, terminal=True).splitlines()) == 3
    assert len(printed([table], 24).splitlines()) == 3
    rows = [("a", "12345678", ""), ("b", "", "of twenty letters ok"), ("c", "34567890", "")]
    table = Table(("name", "first", "reason"), rows)
    first = [["name", "first"], ["a", "12345678"], ["c", "34567890"]]
    assert parts(table, 26) == [*first, [], ["name", "reason"], ["b", "of", "twenty"], ["letters", "ok"]]
    # Where every row is one line, no blanks stand at its end.
    assert [line for line in printed([table], 26).splitlines() if line != line.rstrip()] == []


def test_run_report(run: RunResult) -> None:
    text = printed(runs.run_report(run, top=2))
    for row in (
        ["compute", "2.500", "50.0 %"],
        ["bubble", "0.500", "10.0 %"],
        ["exposed dp", "2.000", "40.0 %"],
        ["iteration", "5.000", "100.0 %"],
        ["switch -> npu", "1", "50 B/s", "40.0 %", "40.0 %", "switch0->npu1", "dp 100 B"],
        ["npu -> switch", "2", "100 B/s", "15.0 %", "30.0 %", "npu0->switch0", "mp 90 B, dp 60 B"],
        ["dp", "400 B", "100.0 %"],
        ["communication energy: 400 mJ per iteration"],
        ["memory per NPU: 8 GB (weights 8 GB)"],
        ["dp all-reduce x2", "ring"],
        ["wavelengths", "64"],
        ["note: a note"],
    ):
        assert row in cells(text)
    assert "switch0->npu0" not in text  # of the third tier
    assert "figures" not in printed(runs.run_report(evolve(run, figures={})))
    work = Work(8, tokens=16_000, model_flops=5e3)
    rates = Throughput.of(work, run.seconds, npus=2, peak=1e3, compute_scale=1.0)
    text = printed(runs.run_report(evolve(run, work=work, throughput=rates)))
    assert "it works on 8 samples: 1.600 samples/s, 3,200 tokens/s, 50.0 % MFU, 10.00 NPU-seconds" in text
    assert "it works on" not in printed(runs.run_report(run))
    assert [tier.hottest.link for tier in tier_shares(run)] == [3, 0, 2]
    idle = evolve(run, link_bytes=np.array([0.0, 0.0, 150.0, 0.0]), link_bytes_by_label={})
    assert [tier.hottest.name for tier in tier_shares(idle)] == ["switch0->npu0"]


def test_sweeps_in_the_terms_of_nccl_tests(sweep: CollectiveSweep) -> None:
    text = printed(tables.sweep_report(sweep))
    rows = words(text)
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
    plain = tuple(evolve(result, figures={}) for result in sweep.results)
    assert printed(tables.sweep_report(evolve(sweep, results=plain))).count("size (B)") == 1


@pytest.mark.parametrize("shown", ["0.000", "0.02000", "1.500", "999.5", "12345"])
def test_four_digits(shown: str) -> None:
    assert f"{float(shown):.{numbers.decimals(float(shown))}f}" == shown


EXPERIMENT = """
[fabrics.f]
topology = { name = "multi-dimensional", dimensions = ["ring 4"], bandwidths = ["100 GB/s"], latencies = ["1 ms"] }
collectives = { default = "ring" }
[workloads]
w.workload = { name = "microbenchmark", size = "8 GB" }
"""


def test_the_first_line_says_what_limits_the_iteration(run: RunResult) -> None:
    assert why_report(run) == []  # nothing was asked for
    assert headline(CriticalPath(0.0, 0, (), {}, {}, {}, 0.0)) == "nothing limits this iteration: it takes no time"
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


def test_the_command_prints_and_writes_what_was_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "e.toml"
    file.write_text(EXPERIMENT)
    run = partial(succeeds, "run", str(file))
    plain, why, both = (json.loads(run("--json", "-", *asked)) for asked in ((), ("--why",), ("--what-if",)))
    found = [{"critical_path", "what_if"} & set(document) for document in (plain, why, both)]
    assert found == [set(), {"critical_path"}, {"critical_path", "what_if"}]
    assert sum(why["critical_path"]["by_limit"].values()) == pytest.approx(why["seconds"])
    assert [tier["name"] for tier in why["tiers"]] == ["npu -> npu"]
    parameters = {one["parameter"] for one in both["what_if"]["improvements"]}
    assert parameters == {"bandwidth of npu - npu", "latency of links", "compute"}
    assert both["what_if"]["factor"] == 2
    shown = run("--what-if", "3")
    assert "limited by bandwidth of npu - npu: " in shown
    assert "what if one parameter were 1 % or 3x better" in shown


def shown(study: StudyResult, top: int = 3) -> list[str]:
    return [line.rstrip() for line in printed(study_report(study, top)).splitlines()]


def test_the_report_counts_ranks_and_gives_reasons_and_csv_has_a_row_for_each_point(study: StudyResult) -> None:
    assert shown(study, 10) == [
        "Three [of] four",
        "1,234 combinations, 6 points in the space; tried: 6, with a result: 3, that do not fit: 2, failed: 1",
        "",
        "all 2 by least time, memory at most 5 GB",
        "rank  tp  size  time (s)  memory (GB)  MFU %",
        "--------------------------------------------",
        "   1   2  1 GB     1.500        3.000  50.00",
        "   2   1  0 GB     2.000        4.000  50.00",
        "",
        "without a result, or beyond a limit: 4 points",
        "points  the first one         its reason",
        "--------------------------------------------------------------------",
        "     2  tp = 8, size = 3 GB   needs 90 GB",
        "     1  tp = 4, size = 2 GB   memory 8 GB is above the limit of 5 GB",
        "     1  tp = 32, size = 5 GB  it went wrong",
        "",
        "compressed: 6 points, 3 results, 4,321 events",
        "from the store: 1 cell",
    ]
    assert study_to_csv(study).splitlines() == [
        "number,rank,workload,fabric,tp,size,rung,final,time,mfu,memory,status,reason",
        "0,2,net,mesh,1,0 GB,compressed,True,2.0,0.5,4000000000.0,simulated,",
        "1,1,net,mesh,2,1 GB,compressed,True,1.5,0.5,3000000000.0,simulated,",
        "2,,net,mesh,4,2 GB,compressed,True,4.0,0.5,8000000000.0,beyond a limit,memory 8 GB is above the limit of 5 GB",
        "3,,net,mesh,8,3 GB,compressed,True,,,,infeasible,needs 90 GB",
        "4,,net,mesh,16,4 GB,compressed,True,,,,infeasible,needs 123 GB",
        "5,,net,mesh,32,5 GB,compressed,True,,,,failed,it went wrong",
    ]


def test_a_study_without_a_best_point_says_why(study: StudyResult) -> None:
    for points, heading in (
        (slice(3, None), "no point has a result"),
        (slice(1), "the only result is beyond a limit"),
        (slice(2), "all 2 points with a result are beyond a limit"),
    ):
        unfit = [
            evolve(point, rank=None, reason=point.reason or "is above the limit") for point in study.points[points]
        ]
        lines = shown(evolve(study, points=tuple(unfit)))
        assert f"{heading} (least time, memory at most 5 GB)" in lines
        assert not any(line.startswith("rank") for line in lines)


def test_several_objectives_are_a_front_and_estimates_called_so(study: StudyResult) -> None:
    points = (study.points[0], evolve(study.points[1], fabric="ring", values={"tp": 2}))
    objectives = (*study.objectives, Objective("mfu", "", False))
    lines = shown(evolve(study, points=points, objectives=objectives, limits={}))
    assert "all 2 by least time and most mfu; rank 1 is the Pareto front" in lines
    assert "rank  fabric  tp  size  time (s)  MFU %  memory (GB)" in lines
    assert "   1  ring     2  -        1.500  50.00        3.000" in lines
    errors = {"compressed": RungError(3, 0.00042, -0.0213)}
    rungs = (RungCount("estimate", 6, 4, 21, errors), RungCount("compressed", 3, 3, 4321))
    estimated = tuple(evolve(one, estimated=True) for one in study.points)
    lines = shown(evolve(study, points=estimated, rungs=rungs), 10)
    assert lines[4] == "times are estimates: no communication hinders another, and nothing was simulated"
    assert lines[-4:-1] == [
        "estimate: 6 points, 4 results, 21 events",
        "  its times are off those of compressed by 0.042 % (median), at most -2.1 %, at 3 points",
        "compressed: 3 points, 3 results, 4,321 events",
    ]
