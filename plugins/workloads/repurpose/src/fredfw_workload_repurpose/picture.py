"""A picture of a layer before and after."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fredfw.errors import InputError
from fredfw.typing import FloatArray
from fredfw_workload_repurpose.plan import Plan


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
    panels = {
        "before": original,
        "after": _sizes(plan.layers[layer].weights)[after][:, before],
    }
    figure = Figure(figsize=(10, 5), layout="constrained")
    scale = PowerNorm(0.5, 0, float(original.max()) or 1.0)
    for axes, (title, weights) in zip(figure.subplots(1, 2), panels.items(), strict=True):
        # Dots that are smaller than a pixel are averaged, so that a picture of many neurons is not one of chance.
        image = axes.imshow(weights, cmap="Greys", norm=scale, aspect="auto", interpolation="antialiased")
        axes.set(title=title, xlabel="input", ylabel="output")
    ends = [np.cumsum(np.bincount(plan.partition[layer + side]))[:-1] - 0.5 for side in (0, 1)]
    for place in ends[0]:
        axes.axvline(place, color="#D55E00", linewidth=0.6)
    for place in ends[1]:
        axes.axhline(place, color="#D55E00", linewidth=0.6)
    figure.colorbar(image, ax=axes, label="size of the weight")
    try:
        figure.savefig(path, dpi=150)
    except ValueError as error:
        raise InputError(str(error), key="path", accepted="a name that ends in .png, .svg or .pdf") from None


def _sizes(weights: FloatArray) -> FloatArray:
    sizes: FloatArray = np.sqrt(np.mean(weights**2, axis=2))
    return sizes
