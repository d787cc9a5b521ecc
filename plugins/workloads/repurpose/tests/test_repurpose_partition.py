from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, strategies as st

from fredfw.errors import InputError
from fredfw_workload_repurpose.partition import Workers


@given(
    neurons=st.integers(3, 6),
    shares=st.lists(st.sampled_from([1.0, 2.0, 3.5]), min_size=1, max_size=3),
    tolerance=st.sampled_from([0.0, 0.3, 1.0]),
    seed=st.integers(0, 1000),
)
def test_the_assignment_is_the_best_of_all(neurons: int, shares: list[float], tolerance: float, seed: int) -> None:
    workers = Workers(np.array(shares), tolerance)
    costs = np.random.default_rng(seed).integers(-5, 6, (neurons, len(shares))).astype(float)
    lower, upper = workers.bounds(neurons)

    def allowed(owners: tuple[int, ...]) -> bool:
        counts = np.bincount(owners, minlength=len(shares))
        return bool(((lower <= counts) & (counts <= upper)).all())

    least = min(
        costs[np.arange(neurons), owners].sum()
        for owners in product(range(len(shares)), repeat=neurons)
        if allowed(owners)
    )
    found = workers.assigned(costs)
    assert allowed(tuple(found.tolist()))
    assert costs[np.arange(neurons), found].sum() == pytest.approx(least, abs=1e-9)


def test_bounds_by_hand() -> None:
    lower, upper = Workers(np.array([1.0, 3.0])).bounds(8)
    assert (lower.tolist(), upper.tolist()) == ([2, 6], [2, 6])
    lower, upper = Workers(np.ones(3)).bounds(10)
    assert (lower.tolist(), upper.tolist()) == ([3, 3, 3], [4, 4, 4])
    lower, upper = Workers(np.ones(2), 0.25).bounds(8)
    assert (lower.tolist(), upper.tolist()) == ([3, 3], [5, 5])


@given(neurons=st.integers(5, 60), shares=st.lists(st.floats(0.5, 4), min_size=1, max_size=5))
def test_neurons_in_their_order_keep_the_bounds(neurons: int, shares: list[float]) -> None:
    workers = Workers(np.array(shares))
    owners = workers.contiguous(neurons)
    lower, upper = workers.bounds(neurons)
    counts = np.bincount(owners, minlength=len(shares))
    assert (np.diff(owners) >= 0).all()
    assert ((lower <= counts) & (counts <= upper)).all()


def test_more_workers_than_neurons() -> None:
    with pytest.raises(InputError, match=r"workers: 4 workers for a layer of 3 neurons \(accepted: at most 3\)"):
        Workers(np.ones(4)).assigned(np.zeros((3, 4)))
