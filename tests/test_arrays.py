from typing import Any

import numpy as np
import pytest

from fredfw.arrays import count, is_real, is_whole, real, whole
from fredfw.errors import InputError

NO_NUMBERS: list[Any] = ["x", ["x"], [1j], [[0, 1], [2]], None, {0, 1}, [None], [2**70]]

WHOLE: list[Any] = [[3, 1], (3, 1), range(3, 0, -2), np.array([3, 1], dtype=np.uint8), [[3, 1]], 3, []]
REAL: list[Any] = [[3, 1.5], (3, 1), np.float32(0.5), [[3, 1], [2, 4]], []]


@pytest.mark.parametrize(
    ("found", "values", "kind"),
    [*((whole(one), one, np.intp) for one in WHOLE), *((real(one), one, np.float64) for one in REAL)],
)
def test_numbers_keep_their_shape(found: Any, values: Any, kind: type) -> None:
    assert found.dtype == kind
    assert found.tolist() == np.asarray(values).tolist()


def test_what_are_no_numbers_single_ones_and_rows_of_another_layout() -> None:
    for values in (*NO_NUMBERS, [1.5], [1.0], np.array([2**63], dtype=np.uint64)):
        assert whole(values) is None
    for values in NO_NUMBERS:
        assert real(values) is None
    assert [is_whole(one) for one in (3, np.int32(3), 3.0, "3", None)] == [True, True, False, False, False]
    assert [is_real(one) for one in (3, 0.5, np.float32(3), 1j, "3", None)] == [True, True, True, False, False, False]
    assert count("ranks", np.int64(3)) == 3
    for wrong in (0, -1, 1.5, "3"):
        with pytest.raises(InputError, match=f"^ranks: {wrong!r} is refused .accepted: a whole number of at least 1"):
            count("ranks", wrong)
    found = whole(np.arange(6).reshape(2, 3).T)
    assert found is not None
    assert found.flags.c_contiguous
    assert found.tolist() == [[0, 3], [1, 4], [2, 5]]
