from __future__ import annotations

import json

import pytest

from fredfw.errors import UnsupportedError
from fredfw.experiment.results import CollectiveSweep, Comparison, RunResult
from fredfw.report import data
from fredfw.report.exporters import CsvExporter, HtmlExporter, JsonExporter, TraceExporter
from fredfw.report.trace import trace_to_json
from fredfw.testing import ExporterTests


class TestConformance(ExporterTests):
    exporters = (CsvExporter(), HtmlExporter(), JsonExporter(), TraceExporter())


def test_they_write_what_the_options_write(run: RunResult, comparison: Comparison, sweep: CollectiveSweep) -> None:
    assert JsonExporter().export(run) == data.run_to_json(run)
    assert JsonExporter().export(comparison) == comparison.to_json()
    assert json.loads(JsonExporter().export(sweep))["average_busbw"] == 7.5e11
    assert CsvExporter().export(comparison) == data.comparison_to_csv(comparison)
    assert CsvExporter().export(sweep) == data.sweep_to_csv(sweep)
    assert TraceExporter().export(run) == trace_to_json(run)


def test_what_they_do_not_take(run: RunResult, sweep: CollectiveSweep) -> None:
    for exporter, result in ((CsvExporter(), run), (HtmlExporter(), sweep), (JsonExporter(), sweep.results[0])):
        with pytest.raises(UnsupportedError, match=f"exporter '{exporter.name}' has no form for a .*accepted: "):
            exporter.export(result)
