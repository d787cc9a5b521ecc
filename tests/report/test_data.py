import csv
import json
import math
from typing import Any

import pytest
from attrs import evolve

from fredfw import Work
from fredfw.errors import UnsupportedError
from fredfw.experiment.results import CollectiveSweep, Comparison, Failure, RunResult, Throughput
from fredfw.report import data
from fredfw.report.cells import groups, ordered
from fredfw.report.exporters import CsvExporter, JsonExporter, TraceExporter
from fredfw.testing import ExporterTests


def test_comparison_as_json_and_csv(comparison: Comparison) -> None:
    document = json.loads(comparison.to_json())
    assert document["format"] == "fredfw.comparison"
    assert document["approximated"] == "net on mesh has many transfers"
    assert document["provenance"] == {"fidelity": "exact"}
    for row, entry in zip(comparison.rows, document["rows"], strict=True):
        for key in ("workload", "fabric", "seconds", "speedup", "reference_speedup", "status", "breakdown", "figures"):
            assert entry[key] == getattr(row, key)
    rows = list(csv.DictReader(data.comparison_to_csv(comparison).splitlines()))
    times = [key.removesuffix("_seconds") for key in rows[0] if key.endswith("_seconds")]
    assert times == ["compute", "bubble", "mp", "dp", "zeta"]
    for row, entry in zip(comparison.rows, rows, strict=True):
        assert (entry["workload"], entry["fabric"], entry["status"]) == (row.workload, row.fabric, row.status)
        assert float(entry["seconds"]) == row.seconds
        assert entry["baseline"] == row.baseline
        parts = sum(float(value) for key, value in entry.items() if key.endswith("_seconds"))
        assert parts == pytest.approx(row.seconds, rel=1e-12)
    assert rows[0]["reference_speedup"] == ""
    assert rows[2]["notes"] == "kept outside"


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_json_never_holds_a_number_that_is_none(comparison: Comparison, value: float) -> None:
    rows = (evolve(comparison.rows[0], seconds=value), *comparison.rows[1:])
    with pytest.raises(ValueError, match="JSON compliant"):
        evolve(comparison, rows=rows).to_json()


def test_swept_fields_are_columns_and_keys(comparison: Comparison) -> None:
    first, second, *_ = comparison.rows
    settings = {"size": "1 MB", "dimensions": [2, 2]}
    rows = evolve(first, workload_settings=settings, baseline_workload="b"), evolve(second, fabric_settings={"size": 3})
    changed = evolve(comparison, rows=rows)
    names = ("workload.size", "workload.dimensions", "fabric.size", "baseline_workload")
    table = csv.DictReader(data.comparison_to_csv(changed).splitlines())
    assert [[row[name] for name in names] for row in table] == [["1 MB", "[2, 2]", "", "b"], ["", "", "3", "net"]]
    entry = json.loads(changed.to_json())["rows"][0]
    assert (entry["workload_settings"], entry["baseline_workload"]) == (settings, "b")


def test_rows_of_one_sweep_are_one_group_and_causes_come_as_most_are_declared(comparison: Comparison) -> None:
    rows = [evolve(row, workload_template="{x}", workload_settings={"x": row.workload}) for row in comparison.rows]
    (group,) = groups(rows)
    assert (group.name, group.fields, len(group.rows), group.baseline_workloads) == ("{x}", ("x",), 5, {})
    (group,) = groups([evolve(row, baseline_workload="net") for row in rows])
    assert group.baseline_workloads == {"net": "x=net"}
    assert [group.name for group in groups(comparison.rows)] == ["net", "other"]
    found = ordered(("zeta", "dp", "compute", "alpha", "load", "bubble"), [{"load": ""}, {"mp": "", "dp": ""}])
    assert found == ("compute", "bubble", "dp", "load", "alpha", "zeta")


def test_runs_and_sweeps_as_json_and_csv(run: RunResult, sweep: CollectiveSweep) -> None:
    document = json.loads(data.run_to_json(run))
    assert document["format"] == "fredfw.run"
    assert document["breakdown"] == run.breakdown
    assert document["placement"] == [1, 0]
    # 100 B of the 50 B/s link in 5 s are 40 %, 150 B of 100 B/s are 30 %; the unused link 1 is left out.
    shares = [(link["link"], link["utilization"]) for link in document["links"]]
    assert shares == [(3, pytest.approx(0.4)), (0, pytest.approx(0.3)), (2, pytest.approx(0.3))]
    assert (document["links"][0]["name"], document["links"][0]["bytes"]) == ("switch0->npu1", 100.0)
    assert document["links"][1]["bytes_by_label"] == {"dp": 60.0, "mp": 90.0}
    assert document["provenance"] == run.provenance
    assert (document["figures"], document["notes"], document["work"]) == ({"wavelengths": 64.0}, ["a note"], None)
    told = evolve(run, work=Work(8), throughput=Throughput(1.6, npu_time=10.0))
    document = json.loads(data.run_to_json(told))
    assert document["work"] == {"samples": 8.0, **dict.fromkeys(("tokens", "model_flops", "replicas", "microbatches"))}
    rates = {"samples_per_second": 1.6, "tokens_per_second": None, "mfu": None, "npu_time": 10.0}
    assert document["throughput"] == rates
    document = json.loads(data.sweep_to_json(sweep))
    assert (document["fabric"], document["npus"]) == ("pair", 2)
    assert document["provenance"] == {"algorithm": "auto"}
    assert document["average_busbw"] == 7.5e11
    assert [one["size"] for one in document["results"]] == [1e6, 1e9]
    assert document["results"][1]["candidates"] == {"ring": 1e-3, "tree": 2e-3}
    assert len(document["results"][0]["links"]) == 3
    parts = {"injection": 2.5e-4, "ejection": 0.0, "cut": 2e-4, "latency": 1e-9}
    assert document["results"][1]["bound"] == {**parts, "seconds": 4e-4, "binding": "injection"}
    assert document["results"][1]["bound_ratio"] == 2.5
    assert (document["results"][0]["figures"], document["results"][0]["notes"]) == ({"wavelengths": 2.0}, ["split"])
    rows = list(csv.DictReader(data.sweep_to_csv(sweep).splitlines()))
    assert [float(row["busbw"]) for row in rows] == [5e11, 1e12]
    assert [float(row["bound_seconds"]) for row in rows] == [8e-7, 4e-4]
    assert (rows[1]["bound_ratio"], rows[1]["bound_cut"], rows[1]["bound_binding"]) == ("2.5", "0.0002", "injection")


def test_cells_without_a_result_are_rows_of_the_csv_in_their_place(comparison: Comparison) -> None:
    failures = (
        Failure("net", "A", "needs 120 GB, has 80 GB", True, place=1, fabric_settings={"npus": 8}),
        Failure("other", "D", "broke", False, place=5),
    )
    rows = list(csv.DictReader(data.comparison_to_csv(evolve(comparison, failures=failures)).splitlines()))
    assert [row["fabric"] for row in rows] == ["mesh", "A", "C", "D", "mesh", "C", "D"]
    assert [value for value in rows[1].values() if value] == ["net", "A", "infeasible", "needs 120 GB, has 80 GB", "8"]
    assert (rows[-1]["status"], rows[-1]["notes"]) == ("failed", "broke")
    document = json.loads(evolve(comparison, failures=failures).to_json())
    assert document["failures"][0]["reason"] == "needs 120 GB, has 80 GB"
    assert document["failures"][0]["fabric_settings"] == {"npus": 8}


def test_what_is_known_of_some_rows_is_empty_in_the_others(comparison: Comparison) -> None:
    known: dict[str, Any] = {"memory": {"weights": 1e9, "activations": 5e8}, "speedup": None}
    known |= {"work": Work(8, tokens=800, model_flops=6e3), "throughput": Throughput(4.0, 400.0, 0.75, 40.0)}
    rows = (evolve(comparison.rows[0], **known), *comparison.rows[1:])
    first, second, *_ = csv.DictReader(data.comparison_to_csv(evolve(comparison, rows=rows)).splitlines())
    assert (first["speedup"], float(first["memory"]), second["memory"]) == ("", 1.5e9, "")
    columns = ("samples", "tokens", "model_flops", "samples_per_second", "tokens_per_second", "mfu", "npu_time")
    assert [float(first[name]) for name in columns] == [8, 800, 6e3, 4, 400, 0.75, 40]
    assert [second[name] for name in columns] == [""] * 7


class TestExporters(ExporterTests):
    exporters = (CsvExporter(), JsonExporter(), TraceExporter())


def test_what_they_do_not_take(run: RunResult, sweep: CollectiveSweep) -> None:
    for exporter, result in ((CsvExporter(), run), (JsonExporter(), sweep.results[0])):
        with pytest.raises(UnsupportedError, match=f"exporter '{exporter.name}' has no form for a .*accepted: "):
            exporter.export(result)
