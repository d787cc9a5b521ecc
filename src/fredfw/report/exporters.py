"""The exporters of the core: its own JSON and CSV, and traces for Perfetto."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

from attrs import frozen

from fredfw.errors import UnsupportedError
from fredfw.experiment.results import CollectiveSweep, Comparison, RunResult
from fredfw.experiment.study.results import StudyResult
from fredfw.plugin.exporter import Exporter
from fredfw.report import data
from fredfw.report.studies import study_to_csv
from fredfw.report.trace import trace_to_json
from fredfw.units import option

_Forms = Mapping[type, Callable[[Any], str]]


@frozen
class JsonExporter(Exporter):
    """Everything, with provenance; numbers in SI units."""

    name: ClassVar[str] = "json"
    takes: ClassVar[tuple[str, ...]] = ("run", "comparison", "sweep", "study", "validation")
    suffixes: ClassVar[tuple[str, ...]] = (".json",)
    incomplete: ClassVar[bool] = True

    def export(self, result: object) -> str:
        if hasattr(result, "to_json"):
            return str(result.to_json())
        return _written(self, result, {RunResult: data.run_to_json, CollectiveSweep: data.sweep_to_json})


@frozen
class CsvExporter(Exporter):
    """A table with a row for each cell, size or point; numbers in SI units."""

    name: ClassVar[str] = "csv"
    takes: ClassVar[tuple[str, ...]] = ("comparison", "sweep", "study")
    suffixes: ClassVar[tuple[str, ...]] = (".csv",)
    incomplete: ClassVar[bool] = True

    def export(self, result: object) -> str:
        forms: _Forms = {Comparison: data.comparison_to_csv, CollectiveSweep: data.sweep_to_csv}
        return _written(self, result, {**forms, StudyResult: study_to_csv})


@frozen
class TraceExporter(Exporter):
    """A Chrome trace of a run, which opens in Perfetto."""

    name: ClassVar[str] = "trace"
    takes: ClassVar[tuple[str, ...]] = ("run",)
    suffixes: ClassVar[tuple[str, ...]] = (".json",)

    ranks: str = option("", help="The ranks to show, such as 0-7,64; all if it is empty.")

    def export(self, result: object) -> str:
        return _written(self, result, {RunResult: partial(trace_to_json, ranks=self.ranks)})


def _written(exporter: Exporter, result: object, forms: _Forms) -> str:
    for cls, form in forms.items():
        if isinstance(result, cls):
            return form(result)
    message = f"exporter {exporter.name!r} has no form for a {type(result).__name__}"
    raise UnsupportedError(message, accepted=", ".join(exporter.takes))
