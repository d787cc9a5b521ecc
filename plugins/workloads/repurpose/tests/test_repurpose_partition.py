from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, strategies as st

from fredfw.errors import InputError
from fredfw.typing import FloatArray, IntArray
from fredfw_workload_repurpose import Planted, planted
from fredfw_workload_repurpose.partition import Partition, Workers, components, spectral
from fredfw_workload_repurpose.pruning import Moments, Pruner


def within(workers: Workers, owners: IntArray) -> bool:
    """Whether each worker has as many neurons as it may."""
    lower, upper = workers.bounds(len(owners))
    counts = np.bincount(owners, minlength=len(lower))
    return bool(((lower <= counts) & (counts <= upper)).all())


@given(
    neurons=st.integers(3, 6),
    shares=st.lists(st.sampled_from([1.0, 2.0, 3.5]), min_size=1, max_size=3),
    tolerance=st.sampled_from([0.0, 0.3, 1.0]),
    seed=st.integers(0, 1000),
)
def test_the_assignment_is_the_best_of_all(neurons: int, shares: list[float], tolerance: float, seed: int) -> None:
    workers = Workers(np.array(shares), tolerance)
    costs = np.random.default_rng(seed).integers(-5, 6, (neurons, len(shares))).astype(float)
    every = np.array(list(product(range(len(shares)), repeat=neurons)))
    least = min(costs[np.arange(neurons), owners].sum() for owners in every if within(workers, owners))
    found = workers.assigned(costs)
    assert within(workers, found)
    assert costs[np.arange(neurons), found].sum() == pytest.approx(least, abs=1e-9)


def test_bounds_by_hand() -> None:
    assert np.array(Workers(np.array([1.0, 3.0])).bounds(8)).tolist() == [[2, 6]] * 2
    assert np.array(Workers(np.ones(3)).bounds(10)).tolist() == [[3] * 3, [4] * 3]
    assert np.array(Workers(np.ones(2), 0.25).bounds(8)).tolist() == [[3, 3], [5, 5]]


@given(neurons=st.integers(5, 60), shares=st.lists(st.floats(0.5, 4), min_size=1, max_size=5))
def test_neurons_in_their_order_keep_the_bounds(neurons: int, shares: list[float]) -> None:
    workers = Workers(np.array(shares))
    owners = workers.contiguous(neurons)
    assert (np.diff(owners) >= 0).all()
    assert within(workers, owners)


def energies(made: Planted) -> list[FloatArray]:
    return [Pruner(layer.weights).energies for layer in made.network.layers]


def together(ours: Partition, theirs: Partition) -> bool:
    """Whether the same neurons are together."""
    flat = np.concatenate(ours), np.concatenate(theirs)
    return len(set(zip(*flat, strict=True))) == len(set(flat[0])) == len(set(flat[1]))


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


BEFORE = np.array([0, 0, 1, 1, 2, 2])
AFTER = np.array([0, 1, 2, 0, 1, 2, 0])


def drawn(seed: int, *shape: int) -> FloatArray:
    return np.random.default_rng(seed).standard_normal(shape)


def ridge(weights: FloatArray, samples: FloatArray, moments: Moments, kept: IntArray) -> FloatArray:
    """Return weights of ``kept`` inputs alone with the least squares of the change, by a library's least squares."""
    count, size = samples.shape
    added = moments.damping * np.trace(moments.gram) / size
    stacked = np.vstack([samples / np.sqrt(count), np.sqrt(added) * np.eye(size)])
    fitted = np.zeros_like(weights)
    fitted[:, kept] = np.linalg.lstsq(stacked[:, kept], stacked @ weights.T, rcond=None)[0].T
    return fitted


@given(seed=st.integers(0, 200), epsilon=st.sampled_from([0.0, 0.2, 0.5, 0.9]))
def test_without_samples_no_choice_sends_less(seed: int, epsilon: float) -> None:
    weights = drawn(seed, 4, 4, 1)
    before, after = np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1])
    pruner = Pruner(weights)
    selection = pruner.selected(before, after, 2, epsilon)
    pairs = [(unit, worker) for unit in range(4) for worker in range(2) if before[unit] != worker]

    def energy(dropped: tuple[tuple[int, int], ...]) -> float:
        return sum(float((weights[after == worker, unit] ** 2).sum()) for unit, worker in dropped)

    bound = epsilon**2 * float((weights**2).sum())
    most = max(count for count in range(5) if any(energy(dropped) <= bound for dropped in combinations(pairs, count)))
    assert selection.crossing == 4 - most
    pruned = pruner.pruned(selection, epsilon)
    assert pruned.error <= epsilon
    assert pruned.error == pytest.approx(np.linalg.norm(pruned.weights - weights) / np.linalg.norm(weights))


@pytest.mark.parametrize("taps", [1, 3])
@pytest.mark.parametrize("epsilon", [0.25, 0.6])
def test_what_is_kept_is_refitted_as_least_squares_do(taps: int, epsilon: float) -> None:
    weights, samples = drawn(1, 7, 6, taps), drawn(2, 50, 6, taps) @ drawn(3, taps, taps)
    moments = Moments.of(samples, damping=1e-2)
    pruner = Pruner(weights, moments)
    pruned = pruner.pruned(pruner.selected(BEFORE, AFTER, 3, epsilon), epsilon)
    rows, columns = weights.reshape(7, -1), samples.reshape(50, -1)
    for worker in range(3):
        kept = np.flatnonzero(np.repeat(pruned.sent[:, worker] | (worker == BEFORE), taps))
        fitted = ridge(rows[worker == AFTER], columns, moments, kept)
        np.testing.assert_allclose(pruned.weights.reshape(7, -1)[worker == AFTER], fitted, atol=1e-9)
    change = np.linalg.norm((pruned.weights.reshape(7, -1) - rows) @ columns.T) / np.linalg.norm(rows @ columns.T)
    assert pruned.error == pytest.approx(change)
    assert 0 < change <= epsilon


def test_the_score_of_a_pair_is_the_error_of_a_refit_without_it() -> None:
    weights, samples = drawn(4, 7, 6, 2), drawn(5, 40, 6, 2)
    moments = Moments.of(samples)
    pruner = Pruner(weights, moments)
    rows, columns = weights.reshape(7, -1), samples.reshape(40, -1)
    size = moments.gram + moments.damping * np.trace(moments.gram) / 12 * np.eye(12)
    energy = np.trace(rows @ moments.gram @ rows.T)
    scores = pruner.scores(AFTER, 3)
    for unit in range(6):
        kept = np.flatnonzero(np.repeat(np.arange(6) != unit, 2))
        change = rows - ridge(rows, columns, moments, kept)
        errors = np.einsum("jc,cd,jd->j", change, size, change) / energy
        assert scores[unit] == pytest.approx([errors[worker == AFTER].sum() for worker in range(3)])


def test_one_more_pair_is_above_the_bound() -> None:
    weights = drawn(6, 40, 30, 1)
    before, after = np.arange(30) % 3, np.arange(40) % 3
    pruner = Pruner(weights)
    selection = pruner.selected(before, after, 3, 0.3)
    scores = pruner.scores(after, 3)
    dropped = ~selection.sent & (before[:, None] != np.arange(3))
    assert scores[dropped].max() == pytest.approx(selection.penalty)
    assert scores[dropped].sum() <= 0.09 < scores[dropped].sum() + scores[selection.sent].min()


def test_single_weights_are_dropped_by_size() -> None:
    weights = drawn(7, 7, 6, 1)
    pruner = Pruner(weights, each=True)
    pruned = pruner.pruned(pruner.selected(BEFORE, AFTER, 3, 0.3), 0.3)
    foreign = AFTER[:, None] != BEFORE
    zero = pruned.weights[:, :, 0] == 0
    assert zero.any()
    assert not zero[~foreign].any()
    assert np.abs(weights[:, :, 0])[zero].max() < np.abs(weights[:, :, 0])[foreign & ~zero].min()
    for unit, worker in product(range(6), range(3)):
        used = (~zero[worker == AFTER, unit]).any() and BEFORE[unit] != worker
        assert pruned.sent[unit, worker] == used


def test_single_weights_are_refitted_output_by_output() -> None:
    weights, samples = drawn(8, 7, 6, 1), drawn(9, 50, 6, 1)
    moments = Moments.of(samples)
    pruner = Pruner(weights, moments, each=True)
    pruned = pruner.pruned(pruner.selected(BEFORE, AFTER, 3, 0.4), 0.4)
    for row in range(7):
        kept = np.flatnonzero(pruned.weights[row, :, 0])
        assert 0 < len(kept) < 6
        fitted = ridge(weights[row : row + 1, :, 0], samples[:, :, 0], moments, kept)
        np.testing.assert_allclose(pruned.weights[row : row + 1, :, 0], fitted, atol=1e-9)


def test_a_limit_of_received_activations_is_kept_and_nothing_lost_where_nothing_is_read() -> None:
    pruner = Pruner(drawn(10, 7, 6, 1), received=1)
    assert (pruner.selected(BEFORE, AFTER, 3, 0.9).sent.sum(axis=0) <= 1).all()
    with pytest.raises(InputError, match=r"received: 1 activations leave an error of .*at most epsilon = 0\.1"):
        pruner.pruned(pruner.selected(BEFORE, AFTER, 3, 0.1), 0.1)
    pruner = Pruner(drawn(11, 7, 6, 1), Moments.of(np.zeros((5, 6, 1))))
    pruned = pruner.pruned(pruner.selected(BEFORE, AFTER, 3, 0), 0)
    assert pruned.error == 0
