"""The space of a study: dimensions with their values, the cells they are tried on, and the constraints."""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, product
from typing import Any, TypeAlias

from attrs import evolve, field, frozen

from fredfw import limits
from fredfw.errors import InputError, LimitError
from fredfw.experiment.study.constraints import Constraint

WORKLOAD, FABRIC = "workload", "fabric"  # what constraints call the names of a cell

Choice: TypeAlias = tuple[int | None, ...]  # the value's number by dimension; ``None`` for one without part in the cell
Parts: TypeAlias = dict[tuple[int, ...], Sequence[tuple[int, ...]]]  # choices by the dimensions that they are of
Named: TypeAlias = tuple[Constraint, Sequence[int]]  # with the dimensions that it names
_STEPS = 100  # partial points that are tried for each cell that is allowed
_EVERY = 1024


@frozen
class Dimension:
    """One thing that is varied."""

    name: str
    paths: tuple[str, ...]  # the keys of the experiment that it sets, as ``--set`` takes them
    values: tuple[Any, ...]  # different ones, as written

    @property
    def numeric(self) -> bool:
        return all(isinstance(one, int | float) and not isinstance(one, bool) for one in self.values)


@frozen
class Point:
    """One point of a space."""

    number: int  # from 0, in the order of the cells, then of the values, those of the first dimension slowest
    workload: str
    fabric: str
    choice: Choice


@frozen(eq=False)
class Space:
    """All points of a study."""

    dimensions: tuple[Dimension, ...]
    # Of each workload on each fabric the numbers of the dimensions that it has; those of others have no part in it.
    cells: Mapping[tuple[str, str], tuple[int, ...]]
    constraints: tuple[Constraint, ...] = ()  # one that names a dimension that a cell lacks says nothing of it
    constants: Mapping[str, Any] = field(factory=dict)

    @cached_property
    def combinations(self) -> int:
        return sum(math.prod(len(self.dimensions[one].values) for one in cell) for cell in self.cells.values())

    @cached_property
    def count(self) -> int:
        """How many points there are; counted part by part, without a list of them."""
        return sum(math.prod(map(len, parts.values())) for parts in self._parts)

    def check(self) -> None:
        limits.check("cells", self.count, key="space")
        if self.count:
            return
        left = self.combinations
        for position, constraint in enumerate(self.constraints):
            remaining = evolve(self, constraints=self.constraints[: position + 1]).count
            if not remaining:
                earlier = " that the constraints before it leave" if position else ""
                message = f"{constraint.text!r} removes all {left} points{earlier}: the space is empty"
                accepted = "a constraint that some point keeps, or other values"
                raise InputError(message, key=f"constraints[{position}]", accepted=accepted)
            left = remaining

    @cached_property
    def points(self) -> tuple[Point, ...]:
        found: list[Point] = []
        for names, parts in zip(self.cells, self._parts, strict=True):
            choices = []
            for values in product(*parts.values()):
                chosen = dict(zip(chain(*parts), chain(*values), strict=True))
                choices.append([chosen.get(dimension) for dimension in range(len(self.dimensions))])
            choices.sort(key=lambda choice: [-1 if one is None else one for one in choice])
            found += [Point(number, *names, tuple(choice)) for number, choice in enumerate(choices, len(found))]
        return tuple(found)

    def values(self, point: Point) -> dict[str, Any]:
        return {dimension.name: value for dimension, value in self._chosen(point)}

    def settings(self, point: Point) -> dict[str, Any]:
        return {path: value for dimension, value in self._chosen(point) for path in dimension.paths}

    def _chosen(self, point: Point) -> Iterator[tuple[Dimension, Any]]:
        for dimension, one in zip(self.dimensions, point.choice, strict=True):
            if one is not None:
                yield dimension, dimension.values[one]

    @cached_property
    def _parts(self) -> list[Parts]:
        return [self._parts_of(*names, dimensions) for names, dimensions in self.cells.items()]

    def _parts_of(self, workload: str, fabric: str, own: tuple[int, ...]) -> Parts:
        """Return the choices that keep the constraints, apart for each set of dimensions that constraints connect."""
        numbers = {self.dimensions[one].name: one for one in own}
        given = {**self.constants, WORKLOAD: workload, FABRIC: fabric}
        applying = [
            (constraint, [numbers[name] for name in constraint.names if name in numbers])
            for constraint in self.constraints
            if all(name in numbers or name in given for name in constraint.names)
        ]
        groups: list[set[int]] = [{one} for one in own]
        for _, named in applying:
            joined = [group for group in groups if group & set(named)]
            groups = [group for group in groups if not group & set(named)] + ([set().union(*joined)] if joined else [])
        parts: Parts = {}  # whose product has the points of the cell
        for group in sorted(groups, key=min):
            mine = [(constraint, named) for constraint, named in applying if named and named[0] in group]
            dimensions = tuple(sorted(group))
            parts[dimensions] = list(self._solutions(dimensions, mine, given))
        if not all(constraint.holds(given) for constraint, named in applying if not named):
            parts[()] = []
        return parts

    def _solutions(
        self, dimensions: tuple[int, ...], constraints: Sequence[Named], given: Mapping[str, Any]
    ) -> Iterator[tuple[int, ...]]:
        """Yield the choices of ``dimensions`` that keep ``constraints``, each checked once all of its names are set."""
        due: list[list[Constraint]] = [[] for _ in dimensions]
        for constraint, named in constraints:
            due[max(map(dimensions.index, named))].append(constraint)
        values = dict(given)
        chosen: list[int] = []
        steps = 0

        def extend(depth: int) -> Iterator[tuple[int, ...]]:
            nonlocal steps
            if depth == len(dimensions):
                yield tuple(chosen)
                return
            dimension = self.dimensions[dimensions[depth]]
            for number, value in enumerate(dimension.values):
                steps += 1
                if steps % _EVERY == 0:
                    self._check_steps(steps)
                values[dimension.name] = value
                if all(constraint.holds(values) for constraint in due[depth]):
                    chosen.append(number)
                    yield from extend(depth + 1)
                    chosen.pop()

        return extend(0)

    def _check_steps(self, steps: int) -> None:
        if limits.excess("cells", steps // _STEPS) is not None:
            tried = f"of {self.combinations} combinations, more than {steps} were tried"
            higher = f"a higher limit: {_STEPS} for each of the cells allowed"
            higher += f"; fredfw --limit cells={steps // 10} raises it"
            message, accepted = f"{tried} to count those that keep the constraints", f"fewer values, or {higher}"
            raise LimitError(message, key="space", accepted=accepted)
