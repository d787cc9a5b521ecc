"""Results as JSON and CSV. Numbers are in SI units without prefixes; there is no NaN and no infinity in JSON.

Every JSON document starts with ``format`` (what it is) and ``version`` (of that format), and its keys always come in
the same order. CSV has one row per cell.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, groupby
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from attrs import asdict, fields, frozen

from fredfw.experiment.document import document
from fredfw.experiment.metrics import METRICS
from fredfw.experiment.naming import as_written
from fredfw.experiment.results import CollectiveSweep, Comparison, Failure, Row, RunResult, Throughput
from fredfw.experiment.why import link_loads, tier_shares
from fredfw.fabric import Fabric
from fredfw.report.cells import Item, fields_of, items, settings
from fredfw.simulation.bounds.collectives import PARTS
from fredfw.typing import FloatArray
from fredfw.workloads import Work
from fredfw.workloads.labels import BUBBLE, COMPUTE

if TYPE_CHECKING:  # plain data, but its module brings the whole runner
    from fredfw.experiment.matrix.calibration import Fit
    from fredfw.plugin.registry import PluginInfo

_ALIKE = 1e-4  # relative: not told apart by the digits of a table
_NO_LABELS: Mapping[str, FloatArray] = MappingProxyType({})

# Of a collective, what is too long for a document.
_NOT_IN_A_DOCUMENT = frozenset({"link_bytes", "link_utilization", "statistics", "fabric", "group", "schedule"})


def causes_with_time(rows: Collection[Row]) -> tuple[str, ...]:
    """Return the causes that take any time in ``rows``, in the order of ``ordered``."""
    found = {cause for row in rows for cause, seconds in row.breakdown.items() if seconds}
    return ordered(found, (row.colours for row in rows))


def causes(rows: Collection[Row]) -> tuple[str, ...]:
    """Return all causes of ``rows``, in the order of ``ordered``."""
    return ordered({cause for row in rows for cause in row.breakdown}, (row.colours for row in rows))


def ordered(causes: Collection[str], declared: Iterable[Collection[str]]) -> tuple[str, ...]:
    """Return ``causes``: computation and bubbles, then labels as workloads declare them, then the others by name.

    Of several workloads the one that declares the most decides first.
    """
    most_first = sorted(declared, key=len, reverse=True)
    first = dict.fromkeys([COMPUTE, BUBBLE, *chain.from_iterable(most_first)])
    return (*(one for one in first if one in causes), *sorted(set(causes).difference(first)))


@frozen(eq=False)
class RowGroup:
    """Rows of a comparison that belong into one table: of one workload, or of all that one sweep stands for.

    Args:
        name: Name of the workload's table in the experiment.
        fields: The swept fields of the workload; none where it is not swept.
        rows: One or more, in their order.
    """

    name: str
    fields: tuple[str, ...]
    rows: tuple[Row, ...]

    @property
    def baseline_workloads(self) -> dict[str, str]:
        """What to call each workload that speed-ups refer to; none where every row's own is its baseline."""
        if all(row.baseline_workload == row.workload for row in self.rows):
            return {}
        settings = {row.workload: row.workload_settings for row in self.rows}
        names = dict.fromkeys(row.baseline_workload for row in self.rows)
        return {
            name: " ".join(f"{key}={as_written(value)}" for key, value in settings.get(name, {}).items()) or name
            for name in names
        }


def row_groups(rows: Iterable[Row]) -> list[RowGroup]:
    """Return the groups of ``rows``, in their order."""
    groups = []
    for name, members in groupby(rows, key=lambda row: row.workload_template):
        found = tuple(members)
        groups.append(RowGroup(name, tuple(found[0].workload_settings), found))
    return groups


def training_rate(rows: Sequence[Row]) -> str | None:
    """Return how rows that may train different amounts are compared, ``samples/s`` or ``tokens/s``.

    Tokens count where samples differ in length. ``None``: some row does not say what it trains.
    """
    lengths = {None if row.work is None else row.work.tokens_per_sample for row in rows}
    rate = "samples/s" if len(lengths) == 1 or None in lengths else "tokens/s"
    return None if any(METRICS[rate].of(row) is None for row in rows) else rate


def uneven_rate(rows: Sequence[Row]) -> str | None:
    """Return the ``training_rate`` of rows that train different amounts, whose times say little; ``None`` of others."""
    works = [row.work for row in rows]
    amounts = {None if one is None else (one.samples, one.tokens, one.model_flops) for one in works}
    return training_rate(rows) if len(amounts) > 1 else None


def rate_of(row: Row, rate: str) -> float:
    """Return how much ``row`` trains in a second, in the unit that ``training_rate`` gave."""
    return METRICS[rate].of(row) or 0.0


def best_cells(rows: Sequence[Row]) -> frozenset[tuple[str, str]]:
    """Return (workload, fabric) of the best rows.

    Where all rows of a group say what they train, those are the ones that train the most in a second. Elsewhere they
    are those with the shortest time for each workload. Values that a table does not tell apart are equally good. Where
    all are, none is the best. A row that leaves something out is not compared.
    """
    found = set()
    for group in row_groups(rows):
        rate = training_rate(group.rows)
        if rate is None:
            races = [list(members) for _, members in groupby(group.rows, key=lambda row: row.workload)]
        else:
            races = [list(group.rows)]
        for race in ([row for row in one if not row.omissions] for one in races):
            scores = [1.0 / row.seconds if rate is None else rate_of(row, rate) for row in race]
            best = [row for row, score in zip(race, scores, strict=True) if score >= max(scores) * (1 - _ALIKE)]
            if len(best) < len(race):
                found |= {(row.workload, row.fabric) for row in best}
    return frozenset(found)


_CELL = (
    *("workload", "fabric", "status", "fidelity", "npus", "seconds", "speedup", "baseline", "reference_speedup"),
    *("reference_source", "compute_scale", "energy"),
)
_SPREAD = ("runs", "p50", "p99", "standard_error")  # columns where a row is of several runs
_JOB = ("start", "seconds", "alone", "slowdown", "bytes")
_JOB_SPREAD = ("p50", "p99")


def comparison_to_csv(comparison: Comparison) -> str:
    """Return one row per cell, with one column of seconds per cause; a value that does not exist is empty.

    A swept field has a column of its own: ``workload.size`` or ``fabric.link_bandwidth``, as written. Each number of
    a job has one, too: ``job.NAME.seconds``, ``job.NAME.slowdown`` and others. A cell without a result has the status
    ``infeasible`` or ``failed``, and the reason in ``notes``.
    """
    cells = items(comparison)
    rows = comparison.rows
    columns: dict[str, Callable[[Row], object]] = {
        **{name: attrgetter(name) for name in _CELL},
        **{name: partial(_of_part, "work", name) for name in _names(Work)},
        **{name: partial(_of_part, "throughput", name) for name in _names(Throughput)},
        **{f"{cause}_seconds": partial(_of_cause, cause) for cause in causes(rows)},
        "notes": lambda row: "; ".join(row.notes),
        "baseline_workload": attrgetter("baseline_workload"),
        "cost": attrgetter("cost"),
        "memory": METRICS["memory"].of,
    }
    swept = fields_of(cells)
    more: dict[str, Callable[[Row], object]] = {
        **{column: partial(_of_job, *place) for column, place in _job_columns(rows).items()},
        **{name: partial(_of_part, "spread", name) for name in _SPREAD if any(row.spread is not None for row in rows)},
    }

    def values(cell: Item) -> Iterator[object]:
        if isinstance(cell, Failure):
            known = {"workload": cell.workload, "fabric": cell.fabric, "status": cell.status, "notes": cell.told}
            yield from map(known.get, columns)
        else:
            yield from (column(cell) for column in columns.values())
        yield from (as_written(settings(cell, field.kind).get(field.name, "")) for field in swept)
        yield from (column(cell) if isinstance(cell, Row) else None for column in more.values())

    return to_csv((*columns, *(field.path for field in swept), *more), map(values, cells))


def _of_part(part: str, name: str, row: Row) -> object:
    return getattr(getattr(row, part), name, None)


def _of_cause(cause: str, row: Row) -> float:
    return row.breakdown.get(cause, 0.0)


def _job_columns(rows: Sequence[Row]) -> dict[str, tuple[str, str]]:
    """Return the columns that the jobs of ``rows`` have: the job and its field, by name."""
    jobs = [job for row in rows for job in row.jobs]
    fields = (*_JOB, *(_JOB_SPREAD if any(job.spread is not None for job in jobs) else ()))
    names = dict.fromkeys(job.name for job in jobs)
    return {f"job.{name}.{field}": (name, field) for name in names for field in fields}


def _of_job(name: str, field: str, row: Row) -> float | None:
    """Return what ``row`` has of a job, if it has that."""
    job = next((one for one in row.jobs if one.name == name), None)
    return getattr(None if job is None else job.spread if field in _JOB_SPREAD else job, field, None)


def run_to_json(result: RunResult) -> str:
    """Return ``result`` as JSON: all but the fabric and the timeline, whose spans are for the trace."""
    content: dict[str, Any] = {
        "workload": result.workload,
        "fabric": result.fabric_name,
        "seconds": result.seconds,
        **({} if result.spread is None else {"spread": asdict(result.spread)}),
        "breakdown": result.breakdown,
        "bytes_by_cause": result.bytes_by_cause,
        "energy": result.energy,
        "memory": result.memory,
        "algorithms": result.algorithms,
        "placement": [int(npu) for npu in result.placement],
        "injection_bandwidth": result.injection_bandwidth,
        "links": _links(result.fabric, result.link_bytes, result.seconds, result.link_bytes_by_label),
        "figures": result.figures,
        "notes": result.notes,
        "omissions": result.omissions,
        "colours": result.colours,
        "work": None if result.work is None else asdict(result.work),
        "throughput": asdict(result.throughput),
        "tiers": [asdict(one) for one in tier_shares(result)],
        **{
            name: asdict(one)
            for name, one in (("critical_path", result.critical_path), ("what_if", result.what_if))
            if one is not None
        },
        **({"jobs": [asdict(one) for one in result.jobs]} if result.jobs else {}),
        "cost": result.cost,
        "bill": None if result.bill is None else asdict(result.bill),
        "statistics": result.statistics,
        "provenance": result.provenance,
    }
    return document("run", content)


def _links(
    fabric: Fabric, link_bytes: FloatArray, seconds: float, by_label: Mapping[str, FloatArray] = _NO_LABELS
) -> list[dict[str, Any]]:
    loads = link_loads(fabric, link_bytes, seconds, by_label=by_label)
    return [asdict(load, filter=lambda _, value: value != {}) for load in loads]


def sweep_to_json(sweep: CollectiveSweep) -> str:
    """Return ``sweep`` as JSON, one entry of ``results`` per size."""
    entries = []
    for number, result in enumerate(sweep.results):
        entry = asdict(result, filter=lambda attribute, _: attribute.name not in _NOT_IN_A_DOCUMENT)
        entry["bound"]["binding"] = result.bound.binding
        entry["bound_ratio"] = result.bound_ratio
        if sweep.effects:
            entry["sensitivity"] = [asdict(one) for one in sweep.effects[number]]
        entry["links"] = _links(sweep.fabric, result.link_bytes, result.duration)
        entries.append(entry)
    return document(
        "collectives",
        {
            "fabric": sweep.fabric.name,
            "npus": len(sweep.fabric.npus),
            "results": entries,
            "average_busbw": sweep.average_busbw,
            "missing": list(sweep.missing),
            "provenance": sweep.provenance,
        },
    )


def sweep_to_csv(sweep: CollectiveSweep) -> str:
    """Return one row per size: bytes, seconds, bytes per second, joules; the lower bound in seconds, with its parts."""
    times = "pattern", "ranks", "size", "duration", "algbw", "busbw"
    columns = (*times, "algorithm", "protocol", "steps", "energy", "bound_ratio")
    bounds = ("seconds", *PARTS, "binding")
    return to_csv(
        (*columns, *(f"bound_{column}" for column in bounds)),
        (
            (*(getattr(result, column) for column in columns), *(getattr(result.bound, column) for column in bounds))
            for result in sweep.results
        ),
    )


def plugins_to_json(infos: Sequence[PluginInfo]) -> str:
    """Return what is known of plugins as JSON, one entry of ``plugins`` each."""
    return document("plugins", {"plugins": [asdict(info) for info in infos]})


def calibrations_to_json(fits: Sequence[Fit]) -> str:
    """Return ``fits`` as JSON, one entry of ``calibrations`` per workload."""
    return document("calibrations", {"calibrations": [asdict(fit) for fit in fits]})


def _names(cls: type[Any]) -> list[str]:
    return [one.name for one in fields(cls)]


def to_csv(header: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """Return ``rows`` below ``header`` as CSV; ``None`` is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()
