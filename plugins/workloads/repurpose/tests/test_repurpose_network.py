from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from fredfw.errors import InputError
from fredfw_workload_repurpose import Layer, Network


def orders(widths: tuple[int, ...], seed: int) -> list[Any]:
    random = np.random.default_rng(seed)
    return [random.permutation(width) for width in widths]


def test_whole_weights_in_another_order_compute_the_same_to_the_bit() -> None:
    random = np.random.default_rng(1)
    widths = (12, 30, 7, 9)
    network = Network(
        [
            Layer(random.integers(-9, 9, (after, before)), random.integers(-9, 9, after))
            for before, after in pairwise(widths)
        ]
    )
    order = orders(widths, 2)
    samples = random.integers(-9, 9, (40, 12))
    outputs = network.permuted(order).activations(samples[:, order[0]])[-1]
    assert (outputs == network.activations(samples)[-1][:, order[-1]]).all()


def test_activations_by_hand() -> None:
    network = Network([Layer([[1, -1], [2, 0]], [0, 1]), Layer([[1, 1]])])
    first, second, last = network.activations([[1, 3]])
    assert (first.tolist(), second.tolist(), last.tolist()) == ([[1, 3]], [[0, 3]], [[3]])


@pytest.mark.parametrize(
    ("make", "key", "message"),
    [
        (lambda: Layer([1, 2]), "weights", "shape (2,)"),
        (lambda: Layer([[1, 2], [3]]), "weights", "is not an array"),
        (lambda: Layer([[]]), "weights", "shape (1, 0)"),
        (lambda: Layer([[1, np.nan]]), "weights", "nan at [0, 1]"),
        (lambda: Layer([[1, np.inf]]), "weights", "inf at [0, 1]"),
        (lambda: Layer([[1, None]]), "weights", "type object"),
        (lambda: Layer([[1j, 2]]), "weights", "type complex128"),
        (lambda: Layer([[1, 2]], [1, 2]), "bias", "shape (2,)"),
        (lambda: Layer([[1, 2]], positions=0), "positions", "0 is not"),
        (lambda: Network([]), "layers", "no layer"),
        (lambda: Network([Layer(np.ones((3, 2))), Layer(np.ones((2, 4)))]), "layers[1].weights", "4 inputs"),
        (lambda: Network([Layer(np.ones((3, 2)))]).activations(np.ones((5, 3))), "samples", "shape (5, 3)"),
        (lambda: Network([Layer(np.ones((3, 2, 4)))]).activations(np.ones((5, 2))), "samples", "channels"),
    ],
)
def test_bad_input(make: Any, key: str, message: str) -> None:
    with pytest.raises(InputError, match=rf"^{re.escape(key)}: .*{re.escape(message)}.* \(accepted: "):
        make()
