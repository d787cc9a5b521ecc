"""The exporter ``html``: a report of a result as one file."""

from typing import Any, ClassVar

from attrs import frozen

from fredfw import Exporter
from fredfw.drawing import page_of
from fredfw.units import option

fredfw_contract = 2


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

    def export(self, result: Any) -> str:
        from fredfw_exporter_html.page import rendered  # jinja2 takes a while to import

        return rendered(page_of(result, self.command, sort=self.sort, best=self.best, pareto=self.pareto))
