"""The exporters of the core: its own JSON and CSV, traces for Perfetto, and reports as HTML."""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen

from fredfw.errors import UnsupportedError
from fredfw.experiment.results import CollectiveSweep, Comparison, RunResult
from fredfw.experiment.study.results import StudyResult
from fredfw.plugin.exporter import Exporter
from fredfw.report import data
from fredfw.report.cells import fields_of, items
from fredfw.report.pictures import importing
from fredfw.report.ranking import Ranking
from fredfw.report.studies import study_to_csv
from fredfw.report.trace import trace_to_json
from fredfw.units import option


@frozen
class JsonExporter(Exporter):
    """Everything, with provenance; numbers in SI units."""

    name: ClassVar[str] = "json"
    takes: ClassVar[tuple[str, ...]] = ("run", "comparison", "sweep", "study")
    suffixes: ClassVar[tuple[str, ...]] = (".json",)
    incomplete: ClassVar[bool] = True

    def export(self, result: object) -> str:
        if isinstance(result, RunResult):
            return data.run_to_json(result)
        if isinstance(result, Comparison | StudyResult):
            return result.to_json()
        if isinstance(result, CollectiveSweep):
            return data.sweep_to_json(result)
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


@frozen
class HtmlExporter(Exporter):
    """A report to hand on: one HTML file with tables and pictures, which needs no network and holds no script."""

    name: ClassVar[str] = "html"
    takes: ClassVar[tuple[str, ...]] = ("comparison", "run", "study", "validation")
    suffixes: ClassVar[tuple[str, ...]] = (".html",)
    incomplete: ClassVar[bool] = True

    command: str = option("", help="What makes the report again.")
    sort: str = option("", help="Of a comparison: by what its rows are sorted, as the option --sort.")
    best: int = option(0, help="Of a comparison: how many rows to show, as the option --best; 0 for all.")
    pareto: str = option("", help="Of a comparison: show the rows that no other beats in these metrics, as --pareto.")

    def check(self) -> None:
        with importing("--report", "a report", "jinja2", "report"):
            import jinja2  # noqa: F401, what is rendered imports it again

    def export(self, result: object) -> str:
        from fredfw.report import pages
        from fredfw.report.html.page import rendered

        if isinstance(result, RunResult):
            return rendered(pages.run_page(result, self.command))
        if isinstance(result, Comparison):
            ranking = Ranking(self.sort, self.best, self.pareto)
            ranking.check(fields_of(items(result)))
            return rendered(pages.comparison_page(result, ranking, self.command))
        if isinstance(result, StudyResult):
            return rendered(pages.study_page(result, self.command))
        if hasattr(result, "page"):  # such as a validation, which says itself what its page is
            return rendered(result.page(self.command))
        raise _unsupported(self, result)


def _unsupported(exporter: Exporter, result: object) -> UnsupportedError:
    message = f"exporter {exporter.name!r} has no form for a {type(result).__name__}"
    return UnsupportedError(message, accepted=", ".join(exporter.takes))
