from __future__ import annotations

import pytest
from attrs import evolve
from showing import printed

from fredfw.experiment.study.results import Objective, RungCount, RungError, StudyResult
from fredfw.report.studies import study_report, study_to_csv


def shown(study: StudyResult, top: int = 3) -> list[str]:
    return [line.rstrip() for line in printed(study_report(study, top)).splitlines()]


def test_the_report_counts_ranks_and_gives_reasons(study: StudyResult) -> None:
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


@pytest.mark.parametrize(
    ("points", "heading"),
    [
        (slice(3, None), "no point has a result"),
        (slice(1), "the only result is beyond a limit"),
        (slice(2), "all 2 points with a result are beyond a limit"),
    ],
)
def test_a_study_without_a_best_point_says_why_and_has_no_table(
    study: StudyResult, points: slice, heading: str
) -> None:
    unfit = [evolve(point, rank=None, reason=point.reason or "is above the limit") for point in study.points[points]]
    lines = shown(evolve(study, points=tuple(unfit)))
    assert f"{heading} (least time, memory at most 5 GB)" in lines
    assert not any(line.startswith("rank") for line in lines)


def test_several_objectives_are_a_front_and_cells_that_differ_are_columns(study: StudyResult) -> None:
    points = (study.points[0], evolve(study.points[1], fabric="ring", values={"tp": 2}))
    objectives = (*study.objectives, Objective("mfu", "", False))
    lines = shown(evolve(study, points=points, objectives=objectives, limits={}))
    assert "all 2 by least time and most mfu; rank 1 is the Pareto front" in lines
    assert "rank  fabric  tp  size  time (s)  MFU %  memory (GB)" in lines
    assert "   1  ring     2  -        1.500  50.00        3.000" in lines


def test_csv_has_a_row_for_each_point(study: StudyResult) -> None:
    assert study_to_csv(study).splitlines() == [
        "number,rank,workload,fabric,tp,size,rung,final,time,mfu,memory,status,reason",
        "0,2,net,mesh,1,0 GB,compressed,True,2.0,0.5,4000000000.0,simulated,",
        "1,1,net,mesh,2,1 GB,compressed,True,1.5,0.5,3000000000.0,simulated,",
        "2,,net,mesh,4,2 GB,compressed,True,4.0,0.5,8000000000.0,beyond a limit,memory 8 GB is above the limit of 5 GB",
        "3,,net,mesh,8,3 GB,compressed,True,,,,infeasible,needs 90 GB",
        "4,,net,mesh,16,4 GB,compressed,True,,,,infeasible,needs 123 GB",
        "5,,net,mesh,32,5 GB,compressed,True,,,,failed,it went wrong",
    ]


def test_estimates_are_called_so_and_their_error_is_told(study: StudyResult) -> None:
    errors = {"compressed": RungError(3, 0.00042, -0.0213)}
    rungs = (RungCount("estimate", 6, 4, 21, errors), RungCount("compressed", 3, 3, 4321))
    points = tuple(evolve(one, estimated=True) for one in study.points)
    lines = shown(evolve(study, points=points, rungs=rungs), 10)
    assert lines[4] == "times are estimates: no communication hinders another, and nothing was simulated"
    assert lines[-4:-1] == [
        "estimate: 6 points, 4 results, 21 events",
        "  its times are off those of compressed by 0.042 % (median), at most -2.1 %, at 3 points",
        "compressed: 3 points, 3 results, 4,321 events",
    ]
