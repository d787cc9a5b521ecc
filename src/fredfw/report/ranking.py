"""Which rows of a comparison are shown, and in which order: ``--sort``, ``--best`` and ``--pareto``."""

from collections.abc import Iterable, Sequence

from attrs import field, frozen

from fredfw.errors import UnknownNameError, nearest
from fredfw.experiment import metrics
from fredfw.experiment.metrics import METRICS, Metric
from fredfw.experiment.naming import as_written
from fredfw.experiment.results import Row
from fredfw.report.cells import Field, Item, fields_of, measure, settings
from fredfw.report.pictures import Axis
from fredfw.units import counted


def _names(names: str | Iterable[str]) -> tuple[str, ...]:
    return tuple(one.strip() for one in names.split(",") if names) if isinstance(names, str) else tuple(names)


@frozen
class Ranking:
    """Asks for some rows in some order; by default for all of them in the order of the experiment."""

    sort: str = ""  # a metric, best rows first, or a swept field, least value first; "-" before reverses
    best: int = 0  # how many to show: by the metric of `sort`, else by `measure`
    # Metrics, with commas between them in a text; only rows that no other row beats in them are shown.
    pareto: tuple[str, ...] = field(converter=_names, default=())

    def __bool__(self) -> bool:
        return self != Ranking()

    def check(self, fields: Iterable[Field]) -> None:
        """Raise ``UnknownNameError`` with the option, unless all names are known where ``fields`` are swept."""
        for name in self.pareto:
            metrics.metric(name, "--pareto")
        if self._key and self._key not in METRICS:
            swept = list(fields)
            known = [*METRICS, *(field.title for field in swept)]
            if not _named(self._key, swept):
                message = f"no metric and no swept field {self._key!r}{nearest(self._key, known)}"
                raise UnknownNameError(message, key="--sort", accepted=", ".join(known))

    @property
    def _key(self) -> str:
        return self.sort.removeprefix("-")

    @property
    def metrics(self) -> tuple[Metric, ...]:
        names = [*self.pareto, *([self._key] if self._key in METRICS else [])]
        return tuple(METRICS[name] for name in dict.fromkeys(names))

    def ranked(self, cells: Sequence[Item]) -> tuple[Sequence[Item], list[str]]:
        """Return those of ``cells`` that are asked for, in their order, and what a reader must know of the choice."""
        if not self:
            return cells, []
        shown: Sequence[Item] = cells
        said: list[str] = []
        if self.pareto:
            shown = _picked(shown, [METRICS[name] for name in self.pareto], said)
        chosen = self._chosen([one for one in shown if isinstance(one, Row)])
        if self.best:
            shown = _picked(shown, [chosen], said, self.best)
        return _sorted(shown, self.sort or (chosen.name if self.best or self.pareto else ""), said), said

    def _chosen(self, rows: Sequence[Row]) -> Metric:
        if self._key in METRICS:
            return METRICS[self._key]
        return METRICS[self.pareto[0]] if self.pareto else measure(rows)


ALL = Ranking()  # all rows in the order of the experiment


def _compared(cells: Sequence[Item], chosen: Sequence[Metric], said: list[str]) -> list[Row]:
    """Return the rows that can be compared in ``chosen``; a row that leaves something out cannot, unless all do."""
    rows = [one for one in cells if isinstance(one, Row)]
    known = [row for row in rows if all(one.of(row) is not None for one in chosen)]
    whole = [row for row in known if not row.omissions] or known
    names = " and ".join(one.name for one in chosen)
    if len(whole) < len(known):
        said.append(f"rows that leave something out are not compared by {names}")
    if not known:
        said.append(f"not compared by {names}: no cell has that")
    elif len(known) < len(rows):
        said.append(f"{counted(len(rows) - len(known), 'cell does', 'cells do')} not have {names}: not compared")
    return whole


def _picked(cells: Sequence[Item], chosen: Sequence[Metric], said: list[str], count: int = 0) -> Sequence[Item]:
    """Return the ``count`` best of ``cells``, or those that no other one beats; all if none can be compared."""
    compared = _compared(cells, chosen, said)
    if not compared:
        return cells
    scores = metrics.scores(compared, chosen, "--best" if count else "--pareto")
    names = " and ".join(one.name for one in chosen)
    if count:
        numbers = sorted(range(len(compared)), key=lambda number: scores[number])[:count]
        said.append(f"the {len(numbers)} best of {counted(len(cells), 'cell')} by {names}")
    else:
        numbers = metrics.pareto(scores)
        said.append(f"{len(numbers)} of {counted(len(cells), 'cell')}: no other one beats them in {names}")
    return [compared[number] for number in sorted(numbers)]


def _sorted(cells: Sequence[Item], order: str, said: list[str]) -> list[Item]:
    """Return ``cells`` in ``order``, in which equal ones keep theirs; those that have no value come last."""
    if not order:
        return list(cells)
    name = order.removeprefix("-")
    sign = -1.0 if order != name else 1.0
    values: list[float | None]
    if name in METRICS:
        values = [METRICS[name].score(one) if isinstance(one, Row) else None for one in cells]
    else:
        values = _places(cells, _named(name, fields_of(cells)))
    if all(value is None for value in values):
        said.append(f"not sorted by {name}: no cell has that")
    keys = [(value is None, 0.0 if value is None else sign * value) for value in values]
    return [cells[number] for number in sorted(range(len(cells)), key=lambda number: keys[number])]


def _named(name: str, fields: Iterable[Field]) -> list[Field]:
    return [field for field in fields if name in (field.name, field.path)]


def _places(cells: Sequence[Item], fields: Sequence[Field]) -> list[float | None]:
    """Return where the value of one of ``fields`` in each cell stands: numbers by size, others by first appearance."""
    found = [
        next((own[field.name] for field in fields if field.name in (own := settings(one, field.kind))), None)
        for one in cells
    ]
    places = Axis.of_any("", (value for value in found if value is not None)).places
    return [None if value is None else places[as_written(value)] for value in found]
