"""The cells of a comparison as rows of tables: their order, what tells them apart, their groups, and the best ones."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain, groupby
from operator import attrgetter
from typing import Any, TypeAlias

from attrs import frozen

from fredfw.experiment.file.spec import AnyOutline
from fredfw.experiment.metrics import METRICS, Metric
from fredfw.experiment.naming import as_written, unfilled
from fredfw.experiment.results import Comparison, Failure, Row
from fredfw.workloads.labels import BUBBLE, COMPUTE, OWN

Item: TypeAlias = Row | Failure  # a cell with a result, or one without
KeyColumn: TypeAlias = tuple[str, Callable[[Item], str]]  # what says which cell a row is: a title, and its text
KINDS = ("workload", "fabric")
TIME = METRICS["time"]
_ALIKE = 1e-4  # relative: not told apart by the digits of a table


def items(comparison: Comparison) -> list[Item]:
    found: list[Item] = []
    start = 0
    for failure in comparison.failures:
        found += [*comparison.rows[start : failure.place], failure]
        start = failure.place
    return [*found, *comparison.rows[start:]]


def settings(item: Item, kind: str) -> Mapping[str, Any]:
    return item.workload_settings if kind == "workload" else item.fabric_settings


def is_swept(cells: Iterable[Item]) -> bool:
    return any(one.workload_settings or one.fabric_settings for one in cells)


@frozen
class Field:
    """A swept field of a workload or a fabric, its ``kind``; both are in the title where both have that name."""

    kind: str
    name: str
    title: str

    @property
    def path(self) -> str:
        return f"{self.kind}.{self.name}"

    def text(self, item: Item) -> str:
        """Return its value in ``item``, as written; a dash where the field is not swept."""
        own = settings(item, self.kind)
        return as_written(own[self.name]) if self.name in own else "-"


def swept_fields(outline: AnyOutline) -> list[Field]:
    return _fields([one.settings for one in outline.workloads], [one.settings for one in outline.fabrics])


def fields_of(cells: Sequence[Item]) -> list[Field]:
    return _fields(*([settings(one, kind) for one in cells] for kind in KINDS))


def _fields(*found: Iterable[Iterable[str]]) -> list[Field]:
    names = [dict.fromkeys(chain.from_iterable(part)) for part in found]
    both = set.intersection(*map(set, names))
    return [
        Field(kind, name, f"{kind}.{name}" if name in both else name)
        for kind, part in zip(KINDS, names, strict=True)
        for name in part
    ]


def key_columns(cells: Sequence[Item]) -> list[KeyColumn]:
    """Return the columns that tell ``cells`` of all workloads and fabrics apart: names where several, swept fields."""
    fields = fields_of(cells)
    columns: list[KeyColumn] = []
    for kind in KINDS:
        columns += _name_column(kind, {_template(one, kind): settings(one, kind) for one in cells})
        columns += [(field.title, field.text) for field in fields if field.kind == kind]
    return columns or [("fabric", lambda item: item.fabric)]


def _template(item: Item, kind: str) -> str:
    return item.workload_template if kind == "workload" else item.fabric_template


def _name_column(kind: str, templates: Mapping[str, Iterable[str]]) -> list[KeyColumn]:
    """Return a column of the names of several ``templates``, each without its fields where that is one of its own."""
    short = {
        template: " ".join(word for word in unfilled(template).split() if word not in fields)
        for template, fields in templates.items()
    }
    names = list(short.values())
    labels = {template: name if name and names.count(name) == 1 else template for template, name in short.items()}
    return [(kind, lambda item: labels[_template(item, kind)])] if len(labels) > 1 else []


@frozen(eq=False)
class Group:
    """Cells that belong into one table: of one workload, of all that one sweep stands for, or more."""

    name: str
    cells: tuple[Item, ...]

    @property
    def rows(self) -> tuple[Row, ...]:
        return tuple(one for one in self.cells if isinstance(one, Row))

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(chain.from_iterable(one.workload_settings for one in self.cells)))

    @property
    def baseline_workloads(self) -> dict[str, str]:
        """What to call each workload that speed-ups refer to; none where every row's own is its baseline."""
        rows = self.rows
        if all(row.baseline_workload == row.workload for row in rows):
            return {}
        values = {row.workload: row.workload_settings for row in rows}
        names = dict.fromkeys(row.baseline_workload for row in rows)
        return {
            name: " ".join(f"{key}={as_written(value)}" for key, value in values.get(name, {}).items()) or name
            for name in names
        }


def groups(cells: Iterable[Item]) -> list[Group]:
    return [Group(name, tuple(found)) for name, found in groupby(cells, key=lambda one: one.workload_template)]


def exposed(cause: str) -> str:
    """Return ``cause`` as a legend says it."""
    return cause if cause in OWN else f"exposed {cause}"


def causes(rows: Collection[Row], *, timed: bool = False) -> tuple[str, ...]:
    found = {cause for row in rows for cause, seconds in row.breakdown.items() if seconds or not timed}
    return ordered(found, (row.colours for row in rows))


def ordered(causes: Collection[str], declared: Iterable[Collection[str]]) -> tuple[str, ...]:
    """Return computation, bubbles, labels as declared (by who declares most first), and the others by name."""
    most_first = sorted(declared, key=len, reverse=True)
    first = dict.fromkeys([COMPUTE, BUBBLE, *chain.from_iterable(most_first)])
    return (*(one for one in first if one in causes), *sorted(set(causes).difference(first)))


def training_rate(rows: Sequence[Row]) -> Metric | None:
    """Return samples/s, or tokens/s where samples differ in length; ``None`` where a row does not say its work."""
    lengths = {None if row.work is None else row.work.tokens_per_sample for row in rows}
    rate = METRICS["samples/s" if len(lengths) == 1 or None in lengths else "tokens/s"]
    return None if any(rate.of(row) is None for row in rows) else rate


def measure(rows: Sequence[Row]) -> Metric:
    """Return what tells most of ``rows``: their time, or ``training_rate`` where they train different amounts."""
    works = [row.work for row in rows]
    amounts = {None if one is None else (one.samples, one.tokens, one.model_flops) for one in works}
    return (training_rate(rows) if len(amounts) > 1 else None) or TIME


def best_cells(rows: Sequence[Row]) -> frozenset[tuple[str, str]]:
    """Return (workload, fabric) of the best rows: those that train most in a second, or else take the least time."""
    # What a table does not tell apart is equally good, and where all are, none is the best.
    found = set()
    for group in groups(rows):
        rate = training_rate(group.rows)
        alike = "workload" if rate is None else "workload_template"  # of which a group has one
        for _, members in groupby(group.rows, key=attrgetter(alike)):
            race = [row for row in members if not row.omissions]
            scores = [1.0 / row.seconds if rate is None else rate.of(row) or 0.0 for row in race]
            best = [row for row, score in zip(race, scores, strict=True) if score >= max(scores) * (1 - _ALIKE)]
            if len(best) < len(race):
                found |= {(row.workload, row.fabric) for row in best}
    return frozenset(found)
