"""The cells of a comparison as rows of a table: in which order they stand, and what tells them apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from attrs import frozen

from fredfw.experiment.file.spec import AnyOutline
from fredfw.experiment.naming import as_written, unfilled
from fredfw.experiment.results import Comparison, Failure, Row

Item: TypeAlias = Row | Failure
"""A cell with a result, or one without."""

KINDS = ("workload", "fabric")
_NONE = "-"


def items(comparison: Comparison) -> list[Item]:
    """Return all cells of ``comparison`` that ended, in the order of the experiment."""
    found: list[Item] = []
    start = 0
    for failure in comparison.failures:
        found += [*comparison.rows[start : failure.place], failure]
        start = failure.place
    return [*found, *comparison.rows[start:]]


def settings(item: Item, kind: str) -> Mapping[str, Any]:
    """Return the swept fields of the workload or the fabric of ``item``, as written."""
    return item.workload_settings if kind == "workload" else item.fabric_settings


def is_swept(cells: Iterable[Item]) -> bool:
    """Return whether some of ``cells`` belong to a sweep."""
    return any(one.workload_settings or one.fabric_settings for one in cells)


@frozen
class Field:
    """A swept field.

    Args:
        kind: ``workload`` or ``fabric``: whose it is.
        name: Of the field.
        title: What stands over its column: the name, with the kind where both have a field of that name.
    """

    kind: str
    name: str
    title: str

    @property
    def path(self) -> str:
        """Its name in CSV, for example ``workload.size``."""
        return f"{self.kind}.{self.name}"

    def text(self, item: Item) -> str:
        """Return its value in ``item``, as written; a dash where the field is not swept."""
        own = settings(item, self.kind)
        return as_written(own[self.name]) if self.name in own else _NONE


def swept_fields(outline: AnyOutline) -> list[Field]:
    """Return the swept fields of ``outline``: those of workloads, then those of fabrics."""
    return _fields([one.settings for one in outline.workloads], [one.settings for one in outline.fabrics])


def fields_of(cells: Sequence[Item]) -> list[Field]:
    """Return the swept fields of ``cells``, likewise."""
    return _fields(*([settings(one, kind) for one in cells] for kind in KINDS))


def _fields(*found: Iterable[Iterable[str]]) -> list[Field]:
    names = [dict.fromkeys(name for one in part for name in one) for part in found]
    both = set.intersection(*map(set, names))
    return [
        Field(kind, name, f"{kind}.{name}" if name in both else name)
        for kind, part in zip(KINDS, names, strict=True)
        for name in part
    ]


@frozen(eq=False)
class KeyColumn:
    """A column that says which cell a row is.

    Args:
        title: What stands over it.
        text: What stands in it.
    """

    title: str
    text: Callable[[Item], str]


def key_columns(cells: Sequence[Item]) -> list[KeyColumn]:
    """Return the columns that tell ``cells`` of all workloads and fabrics apart: names where several, swept fields."""
    fields = fields_of(cells)
    columns = []
    for kind in KINDS:
        labels = _labels({getattr(one, f"{kind}_template"): settings(one, kind) for one in cells})
        if len(labels) > 1:
            columns.append(KeyColumn(kind, partial(_label, labels, kind)))
        columns += [KeyColumn(field.title, field.text) for field in fields if field.kind == kind]
    return columns or [KeyColumn("fabric", lambda item: item.fabric)]


def _label(labels: Mapping[str, str], kind: str, item: Item) -> str:
    return labels[getattr(item, f"{kind}_template")]


def _labels(templates: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """Return what to call each of ``templates``: its name without its fields, where that is one of its own."""
    short = {
        template: " ".join(word for word in unfilled(template).split() if word not in fields)
        for template, fields in templates.items()
    }
    names = list(short.values())
    return {template: name if name and names.count(name) == 1 else template for template, name in short.items()}
