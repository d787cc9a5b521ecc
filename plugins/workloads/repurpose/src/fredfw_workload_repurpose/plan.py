"""What is to be placed on workers, and a network on its workers: who holds which neuron, and what is sent."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from attrs import evolve, field, frozen
from numpy.typing import ArrayLike

from fredfw.errors import InputError
from fredfw.typing import FloatArray, IntArray
from fredfw_workload_repurpose.network import Network
from fredfw_workload_repurpose.partition import Partition, Workers
from fredfw_workload_repurpose.pruning import Moments, Pruned, Pruner


def check_epsilon(_instance: object, _attribute: object, value: Any) -> None:
    accepted = "a number from 0 to below 1"
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{value!r} is not a number", key="epsilon", accepted=accepted)
    if not 0 <= value < 1:
        raise InputError(f"{value!r} is out of range", key="epsilon", accepted=accepted)


@frozen(eq=False)
class Problem:
    """A network to be placed on workers.

    Args:
        network: The network.
        counts: Workers of each layer, the first ones, or one number for all; the first layer's hold the input.
        epsilon: Largest norm of the change of the outputs of a layer, relative to that of the outputs.
        inputs: For each layer the ``(samples, inputs, taps)`` activations that it reads in the original network, which
            the change of the outputs is measured on; without, it is that of the weights.
        tolerance: How far the neurons of a worker may be from its share, relative to that.
        shares: Compute power of each worker, relative to the others; by default all have the same.
        each: Whether single weights are dropped, and not all those of an activation on a worker at once.
        received: Most activations that a worker may get from others in a layer; ``None`` is no limit.
        seed: Of what is random.

    Raises:
        InputError: The arguments do not fit the network or each other.
    """

    network: Network
    counts: Sequence[int]
    epsilon: float = field(validator=check_epsilon)
    inputs: Sequence[ArrayLike] | None = None
    tolerance: float = 0.0
    shares: Sequence[float] | None = None
    each: bool = False
    received: int | None = None
    seed: int = 0

    def __attrs_post_init__(self) -> None:
        layers = len(self.network.layers)
        if len(self.counts) not in (1, layers):
            accepted = f"1 or {layers} numbers" if layers > 1 else "1 number"
            raise InputError(f"{len(self.counts)} numbers for {layers} layers", key="workers", accepted=accepted)
        if self.shares is not None and len(self.shares) != max(self.counts):
            message = f"{len(self.shares)} shares for {max(self.counts)} workers"
            raise InputError(message, key="shares", accepted=f"{max(self.counts)} numbers")
        if self.each and self.received is not None:
            message = f"is {self.received}, and single weights are dropped"
            raise InputError(message, key="received", accepted="no limit, or the granularity 'pair'")
        for width, workers in zip(self.network.widths, self.workers, strict=True):
            workers.check(width)
        if self.inputs is not None and len(self.inputs) != layers:
            message = f"{len(self.inputs)} arrays for {layers} layers"
            raise InputError(message, key="inputs", accepted=f"{layers} arrays")

    @cached_property
    def workers(self) -> tuple[Workers, ...]:
        """Workers of the input, and of the output of each layer."""
        counts = list(self.counts) * len(self.network.layers) if len(self.counts) == 1 else list(self.counts)
        shares = np.ones(max(counts)) if self.shares is None else np.array(self.shares, dtype=float)
        return tuple(Workers(shares[:count], self.tolerance) for count in (counts[0], *counts))

    @cached_property
    def pruners(self) -> tuple[Pruner, ...]:
        return tuple(
            Pruner(layer.weights, self._moments(number), each=self.each, received=self.received)
            for number, layer in enumerate(self.network.layers)
        )

    def _moments(self, number: int) -> Moments | None:
        if self.inputs is None:
            return None
        return Moments.of(self.network.layers[number].read(self.inputs[number], key=f"inputs[{number}]"))


@frozen(eq=False)
class Plan:
    """How workers compute a network together.

    Args:
        original: The network as it was.
        partition: For the input and the output of each layer ``(neurons,)`` the worker of each neuron.
        layers: The layers as they are computed.
    """

    original: Network
    partition: Partition
    layers: tuple[Pruned, ...]

    @property
    def network(self) -> Network:
        """The network as it is computed, its neurons in the original order."""
        pairs = zip(self.original.layers, self.layers, strict=True)
        return Network([evolve(layer, weights=pruned.weights) for layer, pruned in pairs])

    @property
    def orders(self) -> tuple[IntArray, ...]:
        """For the input and the output of each layer the neurons in the order of their workers."""
        return tuple(np.argsort(owners, kind="stable") for owners in self.partition)

    @property
    def errors(self) -> tuple[float, ...]:
        """Norm of the change of the outputs of each layer, relative to that of the outputs."""
        return tuple(layer.error for layer in self.layers)

    @property
    def crossing(self) -> int:
        """Numbers that are sent for a sample; one counts as often as there are workers that get it."""
        sent = zip(self.layers, self.original.layers, strict=True)
        return sum(pruned.crossing * layer.positions for pruned, layer in sent)

    @property
    def kept(self) -> int:
        """Weights that are not 0."""
        return sum(int(np.count_nonzero(layer.weights)) for layer in self.layers)

    def sent(self, layer: int) -> IntArray:
        """Return ``(workers, workers)`` numbers that each worker sends to each for a sample, before ``layer``."""
        sent = self.layers[layer].sent
        workers = max(sent.shape[1], int(self.partition[layer].max()) + 1)  # as many as hold inputs or outputs
        numbers = np.zeros((workers, workers), dtype=np.intp)
        np.add.at(numbers[:, : sent.shape[1]], self.partition[layer], sent)
        return numbers * self.original.layers[layer].positions

    def weights(self, layer: int) -> tuple[IntArray, IntArray]:
        """Return ``(workers,)`` weights of ``layer`` that are not 0: of inputs that a worker holds, and of others."""
        before, after = self.partition[layer : layer + 2]
        workers = self.layers[layer].sent.shape[1]
        counts = np.count_nonzero(self.layers[layer].weights, axis=2)
        own = after[:, None] == before
        local = np.bincount(after, weights=(counts * own).sum(axis=1), minlength=workers)
        foreign = np.bincount(after, weights=(counts * ~own).sum(axis=1), minlength=workers)
        return local.astype(np.intp), foreign.astype(np.intp)


def draw(plan: Plan, layer: int, path: str | Path) -> None:
    """Write a picture of the weights of ``layer``: as they were, and in the order of the workers, pruned.

    A dot is the root mean square of the taps of an output (row) and an input (column). Lines are between workers. The
    end of ``path`` gives the format. It needs matplotlib, which the extra ``plot`` installs. ``InputError``: there is
    no such layer, matplotlib is not installed, or it does not know the format.
    """
    if not 0 <= layer < len(plan.layers):
        raise InputError(f"{layer!r} is not a layer", key="layer", accepted=f"0 to {len(plan.layers) - 1}")
    try:
        from matplotlib.colors import PowerNorm
        from matplotlib.figure import Figure
    except ImportError:
        accepted = "an environment with fredfw-workload-repurpose[plot]"
        raise InputError("pictures need matplotlib", accepted=accepted) from None
    before, after = plan.orders[layer : layer + 2]
    original = _sizes(plan.original.layers[layer].weights)
    panels = {"before": original, "after": _sizes(plan.layers[layer].weights)[after][:, before]}
    figure = Figure(figsize=(10, 5), layout="constrained")
    scale = PowerNorm(0.5, 0, float(original.max()) or 1.0)
    for axes, (title, weights) in zip(figure.subplots(1, 2), panels.items(), strict=True):
        # Dots that are smaller than a pixel are averaged, so that a picture of many neurons is not one of chance.
        image = axes.imshow(weights, cmap="Greys", norm=scale, aspect="auto", interpolation="antialiased")
        axes.set(title=title, xlabel="input", ylabel="output")
    for side, line in enumerate((axes.axvline, axes.axhline)):
        for place in np.cumsum(np.bincount(plan.partition[layer + side]))[:-1] - 0.5:
            line(place, color="#D55E00", linewidth=0.6)
    figure.colorbar(image, ax=axes, label="size of the weight")
    try:
        figure.savefig(path, dpi=150)
    except ValueError as error:
        raise InputError(str(error), key="path", accepted="a name that ends in .png, .svg or .pdf") from None


def _sizes(weights: FloatArray) -> FloatArray:
    sizes: FloatArray = np.sqrt(np.mean(weights**2, axis=2))
    return sizes
