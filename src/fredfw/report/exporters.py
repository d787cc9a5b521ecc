"""The exporters of the core: its own JSON and CSV, and traces for Perfetto."""

from typing import ClassVar

from attrs import frozen

from fredfw.errors import UnsupportedError
from fredfw.experiment.results import CollectiveSweep, Comparison, RunResult
from fredfw.experiment.study.results import StudyResult
from fredfw.plugin.exporter import Exporter
from fredfw.report import data
from fredfw.report.studies import study_to_csv
from fredfw.report.trace import trace_to_json
from fredfw.units import option


@frozen
class JsonExporter(Exporter):
    """Everything, with provenance; numbers in SI units."""

    name: ClassVar[str] = "json"
    takes: ClassVar[tuple[str, ...]] = ("run", "comparison", "sweep", "study", "validation")
    suffixes: ClassVar[tuple[str, ...]] = (".json",)
    incomplete: ClassVar[bool] = True

    def export(self, result: object) -> str:
        if isinstance(result, RunResult):
            return data.run_to_json(result)
        if isinstance(result, CollectiveSweep):
            return data.sweep_to_json(result)
        if hasattr(result, "to_json"):
            return str(result.to_json())
        raise _unsupported(self, result)


@frozen
class CsvExporter(Exporter):
    """A table with a row for each cell, size or point; numbers in SI units."""

    name: ClassVar[str] = "csv"
    takes: ClassVar[tuple[str, ...]] = ("comparison", "sweep", "study")
    suffixes: ClassVar[tuple[str, ...]] = (".csv",)
    incomplete: ClassVar[bool] = True

    def export(self, result: object) -> str:
        if isinstance(result, Comparison):
            return data.comparison_to_csv(result)
        if isinstance(result, CollectiveSweep):
            return data.sweep_to_csv(result)
        if isinstance(result, StudyResult):
            return study_to_csv(result)
        raise _unsupported(self, result)


@frozen
class TraceExporter(Exporter):
    """A Chrome trace of a run, which opens in Perfetto."""

    name: ClassVar[str] = "trace"
    takes: ClassVar[tuple[str, ...]] = ("run",)
    suffixes: ClassVar[tuple[str, ...]] = (".json",)

    ranks: str = option("", help="The ranks to show, such as 0-7,64; all if it is empty.")

    def export(self, result: object) -> str:
        if isinstance(result, RunResult):
            return trace_to_json(result, self.ranks)
        raise _unsupported(self, result)


def _unsupported(exporter: Exporter, result: object) -> UnsupportedError:
    message = f"exporter {exporter.name!r} has no form for a {type(result).__name__}"
    return UnsupportedError(message, accepted=", ".join(exporter.takes))
