"""The exporter ``picture``: what a result shows as PNG, SVG or PDF, drawn by matplotlib."""

from typing import Any, ClassVar

from attrs import frozen

from fredfw import Exporter
from fredfw.drawing import HeatMap, pictures_of
from fredfw.units import choice, flag

fredfw_contract = 2


@frozen
class PictureExporter(Exporter):
    """Bars, curves, maps and points, legible at the width of a paper's column."""

    name: ClassVar[str] = "picture"
    takes: ClassVar[tuple[str, ...]] = ("comparison", "study", "validation")
    suffixes: ClassVar[tuple[str, ...]] = (".png", ".svg", ".pdf")
    format_by_ending: ClassVar[bool] = True

    format: str = choice(("png", "svg", "pdf"), help="On standard output; that of a file is its ending.")
    maps: bool = flag(False, help="Of a comparison: its savings that go by two fields, in place of its times.")

    def export(self, result: Any) -> bytes:
        from fredfw_exporter_picture import figures  # matplotlib takes a while to import

        title, pictures = pictures_of(result, savings=self.maps)
        maps = [one for one in pictures if isinstance(one, HeatMap)]
        figure = figures.maps_figure(title, maps) if self.maps else figures.figure_of(title, pictures)
        return figures.drawn(figure, self.format)
