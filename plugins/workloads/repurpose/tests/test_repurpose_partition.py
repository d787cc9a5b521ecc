from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, strategies as st

from fredfw.errors import InputError
from fredfw.typing import FloatArray
from fredfw_workload_repurpose import Planted, planted
from fredfw_workload_repurpose.partition import Partition, Workers, components, spectral
from fredfw_workload_repurpose.pruning import Pruner


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


def test_bounds_by_hand_and_more_workers_than_neurons() -> None:
    lower, upper = Workers(np.array([1.0, 3.0])).bounds(8)
    assert (lower.tolist(), upper.tolist()) == ([2, 6], [2, 6])
    lower, upper = Workers(np.ones(3)).bounds(10)
    assert (lower.tolist(), upper.tolist()) == ([3, 3, 3], [4, 4, 4])
    lower, upper = Workers(np.ones(2), 0.25).bounds(8)
    assert (lower.tolist(), upper.tolist()) == ([3, 3], [5, 5])
    with pytest.raises(InputError, match=r"workers: 4 workers for a layer of 3 neurons \(accepted: at most 3\)"):
        Workers(np.ones(4)).assigned(np.zeros((3, 4)))


@given(neurons=st.integers(5, 60), shares=st.lists(st.floats(0.5, 4), min_size=1, max_size=5))
def test_neurons_in_their_order_keep_the_bounds(neurons: int, shares: list[float]) -> None:
    workers = Workers(np.array(shares))
    owners = workers.contiguous(neurons)
    lower, upper = workers.bounds(neurons)
    counts = np.bincount(owners, minlength=len(shares))
    assert (np.diff(owners) >= 0).all()
    assert ((lower <= counts) & (counts <= upper)).all()


def energies(made: Planted) -> list[FloatArray]:
    return [Pruner(layer.weights).energies for layer in made.network.layers]


def together(ours: Partition, theirs: Partition) -> bool:
    """Whether the same neurons are together."""
    flat = np.concatenate(ours), np.concatenate(theirs)
    return len(set(zip(*flat, strict=True))) == len(set(flat[0])) == len(set(flat[1]))


@pytest.mark.parametrize("blocks", [2, 4, 8])
def test_components_are_the_blocks(blocks: int) -> None:
    made = planted((64, 128, 32), blocks, seed=blocks)
    found = components(energies(made), [Workers(np.ones(blocks))] * 3)
    assert found is not None
    assert together(found, made.owners)


def test_small_components_share_a_worker_and_a_connected_network_has_none() -> None:
    made = planted((64, 64), 8)
    found = components(energies(made), [Workers(np.ones(2))] * 2)
    assert found is not None
    crossing = made.network.layers[0].weights[:, :, 0] * (found[1][:, None] != found[0])
    assert not crossing.any()
    made = planted((16, 16), 2, noise=0.1)
    assert components(energies(made), [Workers(np.ones(2))] * 2) is None


@pytest.mark.parametrize("blocks", [2, 4, 8])
def test_spectral_clusters_are_the_blocks_where_noise_is_weak(blocks: int) -> None:
    made = planted((128, 64, 128), blocks, noise=0.1, seed=blocks)
    assert together(spectral(energies(made), [Workers(np.ones(blocks))] * 3), made.owners)
