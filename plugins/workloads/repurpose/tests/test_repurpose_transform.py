import re
from collections.abc import Callable

import numpy as np
import pytest
import scipy  # its parts load when they are used

from fredfw.errors import InputError
from fredfw.typing import FloatArray
from fredfw_workload_repurpose import (
    Layer,
    Network,
    Plan,
    Problem,
    at_random,
    by_magnitude,
    clustered,
    in_order,
    partitioned,
    planted,
    rearranged,
)

BASELINES: tuple[Callable[[Problem], Plan], ...] = (in_order, at_random, clustered, by_magnitude)


@pytest.mark.sampled
@pytest.mark.parametrize("workers", [2, 4, 8])
@pytest.mark.parametrize("taps", [1, 9])
def test_planted_blocks_are_recovered_exactly(workers: int, taps: int) -> None:
    for seed in range(3):
        network = planted((128, 64, 256, 64), workers, seed=seed, taps=taps).network
        plan = rearranged(Problem(network, [workers], 0.0))
        assert (plan.crossing, plan.errors) == (0, (0, 0, 0))
        for ours, theirs in zip(plan.network.layers, network.layers, strict=True):
            assert (ours.weights == theirs.weights).all()
        for width, owners in zip(network.widths, plan.partition, strict=True):
            assert np.bincount(owners).tolist() == [width // workers] * workers


@pytest.mark.sampled
@pytest.mark.parametrize("workers", [2, 4, 8])
@pytest.mark.parametrize(("noise", "share"), [(0.3, 0.5), (0.5, 0.5), (0.5, 0.9), (0.7, 0.9)])
def test_blocks_with_noise_are_within_a_tenth_of_the_planted_ones(workers: int, noise: float, share: float) -> None:
    made = planted((256, 256, 256), workers, noise=noise, seed=1)
    # The error without any weight between blocks, in expectation
    between = noise**2 * (workers - 1)
    problem = Problem(made.network, [workers], share * float(np.sqrt(between / (1 + between))))
    plan = rearranged(problem)
    assert plan.crossing <= 1.1 * partitioned(problem, made.owners).crossing
    for baseline in BASELINES:
        other = baseline(problem)
        assert max(*plan.errors, *other.errors) <= problem.epsilon
        # Clusters may be the planted blocks, too.
        assert plan.crossing < other.crossing or (baseline is clustered and plan.crossing == other.crossing)


@pytest.mark.sampled
@pytest.mark.parametrize("workers", [4, 8, 16])
def test_it_is_below_every_baseline_where_clusters_are_hard_to_see(workers: int) -> None:
    problem = Problem(planted((256, 256, 256, 256), workers, noise=0.9, seed=1).network, [workers], 0.6)
    least = min(baseline(problem).crossing for baseline in BASELINES)
    assert rearranged(problem).crossing < least


def test_samples_send_less_than_weights_alone_and_single_weights_keep_more_of_them_out() -> None:
    # What is read has 8 dimensions of 48, so that a refit can replace most of it.
    network = planted((48, 96), 4, noise=1.0, seed=5).network
    random = np.random.default_rng(6)
    samples = random.standard_normal((500, 8)) @ random.standard_normal((8, 48))
    with_samples = rearranged(Problem(network, [4], 0.1, [samples]))
    assert with_samples.crossing < rearranged(Problem(network, [4], 0.1)).crossing / 2
    network = planted((32, 32), 4, noise=0.3).network
    by_weight, by_pair = (rearranged(Problem(network, [4], 0.2, each=each)) for each in (True, False))
    assert by_weight.kept < by_pair.kept
    assert by_pair.crossing < by_weight.crossing


def patches(images: FloatArray) -> FloatArray:
    """Return ``(images x 36, channels, 9)`` what a 3 x 3 kernel reads at each place of 8 x 8 pixels."""
    windows = np.lib.stride_tricks.sliding_window_view(images, (3, 3), axis=(2, 3))
    return windows.transpose(0, 2, 3, 1, 4, 5).reshape(-1, images.shape[1], 9)


def convolved(images: FloatArray, kernels: FloatArray) -> FloatArray:
    return np.array([[scipy.signal.correlate(image, row, "valid")[0] for row in kernels] for image in images])


def test_channels_of_a_convolution_are_rearranged_and_pruned_within_the_bound() -> None:
    layer = planted((8, 12), 4, noise=0.4, seed=9, taps=9).network.layers[0]
    images = np.random.default_rng(10).standard_normal((3, 8, 8, 8))
    kernels = layer.weights.reshape(12, 8, 3, 3)
    network = Network([Layer(kernels, positions=64, results=36)])
    plan = rearranged(Problem(network, [4], 0.3, [patches(images)]))
    before, after = (convolved(images, one.reshape(12, 8, 3, 3)) for one in (kernels, plan.layers[0].weights))
    assert plan.errors[0] == pytest.approx(np.linalg.norm(after - before) / np.linalg.norm(before))
    assert plan.errors[0] <= 0.3
    assert plan.crossing == 64 * plan.layers[0].crossing
    assert plan.layers[0].crossing < in_order(Problem(network, [4], 0.3, [patches(images)])).layers[0].crossing


def test_shares_bound_the_neurons() -> None:
    network = planted((60, 60), 2, noise=0.5).network
    plan = rearranged(Problem(network, [3], 0.2, shares=[1, 2, 3]))
    assert [np.bincount(owners).tolist() for owners in plan.partition] == [[10, 20, 30]] * 2


def test_magnitude_drops_the_smallest_weights_up_to_the_bound_or_to_a_sparsity() -> None:
    network = planted((20, 30), 2, noise=1.0).network
    plan = by_magnitude(Problem(network, [2], 0.3))
    weights, kept = network.layers[0].weights, plan.layers[0].weights != 0
    squares = np.sort(weights**2, axis=None)
    most = int((np.cumsum(squares) <= 0.09 * squares.sum()).sum())
    assert plan.kept == weights.size - most
    assert np.abs(weights[kept]).min() > np.abs(weights[~kept]).max()
    network = planted((20, 30, 20), 2, noise=1.0).network
    ours = rearranged(Problem(network, [2], 0.3))
    kept = [int(np.count_nonzero(layer.weights)) for layer in ours.layers]
    theirs = by_magnitude(Problem(network, [2], 0.3), kept)
    assert [int(np.count_nonzero(layer.weights)) for layer in theirs.layers] == kept
    assert theirs.crossing > ours.crossing


@pytest.mark.parametrize(
    ("arguments", "key", "message"),
    [
        ({"epsilon": float("nan")}, "epsilon", "nan is out of range"),
        ({"epsilon": "0.1"}, "epsilon", "'0.1' is not a number"),
        ({"inputs": [np.ones((5, 8))]}, "inputs", "1 arrays for 2 layers"),
        ({"inputs": [np.ones((5, 8)), np.ones((5, 8))]}, "inputs[1]", "shape (5, 8)"),
        ({"inputs": [np.ones((5, 8)), np.full((5, 12), np.nan)]}, "inputs[1]", "nan at [0, 0]"),
    ],
)
def test_bad_problems(arguments: dict[str, object], key: str, message: str) -> None:
    network = planted((8, 12, 8), 2).network
    with pytest.raises(InputError, match=rf"^{re.escape(key)}: .*{re.escape(message)}.* \(accepted: "):
        rearranged(Problem(**({"network": network, "counts": [2], "epsilon": 0.1} | arguments)))  # type: ignore[arg-type]


@pytest.mark.slow
def test_two_layers_of_4096_neurons_on_16_workers() -> None:
    made = planted((4096, 4096, 4096), 16, noise=0.2, seed=1)
    problem = Problem(made.network, [16], 0.3)
    plan = rearranged(problem)
    assert plan.crossing <= 1.1 * partitioned(problem, made.owners).crossing
    assert max(plan.errors) <= 0.3
