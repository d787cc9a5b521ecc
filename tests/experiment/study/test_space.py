from __future__ import annotations

import math
from itertools import product
from typing import Any

import pytest
from experiments import refused
from hypothesis import given, strategies as st

from fredfw import limits
from fredfw.errors import LimitError
from fredfw.experiment.study.constraints import Constraint
from fredfw.experiment.study.space import CellSpace, Dimension, Space

ONE_CELL = "work", "mesh"


def space(
    values: dict[str, tuple[Any, ...]],
    constraints: tuple[str, ...] = (),
    *,
    constants: dict[str, Any] | None = None,
    cells: tuple[CellSpace, ...] | None = None,
) -> Space:
    known = [*values, *(constants or {}), "workload", "fabric"]
    return Space(
        dimensions=tuple(Dimension(name, (f"workloads.work.workload.{name}",), one) for name, one in values.items()),
        cells=cells or (CellSpace(*ONE_CELL, tuple(range(len(values)))),),
        constraints=tuple(Constraint.parse(one, known) for one in constraints),
        constants=constants or {},
    )


CONDITIONS = ("a + b <= c", "a * d < 7", "b != c", "d % 2 == 0", "a == b", "c < limit", "a + b + c + d == 6")


@given(
    st.tuples(*(st.integers(1, 4) for _ in range(4))),
    st.lists(st.sampled_from(CONDITIONS), max_size=4, unique=True),
    st.integers(0, 4),
)
def test_points_are_those_of_the_product_that_keep_the_constraints(
    sizes: tuple[int, ...], conditions: list[str], limit: int
) -> None:
    names = "abcd"
    values = {name: tuple(range(size)) for name, size in zip(names, sizes, strict=True)}
    one = space(values, tuple(conditions), constants={"limit": limit})
    expected = [
        point
        for point in product(*values.values())
        if all(eval(text, {"limit": limit, **dict(zip(names, point, strict=True))}) for text in conditions)
    ]
    assert one.combinations == math.prod(sizes)
    assert one.count == len(expected)
    assert [point.choice for point in one.points] == expected
    assert [point.number for point in one.points] == list(range(len(expected)))


def test_a_space_without_constraints_is_counted_without_a_list() -> None:
    one = space({f"x{number}": tuple(range(100)) for number in range(12)})
    assert one.count == one.combinations == 100**12
    few = space({"x": tuple(range(21))})
    with limits.allowed({"cells": 21}):
        few.check()
    with limits.allowed({"cells": 20}), pytest.raises(LimitError, match="21 cells are too many"):
        few.check()
    with pytest.raises(LimitError, match=r"more than 10\^15 cells are too many"):
        one.check()


def test_constraints_on_a_part_do_not_multiply_the_work() -> None:
    values = {f"x{number}": tuple(range(100)) for number in range(6)}
    one = space(values, ("x0 == x1", "x2 == 3", "x4 + x5 == 0"))
    assert one.count == 100 * 1 * 100 * 1


def test_constraints_that_take_too_long_to_count_are_refused() -> None:
    values = {f"x{number}": tuple(range(30)) for number in range(8)}
    one = space(values, ("x0 + x1 + x2 + x3 + x4 + x5 + x6 + x7 == 999",))
    with limits.allowed({"cells": 20}), pytest.raises(LimitError, match="were tried to count"):
        one.check()


@pytest.mark.parametrize(
    ("constraints", "culprit", "left"),
    [
        (("x < 3", "x > 5", "x == 1"), "x > 5", "3 points that the constraints before it leave"),
        (("x > 99",), "x > 99", "10 points"),
        (("x >= 0", "limit > 9"), "limit > 9", "10 points"),
    ],
)
def test_an_empty_space_says_which_constraint_removes_the_last_point(
    constraints: tuple[str, ...], culprit: str, left: str
) -> None:
    one = space({"x": tuple(range(10))}, constraints, constants={"limit": 7})
    with refused(f"constraints[{constraints.index(culprit)}]", f"{culprit!r} removes all {left}"):
        one.check()


def test_a_dimension_of_another_fabric_has_no_part_in_a_cell() -> None:
    cells = CellSpace("work", "mesh", (0,)), CellSpace("work", "tree", (1,))
    constraints = "rows < 2", "arity != 4 or fabric == 'mesh' or workload != 'work'"
    one = space({"rows": (1, 2), "arity": (3, 4, 5)}, constraints, cells=cells)
    assert one.combinations == 2 + 3
    found = [(point.fabric, one.values(point)) for point in one.points]
    assert found == [("mesh", {"rows": 1}), ("tree", {"arity": 3}), ("tree", {"arity": 5})]
    assert one.settings(one.points[1]) == {"workloads.work.workload.arity": 3}
    both = Space((Dimension("x", ("npu.memory", "npu.peak"), (1, 2)),), (CellSpace(*ONE_CELL, (0,)),))
    assert both.settings(both.points[1]) == {"npu.memory": 2, "npu.peak": 2}
