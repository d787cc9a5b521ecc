"""Results as plain data for exporters that draw them: pages of text, tables and pictures."""

from fredfw.report.cells import exposed
from fredfw.report.numbers import unit_for
from fredfw.report.pages import page_of, pictures_of
from fredfw.report.pictures import (
    LINES,
    Axis,
    Bar,
    Bars,
    Curves,
    Dot,
    Dots,
    HeatMap,
    Picture,
    Series,
    colours,
    line_colour,
    spans,
)
from fredfw.report.shown import Code, Details, Heading, Line, Page, Part, Section, Span, Spans, Table, text_of

__all__ = [
    "LINES",
    "Axis",
    "Bar",
    "Bars",
    "Code",
    "Curves",
    "Details",
    "Dot",
    "Dots",
    "Heading",
    "HeatMap",
    "Line",
    "Page",
    "Part",
    "Picture",
    "Section",
    "Series",
    "Span",
    "Spans",
    "Table",
    "colours",
    "exposed",
    "line_colour",
    "page_of",
    "pictures_of",
    "spans",
    "text_of",
    "unit_for",
]
