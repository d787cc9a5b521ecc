import math
from collections.abc import Mapping
from itertools import product
from typing import Any

import pytest
from experiments import refused
from hypothesis import example, given, strategies as st

from fredfw import limits
from fredfw.errors import InputError, LimitError, UnknownNameError
from fredfw.experiment.study.constraints import Constraint
from fredfw.experiment.study.ranges import values_of
from fredfw.experiment.study.space import Dimension, Space

ONE_CELL = "work", "mesh"


def space(
    values: dict[str, tuple[Any, ...]],
    constraints: tuple[str, ...] = (),
    *,
    constants: dict[str, Any] | None = None,
    cells: Mapping[tuple[str, str], tuple[int, ...]] | None = None,
) -> Space:
    known = [*values, *(constants or {}), "workload", "fabric"]
    return Space(
        dimensions=tuple(Dimension(name, (f"workloads.work.workload.{name}",), one) for name, one in values.items()),
        cells=cells or {ONE_CELL: tuple(range(len(values)))},
        constraints=tuple(Constraint.parse(one, known) for one in constraints),
        constants=constants or {},
    )


CONDITIONS = ("a + b <= c", "a * d < 7", "b != c", "d % 2 == 0", "a == b", "c < limit", "a + b + c + d == 6")


@given(
    st.tuples(*(st.integers(1, 4) for _ in range(4))),
    st.lists(st.sampled_from(CONDITIONS), max_size=4, unique=True),
    st.integers(0, 4),
)
def test_points_are_those_that_keep_the_constraints(sizes: tuple[int, ...], conditions: list[str], limit: int) -> None:
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


def test_spaces_are_counted_without_a_list_and_without_the_product_of_what_no_constraint_joins() -> None:
    def numbers(count: int, values: int) -> dict[str, tuple[Any, ...]]:
        return {f"x{number}": tuple(range(values)) for number in range(count)}

    one = space(numbers(12, 100))
    assert one.count == one.combinations == 100**12
    with limits.allowed({"cells": 21}):
        space(numbers(1, 21)).check()
    with limits.allowed({"cells": 20}), pytest.raises(LimitError, match="21 cells are too many"):
        space(numbers(1, 21)).check()
    with pytest.raises(LimitError, match=r"more than 10\^15 cells are too many"):
        one.check()
    one = space(numbers(6, 100), ("x0 == x1", "x2 == 3", "x4 + x5 == 0"))
    assert one.count == 100 * 1 * 100 * 1
    one = space(numbers(8, 30), ("x0 + x1 + x2 + x3 + x4 + x5 + x6 + x7 == 999",))
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
def test_an_empty_space_names_the_last_constraint(constraints: tuple[str, ...], culprit: str, left: str) -> None:
    one = space({"x": tuple(range(10))}, constraints, constants={"limit": 7})
    with refused(f"constraints[{constraints.index(culprit)}]", f"{culprit!r} removes all {left}"):
        one.check()


def test_a_dimension_of_another_fabric_has_no_part_in_a_cell() -> None:
    cells = {("work", "mesh"): (0,), ("work", "tree"): (1,)}
    constraints = "rows < 2", "arity != 4 or fabric == 'mesh' or workload != 'work'"
    one = space({"rows": (1, 2), "arity": (3, 4, 5)}, constraints, cells=cells)
    assert one.combinations == 2 + 3
    found = [(point.fabric, one.values(point)) for point in one.points]
    assert found == [("mesh", {"rows": 1}), ("tree", {"arity": 3}), ("tree", {"arity": 5})]
    assert one.settings(one.points[1]) == {"workloads.work.workload.arity": 3}
    both = Space((Dimension("x", ("npu.memory", "npu.peak"), (1, 2)),), {ONE_CELL: (0,)})
    assert both.settings(both.points[1]) == {"npu.memory": 2, "npu.peak": 2}


NUMBERS = st.integers(-50, 50)


def holds(text: str, **values: Any) -> bool:
    return Constraint.parse(text, values).holds(values)


@given(NUMBERS, NUMBERS, NUMBERS)
@example(0, 2, 1)  # a < c, but not a < b < c
def test_arithmetic_precedence_and_chains_are_those_of_python(a: int, b: int, c: int) -> None:
    values = {"a": a, "b": b, "c": c}
    divisions = (f"a // b == {a // b}", f"a % b == {a % b}", "a / b < c") if b else ()
    for text in (
        *divisions,
        f"a - b == {a - b}",
        f"a * b == {a * b}",
        "a + b * c > -a",
        "(a + b) * c != a - -b",
        "a < b < c",
        "not a < b and b < c or a == c",
        "a in (b, c)",
        "a not in [b, 3]",
        "min(a, b, c) == a",
        "abs(a) >= max(b, +c)",
        "a ** 2 <= 100",
    ):
        assert holds(text, **values) is eval(text, {}, values)


def test_text_is_compared_with_text_and_names_come_in_the_order_of_their_use() -> None:
    assert holds("fabric == 'mesh' or size != 'x'", fabric="mesh", size="x")
    assert not holds("fabric in ('a', 'b')", fabric="mesh")
    assert Constraint.parse("b * a == b * npus", ["a", "b", "npus"]).names == ("b", "a", "npus")


@pytest.mark.parametrize(
    ("text", "message", "accepted"),
    [
        ("tp * pp == npu", "there is no 'npu'; did you mean 'npus'?", "npus, pp, tp"),
        ("tp.x == 1", "Attribute is not allowed", "min, max, abs"),
        ("round(tp) == 1", "round is not allowed", "min, max, abs"),
    ],
)
def test_what_is_not_known_is_named_with_what_is(text: str, message: str, accepted: str) -> None:
    error = UnknownNameError if message.startswith("there is no") else InputError
    with refused(None, f"{text!r}: {message}", accepted, error=error):
        Constraint.parse(text, ["tp", "pp", "npus"])


@pytest.mark.parametrize(
    "text",
    [
        *(7, None, ["tp == 1"], True),
        *("__import__('os').system('true')", "open('x')", "().__class__", "[x for x in (1, 2)]", "lambda: 1"),
        *("tp if tp else 1", "(tp := 1) == 1", "f'{tp}' == '1'", "tp[0] == 1", "tp @ tp == 1", "tp | 1 == 1"),
        *("tp is tp", "min() == 1", "max(*tp) == 1", "{1: tp} == 1", "None == tp", "1j == tp", "b'x' == tp"),
        *("... == tp", "tp = 1", "tp == 1; tp == 2", "tp ==", "", " ", "\0"),
        *("(" * 300 + "1" + ")" * 300, "-" * 900 + "1 == tp", "tp == 1" + " " * 2000),
    ],
)
def test_what_is_not_arithmetic_is_refused(text: object) -> None:
    with pytest.raises(InputError):
        Constraint.parse(text, ["tp"])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1 / (tp - 1) > 0", "division"),
        ("tp % (tp - 1) == 0", "modulo|zero"),
        ("size < tp", "not supported"),
        ("size * 3 == size", "not a number"),
        ("tp ** 1000 > 1", "power"),
        ("(tp + 9) ** 60 > 1", "30 digits"),
        ("(-1.0 * tp) ** 0.5 > 1", "not finite"),
        ("10.0 ** 60 * 10.0 ** 60 * 10.0 ** 60 * 10.0 ** 60 * 10.0 ** 60 * 10.0 ** 60 > tp", "not finite|too large"),
        ("tp", "not true or false"),
    ],
)
def test_no_value_is_an_error_that_names_the_constraint_and_the_point(text: str, why: str) -> None:
    with pytest.raises(InputError, match=why) as caught:
        holds(text, tp=1, size="1 GB")
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("given_", "values"),
    [
        ([1, 2, "x"], (1, 2, "x")),
        ({"values": [1, 1.0, True]}, (1, 1.0, True)),
        ({"from": 0.1, "to": 0.5, "step": 0.1}, (0.1, 0.2, 0.3, 0.4, 0.5)),
        ({"from": 1, "to": 16, "factor": 2}, (1, 2, 4, 8, 16)),
        ({"from": 0, "to": 10, "count": 3}, (0, 5, 10)),
        ({"from": 1, "to": 1000, "count": 4, "scale": "log"}, (1, 10, 100, 1000)),
        ({"from": "100 GB/s", "to": "400 GB/s", "factor": 2}, ("100 GB/s", "200 GB/s", "400 GB/s")),
        ({"from": "0.5 us", "to": "1.5 us", "step": 0.5}, ("0.5 us", "1 us", "1.5 us")),
        ({"divisors_of": 1024, "at_least": 3, "at_most": 16}, (4, 8, 16)),
    ],
)
def test_values(given_: Any, values: tuple[Any, ...]) -> None:
    found = values_of(given_)
    assert found == values
    assert [type(one) for one in found] == [type(one) for one in values]


@given(st.integers(1, 5000))
def test_divisors_are_those_that_divide(number: int) -> None:
    assert values_of({"divisors_of": number}) == tuple(one for one in range(1, number + 1) if number % one == 0)


@given(st.integers(1, 50), st.integers(0, 300), st.integers(1, 20))
def test_a_range_has_as_many_values_as_steps_fit(first: int, length: int, step: int) -> None:
    found = values_of({"from": first, "to": first + length, "step": step})
    assert found == tuple(range(first, first + length + 1, step))


@pytest.mark.parametrize(
    ("given_", "match"),
    [
        ([], "no values"),
        (7, "no values"),
        ([1, 2, 1], "1 is repeated"),
        ({"vals": [1]}, "did you mean 'values'"),
        ({"from": 1}, "to: is missing"),
        ({"from": 1, "to": 2}, "no step"),
        ({"from": 1, "to": 2, "step": 1, "count": 3}, "step and count"),
        ({"from": 2, "to": 1, "step": 1}, "below"),
        ({"from": 1, "to": 2, "step": 0}, "not a step"),
        ({"from": 1, "to": 2, "factor": 1}, "not a factor"),
        ({"from": 0, "to": 2, "factor": 2}, "not above 0"),
        ({"from": 1, "to": 2, "step": 1, "scale": "log"}, "no step"),
        ({"from": 1, "to": 2, "count": 2, "scale": "logg"}, "did you mean 'log'"),
        ({"from": 1, "to": 2, "count": 1}, "at least 2"),
        ({"from": 1, "to": 16, "count": 5}, "count: 5 values from 1 to 16 are not all whole numbers: one is 4.75"),
        ({"from": 1, "to": 100, "count": 4, "scale": "log"}, r"whole numbers, or from = 1.0 for"),
        ({"from": True, "to": 2, "step": 1}, "not a number"),
        ({"from": "1 GB", "to": "2 MB", "step": 1}, "another unit"),
        ({"from": "1 GB", "to": "2 GB", "step": "1 MB"}, "another unit"),
        ({"divisors_of": 0}, "whole number"),
        ({"divisors_of": 10**15}, "too large"),
        ({"divisors_of": 12, "step": 1}, "no part"),
        ({"divisors_of": 12, "at_least": 7, "at_most": 11}, "no divisor"),
        ({"values": [1], "from": 1}, "no part"),
        # Counted, not made.
        ({"from": 0, "to": 10**15, "step": 1}, "cells are too many"),
        ({"from": 1, "to": 2, "count": 10**15}, "cells are too many"),
        ({"from": 1, "to": 10, "factor": 1.0000001}, "cells are too many"),
    ],
)
def test_what_is_none_of_the_forms_is_refused(given_: Any, match: str) -> None:
    with pytest.raises(LimitError if "too many" in match else InputError, match=match):
        values_of(given_)
