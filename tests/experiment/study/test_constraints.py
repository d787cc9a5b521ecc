from __future__ import annotations

import operator
from typing import Any

import pytest
from experiments import refused
from hypothesis import example, given, strategies as st

from fredfw.errors import InputError, UnknownNameError
from fredfw.experiment.study.constraints import Constraint

NUMBERS = st.integers(-50, 50)


def holds(text: str, **values: Any) -> bool:
    return Constraint.parse(text, values).holds(values)


@given(NUMBERS, NUMBERS, NUMBERS)
def test_arithmetic_and_comparisons_are_those_of_python(a: int, b: int, c: int) -> None:
    for symbol, function in (("+", operator.add), ("-", operator.sub), ("*", operator.mul)):
        assert holds(f"a {symbol} b == c", a=a, b=b, c=function(a, b))
        assert holds(f"a {symbol} b <= c", a=a, b=b, c=c) == (function(a, b) <= c)
    if b:
        assert holds("a // b == c", a=a, b=b, c=a // b)
        assert holds("a % b == c", a=a, b=b, c=a % b)
        assert holds("a / b < c", a=a, b=b, c=c) == (a / b < c)


@given(NUMBERS, NUMBERS, NUMBERS)
@example(0, 2, 1)  # a < c, but not a < b < c
def test_precedence_and_chains_are_those_of_python(a: int, b: int, c: int) -> None:
    values = {"a": a, "b": b, "c": c}
    for text in (
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
        expected = eval(text, {}, values)
        assert holds(text, **values) is expected


def test_text_is_compared_with_text() -> None:
    assert holds("fabric == 'mesh' or size != 'x'", fabric="mesh", size="x")
    assert not holds("fabric in ('a', 'b')", fabric="mesh")


def test_names_come_in_the_order_of_their_use() -> None:
    assert Constraint.parse("b * a == b * npus", ["a", "b", "npus"]).names == ("b", "a", "npus")


@pytest.mark.parametrize(
    ("text", "message", "accepted"),
    [
        ("tp * pp == npu", "there is no 'npu'; did you mean 'npus'?", "npus, pp, tp"),
        ("tpp <= 8", "there is no 'tpp'; did you mean 'tp'?", "npus, pp, tp"),
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
        ("tp + 1", "not true or false"),
    ],
)
def test_no_value_is_an_error_that_names_the_constraint_and_the_point(text: str, why: str) -> None:
    with pytest.raises(InputError, match=why) as caught:
        holds(text, tp=1, size="1 GB")
    assert text in str(caught.value)
