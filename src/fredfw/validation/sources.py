"""The tables of measured times that come with the product, and who measured them."""

from collections.abc import Sequence
from importlib.resources import files

from attrs import evolve

from fredfw.errors import InputError, UnknownNameError, nearest
from fredfw.validation import iterations, kernels, tables
from fredfw.validation.points import CollectivePoint, Point, packaged, suggestion
from fredfw.workloads import kernel_tables

SOURCES = "data/sources.toml"  # the table that says who measured what, by name
_DATA = files(__package__).joinpath("data")


def points(*, in_place: bool = False, whole: bool = False) -> list[Point]:
    """Return the measured times that come with the product; where ``whole``, also iterations that take long."""
    reading = tables.Reading(in_place=in_place)
    found: list[Point] = []
    for name, source in packaged(SOURCES).items():
        data = _DATA.joinpath(source["table"]).read_bytes()
        text = data.decode("utf-8")
        if iterations.recognised(text):
            rows = [evolve(row, where=f"{name}: {row.where}") for row in iterations.parse(text, name)]
            found += rows if whole else iterations.few(rows)
        else:
            digest = tables.digest(data)
            found += [evolve(point, table=digest) for point in tables.parse(text, name, reading)]
    return found


def read(path: str, reading: tables.Reading | None = None) -> list[Point]:
    known = reading or tables.Reading()

    def parse(text: str, source: str) -> Sequence[Point]:
        if kernel_tables.recognised(text):
            return kernels.parse(text, source, known)
        if iterations.recognised(text):
            return iterations.parse(text, source, known)
        return tables.parse(text, source, known)

    return tables.read(path, parse)


def chosen(files: Sequence[str], reading: tables.Reading, *, whole: bool = False) -> list[Point]:
    system, pattern = reading.system, reading.pattern
    patterns = (*tables.PATTERNS, *(kernels.PATTERNS if files else (iterations.PATTERN,)))
    if pattern is not None and pattern not in patterns:
        message = f"no operation {pattern!r}{nearest(pattern, patterns)}"
        raise UnknownNameError(message, key="--pattern", accepted=", ".join(patterns))
    if files:
        found = [point for file in files for point in read(file, reading)]
        others = (one for one in found if not isinstance(one, CollectivePoint))
        if reading.own is not None and (other := next(others, None)) is not None:
            raise InputError("is no collective", key=other.where, accepted="without --fabric")
    else:
        found = points(in_place=reading.in_place, whole=whole)
        known = sorted({one.system.name for one in found})
        if system is not None and system not in known:
            message = f"no measurements of {system!r}{suggestion(system, known)}"
            raise UnknownNameError(message, key="--system", accepted=", ".join(known))
        found = [one for one in found if system in (None, one.system.name)]
    measured = sorted({one.pattern for one in found})
    if pattern is not None and pattern not in (*measured, *(one.kind for one in found)):
        where = f"in {', '.join(files)}" if files else "" if system is None else f"on {system}"
        message = f"there are no measured times of {pattern} {where}".rstrip()
        raise InputError(message, key="--pattern", accepted=", ".join(measured))
    return [one for one in found if pattern in (None, one.pattern, one.kind)]
