from typing import Any

import pytest
from attrs import evolve
from showing import of, on

from fredfw import Work
from fredfw.experiment.results import Comparison, Failure, Row, Throughput
from fredfw.report.cells import Field, fields_of, key_columns
from fredfw.report.ranking import Ranking

SIZE = Field("workload", "size", "size")


def cells(comparison: Comparison) -> list[Row | Failure]:
    """Return four rows of a sweep and a cell without a result, whose sizes are not in order."""
    first = comparison.rows[0]
    rows = [
        evolve(of(first, "{size}", size=size), seconds=seconds, cost=cost, throughput=Throughput(samples / seconds))
        # Samples per second: 2, 4, 2, 10.
        for size, seconds, cost, samples in (
            ("1 MB", 4.0, 10.0, 8),
            ("10 kB", 1.0, 40.0, 4),
            ("2 GB", 2.0, 30.0, 4),
            ("1 GB", 3.0, 30.0, 30),
        )
    ]
    failure = Failure("8 B", "mesh", "too small", True, workload_template="{size}", workload_settings={"size": "8 B"})
    return [*rows[:2], failure, *rows[2:]]


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ({}, ["1 MB", "10 kB", "8 B", "2 GB", "1 GB"]),
        ({"sort": "-time"}, ["1 MB", "1 GB", "2 GB", "10 kB", "8 B"]),
        # The most samples per second come first; equal ones keep their order.
        ({"sort": "samples/s"}, ["1 GB", "10 kB", "1 MB", "2 GB", "8 B"]),
        ({"sort": "size"}, ["8 B", "10 kB", "1 MB", "1 GB", "2 GB"]),
        ({"sort": "-workload.size"}, ["2 GB", "1 GB", "1 MB", "10 kB", "8 B"]),
        ({"sort": "time", "best": 2}, ["10 kB", "2 GB"]),
        # The best are chosen by what is better, and then sorted.
        ({"sort": "-time", "best": 2}, ["2 GB", "10 kB"]),
        # 1 GB takes longer than 2 GB, for the same money.
        ({"pareto": ("cost", "time"), "best": 2}, ["1 MB", "2 GB"]),
        ({"sort": "size", "pareto": ("time", "cost")}, ["10 kB", "1 MB", "2 GB"]),
    ],
)
def test_rows_that_are_shown(asked: dict[str, Any], shown: list[str], comparison: Comparison) -> None:
    assert [one.workload for one in Ranking(**asked).ranked(cells(comparison))[0]] == shown


def test_rows_are_best_by_their_rate_and_what_few_have_ranks_no_other(comparison: Comparison) -> None:
    rows = [one for one in cells(comparison) if isinstance(one, Row)]
    works = [evolve(one, work=Work(samples)) for one, samples in zip(rows, (8, 4, 4, 30), strict=True)]
    assert [one.workload for one in Ranking(best=1).ranked(works)[0]] == ["1 GB"]
    found = [evolve(one, omissions=("gathers",)) if one.workload == "10 kB" else one for one in rows]
    shown, said = Ranking(sort="time", best=2).ranked(found)
    assert [one.workload for one in shown] == ["2 GB", "1 GB"]
    assert "rows that leave something out are not compared by time" in said
    shown, said = Ranking(sort="mfu", best=1).ranked(rows)
    assert shown == rows
    assert said == ["not compared by mfu: no cell has that", "not sorted by mfu: no cell has that"]
    dear = [evolve(one, cost=None) if one.seconds < 2 else one for one in rows]
    shown, said = Ranking(pareto=("time", "cost")).ranked(dear)
    assert [one.workload for one in shown] == ["2 GB", "1 MB"]
    assert "1 cell does not have time and cost: not compared" in said


def test_names_of_metrics_and_fields_are_accepted_and_columns_name_what_differs(comparison: Comparison) -> None:
    for sort in ("time", "-samples/s", "size", "-size", "workload.size"):
        Ranking(sort=sort, pareto=("time", "cost")).check([SIZE])

    def titles(*rows: Row) -> list[list[str]]:
        columns = key_columns(rows)
        return [[title for title, _ in columns], *([text(row) for _, text in columns] for row in rows)]

    row = comparison.rows[0]
    split, ring = of(row, "net mp{mp}", mp=2), on(row, "Ring {npus}", npus=8)
    assert titles(row) == [["fabric"], ["mesh"]]
    assert titles(split) == [["mp"], ["2"]]
    assert titles(ring) == [["npus"], ["8"]]
    # A name that two have, without its placeholders, stays as it is.
    assert titles(ring, on(ring, "Ring {rate}", rate="1 GB/s"), on(split, "mesh")) == [
        ["workload", "mp", "fabric", "npus", "rate"],
        ["net", "-", "Ring {npus}", "8", "-"],
        ["net", "-", "Ring {rate}", "-", "1 GB/s"],
        ["net mp{mp}", "2", "mesh", "-", "-"],
    ]
    row = evolve(comparison.rows[0], workload_settings={"npus": 4, "size": "1 B"}, fabric_settings={"npus": 8})
    found = [(field.title, field.text(row)) for field in fields_of([row])]
    assert found == [("workload.npus", "4"), ("size", "1 B"), ("fabric.npus", "8")]
