from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from fredfw.errors import InputError, LimitError
from fredfw.experiment.study.ranges import values_of


@pytest.mark.parametrize(
    ("given_", "values"),
    [
        ([1, 2, "x"], (1, 2, "x")),
        ([1, 1.0, True], (1, 1.0, True)),
        ({"values": ["a"]}, ("a",)),
        ({"from": 0.1, "to": 0.5, "step": 0.1}, (0.1, 0.2, 0.3, 0.4, 0.5)),
        ({"from": 1, "to": 2, "step": 0.5}, (1.0, 1.5, 2.0)),
        ({"from": 1, "to": 16, "factor": 2}, (1, 2, 4, 8, 16)),
        ({"from": 1, "to": 20, "factor": 4, "scale": "log"}, (1, 4, 16)),
        ({"from": 0, "to": 10, "count": 3}, (0, 5, 10)),
        ({"from": 0.0, "to": 10, "count": 5}, (0.0, 2.5, 5.0, 7.5, 10.0)),
        ({"from": 1, "to": 1000, "count": 4, "scale": "log"}, (1, 10, 100, 1000)),
        ({"from": "100 GB/s", "to": "400 GB/s", "factor": 2}, ("100 GB/s", "200 GB/s", "400 GB/s")),
        ({"from": "100 GB/s", "to": "300 GB/s", "step": "100 GB/s"}, ("100 GB/s", "200 GB/s", "300 GB/s")),
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
        ("1, 2", "no values"),
        (7, "no values"),
        ([1, 2, 1], "1 is repeated"),
        ({"values": 3}, "not a list"),
        ({"vals": [1]}, "did you mean 'values'"),
        ({"from": 1}, "to: is missing"),
        ({"to": 1}, "from: is missing"),
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
        ({"from": "x", "to": 2, "step": 1}, "not a number"),
        ({"from": True, "to": 2, "step": 1}, "not a number"),
        ({"from": float("inf"), "to": 2, "step": 1}, "not a number"),
        ({"from": "1..2 GB", "to": "3 GB", "step": 1}, "not a number"),
        ({"from": "1 GB", "to": "2 MB", "step": 1}, "another unit"),
        ({"from": 1, "to": "2 MB", "step": 1}, "another unit"),
        ({"from": "1 GB", "to": "2 GB", "step": "1 MB"}, "another unit"),
        ({"divisors_of": 0}, "whole number"),
        ({"divisors_of": 10**15}, "too large"),
        ({"divisors_of": 12, "step": 1}, "no part"),
        ({"divisors_of": 12, "at_least": 7, "at_most": 11}, "no divisor"),
        ({"values": [1], "from": 1}, "no part"),
    ],
)
def test_what_is_none_of_the_forms_is_refused(given_: Any, match: str) -> None:
    with pytest.raises(InputError, match=match):
        values_of(given_)


@pytest.mark.parametrize(
    "given_",
    [
        {"from": 0, "to": 10**15, "step": 1},
        {"from": 1, "to": 2, "count": 10**15},
        {"from": 1, "to": 10, "factor": 1.0000001},
        {"from": 0, "to": 1, "step": 1e-12},
    ],
)
def test_a_range_of_too_many_values_is_counted_not_made(given_: dict[str, Any]) -> None:
    with pytest.raises(LimitError, match="cells are too many"):
        values_of(given_)
