"""Results as JSON and CSV. Numbers are in SI units without prefixes; there is no NaN and no infinity in JSON.

JSON documents start with their ``format`` and its ``version``, and keys always come in the same order.
"""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from attrs import asdict, fields

from fredfw.experiment.document import document
from fredfw.experiment.metrics import METRICS
from fredfw.experiment.naming import as_written
from fredfw.experiment.results import CollectiveSweep, Comparison, Failure, Row, RunResult, Throughput
from fredfw.experiment.why import link_loads, tier_shares
from fredfw.fabric import Fabric
from fredfw.report.cells import Item, causes, fields_of, items, settings
from fredfw.simulation.bounds.collectives import PARTS
from fredfw.typing import FloatArray
from fredfw.workloads import Work

_TOO_LONG = frozenset({"link_bytes", "link_utilization", "statistics", "fabric", "group", "schedule"})  # for documents
_CELL = (
    *("workload", "fabric", "status", "fidelity", "npus", "seconds", "speedup", "baseline", "reference_speedup"),
    *("reference_source", "compute_scale", "energy"),
)
_WORK, _THROUGHPUT = ([one.name for one in fields(cls)] for cls in (Work, Throughput))
_MORE = "baseline_workload", "cost"
_RUN = (
    *("workload", "fabric", "seconds", "spread", "breakdown", "bytes_by_cause", "energy", "memory", "algorithms"),
    *("placement", "injection_bandwidth", "links", "figures", "notes", "omissions", "colours", "work", "throughput"),
    *("tiers", "critical_path", "what_if", "jobs", "cost", "bill", "statistics", "provenance"),
)
_ASKED = ("spread", "critical_path", "what_if", "jobs")  # left out where there are none
_SPREAD = ("runs", "p50", "p99", "standard_error")  # columns where a row is of several runs
_JOB = ("start", "seconds", "alone", "slowdown", "bytes")
_JOB_SPREAD = ("p50", "p99")


def comparison_to_csv(comparison: Comparison) -> str:
    """Return one row per cell; columns of seconds per cause, swept fields and numbers of jobs; what is not is empty."""
    cells, rows = items(comparison), comparison.rows
    times = {f"{cause}_seconds": cause for cause in causes(rows)}
    swept = fields_of(cells)
    found = [job for row in rows for job in row.jobs]
    numbers = (*_JOB, *(_JOB_SPREAD if any(job.spread is not None for job in found) else ()))
    names = dict.fromkeys(job.name for job in found)
    jobs = {f"job.{name}.{number}": (name, number) for name in names for number in numbers}
    spread = _SPREAD if any(row.spread is not None for row in rows) else ()

    def values(cell: Item) -> dict[str, object]:
        known: dict[str, object] = {one.path: as_written(settings(cell, one.kind).get(one.name, "")) for one in swept}
        if isinstance(cell, Failure):
            told = {name: getattr(cell, name) for name in ("workload", "fabric", "status")}
            return {**known, **told, "notes": cell.told}
        parts = ((cell, (*_CELL, *_MORE)), (cell.work, _WORK), (cell.throughput, _THROUGHPUT), (cell.spread, spread))
        known |= {name: getattr(part, name, None) for part, names in parts for name in names}
        known |= {column: cell.breakdown.get(cause, 0.0) for column, cause in times.items()}
        known |= {column: _of_job(cell, *place) for column, place in jobs.items()}
        return {**known, "notes": "; ".join(cell.notes), "memory": METRICS["memory"].of(cell)}

    paths = (one.path for one in swept)
    header = (*_CELL, *_WORK, *_THROUGHPUT, *times, "notes", *_MORE, "memory", *paths, *jobs, *spread)
    return to_csv(header, (map(known.get, header) for known in map(values, cells)))


def _of_job(row: Row, name: str, field: str) -> float | None:
    job = next((one for one in row.jobs if one.name == name), None)
    return getattr(None if job is None else job.spread if field in _JOB_SPREAD else job, field, None)


def run_to_json(result: RunResult) -> str:
    """Return ``result`` as JSON: all but the fabric and the timeline, whose spans are for the trace."""
    own: dict[str, Any] = {
        "fabric": result.fabric_name,
        "placement": [int(npu) for npu in result.placement],
        "links": _links(result.fabric, result.link_bytes, result.seconds, result.link_bytes_by_label),
        "tiers": tier_shares(result),
    }
    content = {name: own[name] if name in own else getattr(result, name) for name in _RUN}
    return document("run", {name: one for name, one in content.items() if one or name not in _ASKED})


def _links(fabric: Fabric, link_bytes: FloatArray, seconds: float, by_label: Mapping[str, FloatArray]) -> list[Any]:
    loads = link_loads(fabric, link_bytes, seconds, by_label=by_label)
    return [asdict(load, filter=lambda _, value: value != {}) for load in loads]


def sweep_to_json(sweep: CollectiveSweep) -> str:
    entries = []
    for number, result in enumerate(sweep.results):
        entry = asdict(result, filter=lambda attribute, _: attribute.name not in _TOO_LONG)
        entry["bound"]["binding"] = result.bound.binding
        entry["bound_ratio"] = result.bound_ratio
        if sweep.effects:
            entry["sensitivity"] = sweep.effects[number]
        entry["links"] = _links(sweep.fabric, result.link_bytes, result.duration, {})
        entries.append(entry)
    where = {"fabric": sweep.fabric.name, "npus": len(sweep.fabric.npus)}
    more = {"average_busbw": sweep.average_busbw, "missing": list(sweep.missing), "provenance": sweep.provenance}
    return document("collectives", {**where, "results": entries, **more})


def sweep_to_csv(sweep: CollectiveSweep) -> str:
    times = "pattern", "ranks", "size", "duration", "algbw", "busbw"
    bounds = (f"bound.{part}" for part in ("seconds", *PARTS, "binding"))
    columns = (*times, "algorithm", "protocol", "steps", "energy", "bound_ratio", *bounds)
    return to_csv([column.replace(".", "_") for column in columns], map(attrgetter(*columns), sweep.results))


def listed(kind: str, items: Iterable[Any]) -> str:
    return document(kind, {kind: list(items)})


def to_csv(header: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()
