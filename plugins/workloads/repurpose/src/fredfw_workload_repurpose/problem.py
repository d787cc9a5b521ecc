"""What is to be placed on workers: a network, the workers of its layers, and the bound on the error."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from attrs import field, frozen
from numpy.typing import ArrayLike

from fredfw.errors import InputError
from fredfw_workload_repurpose.network import Network
from fredfw_workload_repurpose.partition import Workers
from fredfw_workload_repurpose.pruning import Moments, Pruner


def check_epsilon(_instance: object, _attribute: object, value: Any) -> None:
    """Make sure that ``value`` can be the bound of a relative error; else ``InputError``."""
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
        counts: Workers of each layer; one number is for all layers. Layers use the first workers. The input of the
            network is on those of the first layer.
        epsilon: Largest norm of the change of the outputs of a layer, relative to that of the outputs.
        inputs: For each layer ``(samples, inputs, taps)`` activations that it reads in the original network. The change
            of the outputs is that on them. Without, it is that of the weights.
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
        """What prunes each layer."""
        return tuple(
            Pruner(layer.weights, self._moments(number), each=self.each, received=self.received)
            for number, layer in enumerate(self.network.layers)
        )

    def _moments(self, number: int) -> Moments | None:
        if self.inputs is None:
            return None
        return Moments.of(self.network.layers[number].read(self.inputs[number], key=f"inputs[{number}]"))
