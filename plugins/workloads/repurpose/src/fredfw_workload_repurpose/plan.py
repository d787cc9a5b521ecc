"""A network on its workers: who holds which neuron, what is sent, and how far the outputs are from before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from attrs import evolve, frozen

from fredfw.errors import InputError
from fredfw.typing import FloatArray, IntArray
from fredfw_workload_repurpose.network import Network
from fredfw_workload_repurpose.partition import Partition
from fredfw_workload_repurpose.pruning import Pruned


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
        """Return ``(workers, workers)`` numbers that each worker sends to each for a sample, before ``layer``.

        There are as many workers as hold inputs or outputs of the layer.
        """
        sent = self.layers[layer].sent
        workers = max(sent.shape[1], int(self.partition[layer].max()) + 1)
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
    end of ``path`` gives the format. It needs matplotlib, which the extra ``plot`` installs.

    Raises:
        InputError: There is no such layer, matplotlib is not installed, or it does not know the format.
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
