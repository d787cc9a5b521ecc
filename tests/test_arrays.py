from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fredfw.arrays import count, is_real, is_whole, real, whole
from fredfw.errors import InputError

NO_NUMBERS: list[Any] = ["x", ["x"], [1j], [[0, 1], [2]], None, {0, 1}, [None], [2**70]]


@pytest.mark.parametrize("values", [[3, 1], (3, 1), range(3, 0, -2), np.array([3, 1], dtype=np.uint8), [[3, 1]], 3, []])
def test_whole_numbers_keep_their_shape(values: Any) -> None:
    found = whole(values)
    assert found is not None
    assert found.dtype == np.intp
    assert found.tolist() == np.asarray(values).tolist()


@pytest.mark.parametrize("values", [*NO_NUMBERS, [1.5], [1.0], np.array([2**63], dtype=np.uint64)])
def test_what_is_not_whole(values: Any) -> None:
    assert whole(values) is None


@pytest.mark.parametrize("values", [[3, 1.5], (3, 1), np.float32(0.5), [[3, 1], [2, 4]], []])
def test_real_numbers_keep_their_shape(values: Any) -> None:
    found = real(values)
    assert found is not None
    assert found.dtype == np.float64
    assert found.tolist() == np.asarray(values).tolist()


@pytest.mark.parametrize("values", NO_NUMBERS)
def test_what_is_not_real(values: Any) -> None:
    assert real(values) is None


def test_rows_of_another_layout_are_made_contiguous() -> None:
    columns = np.arange(6).reshape(2, 3).T
    found = whole(columns)
    assert found is not None
    assert found.flags.c_contiguous
    assert found.tolist() == columns.tolist()


def test_single_numbers() -> None:
    assert [is_whole(one) for one in (3, np.int32(3), 3.0, "3", None)] == [True, True, False, False, False]
    assert [is_real(one) for one in (3, 0.5, np.float32(3), 1j, "3", None)] == [True, True, True, False, False, False]
    assert count("ranks", np.int64(3)) == 3
    for wrong in (0, -1, 1.5, "3"):
        with pytest.raises(InputError, match=f"^ranks: {wrong!r} is refused .accepted: a whole number of at least 1"):
            count("ranks", wrong)
