"""The tables of measured times that come with the product, and who measured them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from attrs import evolve

from fredfw.validation import iterations, kernels, tables
from fredfw.validation.points import Point
from fredfw.workloads import kernel_tables

_DATA = files(__package__).joinpath("data")


@cache
def known() -> Mapping[str, Mapping[str, str]]:
    """Return what ``data/sources.toml`` says of each source, by name."""
    return MappingProxyType(tomllib.loads(_DATA.joinpath("sources.toml").read_text(encoding="utf-8")))


def points(*, in_place: bool = False, whole: bool = False) -> list[Point]:
    """Return the measured times that come with the product; where ``whole``, also iterations that take long."""
    reading = tables.Reading(in_place=in_place)
    found: list[Point] = []
    for name, source in known().items():
        data = _DATA.joinpath(source["table"]).read_bytes()
        text = data.decode("utf-8")
        if iterations.recognised(text):
            rows = [evolve(row, where=f"{name}: {row.where}") for row in iterations.parse(text, name)]
            found += rows if whole else iterations.few(rows)
        else:
            listed = tables.parse(text, name, reading)
            found += [evolve(point, table=tables.digest(data)) for point in listed]
    return found


def read(path: str, reading: tables.Reading | None = None) -> list[Point]:
    """Return the points of a user's table: of collectives, kernels or iterations; raises as ``tables.read`` does."""
    known = reading or tables.Reading()

    def parse(text: str, source: str) -> Sequence[Point]:
        if kernel_tables.recognised(text):
            return kernels.parse(text, source, known)
        if iterations.recognised(text):
            return iterations.parse(text, source, known)
        return tables.parse(text, source, known)

    return tables.read(path, parse)
