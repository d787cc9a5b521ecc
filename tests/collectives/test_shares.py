from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

from fredfw.collectives import balanced_shares
from fredfw.typing import FloatArray


def lowest_by_kernels(times: FloatArray) -> float:
    """Return the least time of the busiest resource by trying every kernel of the matrix game.

    An optimal strategy makes some resources equally busy with as many parts (Shapley and Snow, "Basic solutions of
    discrete games", 1950), so the best feasible one of all these is optimal.
    """
    resources, parts = times.shape
    best = math.inf
    for size in range(1, min(times.shape) + 1):
        for rows in combinations(range(resources), size):
            for columns in combinations(range(parts), size):
                equal = np.ones((size + 1, size + 1))
                equal[:size, :size] = times[np.ix_(rows, columns)]
                equal[:size, size] = -1
                equal[size, size] = 0
                right = np.zeros(size + 1)
                right[size] = 1
                try:
                    share = np.linalg.solve(equal, right)[:size]
                except np.linalg.LinAlgError:
                    continue
                if (share >= 0).all():
                    best = min(best, float((times[:, columns] @ share).max()))
    return best


@given(
    hnp.arrays(
        float,
        st.tuples(st.integers(1, 4), st.integers(1, 4)),
        elements=st.one_of(st.floats(0.01, 100), st.integers(1, 3).map(float)),
    )
)
def test_no_other_shares_keep_the_busiest_for_less(times: FloatArray) -> None:
    shares = balanced_shares(times)
    assert (shares >= 0).all()
    assert shares.sum() == pytest.approx(1, rel=1e-12)
    assert (times @ shares).max() == pytest.approx(lowest_by_kernels(times), rel=1e-9)
