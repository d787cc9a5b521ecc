"""A network that is trained on handwritten digits, spread over workers: what crosses, how fast, and how accurate.

It needs scikit-learn, which ships 1,797 digits of 8 x 8 pixels, and takes a minute or two:

    python -m pip install scikit-learn
    python examples/repurpose_digits.py
"""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from attrs import frozen

from fredfw import File, Framework, System
from fredfw.typing import FloatArray, IntArray
from fredfw_workload_repurpose import Layer, Network, Repurpose, write

WIDTHS = (64, 300, 100, 10)  # LeNet-300-100 (LeCun et al. 1998), with as many inputs as there are pixels
TRAINED = 1297  # digits; the accuracy is that on the other 500
BOUNDS = tuple(round(0.02 * step, 2) for step in range(1, 16))
SEEDS = (0, 1, 2)  # of networks
METHODS = ("repurpose", "contiguous", "random", "spectral", "magnitude")
LOSS = 0.01  # of accuracy


@frozen(eq=False)
class Digits:
    """Images as ``(digits, 64)`` numbers from 0 to 1, and what they show."""

    images: FloatArray
    labels: IntArray

    def accuracy(self, network: Network) -> float:
        """Return the share of digits that the network knows."""
        found = network.activations(self.images)[-1].argmax(axis=1)
        return float((found == self.labels).mean())


def digits(seed: int = 0) -> tuple[Digits, Digits]:
    """Return the digits to train with, and those to test with."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(labels))
    parts = [Digits(images[part] / 16, labels[part]) for part in (order[:TRAINED], order[TRAINED:])]
    return parts[0], parts[1]


def trained(data: Digits, epochs: int = 40, seed: int = 0) -> Network:
    """Return a network trained with Adam (Kingma and Ba 2015, its constants), minibatches of 64 and weight decay."""
    random = np.random.default_rng(seed)
    values = [random.standard_normal((after, before)) * np.sqrt(2 / before) for before, after in pairwise(WIDTHS)]
    values += [np.zeros(width) for width in WIDTHS[1:]]
    means = squares = [np.zeros_like(value) for value in values]
    step = 0
    for _ in range(epochs):
        for part in np.array_split(random.permutation(len(data.labels)), len(data.labels) // 64):
            step += 1
            found = gradients(values, data.images[part], data.labels[part])
            means = [0.9 * mean + 0.1 * one for mean, one in zip(means, found, strict=True)]
            squares = [0.999 * square + 0.001 * one**2 for square, one in zip(squares, found, strict=True)]
            rate, scale = 1e-3 / (1 - 0.9**step), 1 / (1 - 0.999**step)
            values = [
                value - rate * mean / (np.sqrt(scale * square) + 1e-8)
                for value, mean, square in zip(values, means, squares, strict=True)
            ]
    return network(values)


def network(values: list[FloatArray]) -> Network:
    """Return the network of all weights and then all biases."""
    half = len(values) // 2
    return Network([Layer(weights, bias) for weights, bias in zip(values[:half], values[half:], strict=True)])


def gradients(values: list[FloatArray], images: FloatArray, labels: IntArray) -> list[FloatArray]:
    """Return the gradients of the cross-entropy, and of 1e-4 / 2 times the squares of the weights."""
    half = len(values) // 2
    *inputs, outputs = network(values).activations(images)
    shares = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    back = shares / shares.sum(axis=1, keepdims=True)
    back[np.arange(len(labels)), labels] -= 1
    back /= len(labels)
    found = list(values)
    for layer in reversed(range(half)):
        found[layer] = back.T @ inputs[layer] + 1e-4 * values[layer]
        found[half + layer] = back.sum(axis=0)
        back = (back @ values[layer]) * (inputs[layer] > 0)
    return found


@frozen
class Row:
    """A method with a bound: how accurate it is, what crosses and how long an inference takes; means over networks."""

    method: str
    epsilon: float
    accuracy: float
    crossing: float
    seconds: float


def placed(file: File, test: Digits, workers: int, method: str, epsilon: float) -> tuple[float, float, float]:
    """Return accuracy, bytes that cross, and seconds of an inference, on a ring of workers."""
    framework, system = Framework(), System(npus=workers)
    fabric = framework.topology("torus", dimensions=[workers], link_bandwidth="1 Gbps", link_latency="1 us").build()
    workload = Repurpose(weights=file, workers=(workers,), method=method, epsilon=epsilon)
    plan = workload.plan(system)
    result = framework.simulate_graph(workload.graph(system), fabric, collectives={"default": "direct"})
    return test.accuracy(plan.network), plan.crossing * workload.activation_bytes, result.timeline.duration


def main(workers: int) -> None:
    """Print for each method the least that crosses with a small loss of accuracy, in the mean of some networks."""
    train, test = digits()
    networks = [trained(train, seed=seed) for seed in SEEDS]
    before = float(np.mean([test.accuracy(network) for network in networks]))
    print(f"accuracy before: {before:.2%}, {workers} workers")
    print(f"{'method':<12}{'epsilon':>8}{'accuracy':>10}{'crossing':>12}{'latency':>12}")
    with TemporaryDirectory() as folder:
        files = [Path(folder) / f"digits-{seed}.npz" for seed in SEEDS]
        for file, network in zip(files, networks, strict=True):
            write(file, network, [train.images])
        for method in METHODS:
            rows = []
            for epsilon in BOUNDS:
                values = [placed(File.at(file), test, workers, method, epsilon) for file in files]
                rows.append(Row(method, epsilon, *np.mean(values, axis=0).tolist()))
            best = min((row for row in rows if row.accuracy >= before - LOSS), key=lambda row: row.crossing)
            print(
                f"{method:<12}{best.epsilon:>8g}{best.accuracy:>10.2%}{best.crossing:>10.0f} B"
                f"{best.seconds * 1e6:>9.2f} us"
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4)
