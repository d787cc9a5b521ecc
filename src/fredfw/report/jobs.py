"""Jobs that ran at once, for people and for programs."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen
from rich.table import Table

from fredfw.experiment.results import JobResult, Row, Spread
from fredfw.report import numbers
from fredfw.report.layout import plain_table
from fredfw.units import Unit, render
from fredfw.workloads.labels import BUBBLE, COMPUTE, OWN

_NUMBERS = "start", "seconds", "alone", "slowdown", "bytes"
PERCENTILES = "P50", "P99"
"""Columns of the times of several runs."""
_SPREAD = "p50", "p99"


@frozen
class Listed:
    """A job, and where it ran.

    Args:
        place: Text for each column that says which cell it is of; may be none.
        job: What became of it.
    """

    place: tuple[str, ...]
    job: JobResult


def jobs_table(listed: Sequence[Listed], places: Sequence[str] = ()) -> Table:
    """Return a table of jobs, whose first columns are ``places``."""
    jobs = [one.job for one in listed]
    name, unit, decimals = numbers.time_scale([job.seconds for job in jobs])
    several = PERCENTILES if any(job.spread is not None for job in jobs) else ()
    times = [f"start ({name})", f"time ({name})", *several, f"alone ({name})"]
    columns = [*places, "job", "NPUs", *times, "slowdown", "iterations", COMPUTE, BUBBLE, "exposed", "bytes"]
    words = len(places) + 1
    table = plain_table(*columns, keys=words, right=range(words, len(columns)))
    for one in listed:
        job = one.job
        exposed = sum(spent for cause, spent in job.breakdown.items() if cause not in OWN)
        parts = job.breakdown.get(COMPUTE, 0.0), job.breakdown.get(BUBBLE, 0.0), exposed
        table.add_row(
            *one.place,
            job.name,
            str(len(job.npus)),
            numbers.part(job.start / unit, decimals),
            f"{job.seconds / unit:.{decimals}f}",
            *(percentile(job.spread, name, unit, decimals) for name in several),
            f"{job.alone / unit:.{decimals}f}",
            f"{job.slowdown:.3f}",
            str(len(job.iterations)),
            *(numbers.part(part / unit, decimals) for part in parts),
            render(job.bytes, Unit.BYTES),
        )
    return table


def percentile(spread: Spread | None, name: str, unit: float, decimals: int) -> str:
    """Return one of ``PERCENTILES``, or a dash where there is one run."""
    return "-" if spread is None else f"{getattr(spread, name.lower()) / unit:.{decimals}f}"


def of_rows(rows: Sequence[Row]) -> Table | None:
    """Return a table of the jobs of all ``rows``, or ``None`` where there are none."""
    found = [Listed((row.workload, row.fabric), job) for row in rows for job in row.jobs]
    return jobs_table(found, ("workload", "fabric")) if found else None


def csv_columns(rows: Sequence[Row]) -> dict[str, tuple[str, str]]:
    """Return the columns that the jobs of ``rows`` have in CSV: the job and its field, by name."""
    jobs = [job for row in rows for job in row.jobs]
    fields = (*_NUMBERS, *(_SPREAD if any(job.spread is not None for job in jobs) else ()))
    names = dict.fromkeys(job.name for job in jobs)
    return {f"job.{name}.{field}": (name, field) for name in names for field in fields}


def csv_value(row: Row, column: tuple[str, str]) -> float | None:
    """Return what ``row`` has in a column, if it has that job."""
    name, field = column
    job = next((one for one in row.jobs if one.name == name), None)
    return getattr(None if job is None else job.spread if field in _SPREAD else job, field, None)
