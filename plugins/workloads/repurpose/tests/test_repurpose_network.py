import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fredfw import File, limits
from fredfw.errors import InputError
from fredfw_workload_repurpose import Layer, Network, planted, read, write


def test_what_is_written_is_read(tmp_path: Path) -> None:
    first = Layer(np.arange(18).reshape(2, 1, 3, 3), [1, 2], 16, 16)
    network = Network([first, Layer(np.ones((3, 2, 16)), None, 16, 1)])
    inputs = [np.ones((5, 1, 9)), np.ones((5, 2, 4, 4))]
    write(tmp_path / "net.npz", network, inputs)
    found = read(File.at("net.npz", tmp_path))
    for ours, theirs in zip(network.layers, found.network.layers, strict=True):
        assert (ours.weights == theirs.weights).all()
        assert (ours.positions, ours.results) == (theirs.positions, theirs.results)
    assert found.network.layers[0].bias is not None
    assert found.network.layers[1].bias is None
    assert found.inputs is not None
    assert [one.shape for one in found.inputs] == [(5, 1, 9), (5, 2, 16)]


def test_inputs_of_dense_layers_follow_from_the_first_within_the_limit(tmp_path: Path) -> None:
    network = planted((8, 12, 4), 2, noise=1).network
    samples = np.random.default_rng(0).standard_normal((6, 8))
    write(tmp_path / "net.npz", network, [samples])
    found = read(File.at("net.npz", tmp_path))
    assert found.inputs is not None
    hidden = np.maximum(samples @ network.layers[0].weights[:, :, 0].T, 0)
    np.testing.assert_allclose(found.inputs[1][:, :, 0], hidden, rtol=1e-14)
    np.savez_compressed(tmp_path / "net.npz", weights_0=np.zeros((1000, 1000)))
    with limits.allowed({"bytes": 1_000_000}), pytest.raises(InputError, match="bytes are too many"):
        read(File.at("net.npz", tmp_path))


@pytest.mark.parametrize(
    ("arrays", "key", "message"),
    [
        ({}, "weights_0", "is missing"),
        ({"weights_1": np.ones((2, 2))}, "weights_0", "weights_1 is there"),
        ({"weights_0": np.ones((2, 2)), "bias_1": np.ones(2)}, "weights_1", "bias_1 is there"),
        ({"kernel": np.ones(2)}, "kernel", "is not known"),
        ({"weights_0": np.ones(4)}, "weights_0", "shape (4,)"),
        ({"weights_0": np.array([[1, "a"]], dtype=object)}, "weights_0", "Python objects"),
        ({"weights_0": np.array([["a", "b"]])}, "weights_0", "type <U1"),
        ({"weights_0": np.array([[1, np.nan]])}, "weights_0", "nan at [0, 1]"),
        ({"weights_0": np.array([[1e-200, 0]])}, "weights_0", "has 1e-200 as its largest number"),
        ({"weights_0": np.array([[-1e200, 0]])}, "weights_0", "has 1e+200 as its largest number"),
        ({"weights_0": np.ones((2, 3)), "weights_1": np.ones((2, 3))}, "weights_1", "3 inputs"),
        ({"weights_0": np.ones((2, 3)), "bias_0": np.ones(3)}, "bias_0", "shape (3,)"),
        ({"weights_0": np.ones((2, 3)), "positions": np.ones(2)}, "positions", "[1.0, 1.0]"),
        ({"weights_0": np.ones((2, 3)), "positions": np.array([1, 0])}, "positions", "[1, 0]"),
        ({"weights_0": np.ones((2, 3)), "inputs_0": np.ones((5, 2))}, "inputs_0", "shape (5, 2)"),
        ({"weights_0": np.ones((2, 3, 4)), "inputs_0": np.ones((5, 3))}, "inputs_0", "shape (5, 3)"),
        ({"weights_0": np.ones((2, 3)), "weights_1": np.ones((2, 2)), "inputs_1": np.ones(2)}, "inputs_0", "missing"),
    ],
)
def test_bad_files(tmp_path: Path, arrays: dict[str, Any], key: str, message: str) -> None:
    np.savez(tmp_path / "net.npz", **arrays)
    with pytest.raises(InputError, match=rf"^net\.npz: {key}: .*{re.escape(message)}.* \(accepted: "):
        read(File.at("net.npz", tmp_path))


@pytest.mark.parametrize("data", [b"", b"weights", b"PK\x03\x04 damaged", b"\x93NUMPY"])
def test_what_is_no_archive(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "net.npz").write_bytes(data)
    with pytest.raises(InputError, match=r"net\.npz: is not a whole \.npz file"):
        read(File.at("net.npz", tmp_path))


def test_planted_blocks_are_all_there_is_and_noise_is_relative_to_them() -> None:
    made = planted((10, 12, 7), 3, seed=5)
    for number, layer in enumerate(made.network.layers):
        inside = made.owners[number + 1][:, None] == made.owners[number]
        assert (layer.weights[~inside] == 0).all()
        assert (layer.weights[inside] != 0).all()
    assert [np.ptp(np.bincount(owners)) for owners in made.owners] == [1, 0, 1]
    made = planted((600, 600), 2, noise=0.3)
    inside = made.owners[1][:, None] == made.owners[0]
    weights = made.network.layers[0].weights[:, :, 0]
    # 180,000 normal numbers each: their standard deviation is known to 0.2 %
    assert weights[~inside].std() / weights[inside].std() == pytest.approx(0.3, rel=0.02)


def test_whole_weights_in_another_order_compute_the_same_to_the_bit() -> None:
    random = np.random.default_rng(1)
    widths = (12, 30, 7, 9)
    shapes = [(after, before) for before, after in pairwise(widths)]
    network = Network([Layer(random.integers(-9, 9, shape), random.integers(-9, 9, shape[0])) for shape in shapes])
    order = [random.permutation(width) for width in widths]
    samples = random.integers(-9, 9, (40, 12))
    outputs = network.permuted(order).activations(samples[:, order[0]])[-1]
    assert (outputs == network.activations(samples)[-1][:, order[-1]]).all()


def test_activations_by_hand() -> None:
    network = Network([Layer([[1, -1], [2, 0]], [0, 1]), Layer([[1, 1]])])
    assert [one.tolist() for one in network.activations([[1, 3]])] == [[[1, 3]], [[0, 3]], [[3]]]


@pytest.mark.parametrize(
    ("make", "key", "message"),
    [
        (lambda: Layer([[1, 2], [3]]), "weights", "is not an array"),
        (lambda: Layer([[]]), "weights", "shape (1, 0)"),
        (lambda: Layer([[1, 2]], positions=0), "positions", "0 is not"),
        (lambda: Network([]), "layers", "no layer"),
        (lambda: Network([Layer(np.ones((3, 2, 4)))]).activations(np.ones((5, 2))), "samples", "channels"),
        (lambda: planted((1_000_000, 1_000_000), 2), "widths", "bytes are too many"),
    ],
)
def test_bad_input(make: Any, key: str, message: str) -> None:
    with pytest.raises(InputError, match=rf"^{re.escape(key)}: .*{re.escape(message)}.* \(accepted: "):
        make()
