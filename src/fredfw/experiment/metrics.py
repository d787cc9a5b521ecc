"""By what cells are ranked: what an architect wants less of, or more."""

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias, TypeVar

from attrs import frozen

from fredfw.errors import InputError, UnknownNameError, nearest
from fredfw.experiment.results import Cell, Row, RunResult

Measured: TypeAlias = Cell | Row | RunResult  # what has metrics


@frozen
class Metric:
    """One number of a cell by which cells are ranked."""

    name: str
    unit: str  # of the number; empty for a share
    least: bool  # whether less of it is better
    of: Callable[[Measured], float | None]  # returns the number, or ``None`` where it is not known

    def score(self, cell: Measured) -> float | None:
        value = self.of(cell)
        return value if value is None or self.least else -value


METRICS: Mapping[str, Metric] = MappingProxyType(  # by name; ``memory`` is what one NPU needs
    {
        one.name: one
        for one in (
            Metric("time", "s", True, lambda cell: cell.seconds),
            Metric("samples/s", "samples/s", False, lambda cell: cell.throughput.samples_per_second),
            Metric("tokens/s", "tokens/s", False, lambda cell: cell.throughput.tokens_per_second),
            Metric("mfu", "", False, lambda cell: cell.throughput.mfu),
            Metric("npu-seconds", "s", True, lambda cell: cell.throughput.npu_time),
            Metric("energy", "J", True, lambda cell: cell.energy),
            Metric("cost", "$", True, lambda cell: cell.cost),
            Metric("time-cost", "$ s", True, lambda cell: None if cell.cost is None else cell.seconds * cell.cost),
            Metric("memory", "B", True, lambda cell: sum(cell.memory.values()) if cell.memory else None),
        )
    }
)

_T = TypeVar("_T", bound=Measured)


def metric(name: object, key: str) -> Metric:
    if not isinstance(name, str):
        raise InputError(f"{name!r} is not a metric", key=key, accepted=", ".join(METRICS))
    if name not in METRICS:
        raise UnknownNameError(f"no metric {name!r}{nearest(name, METRICS)}", key=key, accepted=", ".join(METRICS))
    return METRICS[name]


def scores(cells: Iterable[_T], chosen: Sequence[Metric], key: str) -> list[tuple[float, ...]]:
    found = []
    for cell in cells:
        values = [one.score(cell) for one in chosen]
        for one, value in zip(chosen, values, strict=True):
            if value is None:
                known = [name for name, other in METRICS.items() if other.of(cell) is not None]
                raise InputError(f"{one.name} is not known of every cell", key=key, accepted=", ".join(known))
        found.append(tuple(value for value in values if value is not None))
    return found


def pareto(points: Sequence[tuple[float, ...]]) -> list[int]:
    """Return the numbers of the points, see ``scores``, that no other one beats: nowhere worse and somewhere better."""
    front: list[int] = []
    for number in sorted(range(len(points)), key=points.__getitem__):
        # Sorted: only a point before this one can beat it, and if one that was beaten does, so does its own better.
        mine = points[number]
        if not any(points[one] != mine and all(map(operator.le, points[one], mine)) for one in front):
            front.append(number)
    return sorted(front)
